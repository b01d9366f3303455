"""Sweep: remove, after the grace, the files that nothing refers to.

A sweep removes public files that this pipeline's manifests named, and orphans that bear its stamp. The state area
belongs to the pipeline, with all objects in its runs' folders. Plans name most of these folders. Once per grace, a
sweep searches all of them for objects that stopped runs stored late.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final, TypeVar

from msgspec.structs import replace

from airflow_sitemaps.errors import ConfigurationError, SitemapError
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.publish.promotion import put_back
from airflow_sitemaps.pipeline.report import Swept
from airflow_sitemaps.pipeline.request import OpenSitemap
from airflow_sitemaps.pipeline.state.identity import STATE_ID, is_of_another
from airflow_sitemaps.pipeline.state.repository import (
    GENERATIONS,
    KNOWN,
    REPORTS,
    RUNS,
    ManifestVersion,
    RefusedPutError,
    StateRepository,
    bounded_time,
    generation_key,
    known_key,
    run_directory,
)
from airflow_sitemaps.ports import Clock, ObjectInfo, Store
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards.manifest import Departed, Manifest
from airflow_sitemaps.shards.plan import plan_key

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_REPORTS: Final = 500
"""Number of reports kept, of changed and unchanged runs alike."""

SLACK: Final = 1 / 8
"""Fraction of a run's lifetime that a sweep waits in addition, because the clocks of two machines differ."""

SHORTEST_LIFE: Final = timedelta(hours=6)
"""Minimum lifetime of a run, however short the grace."""

FAILURES: Final = 3
"""Number of failed deletions of one kind after which a sweep leaves the rest of that kind to the next run."""

SUFFIXES: Final = (".xml", ".xml.gz", ".txt.gz", ".atom", ".rss", ".xsl")
"""Endings of the names that this package publishes."""

EXAMINED: Final = 1_000
"""Maximum number of unknown files whose metadata one sweep reads; each sweep begins with another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What is no longer needed: ``due`` departed files, and objects in the state area. ``deep``: of the folders of every run."""

    due: tuple[Departed, ...] = ()
    bodies: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    deep: bool = False


def sweep(opened: OpenSitemap, current: ManifestVersion) -> tuple[ManifestVersion, Swept]:
    """Remove the files that are due, and their names from the manifest.

    A departed public file stays for the grace, because a slow crawl still requests it. A body stays as long as a kept
    generation needs it. Plans and bodies of runs that never committed stay for slightly longer than the grace.

    A failure is a warning, never an error: everything is published by now, and the next run sweeps again.
    """
    try:
        current, swept = _sweep(opened, current)
    except SitemapError as error:
        swept = Swept(warnings=(f"the sweep stopped early, and the next run sweeps again: {error}",))
    for warning in swept.warnings:
        log.warning("%s", warning)
    return current, swept


def _sweep(opened: OpenSitemap, current: ManifestVersion) -> tuple[ManifestVersion, Swept]:
    store, state, grace = opened.store, opened.state, opened.sitemap.grace
    now = opened.clock.now()
    left = leftovers(state, current.manifest, now, grace)
    if left != Leftovers():
        store_time = bounded_time(state.objects, opened.clock)
        if store_time < now:
            now = store_time
            left = leftovers(state, current.manifest, now, grace)
    if left.bodies or left.deep:
        fenced = _fence(state, current, left, opened.clock)
        if fenced is None:
            return current, Swept()
        current = fenced
    strays = orphans(store, current.manifest, now, lifetime(grace)) if left.deep else ()
    number, at = current.manifest.generation, current.manifest.committed_at
    # The etag of an orphan protects it if it changes before the deletion.
    orphaned = (Departed(area="public", key=i.key, generation=number, at=at, etag=i.etag) for i in strays)
    items = (*left.due, *orphaned)
    outcomes = _delete(store, items, current.manifest)
    gone = [item for item, failure in zip(items, outcomes, strict=True) if failure is None]
    outcomes += _delete_private(state, left, current.manifest)
    if departed := frozenset(gone) & frozenset(left.due):
        current = _forget(opened, current, departed)
    elif strays and not state.still(current):
        put_back(store, {info.key for info in strays})
    failures = [outcome for outcome in outcomes if outcome is not None]
    if not failures:
        return current, Swept(objects=len(outcomes))
    what = f"{counted(len(failures), 'unneeded object')} could not be removed; the next run tries again"
    warning = f"{what}: {next(filter(None, failures), '')}"
    return current, Swept(objects=len(outcomes) - len(failures), warnings=(warning,))


def lifetime(grace: timedelta) -> timedelta:
    """Return the maximum age of a run that may still publish; after it, a sweep may remove the run's files."""
    return max(grace, SHORTEST_LIFE)


def leftovers(state: StateRepository, manifest: Manifest, now: datetime, grace: timedelta) -> Leftovers:
    """Find departed files, plans, receipts and bodies of runs that have ended, and records that no run will read."""
    runs = {note.run for note in manifest.history}

    def is_over(run: str) -> bool:
        """Return whether a run is too old to commit, and no kept generation needs it."""
        begun = _time_of(run)
        return begun is not None and begun + lifetime(grace) * (1 + SLACK) <= now and run not in runs

    needed = manifest.bodies() | {item.key for item in manifest.departed}
    plans = (info.key for info in state.objects.list("plans/"))
    over = [run for run in (key.removeprefix("plans/").removesuffix(".json.gz") for key in plans) if is_over(run)]
    # Search all folders of runs, and the public area for orphans.
    deep = manifest.swept_at is None or not manifest.swept_at <= now < manifest.swept_at + lifetime(grace)
    keys = [
        info.key
        for folder in ([RUNS] if deep else [run_directory(run) for run in over])
        for info in state.objects.list(folder)
    ]
    bodies = [key for key in keys if key not in needed and is_over(key.removeprefix(RUNS).partition("/")[0])]
    kept = {known_key(name) for name in manifest.sections}
    records = _records(state, KNOWN) if deep else ()
    return Leftovers(
        due=tuple(item for item in manifest.departed if _is_due(item, manifest, now, grace)),
        bodies=tuple(bodies),
        plans=tuple(plan_key(run) for run in over),
        known=tuple(key for key in records if key not in kept),
        deep=deep,
    )


def _fence(state: StateRepository, current: ManifestVersion, left: Leftovers, clock: Clock) -> ManifestVersion | None:
    """Replace the manifest, so that no earlier reader can commit a file about to be removed; None: a run did commit."""
    swept_at = clock.now() if left.deep else current.manifest.swept_at
    try:
        return state.replace_manifest(replace(current.manifest, write_id=clock.token(), swept_at=swept_at), current)
    except RefusedPutError:
        log.info("another run has committed; the next run sweeps")
        return None


def _is_due(item: Departed, manifest: Manifest, now: datetime, grace: timedelta) -> bool:
    return item.at + grace <= now and (item.area == "public" or item.generation <= _oldest(manifest))


def _oldest(manifest: Manifest) -> int:
    return manifest.history[0].generation if manifest.history else manifest.generation


def _delete(store: Store, due: Sequence[Departed], manifest: Manifest) -> list[str | None]:
    """Delete departed files and orphans; return the outcome of each, as ``_attempted`` does."""

    def delete(item: Departed) -> None:
        objects = store.public if item.area == "public" else store.state
        there = store.public.head(item.key) if item.area == "public" else None
        if there is not None and (
            item.etag not in (None, there.etag)
            # equal bytes have an equal etag
            or (is_of_another(there, manifest) and (there.modified_at or item.at) > item.at)
        ):
            log.info("%s is left: another program wrote it since", objects.url(item.key))
            return
        objects.delete(item.key, etag=item.etag)
        log.info("swept %s", objects.url(item.key))

    return _attempted(delete, due)


def _delete_private(state: StateRepository, left: Leftovers, manifest: Manifest) -> list[str | None]:
    """Delete leftovers, and generations and reports beyond those kept; return the outcome of each."""
    first = generation_key(_oldest(manifest))
    generations = [
        info.key for info in state.objects.list(GENERATIONS) if info.key < first and len(info.key) == len(first)
    ]
    reports = _records(state, REPORTS)[:-MOST_REPORTS]
    outcomes: list[str | None] = []
    for keys in (left.bodies, left.plans, left.known, generations, reports):
        outcomes += _attempted(state.objects.delete, keys)
    return outcomes


def _records(state: StateRepository, folder: str) -> list[str]:
    """Return the keys of a folder's records. Others may be of a state area that begins there."""
    keys = (info.key for info in state.objects.list(folder))
    return [key for key in keys if key.endswith(".json") and key.count("/") == 1]


def _attempted(delete: Callable[[T], None], items: Sequence[T]) -> list[str | None]:
    """Delete objects, even if some deletions fail. None: deleted; else why not, or "" if left because others failed."""
    failures: list[str] = []

    def attempt(item: T) -> str | None:
        if len(failures) >= FAILURES:
            return ""
        try:
            delete(item)
        except SitemapError as error:
            failures.append(str(error))
            return str(error)
        return None

    return list(mapped(attempt, items, "sitemap-sweep"))


def _forget(opened: OpenSitemap, current: ManifestVersion, gone: Collection[Departed]) -> ManifestVersion:
    """Put the manifest without the removed files. A run that has committed since may use a removed name again."""
    left = tuple(item for item in current.manifest.departed if item not in gone)
    try:
        return opened.state.replace_manifest(
            replace(current.manifest, departed=left, write_id=opened.clock.token()), current
        )
    except RefusedPutError:
        log.info("another run has committed; files that it uses are restored")
    put_back(opened.store, {item.key for item in gone if item.area == "public"})
    return current


def _time_of(run: str) -> datetime | None:
    """Return the time in a run's name, or None if the name is not of this package's form."""
    try:
        return datetime.strptime(run[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def orphans(store: Store, manifest: Manifest, now: datetime, grace: timedelta) -> tuple[ObjectInfo, ...]:
    """Find public files of this pipeline that its manifest does not name. A late put of a stopped run leaves such files.

    A file without a stamp, or with another pipeline's stamp, is never an orphan. Neither is a file younger than the
    grace, because a run that has just committed may have put it.
    """
    if not manifest.state_id:
        return ()
    # A file system that ignores case lists a file under the name that it first had.
    names = {file.name.lower() for file in manifest.public_files()}
    names |= {item.key.lower() for item in manifest.departed if item.area == "public"}
    unknown = [
        info.key
        for info in store.public.list()
        if info.modified_at is not None
        and info.modified_at < now - grace
        and info.key.lower() not in names
        and info.key.endswith(SUFFIXES)
    ]
    first = random.Random(now.timestamp()).randrange(max(1, len(unknown)))  # noqa: S311 - no secret
    examined = (unknown[first:] + unknown[:first])[:EXAMINED]

    def head(key: str) -> ObjectInfo | None:
        try:
            return store.public.head(key)
        except ConfigurationError:  # a name that the store refuses, or a file that it may not read: not this pipeline's
            return None

    infos = mapped(head, examined, "sitemap-orphans")
    return tuple(info for info in infos if info is not None and info.metadata.get(STATE_ID) == manifest.state_id)
