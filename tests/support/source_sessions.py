"""Sections over live databases: tables of known rows, and sessions that read them in every way there is."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_sitemaps.sources.session_factory import session_of
from airflow_sitemaps.sources.sql import SqlSource
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support import transpiled
from tests.support.databases import NAMES, Database, NotAvailable, database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.ports import Source
    from airflow_sitemaps.shards.ranges import Key, KeyRange

BACKENDS = {
    "memory": ("memory", "auto"),
    "sqlite": ("sqlite", "auto"),
    "postgresql-adbc": ("postgresql", "auto"),
    "postgresql-cursor": ("postgresql", "cursor"),
    "duckdb-arrow": ("duckdb", "auto"),
    "duckdb-cursor": ("duckdb", "cursor"),
    "mariadb": ("mariadb", "auto"),
    **{name: (name, "auto") for name in NAMES if name not in ("sqlite", "postgresql", "duckdb", "mariadb")},
    **{f"{name}-cursor": (name, "cursor") for name in ("clickhouse", "databricks") if name in NAMES},
}
"""Names of ways to read to database and ``reader``."""
SQL_BACKENDS = [name for name in BACKENDS if name != "memory"]
ROWS = 150
EPOCH = datetime(2024, 1, 1)
WORDS = (
    "Äpfel",
    "apple",
    "Apple",
    "zebra",
    "Zürich",
    "zurich",
    "été",
    "eta",
    "Öl",
    "o'l",
    'q"uote',
    "a\\b",
    "ß",
    "ss",
    "日本",
    "%d",
    ":x",
)


@dataclass(frozen=True)
class KeyKind:
    """A kind of key: the columns, as (name, type), and whether each row has its own."""

    columns: tuple[tuple[str, str], ...]
    unique: bool = True
    indexed: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _type in self.columns)


KEYS = {
    "integer": KeyKind((("id", "integer"),)),
    "integer without index": KeyKind((("id", "integer"),), indexed=False),
    "text": KeyKind((("word", "text"),), unique=False),
    "text of any case": KeyKind((("word", "text_ci"),), unique=False, indexed=False),
    "uuid": KeyKind((("ident", "uuid"),)),
    "timestamp": KeyKind((("made", "timestamp"),)),
    "date": KeyKind((("day", "date"),), unique=False),
    "decimal": KeyKind((("amount", "decimal"),), unique=False, indexed=False),
    "composite": KeyKind((("word", "text"), ("id", "integer"))),
    "composite, not unique": KeyKind((("part", "integer"), ("word", "text")), unique=False, indexed=False),
    "not unique": KeyKind((("part", "integer"),), unique=False),
}
MEMORY_KEYS = ("integer", "text", "composite", "composite, not unique", "not unique")
CURSOR_KEYS = ("integer", "text of any case", "composite")
"""For the second reader of a database: its surveys are those of the first."""
EXECUTED_KEYS = ("integer", "text", "timestamp", "date", "decimal", "composite", "not unique")
"""For warehouses that DuckDB stands for."""
SNOWFLAKE_KEYS = ("integer", "text", "timestamp", "composite, not unique")
"""fakesnow and Spark take half a second for a statement."""
SOME_KEYS = {
    "memory": MEMORY_KEYS,
    "postgresql-cursor": CURSOR_KEYS,
    "duckdb-cursor": CURSOR_KEYS,
    "clickhouse-cursor": CURSOR_KEYS,
    "snowflake": SNOWFLAKE_KEYS,
    "databricks": SNOWFLAKE_KEYS,
    "databricks-cursor": ("integer",),
    **dict.fromkeys(transpiled.NAMES, EXECUTED_KEYS),
}
CASES = [(backend, key) for backend in BACKENDS for key in KEYS if key in SOME_KEYS.get(backend, KEYS)]


@dataclass
class World:
    """A session, and what is known of its rows."""

    source: Source
    rows: list[dict[str, Any]]
    key: KeyKind
    backend: str
    database: Database | None = None
    table: str = ""
    batches: list[Any] = field(default_factory=list)


def rows_of(number: int) -> list[dict[str, Any]]:
    """Rows in no order, the same each time."""
    shuffled = sorted(range(number), key=lambda n: (n * 7_919) % 10_007)
    return [
        {
            "id": n * 3 - 500,
            "word": f"{WORDS[n % len(WORDS)]}{n // (len(WORDS) * 3)}",
            "ident": str(uuid.UUID(int=(n * 0x9E3779B97F4A7C15F39CC0605CEDC835) % (1 << 128), version=4)),
            "made": EPOCH + timedelta(minutes=n, microseconds=n * 37),
            "day": (EPOCH + timedelta(days=n // 4)).date(),
            "amount": f"{(n % 90) / 8:.3f}",
            "part": n // 5,
            "slug": f"p/{n}",
            "lm": EPOCH + timedelta(hours=n) if n % 9 else None,
            "cf": ("daily", "weekly", "", None)[n % 4],
        }
        for n in shuffled
    ]


TYPES = {
    "id": "integer", "word": "text", "ident": "uuid", "made": "timestamp", "day": "date", "amount": "decimal",
    "part": "integer", "slug": "text", "lm": "timestamp", "cf": "text",
}  # fmt: skip


def connected(name: str, conn_id: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    """A live database, with an Airflow connection to it."""
    found = live(name)
    connection = {"conn_type": "generic", "extra": {"sqlalchemy_url": found.url}}
    monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps(connection))
    return found


def live(name: str) -> Database:
    """A running database, or the test is skipped with what is lacking."""
    try:
        return database(name)
    except NotAvailable as lacking:
        pytest.skip(str(lacking))


@contextmanager
def postgresql_in(encoding: str) -> Iterator[sa.URL]:
    """The address of a new PostgreSQL database in an encoding, which is dropped at the end."""
    server = sa.make_url(live("postgresql").url)
    name = f"in_{encoding.lower()}"
    admin = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with admin.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE IF EXISTS {name}"))
            connection.execute(
                sa.text(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
            )
        yield server.set(database=name)
    finally:
        with admin.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
        admin.dispose()


def create(base: Database, table: str, columns: dict[str, str]) -> None:
    """Create a table again; columns by name to one of ``base.types``, or to SQL that begins with ``=``."""
    kinds = {name: kind[1:] if kind.startswith("=") else base.types[kind] for name, kind in columns.items()}
    parts = ", ".join(f"{base.quote(name)} {kind}" for name, kind in kinds.items())
    end = " ENGINE = MergeTree ORDER BY tuple()" if base.name == "clickhouse" else ""
    base.run(f"DROP TABLE IF EXISTS {base.quote(table)}", f"CREATE TABLE {base.quote(table)} ({parts}){end}")


@cache
def table_of(name: str, key_name: str, number: int = ROWS) -> str:
    """The table of a key's kind in a database, made once."""
    base, key = database(name), KEYS[key_name]
    table = "rows_" + "".join(c if c.isalnum() else "_" for c in key_name) + f"_{number}"
    create(base, table, TYPES | dict(key.columns))
    base.insert(table, rows_of(number))
    if key.indexed and base.name in ("sqlite", "postgresql", "duckdb", "mariadb"):
        columns = ", ".join(base.quote(column) for column in key.names)
        base.run(f"CREATE {'UNIQUE ' if key.unique else ''}INDEX {table}_key ON {base.quote(table)} ({columns})")
    return table


@contextmanager
def session(base: Database, section: str = "test", **arguments: Any) -> Iterator[Any]:
    """A session of a ``SqlSource`` over a database, past Airflow."""
    engine = base.engine()
    try:
        with session_of(SqlSource("test", **arguments), section, engine) as source:
            yield source
    finally:
        engine.dispose()


@contextmanager
def world(backend: str, key_name: str, number: int = ROWS) -> Iterator[World]:
    """A section by one way to read and one kind of key."""
    name, reader = BACKENDS[backend]
    key = KEYS[key_name]
    mapping = {"key": key.names, "loc": "slug", "lastmod": "lm", "changefreq": "cf"}
    rows = rows_of(number)
    if name == "memory":
        with MemorySourceConfig(rows, **mapping).open(section="test") as source:
            yield World(source, rows, key, backend)
        return
    base = live(name)
    lacking = {kind for _column, kind in key.columns} - base.types.keys()
    if lacking:
        pytest.skip(f"this {name} has no {', '.join(lacking)}: it is built without ICU")
    table = table_of(name, key_name, number)
    with session(base, table=table, reader=reader, **mapping) as source:
        yield World(source, rows, key, backend, base, table)


def load(text: str | int) -> Key:
    """The key that ``row_values.key_text`` or ``key_column`` wrote."""
    return (text,) if isinstance(text, int) else tuple(json.loads(text))


def read(source: Source, ranges: Sequence[KeyRange]) -> tuple[Counter[int], Counter[int], list[tuple[int, Key, str]]]:
    """Rows by range, sums of hashes by range (modulo 2**64), and (range, key, loc) of each row in order."""
    counts: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    order: list[tuple[int, Key, str]] = []
    for batch in source.read(ranges):
        places = batch["range"].to_pylist()
        for place, value in zip(places, batch["row_hash"].to_pylist(), strict=True):
            counts[place] += 1
            sums[place] = (sums[place] + value) % (1 << 64)
        order += zip(places, map(load, batch["key"].to_pylist()), batch["loc"].to_pylist(), strict=True)
    return counts, sums, order
