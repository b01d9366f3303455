"""The task that reads an access log, in a real Airflow over DuckDB: what it returns, keeps and shows."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from airflow.sdk import DAG

from airflow_sitemaps import AccessLog, Crawler, LocalStore, Section, Sitemap, SitemapFetchesOperator, SitemapTaskGroup
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.search_engines.fetches import record_of
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import run, states, xcom

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://www.example.com/"
GOOGLE = Crawler(name="google", agent="Googlebot", ranges=["66.249.64.0/19"])
QUERY = "SELECT * FROM log WHERE requested_at >= CAST(:since AS TIMESTAMP) AND '{{ dag.dag_id }}' = 'fetched'"


def sitemap_in(folder: Path) -> Sitemap:
    source = MemorySourceConfig([{"id": n, "loc": f"{URL}p/{n}"} for n in range(5)])
    return Sitemap(LocalStore(folder / "site", base_url=URL), [Section("pages", source)])


def test_the_record_of_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb_engine")
    url, at = (
        f"duckdb:///{tmp_path / 'logs.duckdb'}",
        datetime.now(timezone.utc).replace(tzinfo=None) + timedelta(hours=1),
    )
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TABLE log (path VARCHAR, requested_at TIMESTAMP, user_agent VARCHAR, address VARCHAR, status INTEGER)"
        )
        connection.exec_driver_sql(
            f"INSERT INTO log SELECT '/pages-00001.xml.gz', '{at}', 'Googlebot/2.1', address, 200 "
            "FROM (VALUES ('66.249.66.1'), ('203.0.113.9')) a(address)"
        )
    engine.dispose()
    monkeypatch.setenv("AIRFLOW_CONN_LOGS", f'{{"conn_type": "generic", "extra": {{"sqlalchemy_url": "{url}"}}}}')
    sitemap = sitemap_in(tmp_path)
    with DAG("fetched", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap) >> SitemapFetchesOperator(
            task_id="fetches", sitemap=sitemap, access_log=AccessLog("logs", query=QUERY), crawlers=[GOOGLE]
        )

    done = run(dag)

    assert states(done)["fetches"] == "success"
    assert xcom(done, "fetches", "return_value") == {"google": {"fetches": 1, "refused": 0, "false": 1, "late": 0}}
    (times,) = record_of(sitemap.store.open().state).files.values()
    assert times == {"google": int(at.replace(tzinfo=timezone.utc).timestamp())}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"days": 0}, "days=0"),
        ({"days": 10_000_000}, "days=10000000; give a whole number from 1 to 36,500"),
        ({"crawlers": []}, "give crawlers"),
        *(({"crawlers": each}, "give a list of crawlers, like") for each in ("google", None, GOOGLE, ["google"])),
        ({"crawlers": [GOOGLE, GOOGLE]}, "different names"),
        ({"access_log": "logs"}, "give a AccessLog"),
    ],
)
def test_settings_that_cannot_be(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    chosen = {"access_log": AccessLog("logs", query="SELECT :since"), **settings}
    with pytest.raises(ConfigurationError, match=words):
        SitemapFetchesOperator(task_id="x", sitemap=sitemap_in(tmp_path), **chosen)
