"""What the store knows of a sitemap: the live generation, and the reports of its last runs.

Airflow forgets runs that are deleted or cleaned, and never learns of a change in the shell. The store knows both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from airflow_sitemaps.pipeline.state.repository import MANIFEST, REPORTS
from airflow_sitemaps.plugin.events import Event, event_of
from airflow_sitemaps.plugin.readings import BoundedCache, moment_of, timestamp
from airflow_sitemaps.plugin.state_reader import StateFile, StateReader, StateUnavailableError, open_state
from airflow_sitemaps.ports import ObjectStore
from airflow_sitemaps.shards.codec import decode
from airflow_sitemaps.shards.schema import Count, Decoder, Moment

MAX_REPORTS: Final = 40
"""Largest number of reports that are read of one sitemap, to find the last result of each section."""
MIN_REPORTS: Final = 4
"""Smallest number of reports that are read: the names of runs that began in one second are in no order."""
MAX_REPORT_BYTES: Final = 4 << 20


class _File(msgspec.Struct, gc=False):
    modified_at: Moment


class _Shard(msgspec.Struct, gc=False):
    urls: Count = 0
    file: _File | None = None
    newest_lastmod: str | None = None


class _Section(msgspec.Struct, gc=False):
    shards: list[_Shard]


class _Note(msgspec.Struct, gc=False):
    generation: Count
    action: str = "build"


class _Manifest(msgspec.Struct, gc=False):
    generation: Count
    committed_at: Moment
    sections: dict[str, _Section]
    history: list[_Note] = []


_MANIFEST: Final = Decoder(_Manifest)
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


def _live(section: _Section) -> LiveSection:
    return LiveSection(
        urls=sum(shard.urls for shard in section.shards),
        newest_lastmod=max((s.newest_lastmod for s in section.shards if s.newest_lastmod), default=None),
        changed_at=max((s.file.modified_at for s in section.shards if s.file), default=None),
    )


def read_state(area: ObjectStore, before: StoreState | None = None) -> StoreState:
    """Return what a private area knows. What has not changed since ``before`` is not read again.

    Raises:
        StateUnavailableError: There is no manifest.
    """
    info = area.head(MANIFEST)
    state = before if before is not None and info is not None and info.etag == before.etag else None
    if state is None:
        content = area.get(MANIFEST)
        if content is None:
            raise StateUnavailableError(f"{area.url(MANIFEST)} does not exist: it was removed, or never written.")
        manifest = decode(_MANIFEST, content.body, area.url(MANIFEST))
        state = StoreState(
            etag=content.info.etag,
            generation=manifest.generation,
            committed_at=manifest.committed_at,
            action=next((n.action for n in manifest.history if n.generation == manifest.generation), "build"),
            sections={name: _live(section) for name, section in manifest.sections.items()},
        )
    kept = {report.summary.run_id: report for report in (before.reports if before is not None else ())}
    return replace(state, reports=_reports(area, set(state.sections), kept))


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
        self._states: BoundedCache[StateFile, tuple[float, StoreState | None]] = BoundedCache(1_000)

    def known(
        self, announced: Mapping[StateFile, int], *, wait_s: float, fresh_s: float
    ) -> dict[StateFile, StoreState]:
        """Return the states of stores; those that cannot be read, or not within ``wait_s``, are left out.

        ``announced`` has a file of each store's private area, and the generation that the newest event announces.
        After ``fresh_s`` a state, or the lack of one, is out of date.
        """
        started, reads = time.monotonic(), []
        for file, generation in announced.items():
            with suppress(StateUnavailableError):  # the server is busy; the next request reads it
                reads += self._read(file, generation, fresh_s)
        wait(reads, timeout=wait_s)
        return {
            file: state
            for file, (at, state) in self._states.get(announced).items()
            if state is not None and (state.generation >= announced[file] or at >= started)
        }

    def _read(self, file: StateFile, generation: int, fresh_s: float) -> list[Future[Any]]:
        at, before = self._states.get([file]).get(file, (None, None))
        is_old = before is not None and before.generation < generation
        if at is not None and time.monotonic() - at < fresh_s and not is_old:
            return []
        return [self._reader.begin(file, "state", lambda: self._keep(file, before))]

    def _keep(self, file: StateFile, before: StoreState | None) -> None:
        state = before
        with suppress(Exception):  # any error of a cloud client: the page shows what Airflow knows
            state = read_state(self._opened(file), before)
        self._states.add({file: (time.monotonic(), state)})

    def clear(self) -> None:
        """Forget all states."""
        self._states.clear()


STORE_STATES: Final = StoreStates(StateReader(opened=open_state), open_state)
"""The states of all stores that this process has read. A store that hangs holds up no other view: the threads are apart."""
