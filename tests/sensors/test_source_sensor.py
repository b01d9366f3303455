"""The source sensor in real runs: by a dry plan, and by a probe that the triggerer polls."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapSourceSensor, SitemapTaskGroup, SqlSource, triggers
from airflow_sitemaps.errors import (
    ConfigurationError,
    ConnectionNotFoundError,
    GuardError,
    SourceConfigurationError,
    SourceError,
    StoreError,
)
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.publish import promotion
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.pipeline.status import last_survey
from airflow_sitemaps.ports import Create
from airflow_sitemaps.testing import FakeClock
from airflow_sitemaps.triggers import SitemapSourceTrigger
from tests.support.airflow_db import run, states, xcom

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

URL = "https://shop.example/"
MAX = "SELECT max(updated_at) FROM products"


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Runs a statement on a database that the connection ``shop`` reads."""

    def statement(sql: str, *values: Any) -> None:
        with sqlite3.connect(tmp_path / "shop.db") as database:
            database.execute(sql, values)
        database.close()

    url = f"sqlite:///{tmp_path / 'shop.db'}"
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": url}}))
    statement("CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT, updated_at TEXT)")
    statement("INSERT INTO products VALUES (1, 'a', '2026-01-02T03:04:05Z')")
    return statement


@pytest.fixture
def sitemap(tmp_path: Path) -> Sitemap:
    source = SqlSource("shop", table="products", key="id", loc=f"{URL}p/{{slug}}", lastmod="updated_at")
    return Sitemap(LocalStore(tmp_path / "site", base_url=URL), [Section("products", source)])


def event_of(trigger: SitemapSourceTrigger) -> dict[str, Any]:
    async def first() -> dict[str, Any]:
        async for event in trigger.run():
            return dict(event.payload)
        raise AssertionError("the trigger ended without an event")

    return asyncio.run(first())


def test_a_run_starts_when_a_build_would_change_something_or_the_probe_moves(
    sitemap: Sitemap, execute: Callable[..., None]
) -> None:
    with DAG("sensed", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        by_plan = SitemapSourceSensor(
            task_id="by_plan", sitemap=sitemap, poke_interval=0.1, timeout=0.1, soft_fail=True, deferrable=False
        )
        by_probe = SitemapSourceSensor(
            task_id="by_probe", sitemap=sitemap, probe=MAX, poke_interval=0.1, deferrable=True
        )
        [by_plan, by_probe] >> SitemapTaskGroup("sitemap", sitemap)

    first = run(dag)
    assert set(states(first).values()) == {"success"}
    assert xcom(first, "by_probe", "return_value") == "2026-01-02T03:04:05Z"

    execute("INSERT INTO products VALUES (2, 'b', '2026-02-03T04:05:06Z')")
    second = run(dag)
    assert set(states(second).values()) == {"success"}
    assert xcom(second, "by_probe", "return_value") == "2026-02-03T04:05:06Z"

    mark = triggers.last_mark(sitemap, "sensed.by_probe")
    assert mark is not None
    assert mark.value == "2026-02-03T04:05:06Z"
    with DAG("sensed_again", schedule=None) as unchanged:
        SitemapSourceSensor(
            task_id="by_plan", sitemap=sitemap, poke_interval=0.1, timeout=0.1, soft_fail=True, deferrable=False
        )
    assert states(run(unchanged)) == {"by_plan": "skipped"}


def test_the_newest_of_several_runs_within_a_second_counts(sitemap: Sitemap, execute: Callable[..., None]) -> None:
    clock = FakeClock(_tokens=iter(range(999, 0, -1)))  # later runs have names that sort before those of earlier ones
    state = StateRepository(sitemap.store.open().state)
    for _ in range(3):
        build(sitemap, clock=clock)
        assert last_survey(state, ["products"]) == clock.now().isoformat()
        clock.advance(timedelta(milliseconds=10))


def test_the_trigger_polls_until_the_value_differs(
    execute: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    polls: list[float] = []

    async def change_after_two_polls(seconds: float) -> None:
        polls.append(seconds)
        if len(polls) == 2:
            execute("UPDATE products SET updated_at = '2026-03-04'")

    monkeypatch.setattr(asyncio, "sleep", change_after_two_polls)
    trigger = SitemapSourceTrigger(conn_id="shop", sql=MAX, known="2026-01-02T03:04:05Z", poll_interval=7.0)

    assert event_of(trigger) == {"value": "2026-03-04"}
    assert polls == [7.0, 7.0]
    path, arguments = trigger.serialize()
    assert path == "airflow_sitemaps.triggers.SitemapSourceTrigger"
    assert json.loads(json.dumps(arguments)) == arguments


@pytest.mark.usefixtures("execute")
@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT max(id) FROM product",
            "no such table: product. There is no table product. Did you mean 'products'?",
        ),
        (
            "SELECT max(id) FROM main.no_such_table",
            "no such table: main.no_such_table. There is no table main.no_such_table. There is 'products'.",
        ),
        (
            'SELECT max(changed) FROM "products"',
            'no such column: changed. The columns of "products" are id, slug, updated_at.',
        ),
        ("SELECT 1 FRM x", 'near "x": syntax error.'),
    ],
)
def test_a_wrong_probe_fails_with_the_tables_or_columns_there_are(sql: str, message: str) -> None:
    text = f"probe over connection 'shop': OperationalError: {message}"
    with pytest.raises(SourceConfigurationError) as caught:
        triggers.query_value("shop", sql)
    assert str(caught.value) == text
    trigger = SitemapSourceTrigger(conn_id="shop", sql=sql, known=None, poll_interval=1.0)
    assert event_of(trigger) == {"error": text}


def test_a_probe_waits_for_a_database_that_is_locked(
    execute: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}?timeout=0"
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": url}}))
    with closing(sqlite3.connect(tmp_path / "shop.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SourceError, match="database is locked"):
            triggers.query_value("shop", MAX)
    assert triggers.query_value("shop", MAX) == "2026-01-02T03:04:05Z"


def test_a_connection_that_is_missing_in_the_triggerer_is_retried_as_in_a_worker(
    sitemap: Sitemap, execute: Callable[..., None]
) -> None:
    build(sitemap)
    with DAG("sensor_without_connection"):
        sensor = SitemapSourceSensor(task_id="wait", sitemap=sitemap, probe=MAX, deferrable=True)
    lost = event_of(SitemapSourceTrigger(conn_id="not_there", sql=MAX, known=None, poll_interval=1.0))
    wrong = event_of(SitemapSourceTrigger(conn_id="shop", sql="SELECT 1 FRM x", known=None, poll_interval=1.0))

    for resume in (sensor.moved, sensor.differs):
        with pytest.raises(ConnectionNotFoundError, match="'not_there' is not defined"):
            resume({}, lost)  # type: ignore[typeddict-item]
        with pytest.raises(AirflowFailException, match="syntax error"):
            resume({}, wrong)  # type: ignore[typeddict-item]


def test_a_colon_in_a_probe_names_no_parameter_and_a_statement_without_rows_is_wrong(execute: Any) -> None:
    assert triggers.query_value("shop", """SELECT '{"a":1}' || CAST('12:30' AS TEXT)""") == '{"a":1}12:30'
    assert triggers.query_value("shop", r"SELECT 'a\:b'") == "a:b"
    assert triggers.query_value("shop", "SELECT 7, NULL, 'x'") == "7, , x", (
        "such as a number of rows and the newest date"
    )
    assert triggers.query_value("shop", "SELECT NULL") == triggers.query_value("shop", "SELECT 1 WHERE 1 = 0") == ""
    for sql in ("", "-- nothing"):
        with pytest.raises(SourceConfigurationError, match="probe over connection 'shop'"):
            triggers.query_value("shop", sql)


def test_a_table_that_does_not_exist_fails_the_sensor_without_a_probe(
    sitemap: Sitemap, execute: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    execute("ALTER TABLE products RENAME TO products_new")
    with DAG("sensed_missing", schedule=None) as dag:
        SitemapSourceSensor(task_id="by_plan", sitemap=sitemap, poke_interval=0.1, timeout=0.1, deferrable=True)

    ended = run(dag)

    assert states(ended) == {"by_plan": "failed"}
    assert "Did you mean 'products_new'?" in xcom(ended, "by_plan", "sitemap_failed")["message"]


@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize("probe", [None, "SELECT max(changed) FROM products"])
def test_soft_fail_does_not_hide_a_wrong_column(
    sitemap: Sitemap,
    execute: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    probe: str | None,
    deferrable: bool,
) -> None:
    if probe is None:
        execute("ALTER TABLE products RENAME COLUMN updated_at TO changed_on")
    with DAG(f"sensed_soft_{deferrable}_{probe is None}", schedule=None) as dag:
        settings = {"poke_interval": 0.1, "timeout": 1, "soft_fail": True, "deferrable": deferrable}
        SitemapSourceSensor(task_id="wait", sitemap=sitemap, probe=probe, **settings)

    ended = run(dag)

    assert states(ended) == {"wait": "failed"}
    failed = xcom(ended, "wait", "sitemap_failed")
    assert failed["error"] == "SourceConfigurationError"
    assert "columns" in failed["message"]
    (line,) = [each.message for each in caplog.records if each.message.startswith("A retry cannot fix this. ")]
    assert failed["message"] in line


def test_the_trigger_polls_again_when_the_database_was_down(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    password = "s3cr3t-passw0rd"
    down = {"sqlalchemy_url": f"postgresql+psycopg://reader:{password}@127.0.0.1:1/shop"}
    up = {"sqlalchemy_url": f"sqlite:///{tmp_path / 'shop.db'}"}
    (tmp_path / "shop.db").touch()
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "generic", "extra": down}))

    async def start_the_database(seconds: float) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "generic", "extra": up}))

    monkeypatch.setattr(asyncio, "sleep", start_the_database)
    trigger = SitemapSourceTrigger(conn_id="shop", sql="SELECT 7", known="1", poll_interval=7.0)

    assert event_of(trigger) == {"value": "7"}
    assert "The next poll is in 7.0 s. probe over connection 'shop'" in caplog.text
    assert password not in caplog.text


def test_names_of_other_letters_and_mapped_tasks_have_marks_of_their_own(sitemap: Sitemap) -> None:
    with DAG("магазин"):
        sensor = SitemapSourceSensor(task_id="wait", sitemap=sitemap, probe=MAX)
    contexts = [
        {"ti": SimpleNamespace(dag_id=name, map_index=n)} for name in ("магазин", "витрина") for n in (-1, 0, 1)
    ]
    for context in contexts:
        sensor._record(context, "1")  # type: ignore[arg-type]
    keys = [stored.key for stored in sitemap.store.open().state.list("probes/")]
    assert len(keys) == 6
    assert all(re.fullmatch(r"probes/_+\.wait(\.[01])?-[0-9a-f]{12}\.json", key) for key in keys)


@pytest.mark.parametrize("at", ["2026-01-01T00:00:00", "yesterday", None])
def test_a_damaged_mark_costs_one_run(sitemap: Sitemap, execute: Callable[..., None], at: str | None) -> None:
    build(sitemap)
    body = json.dumps({"value": "1", "at": at}).encode()
    sitemap.store.open().state.put("probes/shop.wait.json", body, mode=Create(), metadata={})
    mark = triggers.last_mark(sitemap, "shop.wait")
    assert mark is None or mark.at == "2026-01-01T00:00:00"


def test_a_mark_without_a_successful_run_since_does_not_hold_the_next_run_back(
    sitemap: Sitemap, execute: Callable[..., None]
) -> None:
    triggers.record_mark(sitemap, "shop.wait", triggers.ProbeMark(value="1", at="2026-01-01T00:00:00+00:00"))
    assert triggers.last_mark(sitemap, "shop.wait") is None
    sitemap.store.open().state.delete("probes/shop.wait.json")
    assert triggers.last_mark(sitemap, "shop.wait") is None


def test_a_run_that_began_before_the_start_does_not_hold_the_next_run_back(
    sitemap: Sitemap, execute: Callable[..., None]
) -> None:
    """Its plan read the rows of before, and the run that the sensor started failed."""
    hour = timedelta(hours=1)
    clock = FakeClock(datetime.now(timezone.utc))
    plan = stages.plan(sitemap, clock=clock)
    clock.advance(hour)
    triggers.record_mark(sitemap, "shop.wait", triggers.ProbeMark(value="2", at=clock.now().isoformat()))
    clock.advance(hour)
    receipts = [stages.write(sitemap, plan.key, batch.number, clock=clock).receipt_key for batch in plan.batches]
    stages.publish(sitemap, plan.key, receipts, clock=clock)
    assert triggers.last_mark(sitemap, "shop.wait") is None
    clock.advance(hour)
    build(sitemap, clock=clock)
    assert triggers.last_mark(sitemap, "shop.wait") is not None


def test_a_run_that_ended_shortly_before_the_start_does_not_hold_the_next_run_back(
    sitemap: Sitemap, execute: Callable[..., None]
) -> None:
    """It may be within the tolerance of the clocks. The run that the sensor started failed."""
    clock = FakeClock(datetime.now(timezone.utc))
    build(sitemap, clock=clock)
    clock.advance(timedelta(seconds=2))
    mark = triggers.ProbeMark(value="2", at=clock.now().isoformat())
    triggers.record_mark(sitemap, "shop.wait", mark)
    assert triggers.last_mark(sitemap, "shop.wait") is None
    clock.advance(-timedelta(seconds=1))
    build(sitemap, clock=clock)
    assert triggers.last_mark(sitemap, "shop.wait") == mark, "the clock of this run's planner is slow"


def test_a_run_of_other_sections_does_not_hold_the_next_run_back(
    sitemap: Sitemap, execute: Callable[..., None]
) -> None:
    """The run that the sensor started failed, and another DAG publishes only the other section."""
    both = Sitemap(sitemap.store, [*sitemap.sections, Section("more", sitemap.sections[0].source, path="more/")])
    hour = timedelta(hours=1)
    clock = FakeClock(datetime.now(timezone.utc))
    build(both, clock=clock)
    clock.advance(hour)
    mark = triggers.ProbeMark(value="2", at=clock.now().isoformat())
    triggers.record_mark(both, "shop.wait", mark)
    clock.advance(hour)
    assert build(both, sections=["more"], clock=clock).planned == ("more",)
    assert triggers.last_mark(both, "shop.wait", ["products"]) is None
    assert triggers.last_mark(both, "shop.wait") is None
    assert triggers.last_mark(both, "shop.wait", ["more"]) == mark
    clock.advance(hour)
    build(both, sections=["products"], clock=clock)
    assert triggers.last_mark(both, "shop.wait", ["products"]) == mark
    assert triggers.last_mark(both, "shop.wait") == mark


def test_a_run_starts_to_finish_a_promotion(
    sitemap: Sitemap, execute: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest already has the digests of the new rows, so that no plan finds a change."""
    build(sitemap)
    execute("INSERT INTO products VALUES (2, 'b', '2026-02-03T04:05:06Z')")
    with monkeypatch.context() as broken:
        broken.setattr(promotion, "_promote_file", _fail)
        with pytest.raises(StoreError):
            build(sitemap)
    for deferrable in (False, True):
        with DAG(f"unfinished_{deferrable}", schedule=None) as dag:
            SitemapSourceSensor(
                task_id="wait", sitemap=sitemap, poke_interval=0.1, timeout=0.1, soft_fail=True, deferrable=deferrable
            )
        assert states(run(dag)) == {"wait": "success"}


def _fail(*_arguments: object, **_settings: object) -> str:
    raise StoreError("the store failed")


def test_each_poke_of_one_run_sees_the_rows_of_its_own_moment_and_leaves_no_table(
    tmp_path: Path, execute: Callable[..., None]
) -> None:
    query = SqlSource(
        "shop", query="SELECT id, slug FROM products", key="id", loc=f"{URL}p/{{slug}}", materialize="main"
    )
    words = {"{{ dag.dag_id }}/{{ run_id }}": "shop/manual__1"}
    sitemap = Sitemap(LocalStore(tmp_path / "site", base_url=URL), [Section("products", query)]).rendered(
        lambda text: words.get(text, text)
    )

    def poke() -> bool:
        return stages.plan(sitemap, stages.RunRequest(dry_run=True)).changes

    build(sitemap)
    assert not poke()
    execute("INSERT INTO products VALUES (2, 'b', NULL)")
    assert poke()
    assert build(sitemap).urls == 2
    execute("DELETE FROM products")
    for _ in range(2):
        with pytest.raises(GuardError, match="no rows now"):
            stages.plan(sitemap)
    execute("INSERT INTO products VALUES (3, 'c', NULL)")
    assert build(sitemap).urls == 1
    with sqlite3.connect(tmp_path / "shop.db") as database:
        assert database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [("products",)]
    database.close()


def test_a_table_that_does_not_exist_fails_a_sensor_that_plans_in_a_worker(
    sitemap: Sitemap, execute: Callable[..., None]
) -> None:
    gone = SqlSource("shop", table="product", key="id", loc=f"{URL}g/{{slug}}", lastmod="updated_at")
    both = Sitemap(sitemap.store, [*sitemap.sections, Section("gone", gone, change_detection="watermark")])
    build(both, sections=["products"])
    with DAG("sensor_gone_table") as dag:
        SitemapSourceSensor(task_id="wait", sitemap=both, poke_interval=1, timeout=5, deferrable=True)

    ended = run(dag)

    assert states(ended) == {"wait": "failed"}
    failed = xcom(ended, "wait", "sitemap_failed")
    assert failed["error"] == "SourceConfigurationError"
    assert "Did you mean 'products'?" in failed["message"]


@pytest.mark.parametrize("settings", [{"probe": MAX}, {}], ids=["probe", "plan"])
def test_a_database_that_is_down_keeps_the_sensor_waiting(
    settings: dict[str, Any],
    sitemap: Sitemap,
    execute: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    build(sitemap)
    with DAG(f"sensor_down_{len(settings)}") as dag:
        SitemapSourceSensor(
            task_id="wait", sitemap=sitemap, poke_interval=1, timeout=0, mode="poke", deferrable=False, **settings
        )
    url = "postgresql+psycopg://nobody@127.0.0.1:1/shop"
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": url}}))

    ended = run(dag)

    assert xcom(ended, "wait", "sitemap_failed") is None, (
        "it ends because its time is over, not because of the database"
    )


def test_sections_may_be_one_text_with_commas_or_a_template(sitemap: Sitemap) -> None:
    both = Sitemap(sitemap.store, [*sitemap.sections, Section("more", sitemap.sections[0].source, path="more/")])
    for sections in ("products, more", "{{ dag_run.partition_key or '' }}", ["{{ params.section }}"], ""):
        assert SitemapSourceSensor(task_id="x", sitemap=both, sections=sections).sections == sections
    with pytest.raises(
        ConfigurationError, match="sections names pages, which is no section; the sections are products, more"
    ):
        SitemapSourceSensor(task_id="x", sitemap=both, sections="products,pages")


def test_an_unknown_section_is_refused_with_the_sections_there_are(sitemap: Sitemap) -> None:
    with pytest.raises(
        ConfigurationError, match="sections names pages, which is no section; the sections are products"
    ):
        SitemapSourceSensor(task_id="x", sitemap=sitemap, sections=["pages"])


@pytest.mark.parametrize("setting", ["True", "False"])
def test_airflow_says_whether_the_triggerer_polls_by_default(
    setting: str, sitemap: Sitemap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", setting)

    assert str(SitemapSourceSensor(task_id="x", sitemap=sitemap).deferrable) == setting
    assert not SitemapSourceSensor(task_id="y", sitemap=sitemap, deferrable=False).deferrable


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"deferrable": "false"}, r"SitemapSourceSensor\('x'\): deferrable='false'; give True or False"),
        *(({"probe": probe}, r"\('x'\): probe=.*; give a query that returns one value") for probe in ("", " \n")),
    ],
)
def test_settings_that_cannot_be(sitemap: Sitemap, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        SitemapSourceSensor(task_id="x", sitemap=sitemap, **settings)


def test_default_args_of_the_dag_are_those_of_the_sensor(sitemap: Sitemap) -> None:
    given = {"mode": "poke", "poke_interval": 60, "timeout": 3_600}
    with DAG("defaults", schedule=None, default_args=given):
        of_dag = SitemapSourceSensor(task_id="of_dag", sitemap=sitemap)
        own = SitemapSourceSensor(task_id="own", sitemap=sitemap, mode="reschedule", poke_interval=30)
        mapped = SitemapSourceSensor.partial(task_id="mapped", sitemap=sitemap).expand(sections=[["products"]])
    alone = SitemapSourceSensor(task_id="alone", sitemap=sitemap)

    assert (of_dag.mode, of_dag.poke_interval, of_dag.timeout) == ("poke", 60, 3_600)
    assert (own.mode, own.poke_interval, own.timeout) == ("reschedule", 30, 3_600)
    unmapped = mapped.unmap({"sections": ["products"]})
    assert (unmapped.mode, unmapped.poke_interval) == ("poke", 60)
    assert (alone.mode, alone.poke_interval) == ("reschedule", 300)
