"""Notifications skip what they announced before, by a setting."""

from __future__ import annotations

from airflow_sitemaps import MemoryStore, Section, Sitemap
from airflow_sitemaps.notify.announcer import is_announced, mark_announced
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing.source import MemorySourceConfig

URL = "https://www.example.com/"


def test_a_generation_is_announced_once_to_each_service() -> None:
    rows = [{"id": 1, "loc": f"{URL}1"}]
    site = Sitemap(MemoryStore(base_url=URL), [Section("pages", MemorySourceConfig(rows))])
    assert not is_announced(site, "searchconsole")
    build(site)
    assert not is_announced(site, "searchconsole")

    mark_announced(site, "searchconsole")

    assert is_announced(site, "searchconsole")
    assert not is_announced(site, "ping-1")
    build(site)
    assert is_announced(site, "searchconsole"), "an unchanged run makes no generation"
    rows.append({"id": 2, "loc": f"{URL}2"})
    build(site)
    assert not is_announced(site, "searchconsole")
