"""The comment before each statement, and the statements in the log."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources import driver
from airflow_sitemaps.sources.sql import SqlSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORDS = {
    "dag={{ dag.dag_id }} task={{ task.task_id }} run={{ run_id }}": (
        "dag=shop task=sitemap.plan run=manual__2026-03-04T05:06:07+00:00 */ DROP TABLE"
    )
}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sa.Engine:
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", '{"conn_type": "generic", "extra": {"sqlalchemy_url": "' + url + '"}}')
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE pages (id INTEGER PRIMARY KEY, url TEXT)")
        connection.exec_driver_sql("INSERT INTO pages VALUES (1, '/a'), (2, '/b')")
    return engine


@contextmanager
def observed() -> Iterator[list[str]]:
    """Collect the statements of every engine."""
    statements: list[str] = []

    def listen(*arguments: Any) -> None:
        statements.append(arguments[2])

    sa.event.listen(sa.Engine, "before_cursor_execute", listen)
    try:
        yield statements
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", listen)


@contextmanager
def logged() -> Iterator[list[str]]:
    """Collect the statements in the log, whatever Airflow makes of its handlers when it is first imported."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    level = driver.log.level
    driver.log.addHandler(handler)
    driver.log.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        driver.log.removeHandler(handler)
        driver.log.setLevel(level)


def test_each_query_names_dag_task_run_and_section_in_a_comment_that_cannot_be_left(
    engine: sa.Engine,
) -> None:
    engine.dispose()
    source = SqlSource("shop", table="pages", key="id", loc="url")

    with (
        logged() as lines,
        observed() as statements,
        source.rendered(lambda text: WORDS.get(text, text)).open(section="pages") as session,
    ):
        session.survey([KeyRange(None, None)])
        assert sum(batch.num_rows for batch in session.read([KeyRange(None, None)])) == 2

    queries = [each for each in statements if "SELECT" in each]
    label = "/* airflow-sitemaps dag=shop task=sitemap.plan run=manual__2026-03-04T05:06:07+00:00 __ DROP TABLE section=pages */"
    assert queries
    assert all(each.startswith(f"{label} ") for each in queries)
    assert any("ORDER BY" in each for each in lines)


def test_in_the_shell_a_query_names_its_section(engine: sa.Engine) -> None:
    engine.dispose()
    with (
        observed() as statements,
        SqlSource("shop", table="pages", key="id", loc="url").open(section="pages") as session,
    ):
        session.survey([KeyRange(None, None)])

    assert any(each.startswith("/* airflow-sitemaps section=pages */ SELECT") for each in statements)
