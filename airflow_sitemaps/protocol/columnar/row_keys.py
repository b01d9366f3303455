"""The keys of the rows that are being cleaned, so that a sample of a fault names its row."""

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
    """Keys and URLs of rows, looked up only where a sample is made.

    Attributes:
        keys: the ``key`` column of the whole batch; None where the batch has none.
        numbers: the rows' numbers in the batch; None where they are all its rows, in their order.
        locs: the rows' URLs; None where they are not known yet.
    """

    keys: pa.Array | None = None
    numbers: pa.Array | None = None
    locs: pa.StringArray | None = None

    def sample(self, value: str, row: int) -> str:
        """Describe a row by a value, its URL and its key.

        Args:
            value: what to show of the row.
            row: the row's position among these rows, not in the batch.
        """
        loc = None if self.locs is None else self.locs[row].as_py()
        return sample_text(value, loc=loc, key=self.key(row))

    def key(self, row: int) -> str | None:
        """The key of a row as a JSON array, None where it is not known."""
        if self.keys is None:
            return None
        return key_text(self.keys, row if self.numbers is None else self.numbers[row].as_py())


NO_KEYS: Final = RowKeys()
"""Rows of which nothing but their values is known."""


def count_rows(
    tally: Tally, rule: str, verdict: Verdict, rows: RowKeys, mask: pa.BooleanArray, values: pa.Array, *, where: str
) -> None:
    """Count the rows of a mask under a rule, with samples of the first.

    Args:
        tally: where to count.
        rule: the rule's name.
        verdict: what happens to the rows.
        rows: the rows' keys and URLs.
        mask: the faulty rows, without nulls.
        values: the column of which samples show the value: text, or what Arrow casts to text.
        where: the section, for an error message.

    Raises:
        RuleError: the verdict is ``fail``.
    """
    first = pc.indices_nonzero(mask).slice(0, SAMPLES_PER_RULE)
    shown = texts_of(as_texts(values.take(first)))
    samples = [
        rows.sample("NULL" if value is None else value, row)
        for value, row in zip(shown, first.to_pylist(), strict=True)
    ]
    tally.count(rule, verdict, samples, mask.true_count, where=where)


def key_text(keys: pa.Array, number: int) -> str:
    """The key of a row as a JSON array: as it is stored, or made of a single integer."""
    if pa.types.is_integer(keys.type):
        return f"[{keys[number].as_py()}]"
    return str(texts_of(decoded(keys.slice(number, 1)))[0])
