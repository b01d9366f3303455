"""Publish a plan: commit its manifest, promote it and sweep. Every step is safe to repeat."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from msgspec import structs

from airflow_sitemaps.errors import ConflictError, GuardError, IncompleteError, OwnershipError
from airflow_sitemaps.pipeline.publish.commit_files import check_bodies
from airflow_sitemaps.pipeline.publish.draft import Draft, make_draft
from airflow_sitemaps.pipeline.publish.promotion import SupersededError, promote, roll_forward
from airflow_sitemaps.pipeline.publish.public_files import judge_adoption
from airflow_sitemaps.pipeline.publish.sweep import Swept, lifetime, sweep
from airflow_sitemaps.pipeline.state.conditional_put import RefusedPutError
from airflow_sitemaps.pipeline.state.identity import check_origin, check_owner, check_unchanged
from airflow_sitemaps.pipeline.state.repository import ManifestVersion, StateRepository
from airflow_sitemaps.shards.commit import Rebased, rebase, stale_sections
from airflow_sitemaps.shards.guards import Refusal, refusal_text
from airflow_sitemaps.shards.plan import SectionFailure, failures_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.errors import GuardRefusal
    from airflow_sitemaps.ports import Clock, ObjectInfo, Progress, Store
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.shards.plan import Plan, Receipt
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

RACES: Final = 8
"""Number of times that a publisher rebases on other commits before it gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Result of a commit.

    Attributes:
        repeated: Whether an earlier try of this run had already committed.
        unchanged: Whether all rows read gave the published content, so that nothing was put.
        plan: The plan as committed, if it was fitted to the commits of other runs. Default: None, as given.
        bodies: Info of the new bodies by key, read just before the commit.
    """

    old: Manifest | None
    current: ManifestVersion
    repeated: bool = False
    unchanged: bool = False
    failures: tuple[SectionFailure, ...] = ()
    warnings: tuple[str, ...] = ()
    plan: Plan | None = None
    bodies: Mapping[str, ObjectInfo] = field(default_factory=dict)


def commit(
    sitemap: Sitemap, store: Store, plan: Plan, receipts: Sequence[Receipt], *, clock: Clock, progress: Progress
) -> Committed:
    """Replace the current manifest by the next one.

    If an earlier try of the run has committed, the sections that it omitted and that the plan now contains are
    committed. A person may clear a writing task that had failed, together with the publishing task.

    Raises:
        ConflictError: Another run changed the same sections first.
        StoreError: The store's answers stayed unclear; try again.
    """
    work = _Commit(sitemap, store, StateRepository(store.state), plan, receipts, clock, progress)
    for _ in range(RACES):
        committed = work.attempt()
        if committed is not None:
            return committed
    raise ConflictError(
        f"other runs committed first, {RACES} times in a row; run again when fewer runs publish at once"
    )


@dataclass(frozen=True, slots=True)
class _Commit:
    """One commit of a plan, and what it needs."""

    sitemap: Sitemap
    store: Store
    state: StateRepository
    plan: Plan
    receipts: Sequence[Receipt]
    clock: Clock
    progress: Progress

    def attempt(self) -> Committed | None:
        """Commit the plan on the current manifest; return None if another run has committed meanwhile."""
        current, repeated = self.state.current(), None
        plan = self.plan
        if current is not None:
            check_owner(self.sitemap, current.manifest)
            if current.manifest.run == plan.run:
                failures = _failed_before(plan, current.manifest)
                repeated = Committed(old=None, current=current, repeated=True, failures=failures)
                plan = _missing_from_first_try(plan, current.manifest)
                if not plan.sections:
                    return repeated
        current = self._checked(current, plan, is_repeated=repeated is not None)
        old = current.manifest if current is not None else None
        fitted = _fitted(self.state, old, plan, self.receipts)
        try:
            draft = make_draft(self.sitemap, self.store, old, fitted.plan, fitted.receipts, self.clock)
        except OwnershipError:
            if old is None and self.state.current() is not None:
                return None  # the index is that of another first run of this pipeline
            raise
        except GuardError as refused:
            if repeated is not None:
                return _still_refused(repeated, refused.refusals)
            raise
        if losses := judge_adoption(self.sitemap, self.store, plan, draft.manifest):
            losses = (*losses, *draft.refusals)
            raise GuardError(refusal_text(losses), losses, run=plan.run)
        if current is not None and says_the_same(current.manifest, draft.manifest):
            if repeated is not None:
                return _still_refused(repeated, draft.refusals)
            return _nothing_new(current, draft, plan, fitted.warnings)
        return self._replaced(current, draft, fitted)

    def _checked(self, current: ManifestVersion | None, plan: Plan, *, is_repeated: bool) -> ManifestVersion | None:
        """Check that the plan may be committed, and finish the promotion of the current manifest."""
        if not is_repeated:
            _refuse_repeated(current, plan)
        _refuse_old(self.sitemap, plan, self.clock)
        check_unchanged(self.sitemap, plan, plan.sections)
        if current is not None and not current.manifest.promoted:
            current = roll_forward(self.sitemap, self.store, current, clock=self.clock, progress=self.progress)
        if is_repeated:
            if current is not None and current.manifest.run != plan.run:
                raise _superseded(current.manifest, plan)
            return current
        if plan.origin:
            old = current.manifest if current is not None else None
            check_origin(old, plan.origin, plan.allow, run=plan.run)
        _refuse_repeated(current, plan)
        return current

    def _replaced(self, current: ManifestVersion | None, draft: Draft, fitted: Rebased) -> Committed | None:
        """Replace the manifest, after a check of the new bodies and a copy of the last generation."""
        old = current.manifest if current is not None else None
        bodies = check_bodies(self.store, old, draft.manifest)
        if current is not None:
            self.state.keep_generation(current)
        try:
            version = self.state.replace_manifest(draft.manifest, current)
        except RefusedPutError as refused:
            log.info("another run committed first (%s); rebasing", refused)
            return None
        return Committed(
            old=old,
            current=version,
            bodies=bodies,
            failures=failures_of(draft.refusals),
            warnings=(*fitted.warnings, *draft.warnings),
            plan=fitted.plan,
        )


def _nothing_new(current: ManifestVersion, draft: Draft, plan: Plan, warnings: Sequence[str]) -> Committed:
    """Return the result of a run that changes nothing. If every row is past its age, the next run surveys again."""
    if draft.refusals:
        raise GuardError(refusal_text(draft.refusals), draft.refusals, run=plan.run)
    if draft.manifest is not current.manifest:
        return Committed(old=current.manifest, current=current, unchanged=True, warnings=tuple(warnings))
    kept = plan.without(plan.sections)
    return Committed(
        old=current.manifest, current=current, unchanged=True, plan=kept, warnings=(*warnings, *draft.warnings)
    )


def _missing_from_first_try(plan: Plan, manifest: Manifest) -> Plan:
    """Return the sections that an earlier try of this run omitted and that the plan now contains."""
    failed = manifest.history[-1].failed if manifest.history else ()
    missing = structs.replace(plan, retired=(), adopted=(), index_drift=(), extras_due=False, rebases=False, repairs=())
    return missing.without([name for name in plan.sections if name not in failed])


def _fitted(state: StateRepository, old: Manifest | None, plan: Plan, receipts: Sequence[Receipt]) -> Rebased:
    """Adapt the plan of a full run or a rebuild to the generations that other runs committed since planning."""
    as_planned = Rebased(plan=plan, receipts=tuple(receipts))
    if old is None or not plan.rebases or not stale_sections(plan, old):
        return as_planned
    since = [note.action for note in old.history if note.generation > plan.base_generation]
    if since != ["build"] * (old.generation - plan.base_generation):
        return as_planned  # a rollback is not to be undone by half
    base = state.generation(plan.base_generation)
    return as_planned if base is None else rebase(plan, receipts, base, old)


def _failed_before(plan: Plan, manifest: Manifest) -> tuple[SectionFailure, ...]:
    """Return the sections that an earlier try of this commit omitted, without those that the plan already omits."""
    planned = {failure.section for failure in plan.failures}
    names = manifest.history[-1].failed if manifest.history else ()
    message = "a guard refused what was rendered; the log of the first try says why"
    return tuple(
        SectionFailure(section=name, error=GuardError.__name__, message=message)
        for name in names
        if name not in planned
    )


def _still_refused(repeated: Committed, refusals: Sequence[GuardRefusal]) -> Committed:
    """Return the result of a repeated try with what the guards refuse now, which names the permits."""
    own = [refusal for refusal in refusals if isinstance(refusal, Refusal)]
    refused = {failure.section: failure for failure in failures_of(own)}
    return replace(repeated, failures=tuple(refused.get(failure.section, failure) for failure in repeated.failures))


def says_the_same(old: Manifest, new: Manifest) -> bool:
    """Return whether a new generation differs only in its number, samples of faulty rows, and how far tables were read.

    A run that reads only some shards again finds only their faulty rows, so its samples differ. A new age for recent
    entries counts as a difference, so that the next run finds it recorded.
    """
    if old.recent_window not in (None, new.recent_window):
        return False
    sections = {name: _with_marks_of(old.sections.get(name), section) for name, section in new.sections.items()}
    return (dict(old.sections), old.indexes, old.extras) == (sections, new.indexes, new.extras)


def _with_marks_of(old: SectionManifest | None, new: SectionManifest) -> SectionManifest:
    """Return a section with the earlier values of what does not count as a change."""
    if old is None:
        return new
    return structs.replace(new, samples=old.samples, changed_in=old.changed_in, known=old.known)


def _refuse_old(sitemap: Sitemap, plan: Plan, clock: Clock) -> None:
    """Refuse a plan that is so old that a sweep may be about to remove its bodies."""
    age, most = clock.now() - plan.created_at, lifetime(sitemap.grace)
    if age >= most:
        raise IncompleteError(
            f"run {plan.run} was planned {age} ago, and its files may be swept after {most}. This task "
            "publishes nothing; run the DAG again. If runs take that long, set a longer grace: Sitemap(grace=…)."
        )


def _refuse_repeated(current: ManifestVersion | None, plan: Plan) -> None:
    if current is not None and any(note.run == plan.run for note in current.manifest.history):
        raise _superseded(current.manifest, plan)


def _superseded(now: Manifest, plan: Plan) -> ConflictError:
    return ConflictError(
        f"run {plan.run} was published before, and generation {now.generation} of run {now.run} has replaced it: "
        "nothing is left to do for this task. To publish the current rows, run the DAG again.",
        winner=now.run,
    )


def finish(
    sitemap: Sitemap, store: Store, committed: Committed, clock: Clock, progress: Progress
) -> tuple[ManifestVersion, Swept]:
    """Promote a commit, then sweep; return the manifest after that, and the numbers of removed files."""
    try:
        fresh = not committed.repeated
        current = promote(
            store, committed.current, clock=clock, progress=progress, fresh=fresh, bodies=committed.bodies
        )
    except SupersededError:
        log.info("a later run has finished this generation's promotion and committed its own")
        return committed.current, Swept()
    return sweep(sitemap, store, current, clock=clock)
