"""SQL for keys: comparison, order and boundaries. Dialects inherit it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar, Final

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.sources.columns import Kind
from airflow_sitemaps.sources.dialects.value_sql import ValueSql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.shards.ranges import Key, KeyPart
    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.statements.binds import Binds

EXACT_DOUBLES: Final = 1 << 53
"""The integers below this, and above its negative, are doubles."""


class KeySql(ValueSql):
    """SQL of keys: comparison, order and boundaries. Each limit is the database's own or a stricter one."""

    max_binds: ClassVar[int] = 1_000
    max_case: ClassVar[int] = 200
    """The largest number of boundaries in one nested CASE. The survey splits more of them into key intervals."""
    row_values: ClassVar[bool] = False
    """Whether the database supports ``(a, b) >= (x, y)`` and uses an index for it."""
    prefers_hops: ClassVar[bool] = False
    """Whether OFFSET from the last boundary is faster than one ``row_number()`` if an index leads with the key."""
    sorted_union: ClassVar[bool] = False
    """Whether the survey merges a long list of boundaries with the rows by one sort, not in key intervals."""
    binds_lists: ClassVar[bool] = False
    """Whether ``boundary_rows`` binds any number of keys as one value."""
    lists_keys: ClassVar[bool] = False
    """Whether it does so, and the value counts towards the size of the statement."""
    listed_rows_sql: ClassVar[str] = ""
    """The query of ``boundary_rows`` over the JSON array ``{given}``; ``{parts}`` are the parts of the keys."""
    listed_part_sql: ClassVar[str] = ""
    """The text of a key's part in ``listed_rows_sql``: ``{at}`` counts the parts from 0, ``{number}`` from 1."""
    joins_ranges: ClassVar[bool] = False
    """Whether one statement reads ranges that do not adjoin. It does where each statement costs a start or a scan."""
    sorts_in_parts: ClassVar[bool] = False
    """Whether a window without PARTITION BY is sorted by one process, so that large tables are numbered in parts."""
    writes_integers: ClassVar[bool] = False
    """Whether integers of keys are written into the statement, because it takes few binds."""
    float_key: ClassVar[str] = "{value}"
    """SQL of a float in a key. Where each comparison with NaN is false, it is infinity for NaN, so that NaN has a place."""
    from_nothing: ClassVar[str] = ""
    """The end of a SELECT without a table (Oracle: ``FROM DUAL``)."""
    key_bind_of: ClassVar[Mapping[Kind, str]] = {}
    """How a bound canonical value becomes a value of the column's type, for the kinds for which it is no plain cast."""

    def check_key(self, connection: sa.Connection, from_item: str, binds: Binds, columns: Sequence[Column]) -> None:
        """Refuse key columns whose values have no single order, and name the cast that helps. By default, none."""

    def compares_alike(self, column: Column, other: Column) -> bool:
        """Return whether the values of two columns compare by one rule: they have one kind, and one collation."""
        return column.kind_text() == other.kind_text()

    def key_value(self, column: Column) -> str:
        """Return SQL for the canonical value of a key column: an integer, or a text that ``key_bind`` takes back."""
        value = self._ordered(column)
        return value if column.kind is Kind.INTEGER else self.as_text(value, column)

    def _ordered(self, column: Column) -> str:
        is_float = column.type_name.lower().startswith(("float", "double", "real"))
        return (self.float_key if is_float else "{value}").format(value=self.column(column))

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Return SQL that turns a bound canonical value, or another expression for one, into the column's type."""
        if column.kind in self.key_bind_of:
            return self.key_bind_of[column.kind].format(placeholder)
        if column.kind in (Kind.TEXT, Kind.OTHER, Kind.INTEGER) and not column.type_name:
            return placeholder
        return f"CAST({placeholder} AS {column.type_name or self.cast_types.get(column.kind, self.text_type)})"

    def key_order(self, column: Column) -> str:
        """Return the ORDER BY expression of a key column."""
        return self._ordered(column)

    def compare(self, columns: Sequence[Column], operator: str, key: Key, binds: Binds) -> str:
        """Return a condition that compares a row's key with a given key by ``>=``, ``<`` or ``>``.

        Without row values, a composite comparison is written out. The leading column's bound is first, for an index.
        """
        values = [self._key_value(c, part, binds) for c, part in zip(columns, _parts(columns, key), strict=True)]
        names = [self.key_order(column) for column in columns]
        if len(values) == 1:
            return f"{names[0]} {operator} {values[0]}"
        if self.row_values:
            return f"({', '.join(names)}) {operator} ({', '.join(values)})"
        strict = operator[0]
        text = f"{names[-1]} {operator} {values[-1]}"
        for name, value in zip(names[-2::-1], values[-2::-1], strict=True):
            text = f"({name} {strict}= {value} AND ({name} {strict} {value} OR {text}))"
        return text

    def _key_value(self, column: Column, part: KeyPart, binds: Binds) -> str:
        is_written = self.writes_integers and isinstance(part, int)
        return self.key_bind(column, str(part) if is_written else binds.add(part))

    def key_list(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Bind all keys as one JSON array of arrays of texts, and return its placeholder."""
        texts = [[str(part) for part in _parts(columns, key)] for key in keys]
        return binds.add(json.dumps(texts, separators=(",", ":"), ensure_ascii=False))

    def listed_key(self, column: Column, text: str) -> str:
        """Return SQL that turns a text of ``key_list`` into the column's type."""
        if column.kind is Kind.INTEGER and not column.type_name:
            return f"CAST({text} AS {self.cast_types[Kind.INTEGER]})"
        return self.key_bind(column, text)

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Return a query of the keys as ``k0``, ``k1``, … in the columns' own types, and their ``place``, from 0.

        The keys are one JSON array (``listed_rows_sql``), or SELECTs joined by UNION ALL. The statements around it
        begin with a SELECT from the source, which supplies the types.
        """
        if self.listed_rows_sql:
            given = self.key_list(columns, keys, binds)
            parts = (self.listed_part_sql.format(at=at, number=at + 1) for at in range(len(columns)))
            listed = [
                f"{self.listed_key(c, part)} AS k{n}" for n, (c, part) in enumerate(zip(columns, parts, strict=True))
            ]
            return self.listed_rows_sql.format(parts=", ".join(listed), given=given)
        selects = []
        for place, key in enumerate(keys):
            values = [
                f"{self.key_bind(column, binds.add(part))} AS k{number}"
                for number, (column, part) in enumerate(zip(columns, _parts(columns, key), strict=True))
            ]
            selects.append(f"SELECT {', '.join(values)}, {place} AS place{self.from_nothing}")
        return " UNION ALL ".join(selects)

    def buckets(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str | None:
        """Return SQL for the number of keys at or below a row's key, or None without an efficient expression."""
        return None

    def bucket_rows(
        self, columns: Sequence[Column], keys: Sequence[Key], from_item: str, where: str, measures: str, binds: Binds
    ) -> str | None:
        """Return a query of each row's ``bucket`` and measures by an efficient join, or None. Keys are in order."""
        return None

    def rank_at_once(self, columns: Sequence[Column]) -> int | None:
        """Return how many keys one statement can order, or None if only the statement's size limits them."""
        return (
            None
            if self.lists_keys or self.binds_lists
            else max(2, min(self.max_case, self.max_binds // len(columns) - 20))
        )


def are_exact_doubles(keys: Sequence[Key]) -> bool:
    """Return whether a double holds all parts exactly.

    Another integer's double may be rounded, which keeps the order, so it stays on its side of such a key.
    """
    return all(isinstance(part, int) and abs(part) < EXACT_DOUBLES for key in keys for part in key)


def _parts(columns: Sequence[Column], key: Key) -> Sequence[KeyPart]:
    if len(key) != len(columns):
        raise SourceConfigurationError(
            f"a stored key has {counted(len(key), 'part')} but the source's key has {counted(len(columns), 'column')} "
            f"({', '.join(column.name for column in columns)}): the key was changed; run with full=True"
        )
    return key
