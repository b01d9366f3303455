"""Spread of a URL: 64 bits that are fast to compute, and uniform enough to choose a sample by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from airflow_sitemaps.protocol.columnar.arrow import offsets_of, value_view

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Numbers = npt.NDArray[np.uint64]

WORD: Final = 8
"""Bytes of a text that are read at once."""
_AT_END: Final = (8, 16, 24)
_AT_START: Final = (24,)
_MIX: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)


def spread_of(texts: pa.StringArray) -> Numbers:
    """Return 64 bits of each text, computed from its length and a few of its words.

    Equal texts of at least ``WORD`` bytes have equal bits. For a shorter text the bits depend on its neighbours too.

    Args:
        texts: The texts, without nulls.
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
