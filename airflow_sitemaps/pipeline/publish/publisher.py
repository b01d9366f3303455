"""Publish a plan: commit its manifest, promote it and sweep. Every step is safe to repeat."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import structs

from airflow_sitemaps.errors import ConflictError, GuardError, IncompleteError, OwnershipError
from airflow_sitemaps.pipeline.publish.commit_files import check_bodies
from airflow_sitemaps.pipeline.publish.draft import make_draft
from airflow_sitemaps.pipeline.publish.promotion import NOT_SEEN, SupersededError, promote, roll_forward
from airflow_sitemaps.pipeline.publish.public_files import judge_adoption
from airflow_sitemaps.pipeline.publish.sweep import lifetime, sweep
from airflow_sitemaps.pipeline.refusals import check_open
from airflow_sitemaps.pipeline.report import Swept
from airflow_sitemaps.pipeline.state.identity import check_origin, check_owner, check_unchanged
from airflow_sitemaps.pipeline.state.repository import RACES, ManifestVersion, RefusedPutError, StateRepository
from airflow_sitemaps.shards.commit import rebase, stale_sections
from airflow_sitemaps.shards.guards import Refusal, refusal_text
from airflow_sitemaps.shards.plan import Plan, SectionFailure, failures_of

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.publish.new_pages import Canaries
    from airflow_sitemaps.pipeline.request import OpenSitemap
    from airflow_sitemaps.ports import Clock, ObjectInfo
    from airflow_sitemaps.shards.codec import Receipt
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Result of a commit, with the plan as fitted to the commits of other runs, and the info of the new bodies by key.

    ``old`` is the manifest before: None if there was none, or if an earlier try of this run had committed (``repeated``). It is
    ``unchanged`` if all rows read gave the published content, so that nothing was put.
    """

    plan: Plan
    current: ManifestVersion
    old: Manifest | None = None
    repeated: bool = False
    unchanged: bool = False
    bodies: Mapping[str, ObjectInfo] = field(default_factory=dict)


def commit(canaries: Canaries, plan: Plan, receipts: Sequence[Receipt], stored_at: datetime | None) -> Committed:
    """Replace the current manifest by the next one. The canaries have their results then, also if it fails.

    If an earlier try of the run has committed, the sections that it omitted and that the plan now contains are
    committed. A person may clear a writing task that had failed, together with the publishing task. ``stored_at`` is the
    store's time at which the plan was stored.

    Raises:
        ConflictError: Another run changed the same sections first.
        StoreError: The store's answers stayed unclear; try again.
    """
    for _ in range(RACES):
        committed = _attempt(canaries, plan, receipts, stored_at)
        if committed is not None:
            return committed
    raise ConflictError(
        f"other runs committed first, {RACES} times in a row; run again when fewer runs publish at once"
    )


def _attempt(
    canaries: Canaries, plan: Plan, receipts: Sequence[Receipt], stored_at: datetime | None
) -> Committed | None:
    """Commit a plan on the current manifest; return None if another run has committed meanwhile."""
    opened, repeated = canaries.opened, None
    current = opened.state.current()
    if current is not None:
        check_owner(opened.sitemap, current.manifest)
        if current.manifest.run == plan.run:
            repeated = Committed(plan=_with_failures_of(plan, current.manifest), current=current, repeated=True)
            plan = _missing_from_first_try(plan, current.manifest)
            if not plan.sections:
                return repeated
            receipts = [receipt for receipt in receipts if receipt.section in plan.sections]
    current = _checked(opened, current, plan, is_repeated=repeated is not None)
    old = current.manifest if current is not None else None
    plan, receipts = _fitted(opened.state, old, plan, receipts)
    try:
        plan, manifest, refusals, warnings = make_draft(canaries, old, plan, receipts, stored_at)
    except OwnershipError:
        if old is None and opened.state.current() is not None:
            return None  # the index is that of another first run of this pipeline
        raise
    except GuardError as refused:
        if repeated is not None:
            return _still_refused(repeated, refused.refusals)
        raise
    if losses := judge_adoption(opened, plan, manifest):
        losses = (*losses, *refusals)
        raise GuardError(refusal_text(losses), losses, run=plan.run)
    if current is not None and says_the_same(current.manifest, manifest):
        if repeated is not None:
            return _still_refused(repeated, refusals)
        return _nothing_new(current, plan, refusals, warnings)
    version, bodies = put_manifest(opened, current, manifest, has_bodies=old)
    if version is None:
        return None
    failures = (*plan.failures, *failures_of(refusals))
    plan = structs.replace(plan, failures=failures, warnings=(*plan.warnings, *warnings))
    return Committed(plan=plan, old=old, current=version, bodies=bodies)


def _nothing_new(
    current: ManifestVersion, plan: Plan, refusals: tuple[Refusal, ...], warnings: Sequence[str]
) -> Committed:
    if refusals:
        raise GuardError(refusal_text(refusals), refusals, run=plan.run)
    if not plan.sections:
        plan = structs.replace(plan, warnings=(*plan.warnings, *warnings))
    return Committed(plan=plan, old=current.manifest, current=current, unchanged=True)


def _checked(
    opened: OpenSitemap, current: ManifestVersion | None, plan: Plan, *, is_repeated: bool
) -> ManifestVersion | None:
    """Check that the plan may be committed, and finish the promotion of the current manifest."""
    if not is_repeated:
        _refuse_repeated(current, plan)
    _refuse_old(opened.sitemap, plan, opened.clock)
    check_unchanged(opened.sitemap, plan, plan.sections)
    if current is not None and not current.manifest.promoted:
        current = roll_forward(opened, current)
    if is_repeated:
        if current is not None and current.manifest.run != plan.run:
            raise _superseded(current.manifest, plan)
        return current
    if plan.staged:
        check_open(current.manifest if current is not None else None, plan, opened.clock.now())
    if plan.origin:
        check_origin(current.manifest if current is not None else None, plan.origin, plan.allow, run=plan.run)
    _refuse_repeated(current, plan)
    return current


def put_manifest(
    opened: OpenSitemap, current: ManifestVersion | None, manifest: Manifest, *, has_bodies: Manifest | None
) -> tuple[ManifestVersion | None, Mapping[str, ObjectInfo]]:
    """Replace the manifest, after a check of its bodies and a copy of the last generation; return it with their infos.

    The bodies of ``has_bodies`` are not checked. The manifest is None if another run has committed.
    """
    bodies = check_bodies(opened.store, has_bodies, manifest)
    if current is not None:
        opened.state.keep_generation(current)
    try:
        return opened.state.replace_manifest(manifest, current), bodies
    except RefusedPutError as refused:
        log.info("another run committed first: %s", refused)
        return None, bodies


def _missing_from_first_try(plan: Plan, manifest: Manifest) -> Plan:
    """Return the sections that an earlier try of this run omitted and that the plan now contains."""
    failed = manifest.history[-1].failed if manifest.history else ()
    missing = structs.replace(plan, retired=(), adopted=(), index_drift=(), extras_due=False, rebases=False, repairs=())
    return missing.without([name for name in plan.sections if name not in failed])


def _fitted(
    state: StateRepository, old: Manifest | None, plan: Plan, receipts: Sequence[Receipt]
) -> tuple[Plan, Sequence[Receipt]]:
    """Adapt the plan of a full run or a rebuild to the generations that other runs committed since planning."""
    if old is None or not plan.rebases or not stale_sections(plan, old):
        return plan, receipts
    since = [note.action for note in old.history if note.generation > plan.base_generation]
    if since != ["build"] * (old.generation - plan.base_generation):
        log.warning(
            "this run cannot be fitted to generations %d to %d: one of them is a rollback, which would be undone by half, or "
            "they are more than Sitemap(history=…) keeps", plan.base_generation + 1, old.generation,
        )  # fmt: skip
        return plan, receipts
    base = state.generation(plan.base_generation)
    return (plan, receipts) if base is None and plan.base_generation else rebase(plan, receipts, base, old)


def _with_failures_of(plan: Plan, manifest: Manifest) -> Plan:
    """Return a plan with the sections that an earlier try of its commit omitted, besides those that it omits itself."""
    planned = {failure.section for failure in plan.failures}
    names = manifest.history[-1].failed if manifest.history else ()
    message = "a guard refused what was rendered; the log of the first try says why"
    failures = (
        SectionFailure(section=n, error=GuardError.__name__, message=message) for n in names if n not in planned
    )
    return structs.replace(plan, failures=(*plan.failures, *failures))


def _still_refused(repeated: Committed, refusals: Sequence[Refusal]) -> Committed:
    """Return the result of a repeated try with what the guards refuse now, which names the permits."""
    refused = {failure.section: failure for failure in failures_of(refusals)}
    failures = tuple(refused.get(failure.section, failure) for failure in repeated.plan.failures)
    return replace(repeated, plan=structs.replace(repeated.plan, failures=failures))


def says_the_same(old: Manifest, new: Manifest) -> bool:
    """Return whether a new generation differs only in its number, samples of faulty rows, and how far tables were read.

    A run that reads only some shards again finds only their faulty rows, so its samples differ. A new age for recent
    entries counts as a difference, so that the next run finds it recorded, and so does another deployment.
    """
    if old.recent_window not in (None, new.recent_window) or old.origin not in ("", new.origin):
        return False
    sections = dict(new.sections)
    for name in sections.keys() & old.sections.keys():
        marks = old.sections[name]
        sections[name] = structs.replace(
            sections[name],
            samples=marks.samples,
            changed_in=marks.changed_in,
            known=marks.known,
            question=marks.question,
        )
    return (dict(old.sections), old.indexes, old.extras, old.gone) == (sections, new.indexes, new.extras, new.gone)


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
    opened: OpenSitemap, current: ManifestVersion, *, fresh: bool = False, bodies: Mapping[str, ObjectInfo] = NOT_SEEN
) -> tuple[ManifestVersion, Swept]:
    """Promote a commit as ``promote`` does, then sweep; return the manifest after that, and what was removed."""
    try:
        current = promote(opened, current, fresh=fresh, bodies=bodies)
    except SupersededError:
        log.info("a later run has finished this generation's promotion and committed its own")
        return current, Swept()
    return sweep(opened, current)
