"""Sweep what nothing refers to any more, after the grace.

Public files go by the names in our own manifests alone. The state area is ours, and so is what lies in its runs'
folders: plans name most of them, and once in a grace all are looked through for what zombies stored later.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.indexes import settings_of_commit
from airflow_sitemaps.pipeline.parallel import mapped
from airflow_sitemaps.pipeline.promoting import SupersededError, put_back
from airflow_sitemaps.pipeline.putting import RefusedPutError
from airflow_sitemaps.pipeline.state import RUNS, Root, State, plan_key, run_directory
from airflow_sitemaps.pipeline.watermark import WATERMARKS
from airflow_sitemaps.pipeline.watermark import key_of as watermark_key

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from airflow_sitemaps.ports import Clock, Store
    from airflow_sitemaps.shards.manifest import Departed, Manifest
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

REPORTS: Final = 500
"""Reports that are kept, of changed and unchanged runs alike."""

SLACK: Final = 1 / 8
"""Part of a run's lifetime by which a sweep waits longer: clocks of two machines differ."""

SHORTEST_LIFE: Final = timedelta(hours=6)
"""A run may take this long at least, however short the grace."""

ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What was removed: public files, private objects."""

    public: int = 0
    private: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What runs that are long over left in the state area, and watermarks of sections that are no more.

    ``deep``: every run's folder was looked through.
    """

    bodies: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    watermarks: tuple[str, ...] = ()
    deep: bool = False


@dataclass(slots=True)
class _Ages:
    """Which runs are over for good: they can no longer commit, and are not in the history."""

    manifest: Manifest
    now: datetime
    grace: timedelta
    _kept: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._kept = frozenset(note.run for note in self.manifest.history)

    def is_over(self, run: str) -> bool:
        """Whether this one is."""
        begun = _time_of(run)
        return begun is not None and begun + lifetime(self.grace) * (1 + SLACK) <= self.now and run not in self._kept


def sweep(sitemap: Sitemap, store: Store, root: Root, *, clock: Clock) -> tuple[Root, Swept]:
    """Remove what is due. The manifest must be promoted; it forgets what was removed.

    A public file that departed stays for the grace (a slow crawl still asks for it); a body stays as long as a kept
    generation needs it; plans and bodies of runs that never committed stay for somewhat more than the grace. Raises
    StoreError.
    """
    state = State(store.state)
    now = clock.now()
    left = leftovers(state, root.manifest, now, sitemap.grace)
    if left.bodies or left.deep:
        fenced = _fence(state, root, left, clock)
        if fenced is None:
            return root, Swept()
        root = fenced
    due = [item for item in root.manifest.departed if _is_due(item, root.manifest, now, sitemap.grace)]
    _delete(store, due)
    for keys in (left.bodies, left.plans, left.watermarks):
        _delete_private(state, keys)
    private = len(left.bodies) + len(left.plans) + len(left.watermarks) + sum(item.area == "state" for item in due)
    private += _sweep_generations(state, root.manifest) + _sweep_reports(state)
    if due:
        root = _forget(sitemap, store, root, frozenset(due), clock)
    return root, Swept(public=sum(item.area == "public" for item in due), private=private)


def lifetime(grace: timedelta) -> timedelta:
    """How old a run may be that still publishes; later what it wrote may be swept."""
    return max(grace, SHORTEST_LIFE)


def leftovers(state: State, manifest: Manifest, now: datetime, grace: timedelta) -> Leftovers:
    """Plans, receipts and unneeded bodies of runs that are over; watermarks that nothing will read."""
    ages = _Ages(manifest, now, grace)
    needed = manifest.bodies() | {item.key for item in manifest.departed}
    plans = (info.key for info in state.objects.list("plans/"))
    over = [run for run in (key.removeprefix("plans/").removesuffix(".json.gz") for key in plans) if ages.is_over(run)]
    deep = manifest.swept_at is None or not manifest.swept_at <= now < manifest.swept_at + lifetime(grace)
    found = [
        info.key
        for folder in ([RUNS] if deep else [run_directory(run) for run in over])
        for info in state.objects.list(folder)
    ]
    bodies = [key for key in found if key not in needed and ages.is_over(key.removeprefix(RUNS).partition("/")[0])]
    marks = (info.key for info in state.objects.list(WATERMARKS)) if deep else ()
    return Leftovers(
        bodies=tuple(bodies),
        plans=tuple(plan_key(run) for run in over),
        watermarks=tuple(key for key in marks if key not in {watermark_key(name) for name in manifest.sections}),
        deep=deep,
    )


def _fence(state: State, root: Root, left: Leftovers, clock: Clock) -> Root | None:
    """Replace the manifest, so that no run that looked at it before can still commit what is about to be removed.

    None where another run committed meanwhile: what it needs is not known here.
    """
    swept_at = clock.now() if left.deep else root.manifest.swept_at
    try:
        return state.replace_root(replace(root.manifest, write_id=clock.token(), swept_at=swept_at), root)
    except RefusedPutError:
        log.info("another run committed meanwhile; the next one sweeps")
        return None


def _is_due(item: Departed, manifest: Manifest, now: datetime, grace: timedelta) -> bool:
    if item.at + grace > now:
        return False
    oldest = manifest.history[0].generation if manifest.history else manifest.generation
    return item.area == "public" or item.generation <= oldest


def _delete(store: Store, due: Sequence[Departed]) -> None:
    def delete(item: Departed) -> None:
        objects = store.public if item.area == "public" else store.state
        objects.delete(item.key, etag=item.etag)
        log.info("swept %s", objects.url(item.key))

    for _ in mapped(delete, due, "sitemap-sweep"):
        pass


def _delete_private(state: State, keys: Sequence[str]) -> None:
    for _ in mapped(state.objects.delete, keys, "sitemap-sweep"):
        pass


def _forget(sitemap: Sitemap, store: Store, root: Root, gone: Collection[Departed], clock: Clock) -> Root:
    """Put the manifest without what was removed. Whoever committed meanwhile may have brought a name back."""
    state = State(store.state)
    left = tuple(item for item in root.manifest.departed if item not in gone)
    try:
        return state.replace_root(replace(root.manifest, departed=left, write_id=clock.token()), root)
    except RefusedPutError:
        log.info("another run committed meanwhile; it will find these files swept")
    names = {item.key for item in gone if item.area == "public"}
    for _ in range(ATTEMPTS):
        now = state.root()
        if now is None:
            break
        try:
            put_back(store, now, settings_of_commit(sitemap, now.manifest), names)
            break
        except SupersededError:
            continue
    return root


def _sweep_generations(state: State, manifest: Manifest) -> int:
    oldest = manifest.history[0].generation if manifest.history else manifest.generation
    removed = 0
    for info in list(state.objects.list("generations/")):
        number = info.key.removeprefix("generations/").removesuffix(".json.gz")
        if number.isdecimal() and int(number) < oldest:
            state.objects.delete(info.key)
            removed += 1
    return removed


def _sweep_reports(state: State) -> int:
    reports = list(state.objects.list("reports/"))
    for info in reports[:-REPORTS]:
        state.objects.delete(info.key)
    return max(0, len(reports) - REPORTS)


def _time_of(run: str) -> datetime | None:
    """The moment in a run's name, None where it is not one of ours."""
    try:
        return datetime.strptime(run[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
