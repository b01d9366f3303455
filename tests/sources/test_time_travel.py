"""One state of the table for the plan and every write task, by the database's time travel."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.shards.codec import decode_plan, encode
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.queries import survey
from airflow_sitemaps.sources.run_state import RunState
from airflow_sitemaps.sources.session import SqlSession
from airflow_sitemaps.sources.user_texts import name_parts
from airflow_sitemaps.testing import MemorySource, MemorySourceConfig, crawl
from tests.sources.test_compiled import context_of
from tests.support.databases import NAMES
from tests.support.environment import row
from tests.support.source_sessions import create, live, session

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE = "https://www.example.com/"
STATE = RunState(moment=datetime(2026, 1, 31, 10, tzinfo=timezone(timedelta(hours=1))), version=12)
SOURCE = {"table": "pages", "key": "id", "loc": "slug"}
CLAUSES = {
    "bigquery": "FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-31 09:00:00.000000+00:00'",
    "snowflake": "AT (TIMESTAMP => CAST('2026-01-31 09:00:00.000000+00:00' AS TIMESTAMP_TZ))",
    "databricks": "VERSION AS OF 12",
}


def publish(sitemap: Sitemap, change: Any) -> None:
    """Plan, change the rows, write every batch, publish."""
    planned = stages.plan(sitemap)
    change()
    receipts = [stages.write(sitemap, planned.key, batch.number).receipt_key for batch in planned.batches]
    stages.publish(sitemap, planned.key, receipts)


@pytest.mark.parametrize("name", CLAUSES)
def test_every_query_of_a_table_reads_the_state(name: str) -> None:
    plain = context_of(name, (Column(name="shop", kind=Kind.INTEGER),))
    clause = STATE.as_of(plain.dialect)
    assert clause == CLAUSES[name]
    context = replace(plain, relation=replace(plain.relation, table="mart.pages", query=None, as_of=clause))
    for condition in (None, "live = 1"):
        each = replace(context, relation=replace(context.relation, where=condition))
        for statement, _values in survey.statements(each, cut(KeyRange(None, None), [(1,), (2,)])):
            sql = statement.text.replace("\\:", ":")
            assert sql.count("pages") == sql.count(clause) == 1
            assert sqlglot.parse_one(sql.replace(":sitemap_", "@sitemap_") if name == "bigquery" else sql, read=name)


class History:
    """A connection to Databricks that answers DESCRIBE HISTORY."""

    def __init__(self) -> None:
        self.received: list[str] = []

    def execute(self, clause: Any) -> Any:
        self.received.append(clause.text)
        return self

    mappings = one = lambda self: self

    def __getitem__(self, name: str) -> int:
        return {"version": 41}[name]


def test_a_delta_table_is_read_by_its_version() -> None:
    connection = History()
    dialect = context_of("databricks", (Column(name="shop", kind=Kind.INTEGER),)).dialect
    assert dialect.travel_version(connection, name_parts("shop.mart.pages")) == 41
    assert connection.received == ["DESCRIBE HISTORY `shop`.`mart`.`pages` LIMIT 1"]


def test_the_write_tasks_read_what_the_plan_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    if "bigquery" not in NAMES:
        pytest.skip("bigquery is not here: `make test-warehouses`")
    base = live("bigquery")
    create(base, "pages_history", {"id": "integer", "slug": "text", "since": "zoned", "until": "zoned"})
    base.run(
        "INSERT INTO pages_history SELECT n, 'p/' || n, now(), NULL FROM range(100) t(n)",
        "CREATE OR REPLACE VIEW pages AS SELECT id, slug FROM pages_history WHERE until IS NULL",
    )
    extra = {"sqlalchemy_url": base.url}
    monkeypatch.setenv("AIRFLOW_CONN_PAGES", json.dumps({"conn_type": "generic", "extra": extra}))
    store = MemoryStore(base_url=BASE)
    source = SqlSource("pages", table="pages", key="id", loc="/{slug:path}", as_of="plan")
    sitemap = Sitemap(store, [Section("pages", source)], shards=ShardPolicy(max_urls=20), guards=Guards.disabled())

    def load() -> None:
        base.run(
            "UPDATE pages_history SET until = now() WHERE id < 90",
            "INSERT INTO pages_history SELECT n, 'new/' || n, now(), NULL FROM range(1000, 1005) t(n)",
        )

    publish(sitemap, load)
    assert crawl(store.open()).locs() == {f"{BASE}p/{n}" for n in range(100)}
    publish(sitemap, lambda: None)
    after = {f"{BASE}p/{n}" for n in range(90, 100)} | {f"{BASE}new/{n}" for n in range(1000, 1005)}
    assert crawl(store.open()).locs() == after


class Traveller(MemorySource):
    """A source of an earlier state."""

    state = ""


@dataclass(frozen=True, slots=True)
class Travelling(MemorySourceConfig):
    """A source that keeps the rows of each state."""

    states: dict[str, list[Any]] = field(default_factory=dict, kw_only=True)
    state: str = field(default="", kw_only=True)

    @contextmanager
    def open(self, *, section: str) -> Iterator[MemorySource]:
        state = self.state or f"state {len(self.states)}"
        rows = self.states.setdefault(state, [dict(each) for each in self.rows])
        source = Traveller(replace(self, rows=rows), section)
        source.state = state
        yield source

    def at(self, state: str) -> Travelling:
        return replace(self, state=state)


def test_the_state_is_kept_in_the_plan() -> None:
    rows = [row(10 * n) for n in range(1, 21)]
    source = Travelling(rows)
    store = MemoryStore(base_url=BASE)
    sitemap = Sitemap(store, [Section("pages", source)], shards=ShardPolicy(max_urls=5), guards=Guards.disabled())
    before = {each["loc"] for each in rows}
    publish(sitemap, lambda: rows.__delitem__(slice(10, None)))
    assert crawl(store.open()).locs() == before
    plan = stages.plan(sitemap)
    assert plan.sections["pages"].state == "state 1"
    assert decode_plan(encode(plan)) == plan


def test_the_clock_of_a_pinned_source_is_that_of_its_state() -> None:
    base = live("sqlite")
    create(base, "pages", {"id": "integer", "slug": "text"})
    with session(base, **SOURCE) as source:
        assert source.state == ""
        pinned = SqlSession(engine=source.engine, context=source.context, state=STATE)
    assert pinned.now() == STATE.moment
    assert pinned.state == "2026-01-31T10:00:00+01:00 12"


def test_a_version_of_the_present_does_not_stand_for_an_earlier_state(monkeypatch: pytest.MonkeyPatch) -> None:
    if "bigquery" not in NAMES:
        pytest.skip("bigquery is not here: `make test-warehouses`")
    base = live("bigquery")
    create(base, "pages_history", {"id": "integer", "slug": "text", "since": "zoned", "until": "zoned"})
    base.run("CREATE OR REPLACE VIEW pages AS SELECT id, slug FROM pages_history")
    with session(base, **SOURCE, as_of="plan") as source:
        assert source.context.versioned is None
        assert source.state
    with session(base, **SOURCE) as source:
        assert source.context.versioned is not None


@pytest.mark.parametrize("name", ["sqlite", "duckdb"])
def test_a_database_without_time_travel_refuses_it(name: str) -> None:
    base = live(name)
    create(base, "pages", {"id": "integer", "slug": "text"})
    with (
        pytest.raises(SourceConfigurationError, match=rf"as_of='plan'.*{name}.*materialize="),
        session(base, **SOURCE, as_of="plan"),
    ):
        pass


@given(st.datetimes(timezones=st.just(timezone.utc)), st.none() | st.integers(0, 2**62))
def test_a_state_comes_back_from_its_text(moment: datetime, version: int | None) -> None:
    state = RunState(moment=moment, version=version)
    assert RunState.parse(str(state)) == state


@pytest.mark.parametrize(
    "text",
    ["plan", "", "2026-01-31", "2026-01-31T10:00:00", "2026-01-31T10:00:00+00:00 x", "2026-01-31T10:00:00+00:00 -1",
     "2026-01-31T10:00:00+00:00' OR 1=1 --", "2026-01-31T10:00:00+00:00 1; DROP TABLE pages"],
)  # fmt: skip
def test_a_forged_state_is_refused(text: str) -> None:
    with pytest.raises(SourceConfigurationError, match="run the plan task again"):
        RunState.parse(text)


@pytest.mark.parametrize(
    "arguments",
    [
        {"table": "pages", "as_of": "yesterday"},
        {"query": "SELECT 1", "as_of": "plan"},
        {"table": "pages", "materialize": "scratch", "as_of": "plan"},
    ],
)
def test_what_cannot_be_pinned_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(SourceConfigurationError, match="as_of="):
        SqlSource("mart", key="id", loc="slug", **arguments)


def test_the_files_do_not_depend_on_the_state() -> None:
    plain = SqlSource("mart", **SOURCE)
    assert SqlSource("mart", **SOURCE, as_of="plan").at(str(STATE)).identity() == plain.identity()
    assert SqlSource("mart", **SOURCE, as_of="plan").at(str(STATE)).state == str(STATE)
