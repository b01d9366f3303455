"""Columns of ``changefreq`` and ``priority``. They have few different values, so each value is parsed once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.arrow import any_true, as_texts, decoded, texts_of
from airflow_sitemaps.protocol.columnar.row_keys import count_rows
from airflow_sitemaps.protocol.rules import Verdict

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.columnar.row_keys import RowKeys
    from airflow_sitemaps.protocol.entry import RowContext
    from airflow_sitemaps.protocol.rules import Tally

Reader = Callable[[str], "str | None"]
"""Returns the text to write for a value, or None for no value. It raises ValueError for a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """One hint for each row.

    Attributes:
        codes: Positions in ``texts``: int32 without nulls.
        texts: The different values. None: no hint.
        dropped: Mask of rows to drop. None: no row.
    """

    codes: pa.Int32Array
    texts: tuple[str | None, ...]
    dropped: pa.BooleanArray | None = None

    def filter(self, mask: pa.BooleanArray) -> Hints:
        """Keep the rows of the mask."""
        return replace(self, codes=self.codes.filter(mask))


def clean_hints(rule: str, column: pa.Array, read: Reader, rows: RowKeys, context: RowContext, tally: Tally) -> Hints:
    """Parse a column of hints and count its faults.

    Raises:
        RuleError: The rule is set to ``fail`` and is broken.
    """
    values = decoded(column)
    if not _is_number(values.type):
        values = as_texts(values)
    encoded = values.dictionary_encode()
    texts: list[str | None] = [None]
    codes: list[int] = []
    faulty: list[int] = []
    numbers: dict[str | None, int] = {None: 0}
    for number, value in enumerate(_values(encoded.dictionary)):
        text = None
        try:
            text = None if value is None else read(str(value))
        except ValueError:
            faulty.append(number)
        if text not in numbers:
            numbers[text] = len(texts)
            texts.append(text)
        codes.append(numbers[text])
    indices = encoded.indices
    hints = Hints(codes=_looked_up(indices, codes), texts=tuple(texts))
    if not faulty:
        return hints
    bad = pc.fill_null(pc.is_in(indices, pa.array(faulty, indices.type)), False)
    return _apply(hints, rule, bad, values, rows, context, tally)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal128(kind))


def _values(values: pa.Array) -> list[object]:
    """Return the values as Python objects. ``texts_of`` reads strings."""
    return [*texts_of(values)] if pa.types.is_string(values.type) else values.to_pylist()


def _looked_up(indices: pa.Int32Array, codes: list[int]) -> pa.Int32Array:
    table = pa.array([*codes, 0], pa.int32())
    return table.take(pc.fill_null(indices, len(codes)))


def _apply(
    hints: Hints,
    rule: str,
    bad: pa.BooleanArray,
    values: pa.Array,
    rows: RowKeys,
    context: RowContext,
    tally: Tally,
) -> Hints:
    if not any_true(bad):
        return hints
    verdict = context.rulebook[rule]
    count_rows(tally, rule, verdict, rows, bad, values, where=context.section)
    return replace(hints, dropped=bad) if verdict is Verdict.DROP_ROW else hints
