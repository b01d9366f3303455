"""Boundaries found in the database: by hops from one to the next, or by one numbering of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.shards.key import Key, KeyRange
from airflow_sitemaps.sources.columns import Kind
from airflow_sitemaps.sources.intervals import condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.sources.session import SqlSession

LARGEST_STEP_BACK = 4
"""A grid gives up where the rows of one key are more than this part (1/4) of a piece, and hops take over."""


def find(session: SqlSession, connection: sa.Connection, within: KeyRange, every: int) -> Sequence[Key]:
    """See ``ports.Source.boundaries``."""
    if every < 1:
        raise ValueError(f"boundaries(every={every}): give 1 or more rows")
    if session.dialect.prefers_hops and session.indexed:
        return _hops(session, connection, within, every)
    return _grid(session, connection, within, every)


def rank(session: SqlSession, connection: sa.Connection, keys: Sequence[Key]) -> list[int]:
    """See ``ports.Source.rank``: the keys beside an empty look at the source, which lends them its collation."""
    dialect, key = session.dialect, session.mapping.key
    ranks: list[int] = []
    for part in _overlapping(keys, dialect.rank_at_once(key)):
        binds = session.relation.binds()
        names = [f"k{number}" for number in range(len(key))]
        rows = dialect.boundary_rows(key, part, binds)
        model = ", ".join(f"{dialect.key_order(column)} AS {name}" for column, name in zip(key, names, strict=True))
        sql = (
            f"SELECT place, DENSE_RANK() OVER (ORDER BY {', '.join(names)}) FROM"
            f" (SELECT {model}, 0 AS place FROM {session.from_item} WHERE 1 = 0"
            f" UNION ALL SELECT {', '.join(names)}, place FROM ({rows}) given) ranked"
        )
        found: dict[int, int] = {int(place): number for place, number in connection.execute(*binds.statement(sql))}
        places = [int(found[place]) for place in range(len(part))]
        # Parts share a key, so that a list too long for one statement is still seen to increase, or not.
        shift = ranks.pop() - places[0] if ranks else -1
        ranks += [place + shift for place in places]
    return ranks


def _overlapping(keys: Sequence[Key], at_once: int | None) -> list[Sequence[Key]]:
    if at_once is None or len(keys) <= at_once:
        return [keys]
    step = max(1, at_once - 1)
    return [keys[start : start + step + 1] for start in range(0, len(keys) - 1, step)]


def _hops(session: SqlSession, connection: sa.Connection, within: KeyRange, every: int) -> list[Key]:
    """From each boundary to the row ``every`` rows on; with an index, each hop reads only what it steps over."""
    found: list[Key] = []
    current, _above = _at(session, connection, within, offset=0)
    while current is not None:
        rest = KeyRange(current, within.upper)
        following, above = _at(session, connection, rest, offset=every)
        if following is not None and not above:
            # One key has more rows than a piece may: the piece ends where that key does.
            following, above = _at(session, connection, rest, offset=0, only_above=True)
        if following is not None:
            found.append(following)
        current = following
    return found


def _at(
    session: SqlSession, connection: sa.Connection, within: KeyRange, *, offset: int, only_above: bool = False
) -> tuple[Key | None, bool]:
    """The key of the row at an offset within a range, and whether the database puts it above the range's lower end.

    ``only_above`` leaves the rows of the lower end out.
    """
    dialect, key = session.dialect, session.mapping.key
    binds = session.relation.binds()
    above = "1"
    if within.lower is not None:
        above = f"CASE WHEN {dialect.compare(key, '>', within.lower, binds)} THEN 1 ELSE 0 END"
    where = condition(dialect, key, KeyRange(None, within.upper) if only_above else within, binds)
    if only_above and within.lower is not None:
        where += f" AND {dialect.compare(key, '>', within.lower, binds)}"
    values = ", ".join(f"{dialect.key_value(column)} AS k{number}" for number, column in enumerate(key))
    order = ", ".join(dialect.key_order(column) for column in key)
    sql = (
        f"SELECT {values}, {above} AS is_above FROM {session.from_item} WHERE {where}"
        f" ORDER BY {order}{dialect.limit(1, offset)}"
    )
    row = connection.execute(*binds.statement(sql)).first()
    return (None, False) if row is None else (key_of(session, row[:-1]), bool(row[-1]))


def _grid(session: SqlSession, connection: sa.Connection, within: KeyRange, every: int) -> list[Key]:
    """Every ``every``-th row of one numbering.

    Where the row on a grid line is not the first of its key, the lines after it are off: then the numbering is
    repeated with a step that leaves room for the rows of the largest key.
    """
    lines = _lines(session, connection, within, every)
    exact = list(_until_tie(lines, every))
    if len(exact) == len(lines):
        return [key for key, _number, _rank in lines]
    largest = _largest_key(session, connection, within)
    if (largest - 1) * LARGEST_STEP_BACK > every:
        return _hops(session, connection, within, every)
    found: list[Key] = []
    last = 1
    for key, _number, first in _lines(session, connection, within, every - (largest - 1)):
        if first != last:
            found.append(key)
            last = first
    return found


def _until_tie(lines: Sequence[tuple[Key, int, int]], every: int) -> list[Key]:
    exact = []
    for key, number, first in lines:
        if number != first:
            break
        exact.append(key)
    return exact


def _lines(session: SqlSession, connection: sa.Connection, within: KeyRange, every: int) -> list[tuple[Key, int, int]]:
    """Key, row number and number of the key's first row (both from 1) of each row on the grid but the first."""
    dialect, key = session.dialect, session.mapping.key
    binds = session.relation.binds()
    where = condition(dialect, key, within, binds)
    names = [f"k{number}" for number in range(len(key))]
    values = ", ".join(f"{dialect.key_value(column)} AS {name}" for column, name in zip(key, names, strict=True))
    order = ", ".join(dialect.key_order(column) for column in key)
    first = "0" if session.unique else f"RANK() OVER (ORDER BY {order})"
    sql = (
        f"SELECT {', '.join(names)}, row_no, first_no FROM (SELECT {values},"
        f" ROW_NUMBER() OVER (ORDER BY {order}) AS row_no, {first} AS first_no FROM {session.from_item} WHERE {where})"
        f" numbered WHERE row_no > 1 AND {dialect.modulo('row_no - 1', every)} = 0 ORDER BY row_no"
    )
    rows = connection.execute(*binds.statement(sql)).all()
    return [(key_of(session, row[:-2]), int(row[-2]), int(row[-2] if session.unique else row[-1])) for row in rows]


def _largest_key(session: SqlSession, connection: sa.Connection, within: KeyRange) -> int:
    dialect, key = session.dialect, session.mapping.key
    binds = session.relation.binds()
    where = condition(dialect, key, within, binds)
    columns = ", ".join(dialect.key_order(column) for column in key)
    sql = (
        f"SELECT MAX(n_rows) FROM (SELECT COUNT(*) AS n_rows FROM {session.from_item} WHERE {where}"
        f" GROUP BY {columns}) counted"
    )
    return int(connection.execute(*binds.statement(sql)).scalar() or 0)


def key_of(session: SqlSession, values: Sequence[Any]) -> Key:
    """A key from the values of ``key_value``.

    Raises:
        SourceConfigurationError: a value is of another kind than its column's first.
    """
    parts: list[int | str] = []
    for column, value in zip(session.mapping.key, values, strict=True):
        if column.kind is Kind.INTEGER and not isinstance(value, str) and int(value) == value:
            parts.append(int(value))
        elif isinstance(value, str):
            parts.append(value)
        else:
            raise SourceConfigurationError(
                f"{session.name}: the key column {column.name!r} holds {value!r} ({type(value).__name__}) beside values "
                f"of kind {column.kind.value!r}; a key needs one type: cast it in a query"
            )
    return tuple(parts)
