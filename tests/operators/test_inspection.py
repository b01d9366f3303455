"""The inspection task in a real Airflow: what it returns, keeps, sends and refuses, and what its failure says."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, Asset

from airflow_sitemaps import LocalStore, SearchConsoleInspectOperator, Section, Sitemap, SitemapTaskGroup
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import AccessRules, HttpClient
from airflow_sitemaps.operators import FAILED
from airflow_sitemaps.search_engines import quota
from airflow_sitemaps.search_engines.index_status import history
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import events, run, states, xcom
from tests.support.website import Site, computed, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

URL = "https://www.example.com/"
TOKEN = "ya29.secret-token"
LOOPBACK = HttpClient(rules=AccessRules(allow_http=True, allow_private=True), wait_s=10.0)


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Google has indexed the pages, and none of the articles."""

    def answer(asked: dict[str, str]) -> object:
        is_page = "/pages/" in asked["inspectionUrl"]
        status = {
            "verdict": "PASS" if is_page else "NEUTRAL",
            "coverageState": "Submitted and indexed" if is_page else "URL is unknown to Google",
        }
        return {"inspectionResult": {"indexStatusResult": status}}

    monkeypatch.setattr(quota, "BORDER", timedelta(0))  # else a run near Google's midnight waits for the new day
    with serving() as site:
        site.pages["/urlInspection/index:inspect"] = computed(answer)
        yield site


def dag_of(name: str, folder: Path, google: Site, **settings: Any) -> tuple[DAG, Sitemap]:
    sections = [
        Section(each, MemorySourceConfig([{"id": n, "loc": f"{URL}{each}/{n}"} for n in range(12)]))
        for each in ("pages", "articles")
    ]
    sitemap = Sitemap(LocalStore(folder / "site", base_url=URL), sections)
    with DAG(name, schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap) >> SearchConsoleInspectOperator(
            task_id="inspect", sitemap=sitemap, token=lambda: TOKEN, api=google.base, http=LOOPBACK,
            **{"property": "sc-domain:example.com", **settings},
        )  # fmt: skip
    return dag, sitemap


def test_the_estimates_are_returned_kept_and_attached_to_events(
    tmp_path: Path, google: Site, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    dag, sitemap = dag_of("inspected", tmp_path, google, outlets=[Asset("inspected_status")])

    done = run(dag)

    assert states(done)["inspect"] == "success"
    returned = xcom(done, "inspect", "return_value")
    assert returned["inspected"] == 24
    assert returned["sections"]["pages"]["indexed"][0] == 1.0
    assert returned["sections"]["articles"]["indexed"][:2] == [0.0, 0.0]
    assert returned in events("inspected")
    (kept,) = history(sitemap.store.open().state, "google")
    assert kept.sections["articles"]["other"].reasons == {"URL is unknown to Google": 12}
    assert TOKEN not in caplog.text + "".join(capfd.readouterr())
    assert all(headers["authorization"] == f"Bearer {TOKEN}" for _, _, headers, _ in google.asked)


def test_a_section_below_its_bound_fails_the_task_and_says_why(tmp_path: Path, google: Site) -> None:
    dag, sitemap = dag_of("below", tmp_path, google, min_indexed={"articles": 0.5, "pages": 0.6})

    done = run(dag)

    assert states(done)["inspect"] == "failed"
    message = xcom(done, "inspect", FAILED)["message"]
    assert "1 of 2 sections are below min_indexed: section 'articles': 0.0% indexed" in message
    assert "the limit is 50.0%" in message
    assert len(history(sitemap.store.open().state, "google")) == 1, "what was inspected is kept"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"property": "https://example.com/"}, "no listed URL, such as https://www.example.com/"),
        (
            {"property": URL + "pages/", "min_indexed": {"articles": 0.5}},
            "'articles': no URL is inspected, none is in a",
        ),
        ({"property": URL + "pages/", "min_indexed": 0.5}, ""),
        ({"daily": 1, "min_indexed": {"articles": 0.5, "pages": 0.5}}, ""),
    ],
)
def test_a_bound_of_a_section_that_cannot_be_inspected(
    tmp_path: Path, google: Site, settings: dict[str, Any], words: str
) -> None:
    dag, _ = dag_of("outside", tmp_path, google, **settings)

    done = run(dag)

    assert states(done)["inspect"] == ("failed" if words else "success")
    assert not words or words in xcom(done, "inspect", FAILED)["message"]


def test_an_interval_that_reaches_the_bound_is_no_alarm(tmp_path: Path, google: Site) -> None:
    dag, _ = dag_of("small_sample", tmp_path, google, daily=4, min_indexed=0.6)

    assert states(run(dag))["inspect"] == "success"
    assert len(google.asked) == 4


def test_no_property_after_rendering_is_refused(tmp_path: Path) -> None:
    sitemap = Sitemap(LocalStore(tmp_path, base_url=URL), [Section("a", MemorySourceConfig([]))])
    task = SearchConsoleInspectOperator(task_id="x", sitemap=sitemap, property="{{ params.sites }}", token=lambda: "t")
    task.property = []  # as native rendering leaves it
    with pytest.raises(ConfigurationError, match="property"):
        task.inspector()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"daily": 0}, "daily=0"),
        ({"min_indexed": 80}, "min_indexed=80"),
        ({"min_indexed": {"a": -1}}, "min_indexed=-1"),
        ({"min_indexed": {1: 0.5}}, "min_indexed names 1, which is no section; the sections are pages"),
        ({"quota_store": "s3://bucket/quota"}, "quota_store='s3://bucket/quota'; give a store"),
        ({"quota_store": LocalStore}, "quota_store=<class .*; give a store"),
        *(
            ({"property": each}, "give a URL prefix that ends in '/'")
            for each in ("", None, 5, [], [5], "www.e.com", ["sc-domain:e.com", "https://www.e.com"])
        ),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    sitemap = Sitemap(LocalStore(tmp_path, base_url=URL), [Section("pages", MemorySourceConfig([]))])
    with pytest.raises(ConfigurationError, match=words):
        SearchConsoleInspectOperator(task_id="x", sitemap=sitemap, **{"property": URL, **settings})
