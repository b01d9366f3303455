"""Columns of ``changefreq`` and ``priority``: few different values, so each value is judged once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.arrow import any_true, decoded, texts_of
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Verdict

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.entry import Judge
    from airflow_sitemaps.protocol.rules import Tally

Reader = Callable[[str], "str | None"]
"""The text to write for a value, None for no value; raises ValueError for a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """One hint a row: ``codes`` (int32, no nulls) point into ``texts``; None stands for no hint.

    ``dropped`` marks rows to drop; None: no row.
    """

    codes: pa.Int32Array
    texts: tuple[str | None, ...]
    dropped: pa.BooleanArray | None = None

    def filter(self, mask: pa.BooleanArray) -> Hints:
        """The rows of the mask."""
        return replace(self, codes=self.codes.filter(mask))


def clean_hints(rule: str, column: pa.Array, read: Reader, locs: pa.StringArray, judge: Judge, tally: Tally) -> Hints:
    """Read a column of hints and count the faults. ``locs`` are for the samples.

    Raises:
        RuleError: the rule is set to ``fail`` and is broken.
    """
    values = decoded(column)
    encoded = values.dictionary_encode()
    texts: list[str | None] = [None]
    codes: list[int] = []
    faulty: list[int] = []
    known: dict[str | None, int] = {None: 0}
    for number, value in enumerate(_values(encoded.dictionary)):
        text = None
        try:
            text = None if value is None else read(str(value))
        except ValueError:
            faulty.append(number)
        if text not in known:
            known[text] = len(texts)
            texts.append(text)
        codes.append(known[text])
    indices = encoded.indices
    hints = Hints(codes=_looked_up(indices, codes), texts=tuple(texts))
    if not faulty:
        return hints
    bad = pc.fill_null(pc.is_in(indices, pa.array(faulty, indices.type)), False)
    return _apply(hints, rule, bad, values, locs, judge, tally)


def _values(values: pa.Array) -> list[object]:
    """Numbers as they are, text read with care."""
    return [*texts_of(values)] if pa.types.is_string(values.type) else values.to_pylist()


def _looked_up(indices: pa.Int32Array, codes: list[int]) -> pa.Int32Array:
    table = pa.array([*codes, 0], pa.int32())
    return table.take(pc.fill_null(indices, len(codes)))


def _apply(
    hints: Hints, rule: str, bad: pa.BooleanArray, values: pa.Array, locs: pa.StringArray, judge: Judge, tally: Tally
) -> Hints:
    if not any_true(bad):
        return hints
    verdict = judge.rulebook[rule]
    first = pc.indices_nonzero(bad).slice(0, SAMPLES_PER_RULE)
    pairs = zip(_values(values.take(first)), locs.take(first).to_pylist(), strict=True)
    tally.count(rule, verdict, [f"{value} ({loc})" for value, loc in pairs], bad.true_count, where=judge.section)
    return replace(hints, dropped=bad) if verdict is Verdict.DROP_ROW else hints
