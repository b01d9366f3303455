"""A driver's Arrow batches and the rows of its cursor are the same columns, whatever the rows hold."""

from __future__ import annotations

import logging
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources.dialects import postgresql_readers
from airflow_sitemaps.sources.session_factory import session_of
from airflow_sitemaps.sources.sql import SqlSource
from tests.sources.test_same_files import COLUMNS, LASTMODS, PRIORITIES, rows
from tests.support import bigquery_rest, bigquery_storage, fakesnow_server
from tests.support.source_sessions import create, live, session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import sqlalchemy as sa

RANGES = [KeyRange(None, (3,)), KeyRange((3,), (9,)), KeyRange((20,), None)]
METHODS = {
    "clickhouse": "query_arrow_stream",
    "snowflake": "fetch_arrow_batches",
    "bigquery": "to_arrow_iterable",
    "bigquery storage": "to_arrow_iterable",
    "databricks": "fetchmany_arrow",
}
ROW = {
    "loc": "https://shop.example/l'été",
    **dict.fromkeys(("stamp", "zoned", "day", "told", "cf", "weight", "amount", "images")),
}


def clickhouse(data: list[dict[str, Any]]) -> Callable[[], sa.Engine]:
    base = live("clickhouse")
    create(base, "arrow_rows", COLUMNS)
    client = base.engine().raw_connection().dbapi_connection.client
    utc = [
        {**row, "stamp": _held(row["stamp"]), "zoned": _held(row["zoned"]), "day": _held(row["day"])} for row in data
    ]
    client.insert("arrow_rows", [list(row.values()) for row in utc], column_names=list(utc[0]))
    return base.engine


def _held(moment: Any) -> Any:
    """A time that ClickHouse's types hold."""
    return moment if moment is None or 1925 < moment.year < 2262 else moment.replace(year=2024, day=1)


def snowflake(data: list[dict[str, Any]]) -> Callable[[], sa.Engine]:
    if lacking := fakesnow_server.lacking():
        pytest.skip(lacking)
    engine = fakesnow_server.engine()
    kinds = {
        "integer": "NUMBER(38, 0)", "text": "VARCHAR", "timestamp": "TIMESTAMP_NTZ", "zoned": "TIMESTAMP_TZ",
        "date": "DATE", "decimal": "NUMBER(6, 3)", "float": "FLOAT",
    }  # fmt: skip
    with engine.connect() as connection:
        columns = ", ".join(f"{name} {kinds[kind]}" for name, kind in COLUMNS.items())
        connection.exec_driver_sql(f"CREATE OR REPLACE TABLE arrow_rows ({columns})")
    engine.dispose()
    marks = ", ".join("?" * len(COLUMNS))
    values = [list(row.values()) for row in data]
    fakesnow_server.base().executemany(f"INSERT INTO MART.PUBLIC.ARROW_ROWS VALUES ({marks})", values)
    return fakesnow_server.engine


def bigquery(data: list[dict[str, Any]]) -> Callable[[], sa.Engine]:
    if lacking := bigquery_rest.lacking():
        pytest.skip(lacking)
    base = live("bigquery")
    create(base, "arrow_rows", COLUMNS)
    base.insert("arrow_rows", [_named(row) for row in data])
    return bigquery_rest.engine


def bigquery_by_storage(data: list[dict[str, Any]]) -> Callable[[], sa.Engine]:
    bigquery(data)
    return bigquery_rest.storage_engine


def databricks(data: list[dict[str, Any]]) -> Callable[[], sa.Engine]:
    base = live("databricks")
    create(base, "arrow_rows", COLUMNS)
    base.insert("arrow_rows", [_named(row) for row in data])
    return base.engine


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """Floats that SQL has no number for, as DuckDB casts them from texts."""
    weight = row["weight"]
    return row if weight is None or math.isfinite(weight) else {**row, "weight": str(weight)}


FILL = {
    "clickhouse": clickhouse,
    "snowflake": snowflake,
    "bigquery": bigquery,
    "bigquery storage": bigquery_by_storage,
    "databricks": databricks,
}


@contextmanager
def opened(engine: sa.Engine, **arguments: Any) -> Iterator[Any]:
    try:
        with session_of(SqlSource("test", **arguments), "test", engine) as source:
            yield source
    finally:
        engine.dispose()


def columns_of(engine: sa.Engine, reader: str, lastmod: str, priority: str) -> pa.Table:
    arguments = {"loc": "loc", "lastmod": lastmod, "changefreq": "cf", "priority": priority, "images": "images"}
    with opened(engine, table="arrow_rows", key="id", reader=reader, **arguments) as source:
        return pa.Table.from_batches(list(source.read(RANGES)))


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same types and values. NaN is equal to itself."""
    return one.schema == other.schema and all(
        repr(left.to_pylist()) == repr(right.to_pylist())
        for left, right in zip(one.columns, other.columns, strict=True)
    )


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    data=st.lists(rows, min_size=9, max_size=30),
    lastmod=st.sampled_from(LASTMODS),
    priority=st.sampled_from(PRIORITIES),
)
@example(data=[ROW] * 25, lastmod="stamp", priority="amount")
def test_arrow_and_cursor_read_the_same_columns(
    name: str, data: list[dict[str, Any]], lastmod: str, priority: str
) -> None:
    engine = FILL[name](
        [{"id": number, **{each: row[each] for each in COLUMNS if each != "id"}} for number, row in enumerate(data)]
    )
    logger = logging.getLogger("airflow_sitemaps.sources")
    bigquery_storage.READ.clear()
    with _messages(logger) as messages:
        by_arrow = columns_of(engine(), "auto", lastmod, priority)
    assert any(f"reading Arrow batches by {METHODS[name]}" in message for message in messages), messages
    with _messages(logger) as messages:
        by_cursor = columns_of(engine(), "cursor", lastmod, priority)
    assert not any("Arrow" in message for message in messages)
    if name == "databricks":
        # The connector's rows go through pandas, where NaN is NULL. The rules drop and count a priority of NaN.
        by_arrow = _nan_as_null(by_arrow)
    if name == "bigquery storage":
        # The driver's cursor reads a result of several pages by the Storage API too, so its rows are also read by REST.
        assert len(bigquery_storage.READ) == 2
        by_rest = columns_of(bigquery_rest.engine(), "cursor", lastmod, priority)
        assert same(by_arrow, by_rest), f"{by_arrow.to_pylist()}\n{by_rest.to_pylist()}"
    assert by_arrow.num_rows == len(data) - sum(9 <= number < 20 for number in range(len(data)))
    assert same(by_arrow, by_cursor), f"{by_arrow.to_pylist()}\n{by_cursor.to_pylist()}"


def _nan_as_null(table: pa.Table) -> pa.Table:
    place = table.column_names.index("priority")
    if not pa.types.is_floating(table.schema.field(place).type):
        return table
    values = [None if value is None or math.isnan(value) else value for value in table["priority"].to_pylist()]
    return table.set_column(place, "priority", pa.array(values, pa.float64()))


@contextmanager
def _messages(logger: logging.Logger) -> Iterator[list[str]]:
    """The messages that a logger and those below it get. Hypothesis and ``caplog`` do not go together."""
    found: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    keeper, level = Keeper(), logger.level
    logger.addHandler(keeper)
    logger.setLevel(logging.INFO)
    try:
        yield found
    finally:
        logger.removeHandler(keeper)
        logger.setLevel(level)


@pytest.mark.parametrize("reader", ["auto", "cursor"])
def test_text_of_clickhouse_that_is_not_utf8_is_marked(reader: str) -> None:
    base = live("clickhouse")
    create(base, "not_utf8", {"id": "integer", "slug": "text"})
    base.run("INSERT INTO not_utf8 VALUES (1, unhex('ff61')), (2, 'é'), (3, NULL), (4, unhex('c3'))")
    with opened(base.engine(), table="not_utf8", key="id", loc="slug", reader=reader) as source:
        (batch,) = source.read([KeyRange(None, None)])
    assert batch["loc"].to_pylist() == ["\x1aFFa", "é", None, "\x1aC3"]


def test_a_cursor_without_arrow_is_read_as_rows(caplog: pytest.LogCaptureFixture) -> None:
    """fakesnow's own cursor has no ``fetch_arrow_batches``."""
    base = live("snowflake")
    create(base, "no_arrow", {"id": "integer", "slug": "text"})
    base.insert("no_arrow", [{"id": 1, "slug": "a"}])
    caplog.set_level(logging.INFO, "airflow_sitemaps.sources")
    with opened(base.engine(), table="no_arrow", key="id", loc="slug") as source:
        (batch,) = source.read([KeyRange(None, None)])
    assert batch["loc"].to_pylist() == ["a"]
    assert "reading through a cursor, because the driver has no fetch_arrow_batches for this result" in caplog.text


@pytest.mark.parametrize(("release", "said"), [("1.8.0", 1), ("1.10.2", 1), ("1.11.0", 0), ("2.0.0", 0)])
def test_a_driver_that_may_end_the_process_is_not_used_and_named_once(
    release: str, said: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A plan opens a reader for each of its sections, and for its sample."""
    pytest.importorskip("adbc_driver_postgresql", reason="adbc-driver-postgresql is not installed")
    caplog.set_level(logging.INFO, "airflow_sitemaps.sources")
    monkeypatch.setattr(postgresql_readers, "version", lambda _: release)
    postgresql_readers._is_recent.cache_clear()
    for _ in range(3):
        with session(live("postgresql"), query="SELECT 1 AS id", key="id", loc="id") as source:
            (batch,) = source.read([KeyRange(None, None)])
        assert batch["loc"].to_pylist() == ["1"]
    postgresql_readers._is_recent.cache_clear()
    assert caplog.text.count("ends the whole process") == said
    assert ("reading Arrow batches by ADBC" in caplog.text) == (not said)
