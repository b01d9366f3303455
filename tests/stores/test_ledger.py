"""The ledger in each store: the file of gone URLs, and the dates that public files keep when the state is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_sitemaps import Observed, Section, Sitemap
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.changes import ages, compare, kept_manifest
from airflow_sitemaps.pipeline.find import find
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.protocol import gzip
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from airflow_sitemaps.verification import of_sitemap
from tests.stores.conftest import BASE
from tests.support.environment import FREE

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Store

DAY = timedelta(days=1)


class Opened:
    """The configuration of a store that is already open."""

    index_name, single_writer, base_url = "sitemap.xml", False, BASE

    def __init__(self, store: Store) -> None:
        self._store = store

    def open(self) -> Store:
        return self._store

    def describe(self) -> str:
        return self._store.public.url("")


def test_an_adoption_takes_the_dates_over_after_the_state_is_lost(store):
    rows: list[dict[str, Any]] = [{"id": n, "loc": f"{BASE}p/{n}", "title": "t"} for n in range(12)]
    clock = FakeClock()
    config: Any = Opened(store)
    source = MemorySourceConfig(rows, key="id", lastmod=Observed("title"), clock=clock.now)
    sitemap = Sitemap(config, [Section("pages", source)], owner="Zoë's shop", guards=FREE)
    build(sitemap, clock=clock)
    clock.advance(DAY)
    rows[4]["title"] = "u"
    build(sitemap, clock=clock)
    before = crawl(store).entries()
    assert [loc for loc, entries in before.items() if entries[0][0]] == [f"{BASE}p/4"]
    for info in list(store.state.list()):
        store.state.delete(info.key)
    clock.advance(DAY)
    build(sitemap, adopt=True, clock=clock)
    assert crawl(store).entries() == before


def test_the_file_is_written_verified_searched_and_ended(store):
    rows: list[dict[str, Any]] = [{"id": n, "loc": f"{BASE}p/{n}?a=1&b=2"} for n in range(12)]
    clock = FakeClock()
    config: Any = Opened(store)
    section = Section("pages", MemorySourceConfig(rows, key="id"))
    sitemap = Sitemap(config, [section], gone=3 * DAY, guards=FREE)
    build(sitemap, clock=clock)
    clock.advance(DAY)
    del rows[4]
    assert build(sitemap, clock=clock).urls == 11
    stored = store.public.get("gone.xml.gz")
    assert stored is not None
    assert gzip.decompress(stored.body, max_byte_size=10_000).decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        f"<url><loc>{BASE}p/4?a=1&amp;b=2</loc><lastmod>{clock.now():%Y-%m-%dT%H:%M:%SZ}</lastmod></url>\n</urlset>\n"
    )
    found = of_sitemap(sitemap).verify()
    assert (found.errors, found.warnings, found.urls) == ((), (), 11)
    answer = find(sitemap, f"{BASE}p/4?a=1&b=2")
    assert not answer.listed
    assert answer.note.startswith(f"Gone: its row left the source at {clock.now():%Y-%m-%d %H:%M} UTC.")
    state = StateRepository(store.state)
    old, new = (kept_manifest(state, state.published(), number) for number in (1, 2))
    changes = compare(state, old, new, most=10)
    (removed,) = changes.removed
    assert ages(state, old, new, [removed])[removed]["gone"] == clock.now().replace(microsecond=0).isoformat()
    clock.advance(3 * DAY)
    build(sitemap, clock=clock)
    assert state.published().gone is None
    names = [file.name for file in state.published().public_files()]
    assert "gone.xml.gz" not in names
