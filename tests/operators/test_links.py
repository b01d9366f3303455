"""The links on a publishing task."""

from __future__ import annotations

import json

import pytest

from airflow_sitemaps import LocalStore, S3Store, Section, Sitemap, SitemapPublishOperator, SqlSource
from airflow_sitemaps.operators.links import SitemapConsoleLink, SitemapIndexLink, SitemapPageLink
from airflow_sitemaps.stores.s3.client import connections
from tests.support.clients import close_clients


def publishing(store) -> SitemapPublishOperator:
    section = Section("products", SqlSource("shop", table="products", key="id", loc="url"))
    return SitemapPublishOperator(task_id="publish", sitemap=Sitemap(store, [section]), plan="plans/x")


@pytest.mark.parametrize(
    ("extra", "console"),
    [
        ({"region_name": "eu-central-1"}, "https://console.aws.amazon.com/s3/buckets/acme?prefix=web%2Fsitemaps%2F"),
        ({"region_name": "cn-north-1"}, "https://console.amazonaws.cn/s3/buckets/acme?prefix=web%2Fsitemaps%2F"),
        (
            {"region_name": "us-gov-west-1"},
            "https://console.amazonaws-us-gov.com/s3/buckets/acme?prefix=web%2Fsitemaps%2F",
        ),
        ({"region_name": "us-east-1", "endpoint_url": "https://minio.example"}, ""),
    ],
)
def test_links_of_a_sitemap_on_s3(monkeypatch: pytest.MonkeyPatch, extra: dict[str, str], console: str) -> None:
    connection = {"conn_type": "aws", "login": "key-of-nobody", "password": "secret-of-nobody", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_LINKS", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/team/")
    store = S3Store("s3://acme/web/sitemaps", base_url="https://acme.example/", conn_id="links")
    task = publishing(store)
    close_clients(connections, "links")
    assert SitemapIndexLink().get_link(task, ti_key=None) == "https://acme.example/sitemap.xml"
    assert SitemapConsoleLink().get_link(task, ti_key=None) == console
    page = "https://airflow.example/team/plugin/sitemaps?asset=s3%3A%2F%2Facme%2Fweb%2Fsitemaps%2Fsitemap.xml"
    assert SitemapPageLink().get_link(task, ti_key=None) == page
    close_clients(connections, "links")


def test_a_folder_has_no_console(tmp_path) -> None:
    task = publishing(LocalStore(str(tmp_path / "site"), base_url="https://acme.example/"))
    assert SitemapConsoleLink().get_link(task, ti_key=None) == ""
