"""Addresses of the pages."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from airflow_sitemaps.addresses import dag_page, run_page, sitemap_page, sitemaps_page


def test_an_assets_uri_survives_the_address() -> None:
    uri = "s3://shop/site maps/ä&?#sitemap.xml"
    parts = urlsplit(sitemap_page(uri))

    assert parts.path == sitemaps_page() == "/plugin/sitemaps"
    assert parse_qs(parts.query) == {"asset": [uri]}


def test_ids_with_slashes_and_pluses_are_quoted() -> None:
    run = "manual__2026-11-20T11:37:31+00:00"

    assert dag_page("a/b") == "/dags/a%2Fb/plugin/sitemap"
    assert run_page("a/b", run) == "/dags/a%2Fb/runs/manual__2026-11-20T11%3A37%3A31%2B00%3A00/plugin/sitemap-run"
