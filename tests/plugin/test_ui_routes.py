"""Addresses of the pages."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from airflow_sitemaps.operators.links import dag_page, run_page, sitemap_page, sitemaps_page


def test_an_assets_uri_survives_the_address() -> None:
    uri = "s3://shop/site maps/ä&?#sitemap.xml"
    parts = urlsplit(sitemap_page(uri))

    assert parts.path == sitemaps_page() == "/plugin/sitemaps"
    assert parse_qs(parts.query) == {"asset": [uri]}


def test_slashes_of_ids_are_quoted_and_their_colons_are_not() -> None:
    run = "manual__2026-11-20T11:37:31+00:00"

    assert dag_page("a/b") == "/dags/a%2Fb/plugin/sitemap"
    assert run_page("a/b", run) == "/dags/a%2Fb/runs/manual__2026-11-20T11:37:31+00:00/plugin/sitemap-run"
