"""The warehouse of the demonstration: filled, and changed like a table in daily use."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.demo import places as world

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import Connection, Engine

CHUNK: Final = 5_000
"""Number of rows in one INSERT statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Number of changed rows by kind."""

    inserted_in_the_middle: int
    inserted_at_the_end: int
    updated: int
    deleted: int


def load_connection(conn_id: str, *, limit: int | None = None) -> dict[str, Any]:
    """Create and fill the tables behind an Airflow connection, and return their numbers of rows."""
    from airflow_sitemaps.sources.connections.engines import engine_of

    engine = engine_of(conn_id)
    try:
        return load(engine, limit=limit)
    finally:
        engine.dispose()


def load(engine: Engine, *, limit: int | None = None) -> dict[str, Any]:
    """Create and fill the tables ``places`` and ``countries``, and return their numbers of rows."""
    rows = {"places": world.places(limit), "countries": world.countries()}
    with engine.begin() as connection:
        for table in rows:
            _create(connection, table)
        for table, content in rows.items():
            _insert(connection, table, content)
    return {table: len(content) for table, content in rows.items()}


def change(engine: Engine, *, now: datetime) -> Changes:
    """Change the places: insert rows in the middle and at the end, change some, and delete some.

    ``now`` is the new time of changed rows.
    """
    from sqlalchemy import DateTime, bindparam, text

    with engine.connect() as connection:
        ids = [row[0] for row in connection.execute(text("SELECT id FROM places ORDER BY id"))]
    present, middle, last = set(ids), len(ids) // 2, ids[-1]
    gap = [n for n in range(ids[middle], ids[middle] + 10_000) if n not in present][:40]
    fresh = [_new_place(n, now) for n in gap]
    appended = [_new_place(last + 1 + n, now) for n in range(600)]
    tenth = len(ids) // 10
    touched, gone = ids[tenth : tenth + 200], ids[8 * tenth : 8 * tenth + 50]
    with engine.begin() as connection:
        _insert(connection, "places", fresh + appended)
        connection.execute(
            text(
                "UPDATE places SET population = population + 1, updated_at = :now WHERE id BETWEEN :low AND :high"
            ).bindparams(bindparam("now", type_=DateTime())),
            {"now": _naive(now), "low": touched[0], "high": touched[-1]},
        )
        connection.execute(
            text("DELETE FROM places WHERE id BETWEEN :low AND :high"), {"low": gone[0], "high": gone[-1]}
        )
    return Changes(
        inserted_in_the_middle=len(fresh), inserted_at_the_end=len(appended), updated=len(touched), deleted=len(gone)
    )


def _create(connection: Connection, table: str) -> None:
    from sqlalchemy import BigInteger, Column, DateTime, MetaData, String, Table

    columns: dict[str, list[Column[Any]]] = {
        "places": [
            Column("id", BigInteger, primary_key=True, autoincrement=False),
            Column("country", String(2), nullable=False),
            Column("name", String(400), nullable=False),
            Column("slug", String(400), nullable=False),
            Column("native_name", String(400)),
            Column("population", BigInteger, nullable=False),
            Column("updated_at", DateTime, nullable=False),
        ],
        "countries": [
            Column("code", String(2), primary_key=True),
            Column("name", String(200), nullable=False),
            Column("updated_at", DateTime, nullable=False),
        ],
    }
    definition = Table(table, MetaData(), *columns[table])
    definition.drop(connection, checkfirst=True)
    definition.create(connection)


def _insert(connection: Connection, table: str, rows: list[dict[str, Any]]) -> None:
    from sqlalchemy import DateTime, column, insert
    from sqlalchemy import table as named

    if connection.dialect.name == "duckdb":
        # Row by row DuckDB takes minutes; from Arrow it takes a moment.
        raw = connection.connection.driver_connection
        assert raw is not None
        raw.register("fresh_rows", _arrow(rows))
        connection.exec_driver_sql(f"INSERT INTO {table} BY NAME SELECT * FROM fresh_rows")
        raw.unregister("fresh_rows")
        return
    columns = (column(name, DateTime()) if name == "updated_at" else column(name) for name in rows[0])
    statement = insert(named(table, *columns))
    values = [{**row, "updated_at": _naive(row["updated_at"])} for row in rows]
    for start in range(0, len(values), CHUNK):
        connection.execute(statement, values[start : start + CHUNK])


def _arrow(rows: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_pylist([{**row, "updated_at": _naive(row["updated_at"])} for row in rows])


def _naive(moment: datetime) -> datetime:
    """Return a time in UTC without its zone, as in the tables' ``updated_at``."""
    return moment.astimezone(timezone.utc).replace(tzinfo=None, microsecond=0)


def _new_place(number: int, now: datetime) -> dict[str, Any]:
    name = f"Newtown {number}"
    return {
        "id": number,
        "country": "us",
        "name": name,
        "slug": world.slug(name),
        "native_name": None,
        "population": 501,
        "updated_at": now,
    }
