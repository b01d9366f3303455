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
"""Seconds before the store is queried again for changes of a file."""
LATE_S: Final = 60.0
"""Seconds for which the next attempt gets what ended after every request for it had timed out."""
MAX_FILES: Final = 8
"""Number of files whose contents are kept in memory."""


class StateUnavailableError(Exception):
    """The store could not be read. The message is for the page: what failed, where, and what to do."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """One file of the state area, in the store that an event describes. ``conn_id`` None: the server's own credentials."""

    state_url: str
    conn_id: str | None
    public_url: str
    key: str

    @property
    def where(self) -> str:
        """Address of the file, for messages."""
        return f"{self.state_url.rstrip('/')}/{self.key}"

    @classmethod
    def of(cls, store: StoreFacts, key: str) -> StateFile:
        """Return a file that an event names, or raise StateUnavailableError if this server cannot read that store."""
        if not store.state_url or registered(scheme_of(store.state_url)) is None:
            raise StateUnavailableError(
                "The last run did not record where the manifest is stored, or the store is one that only workers can reach."
            )
        return cls(store.state_url, store.conn_id, store.public_url, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedFile(Generic[T]):
    """What a reader returned for a file. ``checked_at`` is when the store last confirmed the ETag, in monotonic seconds."""

    etag: str
    value: T
    checked_at: float


class StateReader:
    """Reads files in threads, shares reads in progress, and caches the last files."""

    def __init__(self, opened: Callable[[StateFile], ObjectStore]) -> None:
        self._opened = opened
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sitemaps-state")
        self._lock = threading.Lock()
        self._kept: BoundedCache[tuple[StateFile, str], CachedFile[Any]] = BoundedCache(MAX_FILES)
        self._under_way: dict[tuple[StateFile, str], Future[Any]] = {}
        self._late: TTLCache[tuple[StateFile, str], Future[Any]] = TTLCache(THREADS, LATE_S)

    async def read(
        self,
        file: StateFile,
        form: str,
        reader: Callable[[bytes, str], T],
        *,
        is_old: Callable[[T], bool] = lambda _: False,
    ) -> tuple[str, T]:
        """Return the ETag of a file and ``reader``'s value, from the file's bytes and address.

        If ``is_old`` says so of a cached value, the store is queried at once.

        Raises:
            StateUnavailableError: The file cannot be read, or not in time.
        """
        future = self.begin(file, form, lambda: self._load(file, form, reader, is_old))
        kept: CachedFile[T] = await self._arrived(file, form, future)
        return kept.etag, kept.value

    async def run(self, file: StateFile, form: str, job: Callable[[ObjectStore], T]) -> T:
        """Return the result of a job on the state area, uncached. Jobs with the same ``form`` share one run."""
        return await self._arrived(
            file, form, self.begin(file, form, lambda: _explained(file, lambda: job(self._opened(file))))
        )

    async def _arrived(self, file: StateFile, form: str, future: Future[T]) -> T:
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), WAIT_S)
        except asyncio.TimeoutError as e:
            with self._lock:
                if not future.done():
                    self._late[file, form] = future
            raise StateUnavailableError(
                f"{file.where} did not arrive within {WAIT_S:g} seconds. It is still being read; try again soon."
            ) from e
        finally:
            with self._lock:
                if future.done():  # a request got it, so that the next one reads again
                    self._late.pop((file, form), None)

    def begin(self, file: StateFile, form: str, attempt: Callable[[], Any]) -> Future[Any]:
        """Read a file in a thread. Equal attempts share one run. It raises if too many reads are under way."""
        name = (file, form)
        with self._lock:
            self._late.expire()  # pop() frees nothing
            if name in self._under_way:
                return self._under_way[name]
            if (late := self._late.pop(name, None)) is not None and late.done():
                return late
            if len(self._under_way) >= THREADS * 4:
                raise StateUnavailableError("The API server is busy reading other stores; try again soon.")
            future = self._under_way[name] = self._threads.submit(attempt)
        # Outside the lock: a future that is already done runs its callback in this thread, and the callback locks.
        future.add_done_callback(lambda done: self._ended((file, form), done))
        return future

    def _ended(self, name: tuple[StateFile, str], future: Future[Any]) -> None:
        with self._lock:
            self._under_way.pop(name, None)
            # A file that was read is among the cached ones, where its ETag is compared again.
            if self._late.pop(name, None) and (future.exception() or not isinstance(future.result(), CachedFile)):
                self._late[name] = future

    def _load(
        self, file: StateFile, form: str, reader: Callable[[bytes, str], T], is_old: Callable[[T], bool]
    ) -> CachedFile[T]:
        kept: CachedFile[T] | None = self._kept.get([(file, form)]).get((file, form))
        if kept is not None and time.monotonic() - kept.checked_at < FRESH_S and not is_old(kept.value):
            return kept
        fresh = _explained(file, lambda: self._fresh(file, reader, kept))
        self._kept.add({(file, form): fresh})
        return fresh

    def _fresh(self, file: StateFile, reader: Callable[[bytes, str], T], kept: CachedFile[T] | None) -> CachedFile[T]:
        objects = self._opened(file)
        now = time.monotonic()
        if kept is not None:
            info = objects.head(file.key)
            if info is not None and info.etag == kept.etag:
                return CachedFile(etag=kept.etag, value=kept.value, checked_at=now)
        content = objects.get(file.key)
        if content is None:
            raise StateUnavailableError(f"{file.where} does not exist: it was removed, or never written.")
        return CachedFile(etag=content.info.etag, value=reader(content.body, file.where), checked_at=now)


def open_state(file: StateFile) -> ObjectStore:
    """Return the state area of a file. Nothing is created: a folder that is not on this machine is an error."""
    if scheme_of(file.state_url) == FOLDER and not Path(file.state_url.removeprefix("file://")).is_dir():
        raise StateUnavailableError(
            f"The folder {file.state_url} is not on the API server's machine: a LocalStore can be read only on the machine that has its disk."
        )
    return open_area(file.state_url, file.conn_id)


def _explained(file: StateFile, attempt: Callable[[], T]) -> T:
    """Return the result of an attempt. Any error of a cloud client becomes one message on the page, with what to do."""
    try:
        return attempt()
    except StateUnavailableError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        with_what = f"the connection {file.conn_id!r}" if file.conn_id else "the API server's own credentials"
        if scheme_of(file.state_url) == FOLDER:
            with_what = "the API server's own user"
        raise StateUnavailableError(
            f"Cannot read {file.where} from the API server with {with_what}: {said.rstrip('.')}. "
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
    """What the store knows. ``action``: ``build``, or ``rollback to`` a generation. The oldest report is first.

    ``fetched`` is what crawlers fetched.
    """

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
    """Return what a state area knows. What has not changed since ``before`` is not read again.

    Raises:
        StateUnavailableError: There is no manifest.
    """
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

    def __init__(self, reader: StateReader, opened: Callable[[StateFile], ObjectStore]) -> None:
        self._reader = reader
        self._opened = opened
        self._states: BoundedCache[StateFile, tuple[float, StoreState | None, bool]] = BoundedCache(1_000)

    def known(
        self, announced: Mapping[StateFile, int], *, wait_s: float, fresh_s: float
    ) -> dict[StateFile, StoreState]:
        """Return the states of stores; those that cannot be read, or not within ``wait_s``, are left out.

        ``announced`` has a file of each store's state area, and the generation that the newest event announces.
        After ``fresh_s`` a state, or the lack of one, is out of date.
        """
        started, reads = time.monotonic(), []
        for file, generation in announced.items():
            with suppress(StateUnavailableError):  # the server is busy; the next request reads it
                reads += self._read(file, generation, fresh_s)
        wait(reads, timeout=wait_s)
        return {
            file: state
            for file, (at, state, is_read) in self._states.get(announced).items()
            if state is not None and (state.generation >= announced[file] or (is_read and at >= started))
        }

    def _read(self, file: StateFile, generation: int, fresh_s: float) -> list[Future[Any]]:
        at, before, _ = self._states.get([file]).get(file, (None, None, False))
        is_old = before is not None and before.generation < generation
        if at is not None and time.monotonic() - at < fresh_s and not is_old:
            return []
        return [self._reader.begin(file, "state", lambda: self._keep(file, before))]

    def _keep(self, file: StateFile, before: StoreState | None) -> None:
        state, is_read = before, False
        with suppress(Exception):  # any error of a cloud client: the page shows what Airflow knows
            state, is_read = read_state(self._opened(file), before), True
        self._states.add({file: (time.monotonic(), state, is_read)})


STORE_STATES: Final = StoreStates(StateReader(open_state), open_state)
"""The states of all stores that this process has read. A store that hangs holds up no other view: the threads are apart."""
