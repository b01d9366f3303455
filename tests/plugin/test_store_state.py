"""What the pages learn from a store, and that a store which fails or hangs never holds a page up."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps import MemoryStore, Section, Sitemap
from airflow_sitemaps.pipeline import build, rollback
from airflow_sitemaps.pipeline.state.repository import REPORTS
from airflow_sitemaps.plugin.events import StoreFacts
from airflow_sitemaps.plugin.state_reader import StateReader, StoreStates, read_state
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.testing import MemorySourceConfig

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore

STORE = StoreFacts(state_url="s3://shop/state/", public_url="s3://shop/public/")
URL = "https://www.example.com/"


@pytest.fixture
def site() -> Sitemap:
    """A sitemap of two sections, published once."""
    sections = [
        Section(name, MemorySourceConfig([{"id": n, "loc": f"{URL}{name}/{n}"} for n in range(30)])) for name in "ab"
    ]
    made = Sitemap(MemoryStore(base_url=URL), sections)
    build(made)
    return made


def area(site: Sitemap) -> ObjectStore:
    return site.store.open().state


def test_the_live_generation_and_the_last_result_of_each_section(site: Sitemap) -> None:
    build(site, sections=["a"])
    first = read_state(area(site))

    assert (first.generation, first.action) == (1, "build")
    assert {name: section.urls for name, section in first.sections.items()} == {"a": 30, "b": 30}
    assert [event.summary.planned for event in first.reports] == [("a", "b"), ("a",)]

    site.sections[0].source.rows.append({"id": 99, "loc": f"{URL}a/99"})  # type: ignore[attr-defined]
    build(site)
    rollback(site, 1)
    state = read_state(area(site), first)
    assert (state.generation, state.action, state.sections["a"].urls) == (3, "rollback to 1", 30)
    assert [event.summary.action for event in state.reports][-1] == "rollback to 1"


def test_a_report_that_is_none_is_left_out(site: Sitemap) -> None:
    state = area(site)
    for name, body in (("29990101T000000Z-x", b"{"), ("29990101T000001Z-x", b'{"finished_at": 7}')):
        state.put(f"{REPORTS}{name}.json", body, mode=Overwrite(), metadata={}, content_type="application/json")

    assert [event.summary.result for event in read_state(state).reports] == ["published"]


def test_a_state_is_read_again_when_it_is_old_or_an_event_announces_more(site: Sitemap) -> None:
    opened: list[StoreFacts] = []

    def opening(store: StoreFacts) -> ObjectStore:
        opened.append(store)
        return area(site)

    states = StoreStates(StateReader(opening))
    for announced, reads in ((1, 1), (1, 1), (2, 2)):
        found = states.known({STORE: announced}, wait_s=30, fresh_s=60)
        assert (found[STORE].generation, len(opened)) == (1, reads)
    states.known({STORE: 1}, wait_s=30, fresh_s=0)
    assert len(opened) == 3


def test_an_old_state_does_not_stand_for_an_announced_generation_that_cannot_be_read(site: Sitemap) -> None:
    is_down = False

    def opening(_: StoreFacts) -> ObjectStore:
        if is_down:
            raise OSError("403")
        return area(site)

    states = StoreStates(StateReader(opening))
    assert states.known({STORE: 1}, wait_s=30, fresh_s=60)[STORE].generation == 1
    is_down = True
    assert states.known({STORE: 2}, wait_s=30, fresh_s=60) == {}
    is_down = False
    # The store is read, and has not published it: it is the truth.
    assert states.known({STORE: 2}, wait_s=30, fresh_s=0)[STORE].generation == 1


def test_a_store_that_fails_or_hangs_holds_no_page_up(site: Sitemap) -> None:
    hang = threading.Event()
    failed: list[StoreFacts] = []

    def opening(store: StoreFacts) -> ObjectStore:
        if store == STORE:
            hang.wait(60)
            return area(site)
        failed.append(store)
        raise OSError("no such bucket")

    other = StoreFacts(state_url="s3://gone/state/", public_url="s3://gone/public/")
    states = StoreStates(StateReader(opening))
    started = time.monotonic()

    assert states.known({STORE: 1, other: 1}, wait_s=0.2, fresh_s=60) == {}
    assert states.known({other: 1}, wait_s=30, fresh_s=60) == {}
    assert len(failed) == 1
    assert time.monotonic() - started < 20
    hang.set()
    assert states.known({STORE: 1}, wait_s=30, fresh_s=60)[STORE].generation == 1
