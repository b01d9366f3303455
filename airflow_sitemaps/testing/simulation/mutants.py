"""Safeguards, each taken out in turn: the simulation must notice, or it proves nothing.

Each mutant replaces a function of the pipeline while it is on. It runs in one process alone: never beside a real run.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from airflow_sitemaps.pipeline import (
    drift,
    extras,
    promoting,
    publishing,
    putting,
    reverting,
    rollback,
    stages,
    state,
    sweeping,
    watermark,
    writing,
)
from airflow_sitemaps.ports import Overwrite, PutOutcomeError
from airflow_sitemaps.shards import commit, digest
from airflow_sitemaps.shards.naming import shard_name
from airflow_sitemaps.testing.simulation.history import simulate
from airflow_sitemaps.testing.simulation.profile import Profile
from airflow_sitemaps.testing.source import MemorySource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Change = tuple[object, str, Any]
"""An object, the name of its attribute, and what stands there instead."""

ROUGH: Final = Profile(faults=0.06, crashes=0.0, temper=0.2, foreign=False, wild_clock=False)
STALLING: Final = Profile(
    faults=0.02, crashes=0.0, stalls=0.04, foreign=False, wild_clock=False, restless=True, rivals=0.8, temper=0.1
)
RESTLESS: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False, restless=True)
DEADLY: Final = Profile(faults=0.0, crashes=0.04, temper=0.2, foreign=False, wild_clock=False)
MOVING: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False)
LONG: Final = Profile(faults=0.0, crashes=0.03, foreign=False, wild_clock=True)
RIVALS: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False, rivals=0.9, stalls=0.02)
LATER: Final = Profile(faults=0.02, crashes=0.06, stalls=0.0, foreign=False, wild_clock=True, crawlers=4)
RELOADED: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False, guarded=True, restless=True)
JUDGED: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False, guarded=True, deploys=4.0)
DEPLOYED: Final = Profile(faults=0.0, crashes=0.01, foreign=False, wild_clock=False, deploys=6.0)
SWEPT: Final = Profile(faults=0.08, crashes=0.03, stalls=0.02, foreign=False, wild_clock=True, temper=0.3)
RETURNING: Final = Profile(
    faults=0.0, crashes=0.0, stalls=0.05, foreign=False, wild_clock=True, deploys=5.0, rivals=0.8
)  # fmt: skip
MARKED: Final = Profile(faults=0.0, crashes=0.0, foreign=False, wild_clock=False, detection="watermark")
MEDDLED: Final = Profile(faults=0.0, crashes=0.0, foreign=True, wild_clock=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A safeguard, what stands in its place, and the histories in which its lack should show."""

    name: str
    changes: Callable[[], Iterable[Change]]
    profile: Profile = field(default_factory=Profile)

    @contextmanager
    def on(self) -> Iterator[None]:
        """Take the safeguard out."""
        with ExitStack() as changed:
            for target, name, value in self.changes():
                changed.enter_context(patch.object(target, name, value))
            yield

    def caught(self, seeds: Iterable[int]) -> tuple[int, int, str] | None:
        """How many seeds it took, the one that noticed, and what it said; None where none did."""
        with self.on():
            for number, seed in enumerate(seeds, start=1):
                try:
                    simulate(seed, self.profile)
                except AssertionError as broken:
                    return number, seed, str(broken)
        return None


def _unconditional_promotion() -> Iterable[Change]:
    def unconditional(real: Any) -> Any:
        return lambda *args, **kwargs: real(*args, **{**kwargs, "mode": Overwrite()})

    yield promoting, "put_surely", unconditional(putting.put_surely)
    yield promoting, "copy_surely", unconditional(putting.copy_surely)


def _unconditional_manifest() -> Iterable[Change]:
    real = putting.put_surely

    def put(objects: Any, key: str, *args: Any, **kwargs: Any) -> str:
        return real(objects, key, *args, **({**kwargs, "mode": Overwrite()} if key == state.MANIFEST else kwargs))

    yield state, "put_surely", put


def _no_read_back() -> Iterable[Change]:
    def made_out(objects: Any, key: str, write_id: str, put: Callable[[], str]) -> str:
        try:
            return put()
        except PutOutcomeError as error:
            raise putting.RefusedPutError(str(error)) from error

    yield putting, "_made_out", made_out


def _no_roll_forward() -> Iterable[Change]:
    def stay(sitemap: Any, store: Any, root: Any, **_: Any) -> Any:
        return root

    for module in (publishing, stages, reverting):
        yield module, "roll_forward", stay


def _no_roll_forward_nor_drift() -> Iterable[Change]:
    yield from _no_roll_forward()
    yield from _no_drift()


def _commit_without_finishing() -> Iterable[Change]:
    yield publishing, "roll_forward", lambda sitemap, store, root, **_: root


def _index_first() -> Iterable[Change]:
    real = promoting.promote

    def promote(store: Any, root: Any, settings: Any, **kwargs: Any) -> Any:
        if not root.manifest.promoted:
            for index in root.manifest.indexes:
                if index.etag is None:
                    promoting._promote_index(store, state.State(store.state), root, settings, index)  # noqa: SLF001
        return real(store, root, settings, **kwargs)

    yield publishing, "promote", promote


def _promotion_before_commit() -> Iterable[Change]:
    real = publishing.check_bodies

    def check(store: Any, old: Any, new: Any) -> None:
        real(store, old, new)
        for file in new.files():
            if file.etag is None:
                body = promoting._body(state.State(store.state), file)  # noqa: SLF001
                putting.put_surely(
                    store.public, file.name, body, mode=Overwrite(), write_id=file.stamp, content_type="x"
                )

    yield publishing, "check_bodies", check


def _sweep_at_once() -> Iterable[Change]:
    real = sweeping.sweep

    def sweep(sitemap: Any, *args: Any, **kwargs: Any) -> Any:
        return real(replace(sitemap, grace=timedelta(0)), *args, **kwargs)

    yield publishing, "sweep", sweep
    yield stages, "sweep", sweep


def _sweep_kept() -> Iterable[Change]:
    yield sweeping, "_is_due", lambda item, manifest, now, grace: item.at + grace <= now


def _no_fence() -> Iterable[Change]:
    yield sweeping, "_fence", lambda state, root, left, clock: root
    yield publishing, "_refuse_old", lambda sitemap, plan, clock: None


def _no_deep_sweep() -> Iterable[Change]:
    real = sweeping.leftovers

    def leftovers(state: Any, manifest: Any, now: Any, grace: Any) -> Any:
        return real(state, replace(manifest, swept_at=now), now, grace)

    yield sweeping, "leftovers", leftovers


def _unconditional_deletes() -> Iterable[Change]:
    real = sweeping._delete  # noqa: SLF001
    yield sweeping, "_delete", lambda store, due: real(store, [replace(item, etag=None) for item in due])
    yield sweeping, "put_back", lambda *_: None


def _no_checksum() -> Iterable[Change]:
    yield digest.Digest, "same_rows", lambda self, other: (self.rows, self.newest) == (other.rows, other.newest)


def _planned_digest() -> Iterable[Change]:
    real = commit._Maker._written  # noqa: SLF001

    def written(self: Any, piece: Any, target: Any, *rest: Any) -> Any:
        return real(self, replace(piece, digest=target.digest), target, *rest)

    yield commit._Maker, "_written", written  # noqa: SLF001


def _names_at_plan_time() -> Iterable[Change]:
    real = writing._BatchWriter._upload  # noqa: SLF001

    def upload(self: Any, key: str, file: Any, uploads: Any) -> None:
        real(self, key, file, uploads)
        if self.targets[self._current].carries is None:
            name = shard_name(self.section.path, self.section.name, self._current + 1, self.section.format)
            putting.put_surely(self.store.public, name, file.body, mode=Overwrite(), write_id=key, content_type="x")

    yield writing._BatchWriter, "_upload", upload  # noqa: SLF001


def _no_row_check() -> Iterable[Change]:
    yield writing, "SLACK_ROWS", 10**9


def _no_variant() -> Iterable[Change]:
    def succeed(before: Any, after: Any) -> Any:
        return replace(after, past=before.past)

    for module in (commit, extras, rollback):
        yield module, "succeed", succeed


def _no_still() -> Iterable[Change]:
    yield promoting, "_still", lambda state, root: None


def _no_body_check() -> Iterable[Change]:
    yield publishing, "check_bodies", lambda store, old, new: None
    yield reverting, "check_bodies", lambda store, old, new: None


def _grace_from_commit() -> Iterable[Change]:
    real = state.State.replace_root

    def replace_root(self: Any, manifest: Any, over: Any) -> Any:
        kept = {(i.area, i.key): i.at for i in over.manifest.departed} if over is not None else {}
        departed = tuple(replace(i, at=kept.get((i.area, i.key), i.at)) for i in manifest.departed)
        return real(self, replace(manifest, departed=departed), over)

    yield state.State, "replace_root", replace_root


def _serials_forgotten() -> Iterable[Change]:
    def first(manifest: Any, section: str) -> int:
        found = manifest.sections.get(section) if manifest is not None else None
        return 1 if found is None else int(found.next_serial)

    yield commit, "first_serial", first
    yield rollback, "first_serial", first


def _no_touched() -> Iterable[Change]:
    yield MemorySource, "touched", lambda self, ranges, since: ()


def _no_slices() -> Iterable[Change]:
    yield watermark.Partial, "_slice", lambda self, number: set()


def _any_generation() -> Iterable[Change]:
    real = watermark.remembered

    def remembered(state: Any, section: Any) -> Any:
        found = state.objects.get(watermark.key_of(section.name))
        told = int(json.loads(found.body)["changed_in"]) if found is not None else 0
        return real(state, replace(section, changed_in=told))

    yield watermark, "remembered", remembered


def _stale_plans() -> Iterable[Change]:
    for module in (commit, publishing):
        yield module, "check_current", lambda old, plan: None


def _no_guard_at_commit() -> Iterable[Change]:
    yield publishing, "guard", lambda *args, **kwargs: None


def _changed_code() -> Iterable[Change]:
    for module in (writing, publishing):
        yield module, "check_unchanged", lambda *args, **kwargs: None


def _no_drift() -> Iterable[Change]:
    yield drift, "find", lambda *args, **kwargs: drift.Drift()


MUTANTS: Final = (
    Mutant(name="unconditional promotion", changes=_unconditional_promotion, profile=STALLING),
    Mutant(name="unconditional manifest", changes=_unconditional_manifest, profile=RIVALS),
    Mutant(name="no read-back", changes=_no_read_back, profile=ROUGH),
    Mutant(name="no roll-forward", changes=_no_roll_forward, profile=DEADLY),
    Mutant(name="no roll-forward, no look for drift", changes=_no_roll_forward_nor_drift, profile=DEADLY),
    Mutant(name="commit without finishing the earlier promotion", changes=_commit_without_finishing, profile=DEADLY),
    Mutant(name="index before shards", changes=_index_first, profile=MOVING),
    Mutant(name="promotion before commit", changes=_promotion_before_commit, profile=MOVING),
    Mutant(name="sweep without grace", changes=_sweep_at_once, profile=MOVING),
    Mutant(name="sweep of what a kept generation needs", changes=_sweep_kept, profile=LONG),
    Mutant(name="sweep without a fence, old runs published", changes=_no_fence, profile=SWEPT),
    Mutant(name="no look through the runs' folders", changes=_no_deep_sweep, profile=SWEPT),
    Mutant(name="names that return deleted unconditionally", changes=_unconditional_deletes, profile=RETURNING),
    Mutant(name="watermark that asks for no lastmod", changes=_no_touched, profile=MARKED),
    Mutant(name="watermark without slices", changes=_no_slices, profile=MARKED),
    Mutant(name="watermark of another generation", changes=_any_generation, profile=MARKED),
    Mutant(name="digest without checksum", changes=_no_checksum, profile=MOVING),
    Mutant(name="planned digest instead of the rows read", changes=_planned_digest, profile=RESTLESS),
    Mutant(name="public names written before their commit", changes=_names_at_plan_time, profile=MOVING),
    Mutant(name="no check of rows read against planned", changes=_no_row_check, profile=RELOADED),
    Mutant(name="no variant for content that returns", changes=_no_variant, profile=STALLING),
    Mutant(name="no look at the manifest before promotion puts", changes=_no_still, profile=STALLING),
    Mutant(name="no check of bodies", changes=_no_body_check, profile=LONG),
    Mutant(name="grace from the commit, not the promotion", changes=_grace_from_commit, profile=LATER),
    Mutant(name="serials of retired sections forgotten", changes=_serials_forgotten, profile=DEPLOYED),
    Mutant(name="stale plans published", changes=_stale_plans, profile=RIVALS),
    Mutant(name="no guard at the commit", changes=_no_guard_at_commit, profile=JUDGED),
    Mutant(name="code changed between tasks", changes=_changed_code, profile=DEPLOYED),
    Mutant(name="no look for drift", changes=_no_drift, profile=MEDDLED),
)
