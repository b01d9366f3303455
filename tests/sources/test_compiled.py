"""Databases that cannot run here: every statement they would be sent is parsed by sqlglot in their own dialect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa
import sqlglot
from sqlalchemy.engine.default import DefaultDialect

from airflow_sitemaps.shards.key import KeyRange, cut
from airflow_sitemaps.sources import boundaries, survey
from airflow_sitemaps.sources.columns import Column, Kind, Mapping
from airflow_sitemaps.sources.dialects import DIALECTS, dialect_of
from airflow_sitemaps.sources.intervals import runs
from airflow_sitemaps.sources.location import Location
from airflow_sitemaps.sources.relation import Relation
from airflow_sitemaps.sources.selection import Selection
from airflow_sitemaps.sources.session import SqlSession

SQLGLOT = {"mssql": "tsql", "mariadb": "mysql", "postgresql": "postgres"}
BACKTICKS = {"bigquery", "databricks", "mysql", "mariadb", "clickhouse"}
NAMES = sorted(DIALECTS)
TWO_KEYS = (Column(name="shop", kind=Kind.INTEGER), Column(name="slug", kind=Kind.TEXT))
KEYS = {
    "integer": (TWO_KEYS[:1], [(n * 10,) for n in range(320)]),
    "moment": ((Column(name="at", kind=Kind.ZONED),), [(f"2024-01-{n:02d} 00:00:00+00",) for n in range(1, 29)]),
    "composite": (TWO_KEYS, [(n // 3, f"it's:{n % 3}%") for n in range(320)]),
}

TYPE_NAMES = {Kind.INTEGER: "bigint", Kind.TEXT: "text", Kind.ZONED: "timestamp with time zone"}


class Nothing:
    """An empty result."""

    def __iter__(self):
        return iter(())

    def all(self):
        return []

    def first(self):
        return None

    def scalar(self):
        return 0

    scalar_one = scalar


class Recorder:
    """A connection that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def execute(self, clause: sa.TextClause, values: dict[str, Any]) -> Nothing:
        compiled = clause.compile(dialect=DefaultDialect(paramstyle="named"))
        assert set(compiled.params) == set(values)
        self.asked.append((str(compiled), values))
        return Nothing()


def stub(name: str) -> sa.Dialect:
    """A dialect of SQLAlchemy with the right name and quotes; the real packages need not be installed."""
    dialect = DefaultDialect()
    dialect.name = name
    quote = "`" if name in BACKTICKS else '"'
    start, end = ("[", "]") if name == "mssql" else (quote, quote)
    dialect.identifier_preparer = sa.sql.compiler.IdentifierPreparer(dialect, start, end)
    return dialect


def typed(name: str, column: Column) -> Column:
    """PostgreSQL always knows the names of its types."""
    return replace(column, type_name=TYPE_NAMES[column.kind]) if name == "postgresql" else column


def session_of(name: str, key: tuple[Column, ...]) -> SqlSession:
    dialect = dialect_of(stub(name))
    key = tuple(typed(name, column) for column in key)
    fields = (
        ("lastmod", typed(name, Column(name="at", kind=Kind.ZONED))),
        ("priority", Column(name="weight", kind=Kind.NUMBER)),
        ("images", Column(name="pictures", kind=Kind.JSON)),
    )
    loc = (Column(name="Odd Name:x", kind=Kind.TEXT), Column(name="made", kind=Kind.DATE))
    selection = Selection(
        dialect=dialect, mapping=Mapping(key=key, loc=loc, fields=fields),
        location=Location("https://x.test/{Odd Name:x}/{made}"), timezone="UTC",
    )  # fmt: skip
    relation = Relation(
        query="SELECT * FROM shop.products WHERE kind = ':not_a_bind'", where="live = :live", parameters={"live": 1}
    )
    return SqlSession(engine=None, dialect=dialect, relation=relation, selection=selection, name="test")


def parse(name: str, statement: str) -> None:
    """Fails where the dialect's parser does."""
    tree = sqlglot.parse_one(statement, dialect=SQLGLOT.get(name, name))
    assert isinstance(tree, sqlglot.exp.Query)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", NAMES)
def test_every_statement_is_of_its_dialect(name: str, key: str) -> None:
    columns, keys = KEYS[key]
    session, recorder = session_of(name, columns), Recorder()
    ranges = cut(KeyRange(keys[0], None), keys[1:])
    boundaries.find(session, recorder, ranges[0], 100)
    boundaries._hops(session, recorder, ranges[0], 100)
    boundaries._at(session, recorder, ranges[0], offset=0, only_above=True)
    boundaries._largest_key(session, recorder, ranges[0])
    if not session.dialect.hashes_here:
        survey.take(session, recorder, ranges)
    with pytest.raises(KeyError):
        boundaries.rank(session, recorder, keys)  # the empty answer lacks the keys
    for objects in (True, False):
        for part in runs(ranges)[0].split(session.dialect):
            statement, _outputs = session.rows_statement(part, session.selection.outputs(objects=objects))
            recorder.execute(*statement)
    assert len(recorder.asked) > 5
    for statement, values in recorder.asked:
        assert len(values) <= session.dialect.max_binds
        assert len(statement.encode()) <= session.dialect.max_statement_bytes * 2
        parse(name, statement)


@pytest.mark.parametrize("name", NAMES)
def test_every_dialect_pins_zone_and_names_its_hash(name: str) -> None:
    dialect = dialect_of(stub(name))
    assert dialect.digest_kind.startswith(f"{dialect.name}/")
    assert dialect.hash_version
    if name not in ("sqlite", "bigquery", "trino", "clickhouse", "mssql", "redshift"):
        assert any("UTC" in sql or "+00:00" in sql for sql in (*dialect.session_sql, *dialect.begin_sql))


def test_an_unknown_database_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'access' is not known"):
        dialect_of(stub("access"))


def test_types_are_known_by_their_names() -> None:
    kinds = {
        ("postgresql", "timestamp with time zone"): Kind.ZONED,
        ("trino", "timestamp(3) with time zone"): Kind.ZONED,
        ("trino", "timestamp(3)"): Kind.TIMESTAMP,
        ("clickhouse", "LowCardinality(Nullable(String))"): Kind.TEXT,
        ("clickhouse", "Nullable(DateTime64(3, 'UTC'))"): Kind.ZONED,
        ("duckdb", "DECIMAL(10,2)"): Kind.NUMBER,
        ("databricks", "timestamp_ntz"): Kind.TIMESTAMP,
    }
    assert {(name, text): dialect_of(stub(name)).kind(text) for name, text in kinds} == kinds


@pytest.mark.parametrize(
    ("name", "entry", "kind"),
    [
        ("snowflake", ("ID", 0, None, None, 18, 0, True), Kind.INTEGER),
        ("snowflake", ("ID", 0, None, None, 38, 0, True), Kind.NUMBER),
        ("snowflake", ("AT", 6, None, None, 0, 9, True), Kind.ZONED),
        ("mssql", ("id", int, None, 10, 10, 0, False), Kind.INTEGER),
        ("redshift", ("at", 1184), Kind.ZONED),
        ("oracle", ("ID", "DB_TYPE_NUMBER", 19, None, 18, 0, False), Kind.INTEGER),
        ("oracle", ("ID", "DB_TYPE_NUMBER", 19, None, 0, -127, False), Kind.NUMBER),
        ("mysql", ("at", 7), Kind.ZONED),
        ("bigquery", ("at", "DATETIME"), Kind.TIMESTAMP),
    ],
)
def test_types_are_known_by_the_drivers_codes(name: str, entry: tuple[Any, ...], kind: Kind) -> None:
    assert dialect_of(stub(name)).kind_of(entry) is kind
