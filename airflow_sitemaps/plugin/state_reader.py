"""What a store knows of a sitemap, read for the API server: in threads, with time-outs, cached by ETag.

Airflow forgets runs that are deleted or cleaned, and never learns of a change in the shell. The store knows both. But API
servers often lack the workers' access to it. Every error here becomes a message on the page and never blocks the server.
A store that hangs occupies at most ``THREADS`` threads; further requests get the response "busy".
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from cachetools import TTLCache

from airflow_sitemaps.errors import StoreContentError
from airflow_sitemaps.pipeline.state.repository import MANIFEST, REPORTS
from airflow_sitemaps.plugin.events import Event, StoreFacts, event_of
from airflow_sitemaps.plugin.readings import BoundedCache, moment_of, timestamp
from airflow_sitemaps.ports import ObjectStore
from airflow_sitemaps.search_engines import fetches
from airflow_sitemaps.shards import Decoder
from airflow_sitemaps.shards.codec import decode_manifest
from airflow_sitemaps.shards.manifest import SectionManifest
from airflow_sitemaps.stores import FOLDER, open_area, registered, scheme_of

T = TypeVar("T")

THREADS: Final = 4
WAIT_S: Final = 10.0
"""Longest time in seconds that one response waits for the store."""
FRESH_S: Final = 5.0
"""Seconds before the store is queried again for changes of a manifest."""
LATE_S: Final = 60.0
"""Seconds for which the next attempt gets what ended after every request for it had timed out."""
MAX_MANIFESTS: Final = 8
"""Number of manifests that are kept in memory."""


class StateUnavailableError(Exception):
    """The store could not be read. The message is for the page: what failed, where, and what to do."""


def readable(store: StoreFacts) -> StoreFacts:
    """Return a store that an event names, or raise StateUnavailableError if this server cannot read it."""
    if not store.state_url or registered(scheme_of(store.state_url)) is None:
        raise StateUnavailableError(
            "The last run did not record where the manifest is stored, or the store is one that only workers can reach."
        )
    return store


def _address(store: StoreFacts) -> str:
    """Return the address of a store's manifest, for messages."""
    return f"{store.state_url.rstrip('/')}/{MANIFEST}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedManifest(Generic[T]):
    """What a reader returned for a manifest. ``checked_at`` is when the store last confirmed the ETag, in monotonic seconds."""

    etag: str
    value: T
    checked_at: float


class StateReader:
    """Reads stores in threads, shares reads in progress, and caches the last manifests."""

    def __init__(self, opened: Callable[[StoreFacts], ObjectStore]) -> None:
        self.opened = opened
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sitemaps-state")
        self._lock = threading.Lock()
        self._kept: BoundedCache[StoreFacts, CachedManifest[Any]] = BoundedCache(MAX_MANIFESTS)
        self._under_way: dict[tuple[StoreFacts, str], Future[Any]] = {}
        self._late: TTLCache[tuple[StoreFacts, str], Future[Any]] = TTLCache(THREADS, LATE_S)

    async def read(
        self, store: StoreFacts, reader: Callable[[bytes, str], T], *, is_old: Callable[[T], bool] = lambda _: False
    ) -> tuple[str, T]:
        """Return the ETag of a store's manifest and ``reader``'s value, from the manifest's bytes and address.

        If ``is_old`` says so of a cached value, the store is queried at once.
        """
        future = self.begin(store, "manifest", lambda: self._load(store, reader, is_old))
        kept: CachedManifest[T] = await self._arrived(store, "manifest", future)
        return kept.etag, kept.value

    async def run(self, store: StoreFacts, form: str, job: Callable[[ObjectStore], T]) -> T:
        """Return the result of a job on the state area, uncached. Jobs with the same ``form`` share one run."""
        return await self._arrived(store, form, self.begin(store, form, lambda: job(self.opened(store))))

    async def _arrived(self, store: StoreFacts, form: str, future: Future[T]) -> T:
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), WAIT_S)
        except asyncio.TimeoutError as e:
            with self._lock:
                if not future.done():
                    self._late[store, form] = future
            raise StateUnavailableError(
                f"{_address(store)} did not arrive within {WAIT_S:g} seconds. It is still being read; try again soon."
            ) from e
        finally:
            with self._lock:
                if future.done():  # a request got it, so that the next one reads again
                    self._late.pop((store, form), None)

    def begin(self, store: StoreFacts, form: str, attempt: Callable[[], Any]) -> Future[Any]:
        """Read a store in a thread. Equal attempts share one run. It raises if too many reads are under way."""
        name = (store, form)
        with self._lock:
            self._late.expire()  # pop() frees nothing
            if name in self._under_way:
                return self._under_way[name]
            if (late := self._late.pop(name, None)) is not None and late.done():
                return late
            if len(self._under_way) >= THREADS * 4:
                raise StateUnavailableError("The API server is busy reading other stores; try again soon.")
            future = self._under_way[name] = self._threads.submit(_explained, store, attempt)
        # Outside the lock: a future that is already done runs its callback in this thread, and the callback locks.
        future.add_done_callback(lambda done: self._ended((store, form), done))
        return future

    def _ended(self, name: tuple[StoreFacts, str], future: Future[Any]) -> None:
        with self._lock:
            self._under_way.pop(name, None)
            # A manifest that was read is among the cached ones, where its ETag is compared again.
            if self._late.pop(name, None) and (future.exception() or not isinstance(future.result(), CachedManifest)):
                self._late[name] = future

    def _load(
        self, store: StoreFacts, reader: Callable[[bytes, str], T], is_old: Callable[[T], bool]
    ) -> CachedManifest[T]:
        kept: CachedManifest[T] | None = self._kept.get([store]).get(store)
        now = time.monotonic()
        if kept is not None and now - kept.checked_at < FRESH_S and not is_old(kept.value):
            return kept
        objects = self.opened(store)
        info = objects.head(MANIFEST) if kept is not None else None
        if kept is not None and info is not None and info.etag == kept.etag:
            fresh = replace(kept, checked_at=now)
        else:
            content = objects.get(MANIFEST)
            if content is None:
                raise StateUnavailableError(f"{_address(store)} does not exist: it was removed, or never written.")
            value = reader(content.body, _address(store))
            fresh = CachedManifest(etag=content.info.etag, value=value, checked_at=now)
        self._kept.add({store: fresh})
        return fresh


def open_state(store: StoreFacts) -> ObjectStore:
    """Return the state area of a store. Nothing is created: a folder that is not on this machine is an error."""
    if scheme_of(store.state_url) == FOLDER and not Path(store.state_url.removeprefix("file://")).is_dir():
        raise StateUnavailableError(
            f"The folder {store.state_url} is not on the API server's machine: a LocalStore can be read only on the machine that has its disk."
        )
    return open_area(store.state_url, store.conn_id)


def _explained(store: StoreFacts, attempt: Callable[[], T]) -> T:
    """Return the result of an attempt. Any error of a cloud client becomes one message on the page, with what to do."""
    try:
        return attempt()
    except StateUnavailableError:
        raise
    except StoreContentError as error:  # what was read is damaged
        raise StateUnavailableError(str(error)) from error
    except Exception as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        with_what = f"the connection {store.conn_id!r}" if store.conn_id else "the API server's own credentials"
        if scheme_of(store.state_url) == FOLDER:
            with_what = "the API server's own user"
        raise StateUnavailableError(
            f"Cannot read {_address(store)} from the API server with {with_what}: {said.rstrip('.')}. "
            "To see it here, give the API server read access to the store's state area."
        ) from error


MAX_REPORTS: Final = 40
"""Largest number of reports that are read of one sitemap, to find the last result of each section."""
MIN_REPORTS: Final = 4
"""Smallest number of reports that are read: the names of runs that began in one second are in no order."""
MAX_REPORT_BYTES: Final = 4 << 20


_REPORT: Final = Decoder(dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSection:
    """A section in the live generation. ``changed_at`` is the time of the last change of one of its files."""

    urls: int
    newest_lastmod: str | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """What the store knows. ``action``: ``build``, or ``rollback to`` a generation. The oldest report is first."""

    etag: str
    generation: int
    committed_at: datetime
    action: str
    sections: Mapping[str, LiveSection]
    reports: Sequence[Event] = ()
    fetched: fetches.Fetches = field(default_factory=fetches.Fetches)


def _live(section: SectionManifest) -> LiveSection:
    return LiveSection(
        urls=section.urls,
        newest_lastmod=max((s.newest_lastmod for s in section.shards if s.newest_lastmod), default=None),
        changed_at=max((file.modified_at for file in section.files()), default=None),
    )


def read_state(area: ObjectStore, before: StoreState | None = None) -> StoreState:
    """Return what a state area knows. What has not changed since ``before`` is not read again."""
    info = area.head(MANIFEST)
    state = before if before is not None and info is not None and info.etag == before.etag else None
    if state is None:
        content = area.get(MANIFEST)
        if content is None:
            raise StateUnavailableError(f"{area.url(MANIFEST)} does not exist: it was removed, or never written.")
        manifest = decode_manifest(content.body, area.url(MANIFEST))
        state = StoreState(
            etag=content.info.etag,
            generation=manifest.generation,
            committed_at=manifest.committed_at,
            action=next((n.action for n in manifest.history if n.generation == manifest.generation), "build"),
            sections={name: _live(section) for name, section in manifest.sections.items()},
        )
    kept = {report.summary.run_id: report for report in (before.reports if before is not None else ())}
    reports = _reports(area, set(state.sections), kept)
    return replace(state, reports=reports, fetched=fetches.summary_of(area))


def _reports(area: ObjectStore, sections: set[str], kept: Mapping[str, Event]) -> list[Event]:
    """Return the newest reports, until each section has a result in one of them."""
    keys = [info.key for info in area.list(REPORTS) if info.byte_size <= MAX_REPORT_BYTES]
    reports, missing = [], set(sections)
    for key in reversed(keys[-MAX_REPORTS:]):
        name = key.removeprefix(REPORTS).removesuffix(".json")
        report = kept.get(name) or _report(area, key, name)
        if report is None:
            continue
        reports.append(report)
        missing -= {*report.summary.planned, *report.summary.failed}
        if not missing and len(reports) >= MIN_REPORTS:
            break
    return sorted(reports, key=lambda each: moment_of(each.summary.at))


def _report(area: ObjectStore, key: str, name: str) -> Event | None:
    """Return a report in the form of an event; None if it is not one."""
    content = area.get(key)
    if content is None:
        return None
    with suppress(ValueError, RecursionError):
        report = _REPORT.decode(content.body)
        if at := timestamp(report.get("finished_at")):
            return event_of({"report": report}, event=0, at=at, dag_id="", run_id=name)
    return None


class StoreStates:
    """The last known states of stores. They are read in the threads of a ``StateReader``, and never block a page long."""

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader
        self._states: BoundedCache[StoreFacts, tuple[float, StoreState | None, bool]] = BoundedCache(1_000)

    def known(
        self, announced: Mapping[StoreFacts, int], *, wait_s: float, fresh_s: float
    ) -> dict[StoreFacts, StoreState]:
        """Return the states of stores; those that cannot be read, or not within ``wait_s``, are left out.

        ``announced`` has, by store, the generation that the newest event announces.
        After ``fresh_s`` a state, or the lack of one, is out of date.
        """
        started, reads = time.monotonic(), []
        for store, generation in announced.items():
            with suppress(StateUnavailableError):  # the server is busy; the next request reads it
                reads += self._read(store, generation, fresh_s)
        wait(reads, timeout=wait_s)
        return {
            store: state
            for store, (at, state, is_read) in self._states.get(announced).items()
            if state is not None and (state.generation >= announced[store] or (is_read and at >= started))
        }

    def _read(self, store: StoreFacts, generation: int, fresh_s: float) -> list[Future[Any]]:
        at, before, _ = self._states.get([store]).get(store, (None, None, False))
        is_old = before is not None and before.generation < generation
        if at is not None and time.monotonic() - at < fresh_s and not is_old:
            return []
        return [self._reader.begin(store, "state", lambda: self._keep(store, before))]

    def _keep(self, store: StoreFacts, before: StoreState | None) -> None:
        state, is_read = before, False
        with suppress(Exception):  # any error of a cloud client: the page shows what Airflow knows
            state, is_read = read_state(self._reader.opened(store), before), True
        self._states.add({store: (time.monotonic(), state, is_read)})


STORE_STATES: Final = StoreStates(StateReader(open_state))
"""The states of all stores that this process has read. A store that hangs holds up no other view: the threads are apart."""
