"""Make a plan: survey the sources, compare them with the manifest, and decide. Writes nothing public."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from msgspec import structs

from airflow_sitemaps.errors import (
    ConfigurationError,
    RefusedError,
    RequestError,
    RuleError,
    SitemapError,
    SourceError,
    TransientError,
)
from airflow_sitemaps.pipeline.plan import drift
from airflow_sitemaps.pipeline.plan.foreign_index import check_stamps
from airflow_sitemaps.pipeline.plan.sample_check import Judgment, judge_sample
from airflow_sitemaps.pipeline.plan.section_planner import SectionContext, plan_section
from airflow_sitemaps.pipeline.publish import index_settings
from airflow_sitemaps.pipeline.publish.draft import extra_files
from airflow_sitemaps.pipeline.publish.draft.content_guard import counted_in_total
from airflow_sitemaps.pipeline.request import chosen
from airflow_sitemaps.pipeline.state.published_articles import news_refusals
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards import week
from airflow_sitemaps.shards.batches import make_batches
from airflow_sitemaps.shards.guards import (
    ADDRESS,
    Permit,
    Refusal,
    check_dropped,
    check_permits,
    check_renamed,
    check_size,
    check_vanished,
    permitted,
)
from airflow_sitemaps.shards.plan import Plan, SectionPlan, failure_of, failures_of
from airflow_sitemaps.shards.total_guard import SectionSize, check_total
from airflow_sitemaps.shards.url_sample import top_prefixes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_sitemaps.pipeline.request import RunRequest
    from airflow_sitemaps.ports import Clock, ObjectInfo, Progress, Store
    from airflow_sitemaps.shards.manifest import IndexFile, Manifest, PublicFile, SectionManifest
    from airflow_sitemaps.shards.plan import RangeAction, SectionCheck
    from airflow_sitemaps.sitemap import Section, Sitemap

log = logging.getLogger(__name__)

OF_ONE_SECTION: Final = (ConfigurationError, RefusedError, SourceError)
"""Errors of one section's source or rows, which need not stop the other sections."""


TOUCHED: Final = 0.5
"""Fraction of a section's shards above which a warning says that many hold changed rows."""


@dataclass(slots=True)
class _Surveyed:
    """The planned sections of a run, and those that could not be planned.

    Attributes:
        plans: Plans by section.
        refusals: What the guards refuse.
        warnings: Sentences for people.
        notes: Further sentences for people.
        errors: Errors of the sections that could not be planned, by section.
        checks: What the rules do to the first rows of each section, if the request asks for it.
    """

    plans: dict[str, SectionPlan] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: dict[str, SitemapError] = field(default_factory=dict)
    checks: list[SectionCheck] = field(default_factory=list)


def make_plan(
    sitemap: Sitemap,
    store: Store,
    manifest: Manifest | None,
    request: RunRequest,
    *,
    run: str,
    clock: Clock,
    progress: Progress,
    adopted: tuple[str, ...] = (),
) -> Plan:
    """Make the plan of a run.

    Guards are evaluated but not enforced: the plan's ``refusals`` hold what they refuse. Sections that fail are not
    planned but named in the plan's ``failures``, unless the sitemap says ``fail_all`` or no section is left.

    Args:
        adopted: Public names of another program's sitemap that the run takes over. Default: none.

    Raises:
        ConfigurationError: A name in the request does not exist, or a section's configuration is wrong.
        RuleError: A row breaks a rule that is set to ``fail``.
        SourceError: The database failed.
        StoreError: The store failed.
    """
    started = clock.now()
    check_permits(request.allow, _names(sitemap, manifest))
    request, spent = _without_spent(request, sitemap, manifest)
    listing = drift.look(store, manifest, read=request.full or bool(request.rebuild))
    if manifest is not None and not (request.dry_run or request.adopt):
        check_stamps(store, manifest, listing)
    request = replace(request, rebuild=_rebuilt(request, manifest))
    surveyed = _survey(sitemap, store, manifest, request, listing, clock, progress)
    plans = surveyed.plans
    retired, vanished = _left_out(sitemap, manifest, request)
    renamed = check_renamed(sitemap.guards, *_renamed(manifest, plans, retired))
    stand, passed = permitted((*surveyed.refusals, *vanished, *renamed), request.allow)
    total, passed_total = permitted(_judge_total(sitemap, manifest, plans, stand, request, clock.now()), request.allow)
    stand, passed = (*stand, *total), (*passed, *passed_total)
    retired += tuple(r.section for r in passed if r.guard == "vanished")
    for shrunk in (r.section for r in passed if r.guard in ("shrink", "total")):
        plans[shrunk] = structs.replace(plans[shrunk], refresh=True)  # the commit records the new number of URLs
    whole = Plan(
        run=run,
        created_at=started,
        base_generation=manifest.generation if manifest is not None else 0,
        sections=plans,
        retired=retired,
        index_drift=_index_drift(store, manifest, listing),
        adopted=adopted,
        extras_due=extra_files.due(sitemap, manifest, clock.now()) or index_settings.are_to_change(sitemap, manifest),
        refusals=stand,
        warnings=(
            *spent,
            *(f"allowed: {refusal.message}" for refusal in passed),
            *surveyed.warnings,
            *touched_warnings(sitemap, plans, manifest),
            *index_settings.too_many(sitemap, plans, manifest),
        ),
        allow=request.allow,
        origin=request.origin,
        asked_by=request.asked_by,
        failures=tuple(failure_of(name, error) for name, error in surveyed.errors.items()),
        rebases=request.full or bool(request.rebuild),
        prefixes=() if manifest is None else top_prefixes(manifest.sections.values(), manifest.sections.values()),
        notes=tuple(surveyed.notes),
        checks=tuple(surveyed.checks),
        repairs=drift.repairs(store, manifest, plans, listing),
    )
    whole = whole.without_removals([name for name in surveyed.errors if name not in _published(manifest)])
    plan = _with_batches(_publishable(sitemap, whole, request), request)
    if surveyed.errors and not stand and not plan.changes:
        error = next(iter(surveyed.errors.values()))
        error.sections = tuple(surveyed.errors)
        raise error
    return structs.replace(plan, seconds=max(0.0, (clock.now() - started).total_seconds()))  # a clock may be set back


def _survey(
    sitemap: Sitemap,
    store: Store,
    manifest: Manifest | None,
    request: RunRequest,
    listing: Mapping[str, ObjectInfo],
    clock: Clock,
    progress: Progress,
) -> _Surveyed:
    """Plan each section; after the others, try a section whose database failed once more."""
    sections = chosen(sitemap, request)
    surveyed = _Surveyed()
    progress.start("survey", len(sections), "sections")
    waiting = list(sections)
    for attempt in (1, 2):
        again = []
        for section in waiting:
            try:
                plan, judgment = _planned(sitemap, section, store, manifest, request, listing, clock)
            except OF_ONE_SECTION as error:
                if sitemap.on_section_failure == "fail_all" or len(sections) == 1:
                    raise
                if attempt == 1 and isinstance(error, TransientError):
                    again.append(section)
                    continue
                log.error("section %s: %s: %s", section.name, type(error).__name__, error)
                surveyed.errors[section.name] = error
            else:
                surveyed.plans[section.name] = plan
                surveyed.refusals.extend(judgment.refusals)
                surveyed.warnings.extend(judgment.warnings)
                surveyed.notes.extend(judgment.notes)
                surveyed.checks.extend([] if judgment.check is None else [judgment.check])
            progress.advance(1)
        waiting = again
    progress.finish()
    order = {section.name: number for number, section in enumerate(sections)}
    surveyed.plans = dict(sorted(surveyed.plans.items(), key=lambda item: order[item[0]]))
    return surveyed


def _planned(
    sitemap: Sitemap,
    section: Section,
    store: Store,
    manifest: Manifest | None,
    request: RunRequest,
    listing: Mapping[str, ObjectInfo],
    clock: Clock,
) -> tuple[SectionPlan, Judgment]:
    """Plan one section, and in a dry run also check its first rows."""
    with section.source.open(section=section.name) as source:
        context = SectionContext(
            sitemap=sitemap,
            section=section,
            store=store,
            source=source,
            manifest=manifest,
            listing=listing,
            request=request,
            now=clock.now(),
        )
        plan = plan_section(context)
        check_null_keys(sitemap, section, plan)
        sample = judge_sample(context, plan, clock) if request.dry_run else Judgment()
    refusals = _judge(context, plan, clock.now())
    more = tuple(refusal for refusal in sample.refusals if refusal.guard not in {each.guard for each in refusals})
    return plan, replace(sample, refusals=(*refusals, *more), warnings=(*plan.warnings, *sample.warnings))


def _publishable(sitemap: Sitemap, plan: Plan, request: RunRequest) -> Plan:
    """Return the plan without the sections that guards refuse, if the others are to be published."""
    if request.dry_run or not plan.refusals or sitemap.on_section_failure == "fail_all":
        return plan
    names = {refusal.section for refusal in plan.refusals}
    return structs.replace(
        plan.without(names),
        failures=(*plan.failures, *failures_of(plan.refusals)),
        refused={name: section for name, section in plan.sections.items() if name in names},
    )


def _with_batches(plan: Plan, request: RunRequest) -> Plan:
    return structs.replace(plan, batches=make_batches(plan.sections, request.batch_rows))


def check_null_keys(sitemap: Sitemap, section: Section, plan: SectionPlan) -> None:
    """Refuse rows with a NULL key if the rule ``key-null`` is set to ``fail``.

    Raises:
        RuleError: There are rows with a NULL key.
    """
    if plan.null_keys and sitemap.rulebook(section)["key-null"].value == "fail":
        samples = "; ".join(plan.null_key_samples)
        raise RuleError(
            f"section {section.name!r}: NULL key in {counted(plan.null_keys, 'row')}, and the rule 'key-null' is set "
            f"to 'fail': {samples}. Nothing was published. Fix the rows, or use a key that is never NULL.",
            rule="key-null",
            section=section.name,
        )


def _judge(context: SectionContext, plan: SectionPlan, now: datetime) -> tuple[Refusal, ...]:
    section, before = context.section, context.before
    guards = context.sitemap.guards_of(section)
    null_keys = check_dropped(guards, section.name, rows=plan.rows + plan.null_keys, dropped=plan.null_keys)
    cause = (
        f" They have a NULL key (rule key-null), such as {'; '.join(plan.null_key_samples[:2])}. Use key columns that are "
        "never NULL."
    )
    size = check_size(
        guards,
        section.name,
        now=plan.rows,
        before=before.rows - before.null_keys if before is not None else None,  # as counted by the plan
        peak=week.most(before, now) if before is not None else 0,
        what="rows",
    )
    if size and section.kind == "news":
        size = news_refusals(guards, context.store, section, size, before, number=plan.rows, what="rows", now=now)
    return (*size, *(replace(refusal, message=refusal.message + cause) for refusal in null_keys))


def _judge_total(
    sitemap: Sitemap,
    manifest: Manifest | None,
    plans: Mapping[str, SectionPlan],
    refused: Sequence[Refusal],
    request: RunRequest,
    now: datetime,
) -> tuple[Refusal, ...]:
    """Judge the rows of all sections together. Sections that this run does not plan stay as published."""
    sizes = {}
    for name, before in counted_in_total(sitemap, manifest, refused, request.allow).items():
        planned = plans.get(name)
        rows = planned.rows if planned is not None else before.urls + before.expired_rows
        sizes[name] = SectionSize(before=before, now=rows)
    return check_total(sitemap.guards, sizes, now=now, what="rows")


def _names(sitemap: Sitemap, manifest: Manifest | None) -> set[str]:
    """Return the names of sections that a permit may name."""
    return {*_published(manifest), *(section.name for section in sitemap.sections), *sitemap.retired}


def _without_spent(
    request: RunRequest, sitemap: Sitemap, manifest: Manifest | None
) -> tuple[RunRequest, tuple[str, ...]]:
    """Return the request without the permits that it used before, and a warning for each section that they concern.

    A permit holds for one publication. If the tasks of its DAG run are cleared, it does not hold again.
    """
    used = [
        n for n, state in _published(manifest).items() if request.asked_by and state.permitted_by == request.asked_by
    ]
    names = sorted(_names(sitemap, manifest).difference(used))
    if not used or not request.allow:
        return request, ()
    allow: list[str] = []
    for text in request.allow:
        permit = Permit.of(text)
        name, equals, bound = text.partition("=")
        if permit.section is None and permit.guard not in ADDRESS:
            allow += [f"{name}:{section}{equals}{bound}" for section in names]
        elif permit.section not in used:
            allow.append(text)
    warnings = tuple(
        f"section {name!r}: the permits of this run were used for an earlier publication, and hold no longer; to allow "
        "another change, start a new run"
        for name in used
    )
    return replace(request, allow=tuple(allow)), warnings


def _published(manifest: Manifest | None) -> Mapping[str, SectionManifest]:
    return manifest.sections if manifest is not None else {}


def _renamed(
    manifest: Manifest | None, plans: Mapping[str, SectionPlan], retired: Sequence[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the URLs of each removed section, and the rows of each section that is built for the first time."""
    published = _published(manifest)
    return (
        {name: published[name].urls for name in retired},
        {name: plan.rows for name, plan in plans.items() if name not in published},
    )


def _left_out(
    sitemap: Sitemap, manifest: Manifest | None, request: RunRequest
) -> tuple[tuple[str, ...], tuple[Refusal, ...]]:
    """Return the sections to remove, and refusals for those that are missing from the code."""
    if manifest is None or request.sections:
        return (), ()
    present = {section.name for section in sitemap.sections}
    missing = [name for name in manifest.sections if name not in present]
    retired = tuple(name for name in missing if name in sitemap.retired)
    return retired, tuple(check_vanished(name) for name in missing if name not in retired)


def _rebuilt(request: RunRequest, manifest: Manifest | None) -> tuple[str, ...]:
    """Return the file names of the shards to write again. A request may name a shard without its ending.

    Raises:
        RequestError: There is no such shard.
    """
    file_names = [file.name for file in manifest.files()] if manifest is not None else []
    names = {name.removesuffix(".xml.gz").removesuffix(".txt.gz"): name for name in file_names} | {
        n: n for n in file_names
    }
    unknown = sorted(set(request.rebuild) - set(names))
    if unknown:
        raise RequestError(
            f"rebuild: {', '.join(unknown)} is not a shard of this sitemap; names look like {sorted(file_names)[:2]}"
        )
    return tuple(names[name] for name in request.rebuild)


def _index_drift(store: Store, manifest: Manifest | None, listing: Mapping[str, ObjectInfo]) -> tuple[str, ...]:
    """Return the names of index files and extra files that another program changed or deleted."""
    if manifest is None:
        return ()
    files: tuple[IndexFile | PublicFile, ...] = (*manifest.indexes, *manifest.extras)
    return tuple(
        i.name for i in files if i.etag is not None and (i.name not in listing or listing[i.name].etag != i.etag)
    )


def touched_warnings(sitemap: Sitemap, plans: Mapping[str, SectionPlan], manifest: Manifest | None) -> tuple[str, ...]:
    """Warn about each section in which unusually many shards hold changed rows.

    Shards that are written for another reason (a request, another configuration, drift) do not count.
    """
    warnings = []
    for section in sitemap.sections:
        plan = plans.get(section.name)
        state = manifest.sections.get(section.name) if manifest is not None else None
        if (
            plan is None
            or state is None
            or (state.fingerprint, state.digest_kind) != (plan.fingerprint, plan.digest_kind)
        ):
            continue
        changed = sum(_holds_other_rows(target, state) for target in plan.targets)
        if len(plan.targets) >= 10 and changed > TOUCHED * len(plan.targets):
            warnings.append(
                f"section {section.name!r}: {changed:,} of {len(plan.targets):,} shards change "
                f"({changed / len(plan.targets):.0%}). Did a load stamp every row?"
            )
    return tuple(warnings)


def _holds_other_rows(target: RangeAction, state: SectionManifest) -> bool:
    if target.carries is None:
        return target.action.writes
    return not target.digest.same_rows(state.shards[target.carries].digest)
