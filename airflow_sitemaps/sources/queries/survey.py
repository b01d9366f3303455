"""The survey: one digest per key range, computed by the database in as few scans as its SQL allows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.ports import Duplicate
from airflow_sitemaps.protocol.rules import sample_text
from airflow_sitemaps.shards.ranges import EMPTY, NEWEST_CHARACTERS, Digest, KeyRange, Survey
from airflow_sitemaps.sources.columns import TIMES, Column, Kind, Output
from airflow_sitemaps.sources.dialects.value_sql import ascending, select_list
from airflow_sitemaps.sources.driver import Binds, Statement, guarded
from airflow_sitemaps.sources.queries import key_spans
from airflow_sitemaps.sources.queries.key_spans import GAP, KeySpan, span_condition
from airflow_sitemaps.sources.row_values import array_of, batches_of, newest_text, urls_of

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.sources.queries.context import QueryContext

NULL_SAMPLES = 5
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d+))?\s?(Z|UTC|[+-]00(?::?00)?)?")


def take(
    context: QueryContext, connection: sa.Connection, ranges: Sequence[KeyRange], *, urgent: bool = False
) -> Survey:
    """Return a digest of each range, as ``ports.Source.survey`` defines it."""
    digests = [EMPTY] * len(ranges)
    digested = _hashed_here if context.dialect.hashes_here else _by_sql
    for run in _runs(context, ranges):
        for bucket, digest in digested(context, connection, run, urgent=urgent):
            place = run.places[bucket]
            if place != GAP:
                digests[place] = digests[place] + digest
    nulls, samples = null_keys(context, connection)
    return Survey(digests=tuple(digests), null_keys=nulls, null_key_samples=samples)


def statements(context: QueryContext, ranges: Sequence[KeyRange]) -> Iterator[Statement]:
    """Yield the statements of ``take`` that scan the table, for a database that sums the digests."""
    for run in _runs(context, ranges):
        for _before, statement in _sums(context, run, urgent=False):
            yield statement
    yield _null_count(context)


def _runs(context: QueryContext, ranges: Sequence[KeyRange]) -> list[KeySpan]:
    """Return the spans to survey: the adjoining ranges, or few spans with gaps if there are too many of those.

    A condition names at most ``RANGES_AT_ONCE`` ranges. With an index on the key, more ranges become several statements
    that read only their rows, not one scan of everything between the first range and the last.
    """
    at_most = 1 if context.dialect.joins_ranges else key_spans.SPANS_AT_MOST
    separate = key_spans.spans(ranges) if ranges else []
    if len(separate) <= at_most:
        return separate
    return key_spans.spans_with_gaps(ranges) if context.indexed else key_spans.spans(ranges, at_most=at_most)


# ---------------------------------------------------------------- in the database


def _by_sql(
    context: QueryContext, connection: sa.Connection, run: KeySpan, *, urgent: bool
) -> Iterator[tuple[int, Digest]]:
    for before, statement in _sums(context, run, urgent=urgent):
        for bucket, count, moment, *checksums in connection.execute(*statement):
            yield before + int(bucket), Digest.of(int(count), _newest(context, moment), *map(int, checksums))


def _sums(
    context: QueryContext, run: KeySpan, *, urgent: bool, values: Values | None = None
) -> Iterator[tuple[int, Statement]]:
    """Yield the statements of a span, each with the number of buckets before its own.

    A statement has a list of cuts if the database searches one, else a nested CASE. With ``values``, it sums the rows of each
    value, and its first two columns are the positions of the first and the last value that a row has.
    """
    listed = list(run.split(context.dialect, listed=True))
    measures = _measures(context, urgent=urgent)
    if values is not None:
        measures[VALUE] = context.dialect.group_sql.format(f"src.{values.column}")
    is_quick = _quick_rows(context, listed[0], measures, context.relation.binds()) is not None
    before = 0
    for part in listed if is_quick else run.split(context.dialect):
        if part.wanted():
            binds = context.relation.binds()
            rows = _quick_rows(context, part, measures, binds)
            if rows is None:
                bucket = key_spans.nested_case(context.dialect, context.key, part.cuts, binds)
                rows = _bucket_rows(context, part, bucket, measures, binds)
            yield before, _grouped(context, rows, measures, binds, values)
        before += len(part.cuts) + 1


def _bucket_rows(context: QueryContext, part: KeySpan, bucket: str, measures: Mapping[str, str], binds: Binds) -> str:
    where = span_condition(context.dialect, context.key, part, binds)
    return f"SELECT {bucket} AS bucket, {select_list(measures)} FROM {context.from_item} WHERE {where}"


def _quick_rows(context: QueryContext, run: KeySpan, measures: Mapping[str, str], binds: Binds) -> str | None:
    """Return a query of rows by the database's most efficient bucket search, or None if that is the nested CASE."""
    dialect, key = context.dialect, context.key
    if not run.cuts:
        return None
    bucket = dialect.buckets(key, run.cuts, binds)
    if bucket is not None:
        return _bucket_rows(context, run, bucket, measures, binds)
    where = span_condition(dialect, key, run, binds)
    joined = dialect.bucket_rows(key, run.cuts, context.from_item, where, measures, binds)
    if joined is not None:
        return joined
    is_long = dialect.sorted_union and len(run.cuts) > dialect.max_case
    return _sorted_union(context, run, where, measures, binds) if is_long else None


def _sorted_union(context: QueryContext, run: KeySpan, where: str, measures: Mapping[str, str], binds: Binds) -> str:
    """Return a query with one sort of rows and cuts. A row's bucket is the number of cuts before it."""
    dialect, key = context.dialect, context.key
    names, given = context.names, ", ".join(measures)
    nothing = ", ".join("NULL" for _ in measures)
    return (
        f"SELECT bucket, {given} FROM (SELECT SUM(mark) OVER (ORDER BY {ascending(names)}, mark DESC"
        f" ROWS UNBOUNDED PRECEDING) AS bucket, mark, {given} FROM"
        f" (SELECT {context.ordered_key}, 0 AS mark, {select_list(measures)} FROM {context.from_item} WHERE {where} UNION ALL"
        f" SELECT {', '.join(names)}, 1, {nothing} FROM ({dialect.boundary_rows(key, run.cuts, binds)}) given)"
        " ordered) counted WHERE mark = 0"
    )


def _measures(context: QueryContext, *, urgent: bool) -> dict[str, str]:
    """Return a row's part in its digest by name: its lastmod and its hashes."""
    dialect = context.dialect
    lastmod = context.fields.get("lastmod")
    newest = "NULL"
    if lastmod is not None:
        newest = dialect.column(lastmod) if lastmod.kind in TIMES else dialect.emit_comparable(lastmod)
    measures = {"newest": newest, "row_hash": dialect.row_hash(context.emitted)}
    return measures | ({"urgent_hash": dialect.row_hash(context.urgent)} if urgent else {})


def _grouped(
    context: QueryContext, rows: str, measures: Mapping[str, str], binds: Binds, values: Values | None
) -> Statement:
    dialect = context.dialect
    lastmod = context.fields.get("lastmod")
    newest = "NULL" if lastmod is None else dialect.raw_text("MAX(newest)", lastmod)
    sums = ", ".join(dialect.checksum_sql.format(name) for name in measures if name not in ("newest", VALUE))
    shown, by = ("", "") if values is None else (f"{values.positions(context)}, ", f", {VALUE}")
    return binds.statement(f"SELECT {shown}bucket, COUNT(*), {newest}, {sums} FROM ({rows}) hashed GROUP BY bucket{by}")


def _newest(context: QueryContext, value: Any) -> str | None:
    lastmod, unit = context.fields.get("lastmod"), context.lastmod_unit
    if value is None:
        return None
    text = str(array_of([value], pa.string())[0])
    if unit is not None:
        return newest_text(text[:NEWEST_CHARACTERS], unit)
    return _iso(text, utc=lastmod is not None and lastmod.kind is Kind.ZONED)[:NEWEST_CHARACTERS]


def _iso(text: str, *, utc: bool) -> str:
    match = MOMENT.fullmatch(text)
    if match is None:
        return text
    fraction = (match[3] or "").rstrip("0")
    return f"{match[1]}T{match[2]}{'.' + fraction if fraction else ''}{'+00:00' if match[4] or utc else ''}"


# ---------------------------------------------------------------- by the values of a column

VALUE: Final = "sitemap_value"
"""The name of the column in statements."""


@dataclass(frozen=True, slots=True)
class Values:
    """A column and some of its values, both as SQL. A value may be the placeholder of a parameter of the relation."""

    column: str
    texts: tuple[str, ...]

    def positions(self, context: QueryContext) -> str:
        """Return SQL for the positions of the first and of the last value that ``VALUE`` equals, by its own comparison."""
        cases = [
            f"WHEN {VALUE} = {guarded(text, context.relation.parameters)} THEN {place}"
            for place, text in enumerate(self.texts)
        ]
        return f"CASE {' '.join(cases)} END, CASE {' '.join(reversed(cases))} END"

    def place(self, context: QueryContext, first: Any, last: Any) -> int:
        """Return the position of the one value that some rows have, or that after the last one if they have none of them."""
        if first is None:
            return len(self.texts)
        if first != last:
            pair = f"{self.texts[int(first)]} and {self.texts[int(last)]}"
            raise SourceError(f"{context.name}: the database takes the values {pair} of {self.column} for equal")
        return int(first)


def by_value(
    context: QueryContext, connection: sa.Connection, ranges: Sequence[KeyRange], values: Values, *, urgent: bool
) -> list[list[Digest]]:
    """Return a digest of the rows of each range for each value, by as many statements as a survey without values has.

    The last list is that of the rows that have none of the values. Raises SourceError if the database takes two for equal.
    """
    digests = [[EMPTY] * len(ranges) for _ in (*values.texts, "")]
    for run in _runs(context, ranges):
        for before, statement in _sums(context, run, urgent=urgent, values=values):
            for first, last, bucket, count, moment, *checksums in connection.execute(*statement):
                value, place = values.place(context, first, last), run.places[before + int(bucket)]
                if place != GAP:
                    digest = Digest.of(int(count), _newest(context, moment), *map(int, checksums))
                    digests[value][place] = digests[value][place] + digest
    return digests


def null_keys_by_value(context: QueryContext, connection: sa.Connection, values: Values) -> list[bool]:
    """Return for each value, and at the end for rows with none of them, whether rows have it and a NULL in the key."""
    column = context.dialect.group_sql.format(f"src.{values.column}")
    statement = context.relation.binds().statement(
        f"SELECT {values.positions(context)} FROM (SELECT {column} AS {VALUE} FROM {context.from_item}"
        f" WHERE {_has_null_key(context)}) absent GROUP BY {VALUE}"
    )
    places = {values.place(context, *row) for row in connection.execute(*statement)}
    return [place in places for place in range(len(values.texts) + 1)]


# ---------------------------------------------------------------- in this process


def _hashed_here(
    context: QueryContext, connection: sa.Connection, run: KeySpan, *, urgent: bool
) -> Iterator[tuple[int, Digest]]:
    """Yield buckets and digests that this process sums from rows and cuts that the database merges in key order."""
    outputs = [output for output in context.outputs(objects=True) if not output.name.startswith("key_")]
    statement, columns = _marked_rows(context, run, outputs)
    bucket = 0
    with context.dialect.reading(connection):
        for raw in batches_of(context.dialect.rows(connection, statement), columns):
            marks = [place for place, mark in enumerate(raw["mark"].to_pylist()) if mark]
            hashes = [context.hashes(raw, urgent=own).to_pylist() for own in (False, True)[: 1 + urgent]]
            moments = raw["lastmod"].to_pylist() if "lastmod" in raw.schema.names else []
            start = 0
            for end in (*marks, raw.num_rows):
                if end > start:
                    newest = max((moment for moment in moments[start:end] if moment is not None), default=None)
                    checksums = [sum(own[start:end]) for own in hashes]
                    yield bucket, Digest.of(end - start, _newest(context, newest), *checksums)
                bucket += 1
                start = end + 1
            # The last bucket of a batch continues in the next batch.
            bucket -= 1


def _marked_rows(context: QueryContext, run: KeySpan, outputs: Sequence[Output]) -> tuple[Statement, list[Output]]:
    dialect, key = context.dialect, context.key
    binds = context.relation.binds()
    columns = [Output(name="mark", sql="0", type=pa.int32()), *outputs]
    select = ", ".join(f"{column.sql} AS {column.name}" for column in columns)
    names = context.names
    where = span_condition(dialect, key, run, binds)
    sql = f"SELECT {select}, {context.ordered_key} FROM {context.from_item} WHERE {where}"
    if run.cuts:
        nothing = ", ".join("NULL" for _ in outputs)
        given = dialect.boundary_rows(key, run.cuts, binds)
        sql += f" UNION ALL SELECT 1, {nothing}, {', '.join(names)} FROM ({given}) given"
        sql += f" ORDER BY {ascending(names)}, mark DESC"
    return binds.statement(sql), columns


# ---------------------------------------------------------------- rows without a key


def null_keys(context: QueryContext, connection: sa.Connection) -> tuple[int, tuple[str, ...]]:
    """Count the rows with a NULL in the key and describe some, naming the NULL columns of a composite key."""
    dialect, key = context.dialect, context.key
    count = connection.execute(*_null_count(context)).scalar_one()
    if not count:
        return 0, ()
    shown = [dialect.emit_raw(column) for column in context.loc]
    absent = [f"CASE WHEN {dialect.null_sql.format(dialect.column(column))} THEN 1 ELSE 0 END" for column in key]
    statement = context.relation.binds().statement(
        f"SELECT {', '.join([*shown, *absent])} FROM {context.from_item} WHERE {_has_null_key(context)}"
        f"{dialect.limit(NULL_SAMPLES, ordered=False)}"
    )
    with dialect.reading(connection):
        rows = connection.execute(*statement).all()
    return int(count), tuple(_null_sample(row[: len(shown)], row[len(shown) :], key) for row in rows)


def _has_null_key(context: QueryContext) -> str:
    dialect = context.dialect
    return " OR ".join(dialect.null_sql.format(dialect.column(column)) for column in context.key)


def _null_count(context: QueryContext) -> Statement:
    return context.relation.binds().statement(
        f"SELECT COUNT(*) FROM {context.from_item} WHERE {_has_null_key(context)}"
    )


def _null_sample(shown: Sequence[Any], absent: Sequence[Any], key: Sequence[Column]) -> str:
    text = sample_text(", ".join(str(value) for value in array_of(shown, pa.string()).to_pylist()))
    if len(key) == 1:
        return text
    names = [column.name for column, is_absent in zip(key, absent, strict=True) if is_absent]
    return f"{text} ({', '.join(names)} is NULL; give a value by COALESCE in a query, or leave it out of key=)"


# ---------------------------------------------------------------- URLs that several rows share


def duplicates(context: QueryContext, connection: sa.Connection, most: int) -> list[Duplicate]:
    """Return duplicates as ``ports.Source.duplicates`` defines them. Values are compared by bytes, not by a collation."""
    dialect, columns = context.dialect, context.loc
    binds = context.relation.binds()
    shown = ", ".join(f"MIN({dialect.emit_comparable(column)}) AS l{at}" for at, column in enumerate(columns))
    grouped = ", ".join(dialect.binary_order(column) for column in columns)
    present = " AND ".join(f"{dialect.column(column)} IS NOT NULL" for column in columns)
    sql = (
        f"SELECT COUNT(*) AS rows_found, {shown} FROM {context.from_item} WHERE {present} GROUP BY {grouped}"
        f" HAVING COUNT(*) > 1 ORDER BY 1 DESC, 2 ASC{dialect.limit(most)}"
    )
    with dialect.reading(connection):
        rows = connection.execute(*binds.statement(sql)).all()
    values = {
        column.name: array_of([row[at] for row in rows], pa.string()) for at, column in enumerate(columns, start=1)
    }
    locs = urls_of(context.template, values).to_pylist() if rows else []
    return [Duplicate(loc=str(loc), rows=int(row[0])) for loc, row in zip(locs, rows, strict=True)]
