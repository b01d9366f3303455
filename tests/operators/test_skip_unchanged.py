"""Notifications skip what they announced before, by a setting; a change is always announced."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_sitemaps import (
    IndexNowOperator,
    LocalStore,
    MemoryStore,
    SearchConsoleSubmitOperator,
    Section,
    Sitemap,
    SitemapNotifier,
    SitemapPingOperator,
    SitemapTaskGroup,
)
from airflow_sitemaps.airflow_compat import AirflowFailException
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import AccessRules, HttpClient
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.state.repository import StateRepository, last_announced, record_announced
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import events, run, states, xcom
from tests.support.website import Page, Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

URL = "https://www.example.com/"
KEY = "0123-secret-key"
LOOPBACK = HttpClient(rules=AccessRules(allow_http=True, allow_private=True), wait_s=10.0)
STATE = json.dumps({"path": f"{URL}sitemap.xml", "errors": "0", "warnings": "0"}).encode()


@pytest.fixture
def server() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return [{"id": 1, "loc": f"{URL}1"}]


@pytest.fixture
def sitemap(tmp_path: Path, rows: list[dict[str, Any]]) -> Sitemap:
    return Sitemap(LocalStore(tmp_path / "site", base_url=URL), [Section("pages", MemorySourceConfig(rows))])


def pinging(dag_id: str, sitemap: Sitemap, server: Site) -> DAG:
    """A DAG that announces a sitemap by a ping, and skips what it announced before."""
    with DAG(dag_id, schedule=None) as dag:
        SitemapPingOperator(
            task_id="ping", sitemap=sitemap, url=f"{server.base}/ping", body="{sitemap}", http=LOOPBACK,
            skip_unchanged=True,
        )  # fmt: skip
    return dag


def test_a_generation_is_announced_once_to_each_service() -> None:
    rows = [{"id": 1, "loc": f"{URL}1"}]
    site = Sitemap(MemoryStore(base_url=URL), [Section("pages", MemorySourceConfig(rows))])
    state = StateRepository(site.store.open().state)
    with pytest.raises(ConfigurationError, match="nothing has been published yet"):
        state.published()

    def is_known(service: str) -> bool:
        return last_announced(state.objects, service) == state.published().generation

    first = build(site).generation
    assert not is_known("searchconsole")

    record_announced(state.objects, "searchconsole", first)

    assert is_known("searchconsole")
    assert not is_known("ping-1")
    build(site)
    assert is_known("searchconsole"), "an unchanged run makes no generation"
    rows.append({"id": 2, "loc": f"{URL}2"})
    build(site)
    assert not is_known("searchconsole")


def test_a_generation_that_is_published_during_the_requests_is_still_announced(
    sitemap: Sitemap, rows: list[dict[str, Any]], server: Site
) -> None:
    build(sitemap)

    def publish_meanwhile(handler: Any) -> None:
        rows.append({"id": 2, "loc": f"{URL}2"})
        assert build(sitemap).generation == 2
        handler.send_response(204)
        handler.end_headers()

    server.pages["/ping"] = Page(write=publish_meanwhile)
    dag = pinging("published_meanwhile", sitemap, server)
    assert states(run(dag)) == {"ping": "success"}
    server.pages["/ping"] = Page(status=204)

    assert [states(run(dag))["ping"] for _ in range(2)] == ["success", "skipped"]


def test_a_skipped_announcement_is_no_failure_to_pages_and_messages(sitemap: Sitemap, server: Site) -> None:
    build(sitemap)
    server.pages["/ping"] = Page(status=204)
    dag = pinging("skipped_ping", sitemap, server)
    assert states(run(dag)) == {"ping": "success"}
    skipped = run(dag)
    assert states(skipped) == {"ping": "skipped"}
    assert xcom(skipped, "ping", "sitemap_failed") is None

    ti = SimpleNamespace(xcom_pull=lambda *, task_ids, key: xcom(skipped, task_ids, key))
    context = {"dag": dag, "ti": ti, "reason": "success", "dag_run": skipped}
    message = SitemapNotifier(sitemap=sitemap, unchanged=True).message(context)
    assert message is not None
    assert message.result == "unchanged"


LONG = [pytest.param(kind, marks=pytest.mark.long) for kind in ("searchconsole", "indexnow_skips")]


@pytest.mark.parametrize("kind", ["ping", "indexnow", *LONG])
def test_an_unchanged_run_sends_nothing_and_a_changed_one_does(
    sitemap: Sitemap, rows: list[dict[str, Any]], server: Site, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    key = {"conn_type": "generic", "password": KEY, "extra": {"endpoint": f"{server.base}/indexnow"}}
    monkeypatch.setenv("AIRFLOW_CONN_INDEXNOW_DEFAULT", json.dumps(key))
    api = "/v3/sites/sc-domain%3Aexample.com/sitemaps/https%3A%2F%2Fwww.example.com%2Fsitemap.xml"
    server.pages |= {"/ping": Page(status=204), api: Page(STATE), "/indexnow": Page()}
    settings: dict[str, Any] = {"task_id": "tell", "sitemap": sitemap, "http": LOOPBACK}
    operators: dict[str, tuple[Any, dict[str, Any]]] = {
        "ping": (SitemapPingOperator, {"url": f"{server.base}/ping", "body": "{sitemap}", "skip_unchanged": True}),
        "searchconsole": (
            SearchConsoleSubmitOperator,
            {"site": "sc-domain:example.com", "token": lambda: "t", "api": f"{server.base}/v3", "skip_unchanged": True},
        ),
        "indexnow": (IndexNowOperator, {"backfill": True, "check_key": False}),  # without a setting
        "indexnow_skips": (IndexNowOperator, {"backfill": True, "check_key": False, "skip_unchanged": True}),
    }
    make, own = operators[kind]
    with DAG(f"unchanged_{kind}", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap) >> make(**settings, **own)

    def tell() -> tuple[str, int]:
        before = len(server.asked)
        return states(run(dag))["tell"], len(server.asked) - before

    each = 2 if kind == "searchconsole" else 1
    unchanged = ("success" if kind == "indexnow" else "skipped", 0)
    assert tell() == ("success", each)
    assert tell() == unchanged
    rows.append({"id": 2, "loc": f"{URL}2"})
    assert tell() == ("success", each)
    assert tell() == unchanged


def test_without_the_setting_an_unchanged_run_is_sent(sitemap: Sitemap, server: Site) -> None:
    build(sitemap)
    server.pages["/ping"] = Page(status=204)
    with DAG("sent_always", schedule=None) as dag:
        SitemapPingOperator(task_id="ping", sitemap=sitemap, url=f"{server.base}/ping", body="{sitemap}", http=LOOPBACK)

    assert [states(run(dag))["ping"] for _ in range(2)] == ["success", "success"]
    assert len(server.asked) == 2


def test_a_ping_sends_texts_in_a_dag_that_renders_natively(sitemap: Sitemap, server: Site) -> None:
    build(sitemap)
    server.pages["/ping"] = Page(status=204)
    body = {"files": ["{sitemap}"], "days": 2}
    with DAG("native_ping", schedule=None, render_template_as_native_obj=True):
        ping = SitemapPingOperator(
            task_id="ping", sitemap=sitemap, url=f"{server.base}/ping", method="POST", headers={"X-Days": "2"},
            body=json.dumps(body), http=LOOPBACK,
        )  # fmt: skip
    ping.render_template_fields({})
    ping.execute({})
    ((_, _, headers, sent),) = server.asked
    assert headers["x-days"] == "2"
    assert json.loads(sent) == {"files": [sitemap.index_url], "days": 2}


def test_headers_that_are_rendered_as_a_text_are_refused(sitemap: Sitemap) -> None:
    build(sitemap)
    with DAG("text_headers", schedule=None):
        headers: Any = "{{ {'X-Days': '2'} }}"
        ping = SitemapPingOperator(task_id="ping", sitemap=sitemap, url="https://x.example/{sitemap}", headers=headers)
    ping.render_template_fields({})
    with pytest.raises(AirflowFailException, match=r"headers=str\(…\) after rendering; give a mapping"):
        ping.execute({"ti": SimpleNamespace(xcom_push=lambda **_: None)})


def test_publish_skips_event_and_followers_of_an_unchanged_run(
    sitemap: Sitemap, rows: list[dict[str, Any]], server: Site
) -> None:
    server.pages["/ping"] = Page(status=204)
    with DAG("publish_skips", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        group = SitemapTaskGroup("sitemap", sitemap, publish_kwargs={"skip_unchanged": True})
        group >> SitemapPingOperator(
            task_id="tell", sitemap=sitemap, url=f"{server.base}/ping", body="{sitemap}", http=LOOPBACK
        )

    def outcome() -> tuple[str, str, int, int]:
        ended = states(run(dag))
        return ended["sitemap.publish"], ended["tell"], len(events("publish_skips")), len(server.asked)

    assert outcome() == ("success", "success", 1, 1)
    assert outcome() == ("skipped", "skipped", 1, 1)
    assert xcom(run(dag), "sitemap.publish", "sitemap_unchanged") == 1, "for the pages: nothing was left undone"
    rows.append({"id": 2, "loc": f"{URL}2"})
    assert outcome() == ("success", "success", 2, 2)
