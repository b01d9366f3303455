"""The change log of a source: its present position, whether it is complete, and the key ranges that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.ports import ChangeReading
from airflow_sitemaps.sources.change_log import ASKS_SINCE, SINCE, TIME, ChangeLog, Position, earlier, hiding, is_less
from airflow_sitemaps.sources.columns import NUMBERS, TIMES, Column, Kind
from airflow_sitemaps.sources.driver import Binds, guarded, is_passing
from airflow_sitemaps.sources.queries import Relation, one_statement
from airflow_sitemaps.sources.queries.boundaries import canonical, places_of
from airflow_sitemaps.sources.queries.context import QueryContext, columns_of
from airflow_sitemaps.sources.row_values import array_of
from airflow_sitemaps.sources.user_texts import NamePart, name_parts, written_name

if TYPE_CHECKING:
    from airflow_sitemaps.shards.ranges import KeyPart, KeyRange
    from airflow_sitemaps.sources.dialects.base import OpenTransaction

HELD_BACK: Final = timedelta(minutes=10)
"""How long a transaction may be open without a warning."""
UNKNOWN: Final = "unknown"
"""The kind of an empty column where only values have a type."""


@dataclass(slots=True)
class ChangeLogReader:
    """The queries of one reading.

    ``relation`` has the changes, ``key`` the user's names of its key columns, and ``identity`` a hash of all that a
    position depends on. ``columns`` are those of the log by the user's names, once they are described.
    """

    context: QueryContext
    connection: sa.Connection
    settings: ChangeLog
    relation: Relation
    key: tuple[str, ...]
    identity: str
    columns: dict[str, Column] = field(default_factory=dict)

    def read(self, ranges: Sequence[KeyRange], since: str | None) -> ChangeReading:
        """Return what the log says, as ``ports.Source.changes`` defines it.

        The newest position is read before the changes, and the oldest one after them, so that what happens between two
        statements is at worst read twice.
        """
        before = None if since is None else Position.of(since)
        newest = self._stated_position() if self.settings.newest is not None else self._last_position(before)
        oldest = self.context.dialect.oldest_transaction(self.connection)
        newest = replace(newest, table=self._table_identity(), oldest="" if oldest is None else oldest.name)
        reading = self._reading(ranges, before, newest, is_first=since is None)
        return replace(reading, warning=self._held_back(before, oldest))

    def _reading(
        self, ranges: Sequence[KeyRange], before: Position | None, newest: Position, *, is_first: bool
    ) -> ChangeReading:
        position = newest.text()
        if isinstance(newest.value, str):
            column = self.columns.get(self.settings.position or "")
            now = self.context.dialect.time(self.connection)
            if cause := hiding(newest.value, column, now):
                return ChangeReading(position=position, ranges=None, cause=cause, is_gap=True)
        if is_first:
            return ChangeReading(position=position, ranges=None)
        if before is None or (before.log, before.kind) != (newest.log, newest.kind):
            cause = "the settings of the source or of its change log have changed since the last run"
            return ChangeReading(position=position, ranges=None, cause=cause)
        if before.table != newest.table:
            cause = (
                "its table is another than at the last run (renamed, restored, or with other partitions). Check that the "
                "changes of this table are recorded: triggers stay with the table that was renamed"
            )
            return ChangeReading(position=position, ranges=None, cause=cause, is_gap=True)
        if newest.value is None or before.value is None:
            was_full = before.value is not None
            cause = "its change log is empty" + (", though it was not at the last run" if was_full else "")
            if before.value is None and newest.value is not None:
                cause = "its change log was empty at the last run, so that changes may be missing"
            return ChangeReading(position=position, ranges=None, cause=cause, is_gap=was_full)
        try:
            return self._since(ranges, before, newest, position)
        except exc.DBAPIError as error:
            if is_passing(error) or not self.settings.asks_since:
                raise
            # A failed statement aborts the transaction, in which the ranges are surveyed next. The survey of a later moment
            # is sound: the log's position was read before it.
            self.connection.rollback()
            self.context.dialect.begin(self.connection, reads=True)
            reason = " ".join(str(error.orig).split())[:300]
            cause = f"its change log cannot be read from position {before.value}: {reason}"
            return ChangeReading(position=position, ranges=None, cause=cause, is_gap=True)

    def _since(self, ranges: Sequence[KeyRange], before: Position, newest: Position, position: str) -> ChangeReading:
        assert before.value is not None
        begin = self._begin(before.value)
        if begin is None:
            cause = f"its change log was read to position {before.value}, from which overlap= cannot be subtracted"
            return ChangeReading(position=position, ranges=None, cause=cause, is_gap=True)
        number, unplaced = self._count(before.value, begin)
        places: tuple[int, ...] = ()
        if number and not unplaced:
            keys = partial(self._keys, last=before.value, begin=begin)
            places = tuple(places_of(self.context, self.connection, ranges, keys))
        gap = self._gap(before, newest)  # after the keys: the log may be truncated between two statements
        if gap:
            return ChangeReading(position=position, ranges=None, changes=number, cause=gap, is_gap=True)
        if unplaced:
            cause = f"{unplaced:,} changes of its change log have a NULL key or position, which stand for any row"
            return ChangeReading(position=position, ranges=None, changes=number, cause=cause, is_gap=True)
        return ChangeReading(position=position, ranges=places, changes=number)

    # ------------------------------------------------------------ table and transactions

    def _table_identity(self) -> str:
        """Return a hash of what the database calls the source's table, or "" for a query."""
        dialect, relation = self.context.dialect, self.context.relation
        if dialect.identity_sql is None or relation.table is None:
            return ""
        *schema, name = name_parts(relation.table)
        values = {
            "relation": written_name(NamePart(part.text, is_quoted=True) for part in (*schema, name)),
            "schema": schema[-1].text if schema else None,
            "name": name.text,
        }
        row = self.connection.execute(sa.text(dialect.identity_sql), values).first()
        return "" if row is None else sha256(repr(tuple(row)).encode()).hexdigest()

    def _held_back(self, before: Position | None, oldest: OpenTransaction | None) -> str:
        """Return a warning about a transaction that has been open for long, or ""."""
        if oldest is None:
            return ""
        overlap = self.settings.overlap
        longest = overlap if isinstance(overlap, timedelta) else HELD_BACK
        if oldest.age is not None and oldest.age >= longest:
            age = f"for {timedelta(seconds=int(oldest.age.total_seconds()))} (hours, minutes, seconds)"
        elif oldest.age is None and before is not None and before.oldest == oldest.name:
            age = "since the last run (grant pg_read_all_stats to see its age)"
        else:
            return ""
        return (
            f"a transaction has been open {age}: {oldest.description}. Changes that it or later transactions made may be read "
            "only after its end, or be missed until the next survey of every range. End it"
        )

    # ------------------------------------------------------------ positions

    def _stated_position(self) -> Position:
        value = self._scalar("newest", self.settings.newest or "")
        kind = "integer" if isinstance(value, int) else "text"
        self._describe(value)
        return Position(value=value, log=self.identity, kind=kind)

    def _last_position(self, before: Position | None) -> Position:
        self._describe(None)
        column, dialect = self._position_column(), self.context.dialect
        kind = column.kind_text()
        sql = (
            f"SELECT {dialect.key_value(column)} AS k0 FROM {self._from_item()} WHERE {dialect.column(column)} IS NOT NULL"
            f" ORDER BY {dialect.key_order(column)} DESC{dialect.limit(1)}"
        )
        row = self.connection.execute(*self.relation.binds().statement(sql)).first()
        if row is None:
            # The kind of an empty column may be unknown.
            return Position(value=None, log=self.identity, kind=before.kind if before is not None else kind)
        (value,) = canonical(f"{self.context.name}: change_log", (column,), row)
        if column.kind is Kind.TEXT and not TIME.fullmatch(str(value)):
            raise SourceConfigurationError(
                f"{self.context.name}: change_log: position={column.name!r} holds a text, {value!r}, and texts sort differently from "
                "numbers ('9' after '10'). Give a number or a time, or cast the column to one in ChangeLog(query=)"
            )
        return Position(value=value, log=self.identity, kind=kind, rows=self._rows_at(value))

    def _rows_at(self, value: KeyPart) -> tuple[KeyPart | None, ...]:
        """Return the number of changes at a position, and the least and greatest text of each key column."""
        dialect, binds = self.context.dialect, self.relation.binds()
        keys = [dialect.key_output(column) for column in self._key_columns()]
        measures = ", ".join(f"MIN({key}), MAX({key})" for key in keys)
        where = dialect.compare((self._position_column(),), "=", (value,), binds)
        sql = f"SELECT COUNT(*), {measures} FROM {self._from_item()} WHERE {where}"
        with dialect.reading(self.connection):
            count, *ends = self.connection.execute(*binds.statement(sql)).one()
        texts = (end if end is None or isinstance(end, int) else str(array_of([end], pa.string())[0]) for end in ends)
        return (int(count), *texts)

    def _begin(self, value: KeyPart) -> KeyPart | None:
        """Return the position after which changes are read again, or None if the last one is infinite."""
        overlap = self.settings.overlap
        if overlap is None:
            return value
        column = self._position_column()
        if isinstance(overlap, timedelta):
            if column.kind in TIMES:
                return earlier(column, str(value), overlap)
        elif column.kind in NUMBERS:
            return value - overlap if isinstance(value, int) else str(Decimal(str(value)) - overlap)
        raise SourceConfigurationError(
            f"{self.context.name}: change_log: overlap={overlap!r} does not fit the position {column.name!r} of type "
            f"{column.type_name or column.kind.value}: use a number if the position is a number, a timedelta if it is "
            "a time, or cast the position in the query"
        )

    def _gap(self, before: Position, newest: Position) -> str:
        """Return why changes since a position may be missing, or ""."""
        settings = self.settings
        assert before.value is not None
        assert newest.value is not None
        if settings.newest is not None:
            oldest = self._scalar("oldest", settings.oldest) if settings.oldest is not None else before.value
            backwards, truncated = is_less(newest.value, before.value), is_less(before.value, oldest)
            if backwards is None or truncated is None:
                return (
                    f"its positions {oldest}, {before.value} and {newest.value} are texts of different lengths, which may sort "
                    "in another order than the changes. Select a number in newest= and oldest="
                )
            if backwards:
                return f"its change log goes backwards, from position {before.value} to {newest.value}"
            if truncated:
                return f"its change log is truncated: it begins at {oldest}, and was read to {before.value}"
            return ""
        now = newest.rows if newest.value == before.value else self._rows_at(before.value)
        if now == before.rows or (settings.overlap is not None and 0 < int(before.rows[0] or 0) <= int(now[0] or 0)):
            return ""
        if now[0]:
            return (
                f"the changes at its last position {before.value} differ from those of the last run: the log was made again, "
                "or two commits have one position (then set overlap=)"
            )
        if not self._is_exceeded(before.value):
            return f"its change log goes backwards, from position {before.value} to {newest.value}"
        return (
            f"its change log is truncated: position {before.value}, to which it was read, is no longer in it. Keep "
            "changes until a run has read them, and the newest one always"
        )

    # ------------------------------------------------------------ changes

    def _count(self, last: KeyPart, begin: KeyPart) -> tuple[int, int]:
        """Return the number of changes since a position, and how many of them have a NULL key or position."""
        dialect, binds = self.context.dialect, self.relation.binds()
        missing = [f"{dialect.column(column)} IS NULL" for column in self._key_columns()]
        where = "1 = 1"
        if self.settings.position is not None:
            position = self._position_column()
            missing.append(f"{dialect.column(position)} IS NULL")
            where = f"({dialect.compare((position,), '>', (begin,), binds)} OR {missing[-1]})"
        sql = (
            f"SELECT COUNT(*), SUM(CASE WHEN {' OR '.join(missing)} THEN 1 ELSE 0 END) FROM"
            f" {self._from_item(last, binds)} WHERE {where}"
        )
        number, unplaced = self.connection.execute(*binds.statement(sql)).one()
        return int(number), int(unplaced or 0)

    def _keys(self, binds: Binds, last: KeyPart | None, begin: KeyPart) -> tuple[str, str]:
        """Return the changed keys as a relation with the names, types and collations of the source's key columns."""
        dialect, source = self.context.dialect, self.context
        names = [dialect.quote(column.name) for column in source.key]
        own, changed = (
            ", ".join(f"{dialect.column(column)} AS {name}" for column, name in zip(columns, names, strict=True))
            for columns in (source.key, self._key_columns())
        )
        where = "1 = 1"
        if self.settings.position is not None:
            where = dialect.compare((self._position_column(),), ">", (begin,), binds)
        sql = (
            f"(SELECT {own} FROM {source.from_item} WHERE 1 = 0 UNION ALL"
            f" SELECT {changed} FROM {self._from_item(last, binds)} WHERE {where}) src"
        )
        return sql, "1 = 1"

    def _is_exceeded(self, value: KeyPart) -> bool:
        dialect, binds = self.context.dialect, self.relation.binds()
        where = dialect.compare((self._position_column(),), ">", (value,), binds)
        sql = f"SELECT 1 FROM {self._from_item()} WHERE {where}{dialect.limit(1, ordered=False)}"
        return self.connection.execute(*binds.statement(sql)).first() is not None

    # ------------------------------------------------------------ columns and texts

    def _describe(self, since: KeyPart | None) -> None:
        settings, dialect, name = self.settings, self.context.dialect, f"{self.context.name}: change_log"
        wanted = {"key": list(self.key)}
        if settings.position is not None:
            wanted["position"] = [settings.position]
        relation = self._with_since(since)
        self.columns = columns_of(self.connection, dialect, relation, name, wanted)
        ordered = [*self._key_columns(), *([self._position_column()] if settings.position is not None else [])]
        dialect.check_key(self.connection, relation.from_item(dialect), relation.binds(), ordered)
        for own, changed in zip(self.context.key, self._key_columns(), strict=True):
            kinds = own.kind_text(), changed.kind_text()
            if UNKNOWN not in kinds and not dialect.compares_alike(own, changed):
                types = kinds if kinds[0] != kinds[1] else (own.type_name, changed.type_name)
                raise SourceConfigurationError(
                    f"{name}: the key column {changed.name!r} is {types[1]}, and that of the source, "
                    f"{own.name!r}, is {types[0]}: the two types may compare differently. Cast "
                    f"{changed.name!r} to the source's type in ChangeLog(query=)"
                )

    def _position_column(self) -> Column:
        return self.columns[self.settings.position or ""]

    def _key_columns(self) -> list[Column]:
        return [self.columns[name] for name in self.key]

    def _from_item(self, since: KeyPart | None = None, binds: Binds | None = None) -> str:
        """Write the changes for ``FROM``; a text as ``:since`` is added to the binds."""
        relation = self._with_since(since)
        if binds is not None:
            binds.values.update(relation.parameters)
        return relation.from_item(self.context.dialect)

    def _with_since(self, since: KeyPart | None) -> Relation:
        """Return the changes with the last position: an integer is written, since functions such as Delta's take literals."""
        relation = self.relation
        if not self.settings.asks_since or relation.query is None:
            return relation
        if isinstance(since, int):
            return replace(relation, query=ASKS_SINCE.sub(str(since), relation.query))
        return replace(relation, parameters={**relation.parameters, SINCE: since})

    def _scalar(self, argument: str, sql: str) -> KeyPart:
        parameters = self.relation.parameters
        binds = self.relation.binds()
        row = self.connection.execute(*binds.statement(guarded(one_statement(sql, f"{argument}="), parameters))).first()
        value = None if row is None else row[0]
        if isinstance(value, Decimal) and value == int(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise SourceConfigurationError(
                f"{self.context.name}: change_log: {argument}= gives {value!r}; select one integer or one text (cast a time to "
                "a text that sorts as the time does). Is change tracking on?"
            )
        return value
