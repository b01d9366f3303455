"""The use cases, each a stage that any worker can run: plan, write, publish; status and rollback.

A stage opens the store and the sources itself and leaves nothing behind on the worker.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import GuardError, OwnershipError, RuleError, SitemapError
from airflow_sitemaps.pipeline import adoption, watermark
from airflow_sitemaps.pipeline.clock import QUIET, SYSTEM_CLOCK
from airflow_sitemaps.pipeline.conditions import ensure_conditions
from airflow_sitemaps.pipeline.explaining import explain
from airflow_sitemaps.pipeline.parallel import mapped
from airflow_sitemaps.pipeline.planning import RunRequest, check_owner, make_plan
from airflow_sitemaps.pipeline.publishing import commit, finish, refusal_text, roll_forward
from airflow_sitemaps.pipeline.reporting import Outcome, make_report
from airflow_sitemaps.pipeline.reverting import rollback
from airflow_sitemaps.pipeline.state import State, new_run, receipts_directory
from airflow_sitemaps.pipeline.status import Status, status_of
from airflow_sitemaps.pipeline.sweeping import Swept, sweep
from airflow_sitemaps.pipeline.writing import Written, write_batch
from airflow_sitemaps.shards.index import robots_urls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.ports import Clock, Progress, Store
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.shards.receipt import Receipt
    from airflow_sitemaps.sitemap import Sitemap

__all__ = [
    "Planned",
    "RunRequest",
    "Written",
    "explain",
    "plan",
    "publish",
    "robots",
    "rollback",
    "status",
    "write",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan and where it lies (None after a dry run)."""

    plan: Plan
    key: str | None


def plan(
    sitemap: Sitemap,
    request: RunRequest = RunRequest(),  # noqa: B008 - frozen
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = QUIET,
) -> Planned:
    """Survey, compare, decide; store the plan. A dry run writes nothing and refuses nothing.

    Raises:
        GuardError: a guard refused; nothing was written but the report that says so.
        ConfigurationError: something in the code or a connection cannot work.
        SourceError, StoreError: the database or the store failed.
    """
    store = sitemap.store.open()
    state = State(store.state)
    if not request.dry_run:
        ensure_conditions(store, sitemap.store.single_writer)
    manifest = _current(sitemap, store, request, clock, progress)
    if manifest is None and store.public.head(store.index_name) is not None:
        # Not somebody else's, perhaps: a rival's first run may have come in between.
        manifest = _current(sitemap, store, request, clock, progress)
    adopted = _adopted(sitemap, store, manifest, request)
    run = new_run(clock)
    made = make_plan(sitemap, store, manifest, request, run=run, adopted=adopted, clock=clock, progress=progress)
    _check_null_keys(sitemap, made)
    if request.dry_run:
        return Planned(plan=made, key=None)
    if made.refusals:
        text = refusal_text(made.refusals)
        _report_refusal(state, made, manifest, made.refusals, clock)
        raise GuardError(text, made.refusals)
    return Planned(plan=made, key=state.write_plan(made))


def write(
    sitemap: Sitemap, plan_key: str, batch: int, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = QUIET
) -> Written:
    """Write one batch of a stored plan to private bodies; see ``writing.write_batch`` for what it raises."""
    store = sitemap.store.open()
    made = State(store.state).read_plan(plan_key)
    written, _ = write_batch(sitemap, store, made, batch, clock=clock, progress=progress)
    return written


def publish(
    sitemap: Sitemap,
    plan_key: str,
    receipt_keys: Sequence[str],
    *,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = QUIET,
) -> Report:
    """Commit and promote what was written. Repeating it is safe, whatever became of the last try.

    Raises:
        ConflictError: another run published the same sections first.
        GuardError: what was rendered fails a guard; nothing public changed.
        IncompleteError: a batch has no receipt, or a body is missing.
        StoreError: the store failed; a committed generation is finished by the next try or run.
    """
    started = clock.now()
    store = sitemap.store.open()
    state = State(store.state)
    made = state.read_plan(plan_key)
    receipts = list(mapped(state.read_receipt, _own(made, receipt_keys), "sitemap-receipts"))
    if not made.changes:
        report = _unchanged(sitemap, store, made, clock)
        _discard(sitemap, made)
        return report
    try:
        committed = commit(sitemap, store, made, receipts, clock=clock, progress=progress)
    except GuardError as refused:
        _report_refusal(state, made, _manifest(state), refused.refusals, clock, receipts)
        raise
    _discard(sitemap, made)
    if committed.unchanged:
        return _unchanged(sitemap, store, made, clock, receipts)
    root, swept = finish(sitemap, store, committed, clock, progress)
    old = committed.old if not committed.repeated else state.generation(root.manifest.generation - 1)
    now = clock.now()
    outcome = Outcome(
        run=made.run,
        result="published",
        started=made.created_at,
        finished=now,
        seconds={
            "plan": made.seconds,
            "write": sum(receipt.seconds for receipt in receipts),
            "publish": (now - started).total_seconds(),
        },
        swept=swept.public + swept.private,
        warnings=made.warnings,
    )
    report = make_report(outcome, old=old, new=root.manifest, plan=made, receipts=receipts)
    state.write_report(report)
    _remember_watermarks(state, made, root.manifest)
    return report


def status(sitemap: Sitemap) -> Status:
    """What is published now, and the generations that are kept. Writes nothing."""
    store = sitemap.store.open()
    return status_of(_manifest(State(store.state)), sitemap.store.base_url)


def robots(sitemap: Sitemap) -> tuple[str, ...]:
    """The addresses that robots.txt should name: every index, and the feeds. Writes nothing."""
    manifest = _manifest(State(sitemap.store.open().state))
    if manifest is None:
        return ()
    return robots_urls(manifest)


def _manifest(state: State) -> Manifest | None:
    root = state.root()
    return None if root is None else root.manifest


def _current(sitemap: Sitemap, store: Store, request: RunRequest, clock: Clock, progress: Progress) -> Manifest | None:
    """The manifest to plan on, wholly promoted (a dry run takes it as it is)."""
    root = State(store.state).root()
    if root is None:
        return None
    check_owner(sitemap, root.manifest)
    if not root.manifest.promoted and not request.dry_run:
        root = roll_forward(sitemap, store, root, clock=clock, progress=progress)
    return root.manifest


def _adopted(sitemap: Sitemap, store: Store, manifest: Manifest | None, request: RunRequest) -> tuple[str, ...]:
    """Names of the files of a sitemap that something else wrote. Raises OwnershipError unless it is to be adopted."""
    if manifest is not None or store.public.head(store.index_name) is None:
        return ()
    if not request.adopt:
        raise OwnershipError(
            f"{store.public.url(store.index_name)} exists, and no manifest of ours knows it: something else wrote it. "
            "Nothing was changed. To take it over, look at the difference with `airflow-sitemaps adopt`, or give this "
            "sitemap an address of its own."
        )
    return adoption.children(store)


def _check_null_keys(sitemap: Sitemap, made: Plan) -> None:
    for section in sitemap.sections:
        found = made.sections.get(section.name)
        if found is None or not found.null_keys:
            continue
        if sitemap.rulebook(section)["key-null"].value == "fail":
            samples = "; ".join(found.null_key_samples)
            raise RuleError(
                f"section {section.name!r}: {found.null_keys:,} row(s) have a NULL key, and the rule 'key-null' is set "
                f"to 'fail': {samples}. Nothing was published. Mend the rows, or take a key that is never NULL.",
                rule="key-null",
                section=section.name,
            )


def _discard(sitemap: Sitemap, made: Plan) -> None:
    """Let the sources remove what the run's tasks have shared. A failure costs nothing but room: it expires."""
    for section in sitemap.sections:
        if section.name not in made.sections:
            continue
        try:
            section.source.discard(section=section.name)
        except SitemapError as error:
            log.warning("section %s: what the run's tasks shared stays until it expires: %s", section.name, error)


def _report_refusal(
    state: State,
    made: Plan,
    manifest: Manifest | None,
    refusals: Sequence[object],
    clock: Clock,
    receipts: Sequence[Receipt] = (),
) -> None:
    """Keep a report of a run that guards refused."""
    outcome = Outcome(
        run=made.run,
        result="refused",
        started=made.created_at,
        finished=clock.now(),
        seconds={"plan": made.seconds, "write": sum(receipt.seconds for receipt in receipts)},
        warnings=made.warnings,
        refusals=[str(refusal) for refusal in refusals],
    )
    state.write_report(make_report(outcome, old=manifest, new=manifest, plan=made, receipts=receipts))


def _own(made: Plan, receipt_keys: Sequence[str]) -> list[str]:
    """The receipts of this plan.

    When an Airflow run is cleared from its plan on, and the new plan has fewer batches, the mapped tasks that are no
    longer there leave the receipts of their last try behind.
    """
    own = [key for key in receipt_keys if key.startswith(receipts_directory(made.run))]
    if len(own) < len(receipt_keys):
        log.info("%d receipt(s) of earlier plans are passed over", len(receipt_keys) - len(own))
    return own


def _unchanged(sitemap: Sitemap, store: Store, made: Plan, clock: Clock, receipts: Sequence[Receipt] = ()) -> Report:
    """Say that nothing changed; sweep what is due."""
    state = State(store.state)
    root = state.root()
    swept = Swept()
    if root is not None and root.manifest.promoted:
        root, swept = sweep(sitemap, store, root, clock=clock)
    manifest = root.manifest if root is not None else None
    outcome = Outcome(
        run=made.run,
        result="unchanged",
        started=made.created_at,
        finished=clock.now(),
        seconds={"plan": made.seconds, "write": sum(receipt.seconds for receipt in receipts)},
        swept=swept.public + swept.private,
        warnings=made.warnings,
    )
    report = make_report(outcome, old=manifest, new=manifest, plan=made, receipts=receipts)
    state.write_report(report)
    if manifest is not None:
        _remember_watermarks(state, made, manifest)
    return report


def _remember_watermarks(state: State, made: Plan, manifest: Manifest) -> None:
    """Keep the watermarks of a plan whose result is what the manifest now holds."""
    for name, found in made.sections.items():
        section = manifest.sections.get(name)
        if found.watermark is None or section is None:
            continue
        if section.changed_in not in (found.base, manifest.generation if manifest.run == made.run else found.base):
            continue
        mark = watermark.Watermark(moment=found.watermark, slice=found.slice, changed_in=section.changed_in)
        watermark.remember(state, name, mark)
