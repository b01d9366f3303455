"""IndexNow, Search Console and ping as tasks of a DAG, run by Airflow against a server on the loopback."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, task

from airflow_sitemaps import (
    IndexNowOperator,
    LocalStore,
    SearchConsoleSubmitOperator,
    Section,
    Sitemap,
    SitemapPingOperator,
    SitemapTaskGroup,
)
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import AccessRules, HttpClient
from airflow_sitemaps.operators import PART_OF
from airflow_sitemaps.search_engines.searchconsole import history
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import run, states, xcom
from tests.support.website import Page, Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

URL = "https://shop.example/"
KEY = "0123-secret-key"
LOOPBACK = HttpClient(rules=AccessRules(allow_http=True, allow_private=True), wait_s=10.0)


@pytest.fixture
def server() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return [{"id": n, "loc": f"{URL}p/{n}"} for n in range(10)]


@pytest.fixture
def sitemap(tmp_path: Path, rows: list[dict[str, Any]]) -> Sitemap:
    sections = [Section("products", MemorySourceConfig(rows)), Section("pages", MemorySourceConfig(rows[:2]))]
    return Sitemap(LocalStore(tmp_path / "site", base_url=URL), sections, index="per_section")


@pytest.fixture
def key(server: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    server.pages["/indexnow"] = Page(status=202)
    extra = {"endpoint": f"{server.base}/indexnow", "key_location": f"{URL}{KEY}.txt"}
    connection = {"conn_type": "generic", "password": KEY, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_INDEXNOW_DEFAULT", json.dumps(connection))


@pytest.mark.usefixtures("key")
def test_indexnow_is_told_what_each_run_changed(
    sitemap: Sitemap, rows: list[dict[str, Any]], server: Site, caplog: pytest.LogCaptureFixture
) -> None:
    with DAG("indexnow_changes", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        group = SitemapTaskGroup("sitemap", sitemap)
        group >> IndexNowOperator(task_id="tell", sitemap=sitemap, http=LOOPBACK, check_key=False)
    first = run(dag)
    assert states(first)["tell"] == "success"
    assert server.asked == []
    rows.append({"id": 99, "loc": f"{URL}p/99"})

    second = run(dag)
    third = run(dag)

    told = xcom(second, "tell", "return_value")
    assert (told["added"], told["urls"], told["unchecked"]) == (1, 1, 1)
    assert xcom(third, "tell", "return_value")["urls"] == 0
    ((method, _, _, body),) = server.asked
    assert (method, json.loads(body)) == (
        "POST",
        {"host": "shop.example", "key": KEY, "keyLocation": f"{URL}{KEY}.txt", "urlList": [f"{URL}p/99"]},
    )
    assert "generation 2: 1 URL sent in 1 request (1 added, 0 changed, 0 removed)" in caplog.text
    assert KEY not in caplog.text


def test_a_part_of_a_task_mapped_over_sitemaps_says_whose_it_is(sitemap: Sitemap, tmp_path: Path) -> None:
    """For the pages, also if it fails: nothing is published yet."""
    other = Sitemap(LocalStore(tmp_path / "other", base_url="https://other.example/"), sitemap.sections)
    with DAG("ping_each", schedule=None, default_args={"retries": 0}) as dag:
        each = SitemapPingOperator.partial(task_id="each", url="https://a.example/{sitemap}")
        each.expand(sitemap=[sitemap, other])
        SitemapPingOperator(task_id="one", url="https://a.example/{sitemap}", sitemap=sitemap)
    done = run(dag)
    parts = [xcom(done, "each", PART_OF, index) for index in (0, 1)]
    assert parts == [{"sitemap": str(one.asset.uri)} for one in (sitemap, other)]
    assert xcom(done, "one", PART_OF) is None


@pytest.mark.usefixtures("key")
def test_indexnow_is_told_the_urls_given_and_a_refusal_is_not_retried(server: Site) -> None:
    with DAG("indexnow_urls", schedule=None) as dag:
        IndexNowOperator(
            task_id="tell",
            urls=[f"{URL}{{{{ dag.dag_id }}}}"],
            http=LOOPBACK,
            check_key=False,
            retries=1,
            retry_delay=0,
        )

    assert xcom(run(dag), "tell", "return_value") == {"urls": 1, "requests": 1, "unchecked": 1}
    assert json.loads(server.asked[0][3])["urlList"] == [f"{URL}indexnow_urls"]
    for status, tries in ((403, 1), (503, 2)):
        server.pages["/indexnow"] = Page(status=status)
        failed = run(dag)
        assert states(failed) == {"tell": "failed"}
        assert [ti.try_number for ti in failed.get_task_instances()] == [tries]


@pytest.mark.usefixtures("key")
def test_indexnow_takes_the_lists_of_a_mapped_task(server: Site) -> None:
    with DAG("indexnow_lists", schedule=None) as dag:

        @task
        def changed(part: int) -> list[str]:
            return [f"{URL}{part}/a", f"{URL}{part}/b"]

        IndexNowOperator(task_id="tell", urls=changed.expand(part=[1, 2]), http=LOOPBACK, check_key=False, retries=0)

    assert xcom(run(dag), "tell", "return_value")["urls"] == 4
    assert json.loads(server.asked[0][3])["urlList"] == [f"{URL}{part}/{name}" for part in (1, 2) for name in "ab"]


def test_indexnow_asks_for_the_key_file_before_it_sends(server: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = {"conn_type": "generic", "password": KEY, "extra": {"endpoint": f"{server.base}/indexnow"}}
    monkeypatch.setenv("AIRFLOW_CONN_INDEXNOW_DEFAULT", json.dumps(connection))
    server.pages["/indexnow"] = Page()
    with DAG("indexnow_key_file", schedule=None) as dag:
        IndexNowOperator(task_id="tell", urls=[f"{server.base}/p/1"], http=LOOPBACK, retries=1, retry_delay=0)

    failed = run(dag)
    assert states(failed) == {"tell": "failed"}
    assert [ti.try_number for ti in failed.get_task_instances()] == [1]
    assert [path for _, path, _, _ in server.asked] == [f"/{KEY}.txt"]
    said = xcom(failed, "tell", "sitemap_failed")["message"]
    assert f"the key file is not served, so no URL is sent. {server.base}/***.txt" in said
    server.pages[f"/{KEY}.txt"] = Page(KEY.encode())

    assert xcom(run(dag), "tell", "return_value")["urls"] == 1


def test_indexnow_without_its_connection_is_retried_and_with_an_invalid_one_fails_at_once(
    sitemap: Sitemap, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tries(dag: DAG) -> list[int]:
        done = run(dag)
        assert states(done) == {"tell": "failed"}
        return [ti.try_number for ti in done.get_task_instances()]

    with DAG("indexnow_connection", schedule=None) as dag:
        IndexNowOperator(task_id="tell", urls=[URL], conn_id="indexnow_other", retries=1, retry_delay=0)
    assert tries(dag) == [2]  # a secrets backend may answer the next time
    for connection in ({}, {"password": "short"}, {"password": KEY, "extra": {"endpoint": f"{server.base}/indexnow"}}):
        monkeypatch.setenv("AIRFLOW_CONN_INDEXNOW_OTHER", json.dumps({"conn_type": "generic", **connection}))
        assert tries(dag) == [1]
    assert server.asked == []
    for both in ({}, {"urls": [], "sitemap": sitemap}):
        with pytest.raises(ConfigurationError, match="give one of sitemap= and urls="):
            IndexNowOperator(task_id="tell", **both)


def test_every_index_is_submitted_to_search_console(sitemap: Sitemap, server: Site) -> None:
    for name in ("sitemap-products.xml", "sitemap-pages.xml"):
        known = {"path": URL + name, "errors": "0", "warnings": "1", "lastDownloaded": "2026-01-14T03:00:00.000Z"}
        path = f"/v3/sites/sc-domain%3Ashop.example/sitemaps/https%3A%2F%2Fshop.example%2F{name}"
        server.pages[path] = Page(json.dumps(known).encode())
    with DAG("search_console", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        group = SitemapTaskGroup("sitemap", sitemap)
        group >> SearchConsoleSubmitOperator(
            task_id="google",
            sitemap=sitemap,
            site="sc-domain:{{ 'shop.example' }}",
            token=lambda: "token",
            api=f"{server.base}/v3",
            http=LOOPBACK,
        )

    done = xcom(run(dag), "google", "return_value")

    assert [(each["path"], each["warnings"]) for each in done] == [
        (f"{URL}sitemap-products.xml", 1),
        (f"{URL}sitemap-pages.xml", 1),
    ]
    submitted = [path.rpartition("%2F")[2] for method, path, _, _ in server.asked if method == "PUT"]
    assert submitted == ["sitemap-products.xml", "sitemap-pages.xml"]
    assert [method for method, _, _, _ in server.asked] == ["PUT", "GET", "PUT", "GET"]
    (observation,) = history(sitemap.store.open().state)
    assert [(index.section, index.warnings, index.listed) for index in observation.indexes] == [
        ("products", 1, 10),
        ("pages", 1, 2),
    ]


def test_a_ping_names_each_index_and_carries_the_connections_token(
    sitemap: Sitemap, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CDN", json.dumps({"conn_type": "generic", "password": "t0ken-t0ken"}))
    for name in ("sitemap-products.xml", "sitemap-pages.xml"):
        server.pages[f"/purge?dag=ping&u=https%3A%2F%2Fshop.example%2F{name}"] = Page(status=204)
    with DAG("ping", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        group = SitemapTaskGroup("sitemap", sitemap)
        url = server.base + "/purge?dag={{ dag.dag_id }}&u={sitemap}"
        group >> SitemapPingOperator(task_id="purge", sitemap=sitemap, url=url, conn_id="cdn", http=LOOPBACK)

    answers = xcom(run(dag), "purge", "return_value")

    assert answers == {f"{URL}sitemap-products.xml": 204, f"{URL}sitemap-pages.xml": 204}
    assert {headers["authorization"] for _, _, headers, _ in server.asked} == {"Bearer t0ken-t0ken"}


def test_the_password_of_the_database_of_default_args_goes_to_no_service(
    sitemap: Sitemap, server: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow gives a ``conn_id`` of ``default_args``, as tasks of SQL have it, to every task that takes one."""
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", "postgresql://reader:the-secret-of-rows@db.example/shop")
    with DAG("leak", schedule=None, max_active_runs=1, default_args={"retries": 0, "conn_id": "warehouse"}) as dag:
        group = SitemapTaskGroup("sitemap", sitemap)
        group >> [
            SitemapPingOperator(task_id="ping", sitemap=sitemap, url=f"{server.base}/?{{sitemap}}", http=LOOPBACK),
            IndexNowOperator(task_id="tell", urls=[f"{server.base}/p/1"], http=LOOPBACK),
        ]

    done = run(dag)

    assert (states(done)["ping"], states(done)["tell"], server.asked) == ("failed", "failed", [])
    said = "connection 'warehouse' has the type 'postgres': its password is not the token, and is not sent"
    assert said in xcom(done, "ping", "sitemap_failed")["message"]


@pytest.mark.parametrize("url", ["https://www.google.com/ping?sitemap={sitemap}", "https://a.example/"])
def test_a_dead_ping_fails_for_good_and_so_does_nothing_published(sitemap: Sitemap, url: str) -> None:
    url += "{{ '' }}"  # without a template it is refused when the task is made
    with DAG("dead_ping", schedule=None) as dag:
        SitemapPingOperator(task_id="ping", sitemap=sitemap, url=url, retries=3)
    assert states(run(dag)) == {"ping": "failed"}
    with DAG("nothing_published", schedule=None) as dag:
        SitemapPingOperator(task_id="ping", sitemap=sitemap, url="https://a.example/?{sitemap}", retries=3)
    assert states(run(dag)) == {"ping": "failed"}
