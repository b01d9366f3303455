"""Spread of a URL: 64 bits that are fast to compute, and uniform enough to choose a sample and to find repetitions by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.arrow import offsets_of, value_view

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.uint64]
    from collections.abc import Sequence

WORD: Final = 8
"""Bytes of a text that are read at once."""
_AT_END: Final = (8, 16, 24)
_AT_START: Final = (24,)
_MIX: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)


def spread_of(texts: pa.StringArray) -> Numbers:
    """Return 64 bits of each text (none is null), computed from its length and a few of its words.

    Equal texts of at least ``WORD`` bytes have equal bits. For a shorter text the bits depend on its neighbours too.
    """
    view = value_view(texts)
    offsets = np.frombuffer(offsets_of(texts), np.int32).astype(np.intp)
    starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    if len(view) < WORD:
        return np.zeros(len(texts), np.uint64)
    words: Numbers = np.ndarray((len(view) - WORD + 1,), np.uint64, view, 0, (1,))
    last = np.minimum(np.maximum(ends - WORD, starts), len(words) - 1)
    spread: Numbers = (ends - starts).astype(np.uint64)
    places = [np.minimum(np.maximum(ends - back, starts), last) for back in _AT_END]
    places += [np.minimum(starts + forward, last) for forward in _AT_START]
    for place, mix in zip(places, _MIX, strict=True):
        spread ^= words[place]
        spread *= np.uint64(mix)
        spread ^= spread >> np.uint64(29)
    return spread


_SLOT_BITS: Final = 17


def all_distinct(columns: Sequence[pa.StringArray], spreads: Sequence[Numbers]) -> bool:
    """Return whether all texts in these columns, which hold no nulls, are different.

    Texts with different spreads are different. The texts themselves are compared only if two spreads are equal or a
    text is shorter than a word. That takes five times as long.
    """
    if all(map(_has_words, columns)):
        filled = [spread for spread in spreads if len(spread)]
        if not filled or _differ(np.concatenate(filled)):
            return True
    texts = pa.chunked_array(list(columns), pa.string())
    return len(pc.unique(texts)) == len(texts)


def _has_words(texts: pa.StringArray) -> bool:
    """Return whether each text has at least as many bytes as a word."""
    return not len(texts) or int(np.diff(np.frombuffer(offsets_of(texts), np.int32)).min()) >= WORD


def _differ(prints: Numbers) -> bool:
    """Return whether all spreads are different.

    In each round, every slot of a table keeps one of the spreads that fall into it. The others are compared with it,
    and those that differ go into the next round.
    """
    table = np.empty(1 << _SLOT_BITS, np.intp)
    while len(prints) > 1:
        slots = (prints >> np.uint64(64 - _SLOT_BITS)).astype(np.intp)
        numbers = np.arange(len(prints))
        table[slots] = numbers
        stays = table[slots]
        lost = stays != numbers
        if (prints[lost] == prints[stays[lost]]).any():
            return False
        prints = prints[lost]
    return True
