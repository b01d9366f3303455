"""Check that the URLs of a file are all different, by a fingerprint of a few bytes of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.arrow import offsets_of, value_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Prints = npt.NDArray[np.uint64]

_WORD: Final = 8
_BACK: Final = (8, 16, 24, 32)
"""Starts of the words that make up a fingerprint, in bytes before a URL's end, where most URLs of a site differ."""
_MIX: Final = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)))
_SLOT_BITS: Final = 17


def all_distinct(columns: Sequence[pa.StringArray]) -> bool:
    """Return whether all texts in these columns are different. The columns hold no nulls.

    Texts with different fingerprints are different. The texts themselves are compared only if two fingerprints are equal
    or a text is shorter than a word. That takes five times as long.
    """
    prints = [_prints(column) for column in columns if len(column)]
    complete = [of_column for of_column in prints if of_column is not None]
    if len(complete) == len(prints) and (not complete or _differ(np.concatenate(complete))):
        return True
    texts = pa.chunked_array(list(columns), pa.string())
    return len(pc.unique(texts)) == len(texts)


def _prints(texts: pa.StringArray) -> Prints | None:
    """Return a 64-bit fingerprint of each text, or None if a text is shorter than a word."""
    view = value_view(texts)
    offsets = np.frombuffer(offsets_of(texts), np.int32).astype(np.intp)
    starts, ends = offsets[:-1] - offsets[0], offsets[1:] - offsets[0]
    if (ends - starts).min() < _WORD:
        return None
    # A view with one word for every byte of the texts, each word beginning at its byte.
    words: Prints = np.ndarray((len(view) - _WORD + 1,), np.uint64, view, 0, (1,))
    prints: Prints = np.zeros(len(texts), np.uint64)
    for back, mix in zip(_BACK, _MIX, strict=True):
        prints += words[np.maximum(ends - back, starts)] * mix
    return prints


def _differ(prints: Prints) -> bool:
    """Return whether all fingerprints are different.

    In each round, every slot of a table keeps one of the fingerprints that fall into it. The others are compared with it,
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
