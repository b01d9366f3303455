"""Databases that cannot run here: every statement they would be sent is parsed by sqlglot in their own dialect."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
import sqlalchemy as sa
import sqlglot
from sqlalchemy.engine.default import DefaultDialect

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects import DIALECTS
from airflow_sitemaps.sources.dialects import dialect_of as dialect_of_engine
from airflow_sitemaps.sources.queries import GroupedRelation, Relation, boundaries, survey
from airflow_sitemaps.sources.queries.context import QueryContext, rows_statement
from airflow_sitemaps.sources.queries.key_spans import spans
from tests.extension.attic.attic.oracle import Oracle
from tests.extension.attic.attic.sql_server import SQLServer

if TYPE_CHECKING:
    from airflow_sitemaps.sources.dialects.base import Dialect

SQLGLOT = {"mssql": "tsql", "clickhousedb": "clickhouse", "mariadb": "mysql", "postgresql": "postgres"}
BACKTICKS = {"bigquery", "databricks", "mysql", "mariadb", "clickhouse", "clickhousedb"}
EXAMPLES = {"mssql": SQLServer, "oracle": Oracle}
"""The dialects of a third party, in `tests/extension/`."""
NAMES = sorted((*DIALECTS, *EXAMPLES))
TWO_KEYS = (Column(name="shop", kind=Kind.INTEGER), Column(name="slug", kind=Kind.TEXT))
KEYS = {
    "integer": (TWO_KEYS[:1], [(n * 10,) for n in range(320)]),
    "moment": ((Column(name="at", kind=Kind.ZONED),), [(f"2024-01-{n:02d} 00:00:00+00",) for n in range(1, 29)]),
    "composite": (TWO_KEYS, [(n // 3, f"it's:{n % 3}%") for n in range(320)]),
}

WEDNESDAY = datetime(2026, 1, 14, tzinfo=timezone.utc)
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
    """A connection that keeps the statements it receives."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.connection = SimpleNamespace(dbapi_connection=SimpleNamespace(text_factory=str))

    def execute(self, clause: sa.TextClause, values: dict[str, Any]) -> Nothing:
        compiled = clause.compile(dialect=DefaultDialect(paramstyle="named"))
        assert set(compiled.params) == set(values)
        self.asked.append((str(compiled), values))
        return Nothing()


def dialect_of(dialect: sa.Dialect) -> Dialect:
    """The dialect of the package, or of the example of a third party."""
    return EXAMPLES[dialect.name](dialect) if dialect.name in EXAMPLES else dialect_of_engine(dialect)


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


def context_of(name: str, key: tuple[Column, ...]) -> QueryContext:
    dialect = dialect_of(stub(name))
    key = tuple(typed(name, column) for column in key)
    fields = {
        "lastmod": typed(name, Column(name="at", kind=Kind.ZONED)),
        "priority": Column(name="weight", kind=Kind.NUMBER),
        "images": Column(name="pictures", kind=Kind.JSON),
    }
    loc = (Column(name="Odd Name:x", kind=Kind.TEXT), Column(name="made", kind=Kind.DATE))
    relation = Relation(
        query="SELECT * FROM shop.products WHERE kind = ':not_a_bind'", where="live = :live", parameters={"live": 1}
    )
    return QueryContext(
        name="test", dialect=dialect, relation=relation, key=key, loc=loc, fields=fields,
        template="https://x.test/{Odd Name:x}/{made}", timezone="UTC",
    )  # fmt: skip


def parse(name: str, statement: str) -> None:
    """Fails where the dialect's parser does."""
    # sqlglot lacks the character set of a column of JSON_TABLE, which MySQL and MariaDB have; MariaDB runs it live.
    known = statement.replace("LONGTEXT CHARACTER SET utf8mb4 PATH", "LONGTEXT PATH")
    tree = sqlglot.parse_one(known, dialect=SQLGLOT.get(name, name))
    assert isinstance(tree, sqlglot.exp.Query)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", NAMES)
def test_every_statement_is_of_its_dialect(name: str, key: str) -> None:
    columns, keys = KEYS[key]
    context, recorder = context_of(name, columns), Recorder()
    ranges = cut(KeyRange(keys[0], None), keys[1:])
    boundaries.find(context, recorder, ranges[0], 100)
    boundaries._hops(context, recorder, ranges[0], 100)
    boundaries._at(context, recorder, ranges[0], offset=0, only_above=True)
    boundaries.largest_key(context, recorder, ranges[0])
    if not context.dialect.hashes_here:
        survey.take(context, recorder, ranges)
    with pytest.raises(KeyError):
        boundaries.rank(context, recorder, keys)  # the empty answer lacks the keys
    for objects in (True, False):
        for part in spans(ranges)[0].split(context.dialect):
            statement, _outputs = rows_statement(context, part, context.outputs(objects=objects))
            recorder.execute(*statement)
    for some in (ranges, ranges[::2]):
        for part in boundaries.parts(context, some, 1):
            statement, _outputs = boundaries.newest_rows(context, part, context.outputs(objects=True), WEDNESDAY, 9)
            recorder.execute(*statement)
    assert len(recorder.asked) > 5
    for statement, values in recorder.asked:
        assert len(values) <= context.dialect.max_binds
        assert len(statement.encode()) <= context.dialect.max_statement_bytes * 2
        parse(name, statement)


@pytest.mark.parametrize("name", NAMES)
def test_every_dialect_pins_zone_and_names_its_hash(name: str) -> None:
    dialect = dialect_of(stub(name))
    assert dialect.digest_kind.startswith(f"{dialect.name}/")
    assert dialect.hash_version
    if name not in ("sqlite", "bigquery", "trino", "clickhouse", "clickhousedb", "mssql", "redshift"):
        assert any("UTC" in sql or "+00:00" in sql for sql in (*dialect.session_sql, *dialect.begin_sql))


def test_an_unknown_database_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'access' is not supported"):
        dialect_of(stub("access"))


@pytest.mark.parametrize(
    ("described", "own"),
    [
        ("DateTime", "DateTime('UTC')"),
        ("LowCardinality(Nullable(DateTime('America/New_York')))", "DateTime('UTC')"),
        ("DateTime64(3, 'Asia/Tokyo')", "DateTime64(3, 'UTC')"),
        ("Nullable(DateTime64(9))", "DateTime64(9, 'UTC')"),
        ("Nullable(Float64)", "Float64"),
    ],
)
def test_boundaries_of_times_are_in_utc_in_clickhouse(described: str, own: str) -> None:
    assert dialect_of(stub("clickhouse")).type_of(("at", described)) == own


@pytest.mark.parametrize("value", ["2026-11-28 12:00:00", "2026-11-28 12:00:00.000 UTC"])
def test_a_bound_moment_names_its_zone_in_trino(value: str) -> None:
    """The client sends the zone of its machine as that of the session."""
    bound = dialect_of(stub("trino")).key_bind(Column(name="at", kind=Kind.ZONED), f"'{value}'")
    (row,) = duckdb.sql(
        f"SET TimeZone = 'Asia/Tokyo'; SELECT epoch({sqlglot.transpile(bound, read='trino', write='duckdb')[0]})"
    ).fetchall()
    assert row == (datetime(2026, 11, 28, 12, tzinfo=timezone.utc).timestamp(),)


def test_redshift_has_no_cast_from_boolean_to_text() -> None:
    dialect, flag = dialect_of(stub("redshift")), Column(name="flag", kind=Kind.BOOLEAN)
    for sql in (dialect.row_hash((flag,)), dialect.emit_raw(flag), dialect.key_value(flag)):
        assert "CAST" not in sql
        parse("redshift", f"SELECT {sql} FROM src")
    text = sqlglot.transpile(dialect.emit_text(flag), read="redshift", write="duckdb")[0]
    rows = duckdb.sql(f"SELECT {text} FROM (VALUES (true), (false), (NULL)) src(flag)").fetchall()
    assert rows == [("true",), ("false",), (None,)]


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
        ("snowflake", ("ID", 0, None, None, 38, 0, True), Kind.INTEGER),
        ("snowflake", ("ID", 0, None, None, 38, 2, True), Kind.NUMBER),
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


@pytest.mark.parametrize(
    ("name", "entry", "own"),
    [
        ("snowflake", ("k", 0, None, None, 38, 2, True), "NUMBER(38, 2)"),
        ("snowflake", ("k", 0, None, None, 38, 0, True), ""),
        ("snowflake", ("k", 1, None, None, None, None, True), "FLOAT"),
        ("redshift", ("k", 701), "FLOAT8"),
        ("redshift", ("k", 1700), ""),
        ("trino", ("k", "decimal(38,0)"), "decimal(38,0)"),
        ("trino", ("k", "bigint"), ""),
        ("databricks", ("k", "decimal", None, None, 38, 0, True), "DECIMAL(38, 0)"),
        ("databricks", ("k", "double", None, None, None, None, True), "DOUBLE"),
        ("databricks", ("k", "bigint", None, None, None, None, True), ""),
        ("bigquery", ("k", "FLOAT64"), "FLOAT64"),
        ("bigquery", ("k", "NUMERIC"), ""),
    ],
)
def test_boundaries_of_numbers_keep_their_own_type(name: str, entry: tuple[Any, ...], own: str) -> None:
    assert dialect_of(stub(name)).type_of(entry) == own


def test_a_driver_of_sql_server_that_does_not_tell_types_is_refused() -> None:
    """pymssql describes a bigint and a float by one number."""
    with pytest.raises(
        SourceConfigurationError, match=r"the column 'id' by a number, as pymssql does.* Install pyodbc"
    ):
        dialect_of(stub("mssql")).kind_of(("id", 3, None, None, None, None, None))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "oracle"])
def test_the_members_of_groups_are_of_each_dialect(name: str) -> None:
    dialect = dialect_of(stub(name))
    loc = Column(name="it's", kind=Kind.TEXT)
    grouped = GroupedRelation(
        base=Relation(table="mart.pages"),
        group=typed(name, Column(name="page", kind=Kind.INTEGER)),
        language=typed(name, Column(name="lang", kind=Kind.TEXT)),
        loc=(typed(name, loc),),
        key=(typed(name, Column(name="id", kind=Kind.INTEGER)),),
    )
    recorder = Recorder()
    recorder.execute(*grouped.binds().statement(f"SELECT * FROM {grouped.from_item(dialect)}"))
    parse(name, recorder.asked[0][0])


def test_oracle_refuses_groups_with_the_way_out() -> None:
    column = Column(name="page", kind=Kind.INTEGER)
    with pytest.raises(SourceConfigurationError, match=r"group= is not supported .*'oracle'.* alternates="):
        dialect_of(stub("oracle")).members(column, [column], "mart.pages src", "1 = 1", 100)


def test_names_keep_the_case_that_the_user_quotes() -> None:
    """Snowflake and Oracle fold a plain name to capitals, and leave a quoted one alone; BigQuery reads backticks."""
    for name in ("snowflake", "oracle"):
        dialect = dialect_of(stub(name))
        assert Relation(table='mart."products"').from_item(dialect) == 'mart."products" src'
        assert Relation(table="mart.products").from_item(dialect) == "mart.products src"
    dialect = dialect_of(stub("bigquery"))
    assert Relation(table="`shop-1.mart.products`").from_item(dialect) == "`shop-1`.`mart`.`products` src"


def test_only_databases_that_enforce_keys_are_believed() -> None:
    unenforced = {"clickhouse", "clickhousedb", "snowflake", "bigquery", "databricks", "redshift", "trino"}
    assert {name for name in NAMES if not dialect_of(stub(name)).enforces_keys} == unenforced
