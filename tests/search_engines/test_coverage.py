"""Coverage by section: what is kept, for how long, and what cannot be read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.protocol import CURRENT, PROFILES
from airflow_sitemaps.search_engines import searchconsole
from airflow_sitemaps.search_engines.searchconsole import COVERAGE, KEPT, SubmittedSitemap, history, observe
from airflow_sitemaps.stores.memory import MemoryObjects
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig

URL = "https://shop.example/"
SITE = "sc-domain:shop.example"


def published(**settings: Any) -> Sitemap:
    rows = [{"id": n, "loc": f"{URL}p/{n}"} for n in range(10)]
    sections = [Section(name, MemorySourceConfig(rows[:size])) for name, size in (("a", 3), ("big-a", 7))]
    sitemap = Sitemap(MemoryStore(base_url=URL), sections, **settings)
    build(sitemap)
    return sitemap


def submitted(name: str, **values: Any) -> SubmittedSitemap:
    fields: dict[str, Any] = {
        "last_submitted": None, "last_downloaded": None, "pending": False, "is_index": True, "errors": 0, "warnings": 0,
        "urls": {},
    }  # fmt: skip
    return SubmittedSitemap(path=URL + name, **{**fields, **values})


def test_each_section_has_its_own_history() -> None:
    sitemap, clock = published(index="per_section"), FakeClock()
    for errors in (5, 0):
        states = [
            submitted("sitemap-a.xml", errors=errors, urls={"web": 3}),
            submitted("sitemap-big-a.xml", pending=True),
        ]
        observe(sitemap, SITE, states, clock.now())
        clock.advance(timedelta(hours=1))

    first, last = history(sitemap.store.open().state)

    assert [(index.section, index.listed) for index in last.indexes] == [("a", 3), ("big-a", 7)]
    assert (first.indexes[0].errors, last.indexes[0].errors) == (5, 0)
    assert (last.indexes[0].discovered, last.indexes[1].pending) == ({"web": 3}, True)
    assert (last.site, last.generation) == (SITE, 1)
    assert first.at < last.at


def test_one_index_of_all_sections_belongs_to_none() -> None:
    sitemap = published()
    observation = observe(sitemap, SITE, [submitted("sitemap.xml")], FakeClock().now())

    assert observation is not None
    assert [(index.section, index.listed) for index in observation.indexes] == [("", 10)]


def test_the_index_of_recent_entries_lists_no_shard() -> None:
    rows = [{"id": n, "loc": f"{URL}p/{n}", "lastmod": FakeClock().now()} for n in range(10)]
    sections = [Section("a", MemorySourceConfig(rows, lastmod="lastmod"))]
    sitemap = Sitemap(MemoryStore(base_url=URL), sections, index="per_section", recent=timedelta(days=3))
    build(sitemap, clock=FakeClock())
    states = [submitted("sitemap-recent.xml"), submitted("sitemap-a.xml")]
    observation = observe(sitemap, SITE, states, FakeClock().now())
    assert observation is not None
    assert [(index.section, index.listed) for index in observation.indexes] == [("", 0), ("a", 10)]


def test_each_of_several_indexes_lists_its_own_shards() -> None:
    rows = [{"id": n, "loc": f"{URL}p/{n}"} for n in range(10)]
    policy = ShardPolicy(max_urls=2)
    sitemap = Sitemap(MemoryStore(base_url=URL), [Section("a", MemorySourceConfig(rows), shards=policy)])
    build(sitemap)
    manifest = StateRepository(sitemap.store.open().state).published()
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(PROFILES, "current", replace(CURRENT, max_sitemaps=3))
        listed = searchconsole._listed(manifest, sitemap)
    assert listed == {f"{URL}sitemap.xml": 6, f"{URL}sitemap-2.xml": 4}


def test_the_name_of_the_index_is_no_part_of_a_section() -> None:
    rows = [{"id": 1, "loc": f"{URL}p/1"}]
    sections = [Section(name, MemorySourceConfig(rows)) for name in ("a", "eu-a")]
    sitemap = Sitemap(MemoryStore(base_url=URL, index_name="sitemap-eu.xml"), sections, index="per_section")
    build(sitemap)
    states = [submitted(name) for name in ("sitemap-eu-a.xml", "sitemap-eu-eu-a-2.xml", "sitemap-a.xml")]
    observation = observe(sitemap, SITE, states, FakeClock().now())
    assert observation is not None
    assert [index.section for index in observation.indexes] == ["a", "eu-a", ""]


def test_old_observations_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEPT == 200
    monkeypatch.setattr(searchconsole, "KEPT", 3)
    sitemap, clock = published(), FakeClock()
    for _ in range(5):
        observe(sitemap, SITE, [submitted("sitemap.xml")], clock.now())
        clock.advance(timedelta(days=1))

    assert len(list(sitemap.store.open().state.list(COVERAGE))) == 3


def test_an_old_observation_that_may_not_be_removed_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_self: MemoryObjects, key: str, **_: Any) -> None:
        raise ConfigurationError(f"delete {key}: status 403")

    monkeypatch.setattr(searchconsole, "KEPT", 1)
    monkeypatch.setattr(MemoryObjects, "delete", refuse)
    sitemap, clock = published(), FakeClock()
    for _ in range(2):
        assert observe(sitemap, SITE, [submitted("sitemap.xml")], clock.now()) is not None
        clock.advance(timedelta(days=1))

    assert len(history(sitemap.store.open().state)) == 2
    assert "old observations stay in" in caplog.text


def test_what_cannot_be_read_is_left_out() -> None:
    sitemap = published()
    objects = sitemap.store.open().state
    for number, body in enumerate((b"", b"[]", b'{"format": 99}', b'{"format": 1, "indexes": [1]}')):
        key = f"{COVERAGE}{number}.json"
        objects.put(key, body, mode=Overwrite(), metadata={}, content_type="application/json")

    assert history(objects) == []


def test_nothing_published_is_not_observed() -> None:
    sitemap = Sitemap(MemoryStore(base_url=URL), [Section("a", MemorySourceConfig([]))])

    assert observe(sitemap, SITE, [], FakeClock().now()) is None
