"""Reading the store from the API server: cached, bounded in time, and never an error page."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.pipeline.state.repository import MANIFEST
from airflow_sitemaps.plugin import state_reader
from airflow_sitemaps.plugin.events import StoreFacts
from airflow_sitemaps.plugin.readings import read_as
from airflow_sitemaps.plugin.shard_map import ShardMap, live_map, read_map
from airflow_sitemaps.plugin.state_reader import THREADS, StateReader, StateUnavailableError, open_state, readable
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.shards.codec import encode
from airflow_sitemaps.stores.memory import MemoryStore
from tests.support.plugin_factories import manifest

if TYPE_CHECKING:
    from pathlib import Path

STORE = StoreFacts(state_url="s3://shop/sitemaps-state/", conn_id="aws_default", public_url="s3://shop/sitemaps/")


@pytest.fixture
def store() -> MemoryStore:
    found = MemoryStore()
    put(found, manifest(5))
    return found


def put(store: MemoryStore, made: Any) -> None:
    store.state.put(MANIFEST, encode(made), mode=Overwrite(), metadata={}, content_type="x")


def reader(store: Any) -> StateReader:
    return StateReader(lambda _: store.state)


def test_a_file_is_read_once_while_it_does_not_change(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reader, "FRESH_S", 0.0)
    states = reader(store)

    first = asyncio.run(states.read(STORE, read_map))
    second = asyncio.run(states.read(STORE, read_map))
    put(store, manifest(6, generation=8))
    third = asyncio.run(states.read(STORE, read_map))

    assert second[1] is first[1]
    assert (third[1].generation, len(third[1].manifest.sections["products"].shards)) == (8, 6)
    assert [op.verb for op in store.log if op.verb != "put"] == ["get", "head", "head", "get"]


def test_the_store_is_not_asked_again_within_seconds(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reader, "FRESH_S", 60.0)
    states = reader(store)

    for _ in range(5):
        asyncio.run(states.read(STORE, read_map))

    assert [op.verb for op in store.log if op.verb != "put"] == ["get"]


def test_the_store_is_asked_at_once_where_the_events_know_of_a_newer_generation(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_reader, "FRESH_S", 60.0)
    states = reader(store)
    asyncio.run(states.read(STORE, read_map))
    put(store, manifest(6, generation=8))

    def is_old(found: Any) -> bool:
        return bool(found.generation < 8)

    newer = [asyncio.run(states.read(STORE, read_map, is_old=is_old))[1].generation for _ in range(2)]

    assert newer == [8, 8]
    assert [op.verb for op in store.log if op.verb != "put"] == ["get", "head", "get"]


def test_a_generation_that_was_read_before_its_files_were_public_is_asked_for_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is open during the run reads it then; otherwise it says "pending publish" until it is reloaded."""
    monkeypatch.setattr(state_reader, "FRESH_S", 60.0)
    states = reader(store)
    seen = []
    for promoted in (False, True, True):
        put(store, replace(manifest(5), promoted=promoted))
        seen.append(asyncio.run(live_map(states, STORE, 7))[1].manifest.promoted)

    assert seen == [False, True, True]
    assert [op.verb for op in store.log if op.verb != "put"] == ["get", "head", "get"]


class Immediate(Executor):
    """Threads that are always quicker than their caller: each future is done when the caller gets it."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


@pytest.mark.timeout(60)
def test_a_read_that_ends_at_once_does_not_block_the_server(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_reader, "ThreadPoolExecutor", lambda *_, **__: Immediate())
    states = reader(store)

    found = [asyncio.run(states.run(STORE, "keys", lambda area: area.head(MANIFEST))) for _ in range(2)]

    assert found[0] == found[1] == store.state.head(MANIFEST)


class Stuck:
    """A store that does not answer until it is let go."""

    def __init__(self, store: MemoryStore) -> None:
        self.gate = threading.Event()
        self.calls = 0
        self.state = self
        self.store = store

    def get(self, key: str) -> Any:
        self.calls += 1
        self.gate.wait(20)
        return self.store.state.get(key)


def test_a_store_that_hangs_holds_up_nobody(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reader, "WAIT_S", 0.1)
    stuck = Stuck(store)
    states = reader(stuck)

    async def many() -> list[Any]:
        started = time.monotonic()
        answers = await asyncio.gather(*[states.read(STORE, read_map) for _ in range(50)], return_exceptions=True)
        assert time.monotonic() - started < 2
        return answers

    answers = asyncio.run(many())
    assert all(isinstance(answer, StateUnavailableError) for answer in answers)
    assert "did not arrive within 0.1 seconds" in str(answers[0])
    assert stuck.calls == 1, "requests for one file share one read"
    stuck.gate.set()
    states_later = asyncio.run(_again(states))
    assert isinstance(states_later, ShardMap), "what arrives late is kept for the next question"


@pytest.mark.parametrize("works", [True, False], ids=["a result", "an error"])
def test_a_job_that_outlasts_its_requests_answers_the_next_one(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    """Otherwise each further try begins it again, and a job of eleven seconds never answers."""
    monkeypatch.setattr(state_reader, "WAIT_S", 0.1)
    states, gate, ends = reader(store), threading.Event(), list[str]()

    def job(area: Any) -> str:
        gate.wait(20)
        ends.append("ended")
        if not works:
            raise StoreError("refused")
        return "compared"

    with pytest.raises(StateUnavailableError, match="did not arrive"):
        asyncio.run(states.run(STORE, "changes", job))
    gate.set()
    states._threads.shutdown(wait=True)  # no further job can begin

    if works:
        assert asyncio.run(states.run(STORE, "changes", job)) == "compared"
    else:
        with pytest.raises(StateUnavailableError, match="refused"):
            asyncio.run(states.run(STORE, "changes", job))
    assert ends == ["ended"]


def test_a_job_that_one_of_its_requests_got_is_begun_again(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next page shows what the store held a minute ago."""
    monkeypatch.setattr(state_reader, "WAIT_S", 0.1)
    states, gate, answers = reader(store), threading.Event(), iter(("old", "new"))

    def job(area: Any) -> str:
        gate.wait(20)
        return next(answers)

    with pytest.raises(StateUnavailableError, match="did not arrive"):
        asyncio.run(states.run(STORE, "find", job))
    monkeypatch.setattr(state_reader, "WAIT_S", 20.0)

    async def joined() -> str:
        request = asyncio.create_task(states.run(STORE, "find", job))
        await asyncio.sleep(0.1)
        gate.set()
        return await request

    assert [asyncio.run(joined()), asyncio.run(states.run(STORE, "find", job))] == ["old", "new"]


def test_an_answer_that_is_too_late_is_freed(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a long list of URLs."""
    monkeypatch.setattr(state_reader, "WAIT_S", 0.1)
    monkeypatch.setattr(state_reader, "LATE_S", 0.3)
    states, gate = reader(store), threading.Event()
    answers = weakref.WeakSet[Any]()

    def job(area: Any) -> Any:
        gate.wait(20)
        answers.add(answer := Stuck(store))
        return answer

    with pytest.raises(StateUnavailableError, match="did not arrive"):
        asyncio.run(states.run(STORE, "changes", job))
    gate.set()
    while not answers or states._under_way:
        time.sleep(0.01)
    time.sleep(0.4)
    asyncio.run(states.run(STORE, "another", lambda area: None))
    gc.collect()

    assert not answers


async def _again(states: StateReader) -> Any:
    for _ in range(100):
        try:
            return (await states.read(STORE, read_map))[1]
        except StateUnavailableError:
            await asyncio.sleep(0.05)
    return None


def test_many_stores_that_hang_are_answered_busy(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reader, "WAIT_S", 0.05)
    stuck = Stuck(store)
    states = reader(stuck)

    async def many() -> list[Any]:
        files = [StoreFacts(state_url=f"s3://shop-{n}/") for n in range(THREADS * 5)]
        return await asyncio.gather(*[states.read(f, read_map) for f in files], return_exceptions=True)

    answers = asyncio.run(many())
    assert "busy" in str(answers[-1])
    assert stuck.calls <= THREADS
    stuck.gate.set()


def test_what_the_store_says_is_shown_with_the_connection(store: MemoryStore) -> None:
    class Denied:
        def get(self, key: str) -> Any:
            raise StoreError("403 Access Denied\n  to everybody")

    states = StateReader(lambda _: Denied())  # type: ignore[arg-type, return-value]
    with pytest.raises(StateUnavailableError) as e:
        asyncio.run(states.read(STORE, read_map))

    assert "with the connection 'aws_default': 403 Access Denied to everybody." in str(e.value)
    assert "give the API server read access" in str(e.value)


def test_a_damaged_manifest_is_not_a_lack_of_rights(store: MemoryStore) -> None:
    store.state.put(MANIFEST, b"damaged", mode=Overwrite(), metadata={}, content_type="x")

    with pytest.raises(StateUnavailableError, match="it is damaged, or another program wrote it") as e:
        asyncio.run(reader(store).read(STORE, read_map))

    assert "read access" not in str(e.value)


def test_a_folder_that_is_not_here_is_not_made(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(StateUnavailableError, match="is not on the API server's machine"):
        open_state(StoreFacts(state_url=str(gone)))

    assert not gone.exists()


@pytest.mark.parametrize("kind", ["memory", None, "ftp"])
def test_a_store_that_only_workers_have_is_said(kind: str | None) -> None:
    with pytest.raises(StateUnavailableError, match="only workers can reach"):
        readable(read_as(StoreFacts, {"kind": kind, "state_url": "x://y"}))
