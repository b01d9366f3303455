"""The freshness task over a web server on the loopback: its result, its failure and its metric."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapFreshnessOperator, SitemapNotifier
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import AccessRules, HttpClient
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.plugin.dag_profiles import profile_of
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import run, states, xcom
from tests.support.website import Page, serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.statsd_server import StatsdServer


def test_the_task_fails_on_a_stale_index_and_measures_its_age(tmp_path: Path, statsd: StatsdServer) -> None:
    with serving() as site:
        rows = [{"id": 1, "loc": f"{site.base}/a"}]
        folder = tmp_path / "site"
        sitemap = Sitemap(LocalStore(folder, base_url=f"{site.base}/"), [Section("pages", MemorySourceConfig(rows))])
        build(sitemap)
        site.pages |= {f"/{path.name}": Page(path.read_bytes()) for path in folder.iterdir() if path.is_file()}
        client = HttpClient(rules=AccessRules(allow_http=True, allow_private=True))
        with DAG("freshness", schedule=None) as dag:
            SitemapFreshnessOperator(task_id="fresh", sitemap=sitemap, max_age=timedelta(days=1), http=client)
            SitemapFreshnessOperator(task_id="old", sitemap=sitemap, max_age=timedelta(microseconds=1), http=client)
            SitemapFreshnessOperator(task_id="closed", sitemap=sitemap, max_age=timedelta(days=1))
        ended = run(dag)

        assert states(ended) == {"fresh": "success", "old": "failed", "closed": "failed"}
        (index,) = xcom(ended, "fresh", "return_value")
        assert (index["url"], index["current"]) == (f"{site.base}/sitemap.xml", True)
        tag = f"{site.base.removeprefix('http://').replace(':', '_')}_sitemap.xml"
        assert statsd.wait_for("airflow.sitemaps.served_index_age", sitemap=tag).value < 86_400


def test_the_message_about_a_stale_index_says_how_old_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving() as site:
        folder = tmp_path / "site"
        rows = [{"id": 1, "loc": f"{site.base}/a"}]
        sitemap = Sitemap(LocalStore(folder, base_url=f"{site.base}/"), [Section("pages", MemorySourceConfig(rows))])
        build(sitemap)
        site.pages |= {f"/{path.name}": Page(path.read_bytes()) for path in folder.iterdir() if path.is_file()}
        with DAG("freshness_message", schedule=None) as dag:
            SitemapFreshnessOperator(
                task_id="old",
                sitemap=sitemap,
                max_age=timedelta(microseconds=1),
                http=HttpClient(rules=AccessRules(allow_http=True, allow_private=True)),
                on_failure_callback=SitemapNotifier(sitemap=sitemap),
            )
        ended = run(dag)

    assert states(ended) == {"old": "failed"}
    assert f"Sitemap stale: {sitemap.index_url} is older than 0:00:00.000001 as served" in caplog.text
    assert "To do: Check the last run of the sitemap's DAG and the cache in front of the store." in caplog.text
    assert xcom(ended, "old", "sitemap_failed")["message"].startswith("1 of 1 index files are too old")
    assert profile_of("x", DagSerialization.to_dict(dag)).of_kind("freshness"), "the pages know the task"


def test_the_task_fails_with_the_line_of_robots_txt_that_shuts_crawlers_out(tmp_path: Path) -> None:
    with serving() as site:
        folder = tmp_path / "site"
        rows = [{"id": 1, "loc": f"{site.base}/a"}]
        sitemap = Sitemap(LocalStore(folder, base_url=f"{site.base}/"), [Section("pages", MemorySourceConfig(rows))])
        build(sitemap)
        site.pages = {f"/{path.name}": Page(path.read_bytes()) for path in folder.iterdir() if path.is_file()}
        site.pages["/robots.txt"] = Page(b"User-agent: *\nDisallow: /\n")
        client = HttpClient(rules=AccessRules(allow_http=True, allow_private=True))
        with DAG("shut", schedule=None) as dag:
            SitemapFreshnessOperator(task_id="fresh", sitemap=sitemap, max_age=timedelta(days=1), http=client)
        ended = run(dag)
        message = f"Not as published: {site.base}/robots.txt disallows {site.base}/sitemap.xml: line 2, 'Disallow: /'"
        assert states(ended) == {"fresh": "failed"}
        assert xcom(ended, "fresh", "sitemap_failed")["message"] == message


def test_an_age_that_is_not_positive_is_refused(tmp_path: Path) -> None:
    sitemap = Sitemap(LocalStore(tmp_path, base_url="https://a.example/"), [Section("a", MemorySourceConfig([]))])
    with pytest.raises(ConfigurationError, match="give a positive timedelta"):
        SitemapFreshnessOperator(task_id="x", sitemap=sitemap, max_age=timedelta(0))


def test_the_objective_of_the_sitemap_is_the_largest_age_unless_another_is_given(tmp_path: Path) -> None:
    store, sections = LocalStore(tmp_path, base_url="https://a.example/"), [Section("a", MemorySourceConfig([]))]
    sitemap = Sitemap(store, sections, freshness=timedelta(hours=6))
    assert SitemapFreshnessOperator(task_id="x", sitemap=sitemap).max_age == timedelta(hours=6)
    assert SitemapFreshnessOperator(task_id="x", sitemap=sitemap, max_age=timedelta(days=1)).max_age == timedelta(
        days=1
    )
    with pytest.raises(ConfigurationError, match=r"here or as Sitemap\(freshness=…\)"):
        SitemapFreshnessOperator(task_id="x", sitemap=Sitemap(store, sections))
