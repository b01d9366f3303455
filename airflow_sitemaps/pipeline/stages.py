"""The stages of a run: recover, plan, write, publish. ``build`` calls them one after another.

Any worker can run any stage. Each stage opens the store and the sources, and leaves no state on the worker.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from airflow_sitemaps.errors import GuardError, OwnershipError, SitemapError
from airflow_sitemaps.pipeline.batch_writer import Written, unwritten_sections, write_batch
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.plan.planner import make_plan
from airflow_sitemaps.pipeline.plan.sections import OF_ONE_SECTION
from airflow_sitemaps.pipeline.plan.surveys import remember_all
from airflow_sitemaps.pipeline.publish.new_pages import Canaries
from airflow_sitemaps.pipeline.publish.promotion import roll_forward
from airflow_sitemaps.pipeline.publish.public_files import adopted_names
from airflow_sitemaps.pipeline.publish.publisher import Committed, commit, finish
from airflow_sitemaps.pipeline.refusals import close, to_ask
from airflow_sitemaps.pipeline.report import Report, Swept, make_report, raise_failures
from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK, OpenSitemap, RunRequest
from airflow_sitemaps.pipeline.state.capability_probe import ensure_conditions
from airflow_sitemaps.pipeline.state.identity import check_origin, check_owner
from airflow_sitemaps.pipeline.state.repository import new_run, receipts_of
from airflow_sitemaps.ports import QUIET, Clock, Progress
from airflow_sitemaps.shards.guards import Refusal, refusal_text
from airflow_sitemaps.shards.plan import Plan, SectionFailure, failure_of, failures_of

if TYPE_CHECKING:
    from airflow_sitemaps.shards.codec import Receipt
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


def build(
    sitemap: Sitemap,
    full: bool = False,
    *,
    sections: Sequence[str] = (),
    rebuild: Sequence[str] = (),
    allow: Sequence[str] = (),
    adopt: bool = False,
    keep_lastmods: Sequence[str] = (),
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = QUIET,
) -> Report:
    """Plan, write every batch and publish, by the same stages that Airflow runs as tasks.

    Args:
        sitemap: The sitemap.
        full: Whether to read and render every row. Files with equal content are still not written again. Default:
            False.
        sections: Names of the sections to build. Default: all.
        rebuild: Names of shards to write again. Default: none.
        allow: Permits for guards, such as ``shrink:products``. Default: none.
        adopt: Whether to take over a sitemap that another program wrote. Default: False.
        keep_lastmods: Names of sections whose changed URLs keep their observed dates. Default: none.
        clock: Source of time and of tokens.
        progress: Receiver of the progress.

    Raises:
        PartlyPublishedError: Sections failed and the others were published; it holds the report.
        SitemapError: The run failed, and the published sitemap did not change. See ``airflow_sitemaps.errors``.
    """
    request = RunRequest(
        sections=tuple(sections), full=full, rebuild=tuple(rebuild), allow=tuple(allow), adopt=adopt,
        keep_lastmods=tuple(keep_lastmods),
    )  # fmt: skip
    finished = recover(sitemap, clock=clock, progress=progress)
    planned = plan(sitemap, request, finished=finished, clock=clock, progress=progress)
    receipts, failures = _written(sitemap, planned, clock, progress)
    report = publish(sitemap, planned.key, receipts, failures=failures, clock=clock, progress=progress)
    raise_failures(report)
    return report


def _written(
    sitemap: Sitemap, planned: Plan, clock: Clock, progress: Progress
) -> tuple[list[str], tuple[SectionFailure, ...]]:
    """Write all batches; return the keys of their receipts, and the sections whose rows could not be written."""
    receipts: list[str] = []
    errors: dict[str, SitemapError] = {}
    for batch in planned.batches:
        if batch.section in errors:
            continue
        try:
            written = write(sitemap, planned.key, batch.number, clock=clock, progress=progress)
        except OF_ONE_SECTION as error:
            if planned.fails_all(sitemap.on_section_failure):
                raise
            errors[batch.section] = error
            log.error("section %s: %s: %s", batch.section, type(error).__name__, error)
        else:
            receipts.append(written.receipt_key)
    if errors and not planned.without(errors.keys()).changes:
        raise next(iter(errors.values()))
    return receipts, tuple(failure_of(name, error) for name, error in errors.items())


def recover(
    sitemap: Sitemap, *, origin: str = "", clock: Clock = SYSTEM_CLOCK, progress: Progress = QUIET
) -> int | None:
    """Finish the promotion of a generation that an earlier run committed but did not finish.

    Call it before ``plan``, which never promotes. Repeating it is safe. If a body of the generation is missing or
    damaged, the generation stays unfinished, and the next plan reads the rows of those files again.

    Args:
        sitemap: The sitemap.
        origin: Deployment of the run. A generation of another one is left to it. Default: "", not known.
        clock: Source of time and of tokens.
        progress: Receiver of the progress of the promotion.

    Returns:
        The number of the finished generation, or None if none was finished.

    Raises:
        ConfigurationError: The store cannot be used, or the sitemap belongs to another pipeline.
        StoreError: The store failed; the next call continues.
    """
    opened = OpenSitemap.of(sitemap, clock, progress)
    current = opened.state.current()
    if current is None:
        return None
    check_owner(opened.sitemap, current.manifest)
    if current.manifest.promoted or (origin and current.manifest.origin not in ("", origin)):
        return None
    ensure_conditions(opened.store, sitemap.store.single_writer)
    finished = roll_forward(opened, current)
    return current.manifest.generation if finished.manifest.promoted else None


def plan(
    sitemap: Sitemap,
    request: RunRequest = RunRequest(),  # noqa: B008 - frozen
    *,
    finished: int | None = None,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = QUIET,
) -> Plan:
    """Survey the sources, compare them with the last manifest, and store a plan.

    A dry run writes nothing and refuses nothing. If the sitemap's ``on_section_failure`` is ``publish_others`` and
    another section has changes to publish, a section that fails or that a guard refuses does not stop the run. It is
    named in the plan's ``failures`` and stays as published.

    Args:
        sitemap: The sitemap.
        request: What the run is to do. Default: an incremental run of all sections.
        finished: Generation whose promotion the run has finished. Default: None.
        clock: Source of time and of tokens.
        progress: Receiver of the progress of the survey.

    Returns:
        The plan, which is stored at its ``key`` unless the run is dry.

    Raises:
        GuardError: A guard refused; nothing was written except the plan and a report of the refusal. Nothing at all was
            written if another deployment published last.
        ConfigurationError: A setting in the code or a connection is wrong.
        SourceError: The database failed.
        StoreError: The store failed.
    """
    opened = OpenSitemap.of(sitemap, clock, progress)
    if not request.dry_run:
        ensure_conditions(opened.store, sitemap.store.single_writer)
    manifest = _current(opened)
    try:
        adopted = adopted_names(opened, manifest, adopt=request.adopt)
    except OwnershipError:
        # The index may belong to this sitemap: the first run of another process may have published it meanwhile.
        manifest = manifest or _current(opened)
        adopted = adopted_names(opened, manifest, adopt=request.adopt)
    run = new_run(clock)
    if not request.dry_run and (request.asked_by or request.origin):
        check_origin(manifest, request.origin, request.allow, run=run)
    run_plan = replace(make_plan(opened, manifest, request, run=run, adopted=adopted), finished=finished)
    opened = opened.of_members(run_plan.members)
    if request.dry_run:
        _discard(opened.sitemap, run_plan)
        return run_plan
    asked = to_ask(manifest, run_plan.refusals, run_plan.created_at) if request.asks else {}
    fails_all = run_plan.fails_all(sitemap.on_section_failure)
    if run_plan.refusals and (fails_all or not (run_plan.changes or asked)):
        refused = GuardError(refusal_text(run_plan.refusals), run_plan.refusals, run=run_plan.run)
        if not fails_all:
            refused.sections = tuple(sorted(run_plan.refused.keys() | {each.section for each in run_plan.failures}))
        _discard(opened.sitemap, run_plan)
        opened.state.write_plan(run_plan)  # for the pages, which show what the run would change
        _report_refusal(opened, run_plan, manifest, run_plan.refusals)
        raise refused
    opened.state.write_plan(run_plan)
    return run_plan


def write(
    sitemap: Sitemap, plan_key: str, batch: int, *, clock: Clock = SYSTEM_CLOCK, progress: Progress = QUIET
) -> Written:
    """Write one batch of a stored plan to private bodies.

    Args:
        sitemap: The sitemap.
        plan_key: Key of the stored plan.
        batch: Number of the batch.
        clock: Source of time and of tokens.
        progress: Receiver of the progress.

    Returns:
        The key of the receipt and the counts of the batch.

    Raises:
        SitemapError: The batch could not be written; see ``pipeline.batch_writer.write_batch``.
    """
    opened = OpenSitemap.of(sitemap, clock, progress)
    run_plan = opened.state.read_plan(plan_key)
    opened = opened.of_members(run_plan.members)
    return write_batch(opened, replace(run_plan, sections={**run_plan.sections, **run_plan.refused}), batch)


def publish(
    sitemap: Sitemap,
    plan_key: str,
    receipt_keys: Sequence[str],
    *,
    failures: Sequence[SectionFailure] = (),
    unwritten: Mapping[int, str] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = QUIET,
) -> Report:
    """Commit and promote the written batches. Repeating it is safe, whatever the result of the last try.

    Args:
        sitemap: The sitemap.
        plan_key: Key of the stored plan.
        receipt_keys: Keys of the receipts of all batches.
        failures: Sections whose batches could not be written; they stay as published. Default: none.
        unwritten: Why batches have no receipt, by batch number. If it is given, and ``on_section_failure`` is
            ``publish_others``, the section of each batch without a receipt stays as published, whether or not a reason
            is known. Default: None, every batch must have a receipt.
        clock: Source of time and of tokens.
        progress: Receiver of the progress of the promotion.

    Returns:
        The report. Its ``failures`` name the sections that were not published; see ``report.raise_failures``.

    Raises:
        ConflictError: Another run published the same sections first.
        GuardError: A guard refused the rendered entries; nothing public changed.
        IncompleteError: A batch has no receipt, or a body is missing.
        StoreError: The store failed; the next try or run finishes a committed generation.
    """
    started = clock.now()
    opened = OpenSitemap.of(sitemap, clock, progress)
    state = opened.state
    run_plan, stored_at = state.stored_plan(plan_key)
    opened = opened.of_members(run_plan.members)
    receipts = list(mapped(state.read_receipt, receipts_of(run_plan.run, receipt_keys), "sitemap-receipts"))
    if unwritten is not None and not run_plan.fails_all(sitemap.on_section_failure):
        others = (f for f in unwritten_sections(run_plan, receipts, unwritten) if f.section not in run_plan.refused)
        failures = (*failures, *others)
    left_out = {*(failure.section for failure in failures), *run_plan.refused}
    run_plan = run_plan.without(left_out)
    run_plan = replace(run_plan, failures=(*run_plan.failures, *failures))
    receipts = [receipt for receipt in receipts if receipt.section in run_plan.sections]
    if not run_plan.changes:
        report = _unchanged(opened, run_plan)
        _discard(opened.sitemap, run_plan)
        return report
    canaries = Canaries(opened)
    try:
        committed = commit(canaries, run_plan, receipts, stored_at)
    except GuardError as error:
        at_plan = tuple(refusal for failure in run_plan.failures for refusal in failure.refusals)
        refusals = (*at_plan, *error.refusals)
        _report_refusal(opened, run_plan, state.manifest(), refusals, receipts, canaries=canaries.reports())
        if at_plan:
            raise GuardError(refusal_text(refusals), refusals, run=error.run) from None
        raise
    _discard(opened.sitemap, run_plan)
    return finished(canaries, committed, receipts, started)


def finished(canaries: Canaries, committed: Committed, receipts: Sequence[Receipt], started: datetime) -> Report:
    """Promote a commit, sweep, and report the run."""
    opened, run_plan = canaries.opened, committed.plan
    state = opened.state
    if committed.unchanged:
        return _unchanged(opened, run_plan, receipts, canaries=canaries.reports())
    current, swept = finish(opened, committed.current, fresh=not committed.repeated, bodies=committed.bodies)
    report = reported(
        opened,
        run_plan,
        receipts,
        old=state.generation(current.manifest.generation - 1) if committed.repeated else committed.old,
        new=current.manifest,
        result="partly_published" if run_plan.failures else "published",
        seconds={"publish": (opened.clock.now() - started).total_seconds()},
        swept=swept,
        canaries=canaries.reports(),
        refusals=tuple(failure.message for failure in run_plan.failures if failure.error == GuardError.__name__),
    )
    if not (committed.repeated and run_plan.rebases):  # the first try may have kept ranges that other runs wrote
        remember_all(state, run_plan.without([failure.section for failure in run_plan.failures]), current.manifest)
    return report


def _current(opened: OpenSitemap) -> Manifest | None:
    """Return the manifest to plan on, promoted or not, after a check that it belongs to this sitemap."""
    manifest = opened.state.manifest()
    if manifest is not None:
        check_owner(opened.sitemap, manifest)
    return manifest


def _discard(sitemap: Sitemap, run_plan: Plan) -> None:
    """Let the sources remove data that the run's tasks share. A failure only costs space until the data expires."""
    for section in sitemap.sections:
        planned = run_plan.sections.get(section.name) or run_plan.refused.get(section.name)
        if planned is None:
            continue
        source = section.source.at(planned.state) if planned.state else section.source
        try:
            source.discard(section=section.name)
        except SitemapError as error:
            log.warning(
                "section %s: the data that the run's tasks shared was not removed and stays until it expires: %s",
                section.name,
                error,
            )


def _report_refusal(
    opened: OpenSitemap,
    run_plan: Plan,
    manifest: Manifest | None,
    refusals: Sequence[object],
    receipts: Sequence[Receipt] = (),
    **fields: Any,
) -> None:
    own = failures_of([refusal for refusal in refusals if isinstance(refusal, Refusal)])
    reported(
        opened,
        run_plan,
        receipts,
        old=manifest,
        new=manifest,
        result="refused",
        refusals=tuple(map(str, refusals)),
        **fields,
        failures=tuple({each.section: each for each in (*own, *run_plan.failures)}.values()),
    )


def _unchanged(opened: OpenSitemap, run_plan: Plan, receipts: Sequence[Receipt] = (), **fields: Any) -> Report:
    """Report that nothing changed, after an unfinished promotion is finished, and sweep the files that are due.

    If this run finished the promotion of an earlier one, it reports what that run changed.
    """
    current, swept = opened.state.current(), Swept()
    finished = run_plan.finished if current is None or current.manifest.promoted else current.manifest.generation
    if current is not None and (current.manifest.promoted or current.manifest.origin in ("", run_plan.origin)):
        current, swept = finish(opened, current)
    manifest = current.manifest if current is not None else None
    close(opened, manifest, run_plan.sections.keys())
    old, result = manifest, "refused" if run_plan.failures else "unchanged"
    if manifest is not None and manifest.promoted and manifest.generation == finished and not run_plan.failures:
        old, result = opened.state.generation(manifest.generation - 1), "published"
    report = reported(opened, run_plan, receipts, old=old, new=manifest, result=result, swept=swept, **fields)
    if manifest is not None:
        remember_all(opened.state, run_plan, manifest)
    return report


def reported(opened: OpenSitemap, run_plan: Plan, receipts: Sequence[Receipt], **fields: Any) -> Report:
    """Make and store the report of a run."""
    report = make_report(run_plan, receipts, finished=opened.clock.now(), **fields)
    opened.state.write_report(report)
    return report
