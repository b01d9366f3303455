"""The keys of the rows that are being cleaned. They let each sample of a fault name its row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.arrow import as_texts, decoded, texts_of
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, sample_text

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.rules import Tally, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RowKeys:
    """Keys and URLs of rows, which are looked up only for a sample.

    Attributes:
        keys: The ``key`` column of the whole batch; None if the batch has none.
        numbers: Row numbers in the batch; None if they are all its rows, in their order.
        locs: URLs of the rows; None if they are not known yet.
    """

    keys: pa.Array | None = None
    numbers: pa.Array | None = None
    locs: pa.StringArray | None = None

    def sample(self, value: str, row: int) -> str:
        """Describe a row by a value, its URL and its key.

        Args:
            row: Position among these rows, not in the batch.
        """
        loc = None if self.locs is None else self.locs[row].as_py()
        return sample_text(value, loc=loc, key=self.key(row))

    def key(self, row: int) -> str | None:
        """Return the key of a row as a JSON array, or None if it is not known."""
        if self.keys is None:
            return None
        return key_text(self.keys, row if self.numbers is None else self.numbers[row].as_py())


NO_KEYS: Final = RowKeys()
"""Rows of which only the values are known."""


def count_rows(
    tally: Tally, rule: str, verdict: Verdict, rows: RowKeys, mask: pa.BooleanArray, values: pa.Array, *, where: str
) -> None:
    """Count the rows of a mask under a rule, with samples of the first ones.

    Args:
        mask: The faulty rows, without nulls.
        values: The column whose values the samples show: text, or a type that Arrow casts to text.

    Raises:
        RuleError: The verdict is ``fail``.
    """
    first = pc.indices_nonzero(mask).slice(0, SAMPLES_PER_RULE)
    shown = texts_of(as_texts(values.take(first)))
    samples = [
        rows.sample("NULL" if value is None else value, row)
        for value, row in zip(shown, first.to_pylist(), strict=True)
    ]
    tally.count(rule, verdict, samples, mask.true_count, where=where)


def key_text(keys: pa.Array, number: int) -> str:
    """Return the key of a row as a JSON array."""
    if pa.types.is_integer(keys.type):
        return f"[{keys[number].as_py()}]"
    return str(texts_of(decoded(keys.slice(number, 1)))[0])
