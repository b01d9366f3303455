"""The freshness of a sitemap as a deadline: which time it is, and when its alert sends a message."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.dagrun import DagRun
from airflow.models.deadline import Deadline
from airflow.sdk import DAG
from airflow.sdk.bases.notifier import BaseNotifier
from airflow.serialization.decoders import decode_deadline_alert
from airflow.serialization.encoders import encode_deadline_alert
from airflow.serialization.enums import DagAttributeTypes, Encoding
from airflow.triggers.callback import CallbackTrigger
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from airflow.utils.types import DagRunType
from sqlalchemy import select

from airflow_sitemaps import LocalStore, MemoryStore, S3Store, Section, Sitemap, SitemapTaskGroup, freshness_deadline
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http.destinations import AccessRules
from airflow_sitemaps.notifications.served_age import ServedAgeNotifier, settings_of, store_of
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing.source import MemorySourceConfig
from tests.support.airflow_db import run, states, sync
from tests.support.website import Page, Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

SENT: list[str] = []
TARGETS = [{"notifier": "tests.notifications.test_served_age.Collecting", "text": "{{ sitemap.text }}"}]
ACCESS = AccessRules(allow_http=True, allow_private=True)
NOW = datetime(2026, 1, 2, 3, tzinfo=timezone.utc)


class Collecting(BaseNotifier):
    """Keeps its messages."""

    template_fields = ("text",)

    def __init__(self, *, text: str) -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        SENT.append(self.text)


@pytest.fixture(autouse=True)
def sent() -> Iterator[list[str]]:
    SENT.clear()
    yield SENT
    SENT.clear()


@pytest.fixture
def web() -> Iterator[Site]:
    with serving() as site:
        yield site


def sitemap_of(web: Site, folder: Path, freshness: timedelta | None) -> Sitemap:
    source = MemorySourceConfig([{"id": 1, "loc": f"{web.base}/a"}])
    return Sitemap(LocalStore(folder / "site", base_url=f"{web.base}/"), [Section("a", source)], freshness=freshness)


def alert(sitemap: Sitemap) -> None:
    """Call back as Airflow's triggerer does, with what Airflow's database kept of the alert."""
    deadline = freshness_deadline(sitemap, targets=TARGETS, access=ACCESS)
    kwargs = json.loads(json.dumps(deadline.callback.kwargs))
    context = {"dag_run": {"dag_id": "shop", "dag_run_id": "r1"}, "deadline": {"id": "1", "deadline_time": "x"}}

    async def called_back() -> None:
        await ServedAgeNotifier(**kwargs, context=context)

    asyncio.run(called_back())


def test_an_index_that_is_fresh_as_served_sends_nothing(web: Site, tmp_path: Path, sent: list[str]) -> None:
    sitemap = sitemap_of(web, tmp_path, timedelta(days=1))
    build(sitemap)
    web.pages["/sitemap.xml"] = Page((tmp_path / "site" / "sitemap.xml").read_bytes())

    alert(sitemap)

    assert sent == []
    assert [path for _, path, _, _ in web.asked] == ["/sitemap.xml"]


def test_an_index_that_is_too_old_as_served_sends_one_message(web: Site, tmp_path: Path, sent: list[str]) -> None:
    sitemap = sitemap_of(web, tmp_path, timedelta(microseconds=1))
    build(sitemap)
    web.pages["/sitemap.xml"] = Page((tmp_path / "site" / "sitemap.xml").read_bytes())

    alert(sitemap)

    (text,) = sent
    assert text.startswith(f"Sitemap stale: {web.base}/sitemap.xml is older than 0:00:00.000001 as served")


@pytest.mark.parametrize(("status", "reason"), [(404, "the status is 404, not 200"), (503, "the status is 503")])
def test_an_index_that_is_not_served_sends_a_message(
    status: int, reason: str, web: Site, tmp_path: Path, sent: list[str]
) -> None:
    sitemap = sitemap_of(web, tmp_path, timedelta(days=1))
    build(sitemap)
    web.pages["/sitemap.xml"] = Page(b"", status)

    alert(sitemap)

    assert f"{web.base}/sitemap.xml: age unknown; {reason}" in sent[0]


def test_a_state_area_that_is_gone_sends_a_message(web: Site, tmp_path: Path, sent: list[str]) -> None:
    sitemap = sitemap_of(web, tmp_path, timedelta(days=1))
    build(sitemap)
    shutil.rmtree(tmp_path / "site-state")

    alert(sitemap)

    assert "Its age is unknown: ConfigurationError" in sent[0]


def test_a_store_is_made_again_from_its_settings() -> None:
    s3 = S3Store(
        "s3://acme-web/maps", base_url="https://a.example/", conn_id="web", state_url="s3://acme-state/maps",
        index_name="index.xml", expected_bucket_owner="123456789012",
    )  # fmt: skip
    local = LocalStore("site", base_url="https://a.example/", state_dir="/srv/state")
    for store in (s3, local):
        settings = json.loads(json.dumps(settings_of(store)))
        assert settings_of(store_of(settings)) == settings
        assert type(store_of(settings)) is type(store)
    assert settings_of(local)["path"] == str(Path("site").absolute())
    with pytest.raises(ConfigurationError, match="needs an S3Store or a LocalStore"):
        settings_of(MemoryStore(base_url="https://a.example/"))


def test_a_sitemap_without_an_objective_has_no_deadline(web: Site, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"give Sitemap\(freshness=timedelta\(…\)\)"):
        freshness_deadline(sitemap_of(web, tmp_path, None), targets=TARGETS)


def test_the_deadline_counts_from_the_last_run_that_succeeded(web: Site, tmp_path: Path) -> None:
    objective = timedelta(hours=6)
    deadline = freshness_deadline(sitemap_of(web, tmp_path, objective), targets=TARGETS)
    encoded = json.loads(json.dumps(encode_deadline_alert(deadline)))
    kept = decode_deadline_alert({Encoding.TYPE: DagAttributeTypes.DEADLINE_ALERT, Encoding.VAR: encoded})
    with DAG("deadlines", schedule=None) as dag:
        pass
    sync(dag)

    with create_session() as session:

        def add(run_id: str, state: DagRunState, ended: datetime | None, **conf: Any) -> DagRun:
            made = DagRun(
                dag_id="deadlines", run_id=run_id, run_type=DagRunType.MANUAL, conf=conf, run_after=NOW, queued_at=NOW
            )
            made.state, made.end_date = state, ended
            session.add(made)
            session.flush()
            return made

        def of_new_run(run_id: str) -> datetime | None:
            found: datetime | None = kept.reference.evaluate_with(
                session=session, interval=objective, dag_id="deadlines", run_id=run_id
            )
            return found

        add("first", DagRunState.FAILED, NOW)
        assert of_new_run("first") == NOW + objective  # nothing succeeded: from the start of the first run
        add("second", DagRunState.SUCCESS, NOW + timedelta(hours=1))
        add("third", DagRunState.SUCCESS, NOW + timedelta(hours=2), dry_run=True)
        add("sample", DagRunState.SUCCESS, NOW + timedelta(hours=2, minutes=30), check_rows=1_000)
        failed = add("fourth", DagRunState.FAILED, NOW + timedelta(hours=3))
        expected = NOW + timedelta(hours=1) + objective
        assert of_new_run("fourth") == expected

        pending = Deadline(expected, deadline.callback, failed.id, None, "deadlines")
        session.add(pending)
        session.flush()
        assert of_new_run("fifth") is None  # one run at a time carries the deadline
        pending.missed = True
        session.flush()
        assert of_new_run("fifth") == expected  # the next run reminds
        session.rollback()


@pytest.mark.parametrize("freshness", [timedelta(microseconds=1), timedelta(days=1)], ids=["missed", "pending"])
def test_airflow_stores_the_deadline_of_a_failed_run_and_calls_back(
    freshness: timedelta, web: Site, tmp_path: Path, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run, its deadline in the database, the miss and the trigger are Airflow's own."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example")
    sitemap = sitemap_of(web, tmp_path, freshness)
    build(sitemap)
    web.pages["/sitemap.xml"] = Page((tmp_path / "site" / "sitemap.xml").read_bytes())
    deadline = freshness_deadline(sitemap, targets=TARGETS, access=ACCESS)
    dag_id = f"late_{freshness.days}"
    source = MemorySourceConfig([])  # the guard `empty` refuses the run
    refused = Sitemap(sitemap.store, [Section("a", source)], freshness=freshness)
    with DAG(dag_id, schedule=None, max_active_runs=1, default_args={"retries": 0}, deadline=deadline) as dag:
        SitemapTaskGroup("sitemap", refused)

    ended = run(dag)

    assert states(ended)["sitemap.plan"] == "failed"
    with create_session() as session:
        of_dag = select(Deadline).join(DagRun, Deadline.dagrun_id == DagRun.id).where(DagRun.dag_id == dag_id)
        (kept,) = session.scalars(of_dag)
        assert timedelta(0) <= kept.deadline_time - freshness - ended.start_date < timedelta(minutes=10)
        kept.handle_miss(session)
        trigger = CallbackTrigger(**kept.callback.trigger.kwargs)

    async def called_back() -> list[Any]:
        return [event.payload["state"] async for event in trigger.run()]

    assert asyncio.run(called_back()) == ["running", "success"]
    if freshness.days:
        assert sent == []
        return
    (text,) = sent
    assert text.startswith(f"Sitemap stale: {web.base}/sitemap.xml is older than 0:00:00.000001 as served")
    assert f"https://airflow.example/dags/{dag_id}/runs/" in text
