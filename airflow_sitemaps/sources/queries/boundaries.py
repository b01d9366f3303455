"""Keys and ranges that the database finds: boundaries, the order of keys, and the ranges that hold some rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.shards.ranges import Key, KeyRange
from airflow_sitemaps.sources.columns import NUMBERS, TIMES, Column, Kind, Output
from airflow_sitemaps.sources.dialects.value_sql import ascending
from airflow_sitemaps.sources.driver import Binds, Statement
from airflow_sitemaps.sources.queries import key_spans
from airflow_sitemaps.sources.queries.context import QueryContext, rows_statement
from airflow_sitemaps.sources.queries.key_spans import KeySpan, bucket_number, condition, nested_case
from airflow_sitemaps.sources.row_values import number_of

if TYPE_CHECKING:
    import sqlalchemy as sa


PARTS: Final = 64
"""The parts in which a database sorts a large table, so that no single process has to sort all rows."""
SORTED_AT_ONCE: Final = 1_000_000
"""The number of rows up to which one sort is used."""
LARGEST_STEP_BACK: Final = 4
"""The divisor of the grid's limit. Hops replace the grid if one key has more than this part (1/4) of a piece's rows."""


def find(context: QueryContext, connection: sa.Connection, within: KeyRange, every: int) -> Sequence[Key]:
    """Return boundaries as ``ports.Source.boundaries`` defines them. They must increase."""
    search = _hops if context.dialect.prefers_hops and context.indexed else _grid
    with context.dialect.reading(connection):
        keys = search(context, connection, within, every)
    if len(set(keys)) < len(keys):
        raise _unordered(context, next(key for key in keys if keys.count(key) > 1))
    if any(column.kind is not Kind.INTEGER for column in context.key):
        _check_order(context, connection, keys)
    return keys


def _check_order(context: QueryContext, connection: sa.Connection, keys: Sequence[Key]) -> None:
    """Refuse boundaries that do not increase, if one statement can check it: a key's text may have another order."""
    if len(keys) < 2 or not (context.dialect.binds_lists or context.dialect.lists_keys):
        return
    ranks = rank(context, connection, keys)
    for key, low, high in zip(keys[1:], ranks, ranks[1:], strict=False):
        if low >= high:
            raise _unordered(context, key)


def _unordered(context: QueryContext, key: Key) -> SourceConfigurationError:
    columns = ", ".join(column.description() for column in context.key)
    return SourceConfigurationError(
        f"{context.name}: the key ({columns}) gives no increasing boundaries; the boundary {key!r} does not follow the "
        "one before it. The database orders these values differently from the texts by which it writes them: cast the "
        "column to an integer, a text or a timestamp in a query"
    )


def rank(context: QueryContext, connection: sa.Connection, keys: Sequence[Key]) -> list[int]:
    """Return the order of keys as ``ports.Source.rank`` defines it. An empty SELECT gives the collation."""
    dialect, key = context.dialect, context.key
    ranks: list[int] = []
    for part in _overlapping(context, keys):
        binds = context.relation.binds()
        names = context.names
        rows = dialect.boundary_rows(key, part, binds)
        sql = (
            f"SELECT place, DENSE_RANK() OVER (ORDER BY {ascending(names)}) FROM"
            f" (SELECT {context.ordered_key}, 0 AS place FROM {context.from_item} WHERE 1 = 0"
            f" UNION ALL SELECT {', '.join(names)}, place FROM ({rows}) given) ranked"
        )
        numbers: dict[int, int] = {int(place): number for place, number in connection.execute(*binds.statement(sql))}
        places = [int(numbers[place]) for place in range(len(part))]
        # Neighbouring parts share a key, which shows whether a list too long for one statement increases.
        shift = ranks.pop() - places[0] if ranks else -1
        ranks += [place + shift for place in places]
    return ranks


def rank_unsorted(context: QueryContext, connection: sa.Connection, keys: Sequence[Key]) -> list[int]:
    """Return the order of keys in any order, which one statement must hold. Raises ``SourceError`` if it cannot."""
    if len(_overlapping(context, keys)) > 1:
        raise SourceError(f"{context.name}: one statement cannot order {len(keys):,} boundaries")
    return rank(context, connection, keys)


def _overlapping(context: QueryContext, keys: Sequence[Key]) -> list[Sequence[Key]]:
    """Return the keys in parts that one statement each can order, of which each begins with the last key of the one before.

    Of a JSON array, the size of the largest key limits them.
    """
    dialect, at_once = context.dialect, len(keys)
    if dialect.lists_keys:
        largest = max(sum(len(str(part).encode()) + key_spans.LISTED_BYTES for part in key) for key in keys)
        at_once = max(2, dialect.max_statement_bytes // largest)
    elif not dialect.binds_lists:
        at_once = max(2, min(dialect.max_case, dialect.max_binds // len(context.key) - key_spans.USERS_BINDS))
    if len(keys) <= at_once:
        return [keys]
    step = at_once - 1
    return [keys[start : start + step + 1] for start in range(0, len(keys) - 1, step)]


def _hops(context: QueryContext, connection: sa.Connection, within: KeyRange, every: int) -> list[Key]:
    """Step from each boundary to the row ``every`` rows later. With an index, each hop reads only the rows it skips."""
    keys: list[Key] = []
    seen: set[Key] = set()
    current, _above = _at(context, connection, within, offset=0)
    while current is not None:
        if current in seen:
            raise _unordered(context, current)
        seen.add(current)
        rest = KeyRange(current, within.upper)
        following, above = _at(context, connection, rest, offset=every)
        if following is not None and not above:
            # One key has more rows than a piece may have, so the piece ends at the end of that key.
            following, above = _at(context, connection, rest, offset=0, only_above=True)
        if following is not None:
            keys.append(following)
        current = following
    return keys


def _at(
    context: QueryContext, connection: sa.Connection, within: KeyRange, *, offset: int, only_above: bool = False
) -> tuple[Key | None, bool]:
    """Return the key at an offset within a range, and whether the database orders it above the range's lower end.

    ``only_above`` leaves out the rows of the range's lower end.
    """
    dialect, key = context.dialect, context.key
    binds = context.relation.binds()
    above = "1"
    if within.lower is not None:
        above = f"CASE WHEN {dialect.compare(key, '>', within.lower, binds)} THEN 1 ELSE 0 END"
    where = condition(dialect, key, KeyRange(None, within.upper) if only_above else within, binds)
    if only_above and within.lower is not None:
        where += f" AND {dialect.compare(key, '>', within.lower, binds)}"
    sql = (
        f"SELECT {context.canonical_key}, {above} AS is_above FROM {context.from_item} WHERE {where}"
        f" ORDER BY {context.key_order}{dialect.limit(1, offset)}"
    )
    row = connection.execute(*binds.statement(sql)).first()
    return (None, False) if row is None else (canonical(context.name, key, row[:-1]), bool(row[-1]))


def _grid(context: QueryContext, connection: sa.Connection, within: KeyRange, every: int) -> list[Key]:
    """Return every ``every``-th row of one numbering.

    If a row on a grid line is not the first of its key, the following lines are misplaced. The numbering is then
    repeated with a step that leaves room for the rows of the largest key.
    """
    lines = _lines(context, connection, within, every)
    if all(number == first for _key, number, first in lines):
        return [key for key, _number, _rank in lines]
    _key, largest = largest_key(context, connection, within) or (None, 0)
    if (largest - 1) * LARGEST_STEP_BACK > every:
        return _hops(context, connection, within, every)
    keys: list[Key] = []
    last = 1
    for key, _number, first in _lines(context, connection, within, every - (largest - 1)):
        if first != last:
            keys.append(key)
            last = first
    return keys


def _lines(
    context: QueryContext, connection: sa.Connection, within: KeyRange, every: int
) -> list[tuple[Key, int, int]]:
    """Return each row on the grid except the first: its key, its number, and the number of its key's first row, from 1."""
    dialect, key = context.dialect, context.key
    cuts, before = _sort_parts(context, connection, within)
    binds = context.relation.binds()
    where = condition(dialect, key, within, binds)
    names = ", ".join(context.names)
    order = f"ORDER BY {context.key_order}"
    part, shift = "0", "0"
    if cuts:
        part = nested_case(dialect, key[:1], cuts, binds)
        order = f"PARTITION BY {part} {order}"
        shift = f"CASE part_no {' '.join(f'WHEN {number} THEN {rows}' for number, rows in enumerate(before))} END"
    first = "0" if context.unique else f"RANK() OVER ({order})"
    rows_of_part = (
        f"SELECT {context.canonical_key}, {part} AS part_no, ROW_NUMBER() OVER ({order}) AS part_row, {first} AS part_first"
        f" FROM {context.from_item} WHERE {where}"
    )
    sql = (
        f"SELECT {names}, row_no, first_no FROM (SELECT {names}, part_row + {shift} AS row_no,"
        f" part_first + {shift} AS first_no FROM ({rows_of_part}) parted)"
        f" numbered WHERE row_no > 1 AND {dialect.modulo_sql.format('row_no - 1', every)} = 0 ORDER BY row_no ASC"
    )
    rows = connection.execute(*binds.statement(sql)).all()
    return [
        (canonical(context.name, key, row[:-2]), int(row[-2]), int(row[-2] if context.unique else row[-1]))
        for row in rows
    ]


def _sort_parts(context: QueryContext, connection: sa.Connection, within: KeyRange) -> tuple[list[Key], list[int]]:
    """Divide an integer that leads the key into parts of equal width: first values but the first, rows before each.

    Both lists are empty if one sort is used.
    """
    dialect, lead = context.dialect, context.key[0]
    if not dialect.sorts_in_parts or lead.kind is not Kind.INTEGER:
        return [], []
    binds = context.relation.binds()
    where = condition(dialect, context.key, within, binds)
    column = dialect.column(lead)
    sql = f"SELECT MIN({column}), MAX({column}), COUNT(*) FROM {context.from_item} WHERE {where}"
    row = connection.execute(*binds.statement(sql)).first()
    if row is None or int(row[2]) <= SORTED_AT_ONCE:
        return [], []
    low, width = int(row[0]), int(row[1]) - int(row[0])
    cuts: list[Key] = [(value,) for value in dict.fromkeys(low + width * n // PARTS for n in range(1, PARTS))]
    binds = context.relation.binds()
    where = condition(dialect, context.key, within, binds)
    part = nested_case(dialect, (lead,), cuts, binds)
    sql = (
        f"SELECT part_no, COUNT(*) FROM (SELECT {part} AS part_no FROM {context.from_item} WHERE {where}) counted"
        " GROUP BY part_no"
    )
    rows = {int(number): int(count) for number, count in connection.execute(*binds.statement(sql))}
    sizes = [rows.get(number, 0) for number in range(len(cuts) + 1)]
    return cuts, [0, *accumulate(sizes[:-1])]


def largest_key(context: QueryContext, connection: sa.Connection, within: KeyRange) -> tuple[Key, int] | None:
    """Return the key with the most rows, as ``ports.Source.largest_key`` defines it."""
    dialect, key = context.dialect, context.key
    binds = context.relation.binds()
    where = condition(dialect, key, within, binds)
    columns = ", ".join(dialect.key_order(column) for column in key)
    values = ", ".join(f"MIN({dialect.key_output(column)}) AS k{number}" for number, column in enumerate(key))
    sql = (
        f"SELECT {values}, COUNT(*) AS n_rows FROM {context.from_item} WHERE {where}"
        f" GROUP BY {columns} ORDER BY {len(key) + 1} DESC{dialect.limit(1)}"
    )
    with dialect.reading(connection):
        row = connection.execute(*binds.statement(sql)).first()
    return None if row is None else (canonical(context.name, key, row[:-1]), int(row[-1]))


def canonical(name: str, columns: Sequence[Column], values: Sequence[Any]) -> Key:
    """Return a key from the values of ``key_output`` of some columns."""
    parts: list[int | str] = []
    for column, given in zip(columns, values, strict=True):
        try:
            value = given.decode() if isinstance(given, (bytes, bytearray)) else given
        except UnicodeDecodeError:
            raise SourceConfigurationError(
                f"{name}: the key column {column.name!r} holds {bytes(given)!r}, which is not UTF-8, and "
                "no file can begin with such a key. Correct the value, or give another column as key="
            ) from None
        if column.kind is Kind.INTEGER and not isinstance(value, str) and int(value) == value:
            parts.append(int(value))
        elif isinstance(value, str):
            parts.append(value)
        elif column.kind is Kind.NUMBER and isinstance(value, (int, float)):
            # Python writes a float as the shortest text that reads back as the same float.
            parts.append(str(value))
        else:
            raise SourceConfigurationError(
                f"{name}: the key column {column.name!r} holds {value!r} ({type(value).__name__}) beside values "
                f"of kind {column.kind.value!r}; a key needs one type: cast it in a query"
            )
    return tuple(parts)


# ---------------------------------------------------------------- the ranges that hold some rows

Rows = Callable[[Binds], tuple[str, str]]
"""Writes the relation, called ``src``, and the condition on its rows. It adds their values to the binds."""


def places_of(context: QueryContext, connection: sa.Connection, ranges: Sequence[KeyRange], rows: Rows) -> list[int]:
    """Return the positions of the ranges that hold at least one of the rows, in ascending order."""
    dialect, key = context.dialect, context.key
    positions: set[int] = set()
    for part in parts(context, ranges, key_spans.SPANS_AT_MOST):
        binds = context.relation.binds()
        bucket = bucket_number(dialect, key, part, binds)
        where = condition(dialect, key, part.within, binds)
        from_item, wanted = rows(binds)
        sql = f"SELECT DISTINCT {bucket} AS bucket FROM {from_item} WHERE {where} AND {wanted}"
        positions |= {part.places[int(row[0])] for row in connection.execute(*binds.statement(sql))}
    return sorted(positions - {key_spans.GAP})


def parts(context: QueryContext, ranges: Sequence[KeyRange], at_most: int) -> Iterator[KeySpan]:
    """Yield spans of ranges that fit into one statement by ``bucket_number``; if they are more than ``at_most``, with gaps.

    The database's own bucket expression, if it has one, is for a span of any length.
    """
    dialect, key = context.dialect, context.key
    for span in key_spans.spans(ranges, at_most=at_most) if ranges else ():
        is_quick = span.cuts and dialect.buckets(key, span.cuts, context.relation.binds()) is not None
        yield from (span,) if is_quick else span.split(dialect)


TEXT_TIMES = frozenset({Kind.TEXT, Kind.OTHER})
"""The kinds of times in SQLite. They are compared as ISO text, which sorts chronologically."""


def touched(context: QueryContext, connection: sa.Connection, ranges: Sequence[KeyRange], since: datetime) -> list[int]:
    """Return the positions of changed ranges, as ``ports.Source.touched`` defines them."""
    return places_of(context, connection, ranges, lambda binds: (context.from_item, _is_newer(context, since, binds)))


def newest_rows(
    context: QueryContext, span: KeySpan, outputs: Sequence[Output], since: datetime, most: int
) -> tuple[Statement, list[Output]]:
    """Write the query of the newest rows of a span, as ``ports.Source.newest`` defines them."""

    def newest(binds: Binds) -> tuple[str, str]:
        order = f"ORDER BY {context.dialect.column(_lastmod(context))} DESC{context.dialect.limit(most)}"
        return _is_newer(context, since, binds), order

    return rows_statement(context, span, outputs, newest)


def _is_newer(context: QueryContext, since: datetime, binds: Binds) -> str:
    """Return a condition for rows whose lastmod is ``since`` or later."""
    column, unit = _lastmod(context), context.lastmod_unit
    bound = _since(column, since, context.timezone) if unit is None else number_of(since, unit)
    return context.dialect.compare((column,), ">=", (bound,), binds)


def _lastmod(context: QueryContext) -> Column:
    column = context.fields.get("lastmod")
    if column is not None and context.lastmod_unit is not None and column.kind in NUMBERS:
        return column
    if column is None or column.kind not in TIMES | TEXT_TIMES:
        what = "no lastmod" if column is None else f"a lastmod of type {column.type_name or column.kind.value}"
        raise SourceConfigurationError(
            f"{context.name}: change_detection='watermark' needs a lastmod that is a date or timestamp, indexed; this "
            f"source has {what}. Use change_detection='digest'."
        )
    return column


def _since(column: Column, since: datetime, zone: str) -> str:
    """Return a moment in the format of the column's own values. Among texts, a day earlier: one may be a date of any zone."""
    utc = since.astimezone(timezone.utc)
    if column.kind in TEXT_TIMES:
        return (utc - timedelta(days=1)).strftime("%Y-%m-%d")
    if column.kind is Kind.ZONED:
        return utc.strftime("%Y-%m-%d %H:%M:%S")
    local = since.astimezone(ZoneInfo(zone))
    return local.strftime("%Y-%m-%d" if column.kind is Kind.DATE else "%Y-%m-%d %H:%M:%S")
