"""The credentials of search engines: tasks that succeed and fail, and every place that could show a secret."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.models.xcom import XComModel
from airflow.sdk import DAG, Asset
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_sitemaps import (
    BingWebmasterOperator,
    IndexNowOperator,
    LocalStore,
    SearchConsoleInspectOperator,
    SearchConsoleSubmitOperator,
    Section,
    Sitemap,
    SitemapPingOperator,
    SitemapTaskGroup,
)
from airflow_sitemaps.http import AccessRules, HttpClient
from airflow_sitemaps.search_engines import quota
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import events, run, states
from tests.support.bing import KEY, SITE, Bing, bing_date
from tests.support.website import Page, respond, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow.models import DagRun

LOOPBACK = HttpClient(rules=AccessRules(allow_http=True, allow_private=True), wait_s=10.0)
TOKEN = "ya29.canary-token"
INDEXNOW = "c4nary-indexnow-key"
PING = "c4nary-ping-token"
SECRETS = (TOKEN, INDEXNOW, PING, KEY, "b1ng-c4nary")
TASKS = ("indexnow", "console", "inspect", "bing", "ping")
NOW = datetime(2026, 11, 1, tzinfo=timezone.utc)


class Engines:
    """A server that plays all engines. If it is ``broken``, it answers errors that repeat all that it was sent."""

    def __init__(self, site: Any) -> None:
        self.site, self.broken = site, False
        known = {"LastCrawledDate": bing_date(NOW), "DiscoveryDate": bing_date(NOW), "HttpStatus": 200}
        self.bing = Bing(site, known=lambda url: known, answer=self._echo)
        for path in ("/indexnow", "/ping?*", "/urlInspection/index:inspect"):
            site.pages[path] = Page(write=self._write)
        address = "/v3/sites/sc-domain%3Ashop.example/sitemaps/https%3A%2F%2Fshop.example%2Fsitemap.xml"
        site.pages[address] = Page(write=self._write)

    def _echo(self, method: str, query: dict[str, str]) -> tuple[int, bytes] | None:
        return (400, json.dumps({"ErrorCode": 3, "Message": f"{query}"}).encode()) if self.broken else None

    def _write(self, handler: Any) -> None:
        if self.broken:
            respond(handler, f"{handler.path} {handler.headers} {handler.body!r}".encode(), 403)
            return
        status = {"verdict": "PASS", "coverageState": "Indexed"}
        respond(handler, json.dumps({"inspectionResult": {"indexStatusResult": status}}).encode())


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    with serving() as site:
        extra = {"endpoint": f"{site.base}/indexnow", "key_location": f"{SITE}key.txt"}
        for name, secret, more in (("INDEXNOW", INDEXNOW, extra), ("PING", PING, {}), ("BING_WEBMASTER", KEY, {})):
            value = {"conn_type": "generic", "password": secret, "extra": more}
            monkeypatch.setenv(f"AIRFLOW_CONN_{name}_DEFAULT", json.dumps(value))
        monkeypatch.setattr(quota, "BORDER", timedelta(0))  # else a run near midnight waits for the new day
        yield Engines(site)


def dag_of(name: str, folder: Path, engines: Engines) -> tuple[DAG, Sitemap]:
    rows = [{"id": n, "loc": f"{SITE}pages/{n}"} for n in range(3)]
    sitemap = Sitemap(LocalStore(folder / "site", base_url=SITE), [Section("pages", MemorySourceConfig(rows))])
    base, google = engines.site.base, {"token": lambda: TOKEN, "http": LOOPBACK}
    with DAG(name, schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap) >> [
            IndexNowOperator(task_id="indexnow", sitemap=sitemap, http=LOOPBACK, check_key=False, backfill=True),
            SearchConsoleSubmitOperator(
                task_id="console", sitemap=sitemap, site="sc-domain:shop.example", api=f"{base}/v3", **google
            ),
            SearchConsoleInspectOperator(
                task_id="inspect", sitemap=sitemap, property="sc-domain:shop.example", api=base, **google
            ),
            BingWebmasterOperator(
                task_id="bing", sitemap=sitemap, site=SITE, api=engines.bing.api, http=LOOPBACK,
                outlets=[Asset(f"{name}_bing")],
            ),
            SitemapPingOperator(
                task_id="ping", sitemap=sitemap, url=f"{base}/ping?of={{sitemap}}", conn_id="ping_default", http=LOOPBACK
            ),
        ]  # fmt: skip
    return dag, sitemap


def kept(done: DagRun, folder: Path) -> str:
    """All that a run kept: XComs, rendered templates, events, and the files of the store."""
    with create_session() as session:
        values = session.scalars(select(XComModel).where(XComModel.run_id == done.run_id)).all()
        fields = session.scalars(
            select(RenderedTaskInstanceFields).where(RenderedTaskInstanceFields.run_id == done.run_id)
        ).all()
        texts = [f"{each.key} {each.value!r}" for each in values] + [repr(each.rendered_fields) for each in fields]
    files = [path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()]
    assert values
    assert files
    return "\n".join([*texts, repr(events(f"{done.dag_id}_bing")), *files])


@pytest.mark.parametrize("broken", [False, True])
def test_no_place_shows_a_secret(
    tmp_path: Path,
    engines: Engines,
    broken: bool,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level("DEBUG")
    engines.broken = broken
    dag, _ = dag_of(f"credentials_{'broken' if broken else 'well'}", tmp_path, engines)

    done = run(dag)

    assert {task: states(done)[task] for task in TASKS} == dict.fromkeys(TASKS, "failed" if broken else "success")
    sent = repr(engines.site.asked)
    assert all(secret in sent for secret in (TOKEN, INDEXNOW, PING, "b1ng-c4nary")), "each engine got its secret"
    logged = caplog.text + "".join(capfd.readouterr())
    assert "Bing" in logged
    for secret in SECRETS:
        assert secret not in logged
        assert secret not in kept(done, tmp_path)
