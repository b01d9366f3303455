"""Check that the URLs of a file are all different, by the spread of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.arrow import offsets_of
from airflow_sitemaps.shards.url_spread import WORD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.shards.url_spread import Numbers

_SLOT_BITS: Final = 17


def all_distinct(columns: Sequence[pa.StringArray], spreads: Sequence[Numbers]) -> bool:
    """Return whether all texts in these columns are different. The columns hold no nulls.

    Texts with different spreads are different. The texts themselves are compared only if two spreads are equal or a text
    is shorter than a word. That takes five times as long.

    Args:
        spreads: By column the spread of each text (see ``shards.url_spread``).
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
