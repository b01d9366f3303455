"""Plan one section: survey its source, compare it with the manifest, and decide what to do with each range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.pipeline.plan import drift, layout
from airflow_sitemaps.pipeline.plan.partial_survey import PartialSurvey, narrow
from airflow_sitemaps.pipeline.state.fingerprint import fingerprint
from airflow_sitemaps.shards.key import UNKNOWN, same_kinds
from airflow_sitemaps.shards.plan import Action, SectionPlan
from airflow_sitemaps.shards.range_actions import DecisionContext, decide
from airflow_sitemaps.shards.shard_names import fits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.pipeline.request import SectionContext
    from airflow_sitemaps.ports import Source
    from airflow_sitemaps.shards.balance import LayoutRange
    from airflow_sitemaps.shards.digest import Survey
    from airflow_sitemaps.shards.manifest import SectionManifest
    from airflow_sitemaps.shards.plan import RangeAction


def plan_section(context: SectionContext) -> SectionPlan:
    """Make the plan of one section."""
    section, source, before = context.section, context.source, context.before
    configuration = fingerprint(context.sitemap, section)
    fresh = _fresh_cause(context)
    everything = fresh or _everything(context, configuration)
    narrowed = narrow(context, everything)
    files = drift.Drift() if before is None else drift.find(context.store, before, context.listing)
    actions, survey = _actions(context, everything, fresh, narrowed.survey, files)
    carried = {t.carries for t in actions if t.carries is not None and t.kind is not Action.EMPTY}
    shards = before.shards if before is not None else ()
    return SectionPlan(
        name=section.name,
        base=before.changed_in if before is not None else 0,
        fingerprint=configuration,
        digest_kind=source.digest_kind,
        actions=actions,
        gone=tuple(p for p, shard in enumerate(shards) if shard.file is not None and p not in carried),
        taken=drift.taken(section.path, section.name, context.listing, context.manifest),
        drift=files.sentences,
        drifted=tuple(sorted(files.files)),
        key_kinds=_key_kinds(source, before),
        null_keys=survey.null_keys,
        null_key_samples=survey.null_key_samples,
        known=narrowed.with_ages(before, actions),
        survey_note=narrowed.note,
        warnings=narrowed.warnings,
        as_of=source.state,
        scan=source.scan_estimate(),
        refresh=_differs(before, actions, survey, configuration, source),
    )


def _actions(
    context: SectionContext, everything: str, fresh: str, partial: PartialSurvey | None, files: drift.Drift
) -> tuple[tuple[RangeAction, ...], Survey]:
    """Decide the actions of all ranges; return them with their survey.

    If only some ranges were surveyed, the ranges to read are surveyed too, because a plan needs their number of rows.
    """
    shards = context.before.shards if context.before is not None else ()
    while True:
        ranges, survey = _ranges(context, fresh, partial)
        decision = DecisionContext(
            now=context.now,
            everything=everything,
            rebuild=frozenset(context.request.rebuild),
            drifted=files.files,
            bodiless=files.bodiless,
        )
        actions = decide(ranges, shards, decision)
        pairs = zip(ranges, actions, strict=True)
        read = [old for item, action in pairs if action.kind.writes for old in item.olds]
        if partial is None or not partial.include(read):
            return actions, survey


def _ranges(
    context: SectionContext, fresh: str, partial: PartialSurvey | None
) -> tuple[tuple[LayoutRange, ...], Survey]:
    """Return the new ranges and their survey. ``fresh`` says why all ranges are cut again ("" if they are not)."""
    section, before = context.section, context.before
    policy = context.sitemap.shards_of(section)
    if fresh or before is None:
        return layout.first_layout(context.source, section.name, policy, fresh)
    return layout.next_layout(
        context.source,
        section.name,
        before.shards,
        policy,
        context.sitemap.limits_of(section),
        partial or context.source,
        context.sitemap.file_urls_of(section) if section.kind == "news" else None,
    )


def _fresh_cause(context: SectionContext) -> str:
    """Return why all ranges of the section are cut again, or "" if the earlier ranges are still valid."""
    section, before = context.section, context.before
    if before is None or not before.shards:
        return "first build"
    if any(not fits(file.name, section.path, section.name, section.format) for file in before.files()):
        return "the section's path or format changed"
    if cause := layout.key_change(context.source, before):
        return cause
    return layout.boundary_fault(context.source, before.shards)


def _key_kinds(source: Source, before: SectionManifest | None) -> tuple[str, ...]:
    """Return the key kinds to record: the recorded ones if the source does not know its own (an empty table)."""
    now = tuple(source.key_kinds)
    if any(kind.endswith(UNKNOWN) for kind in now):
        return before.key_kinds if before is not None and same_kinds(before.key_kinds, now) else ()
    return now


def _everything(context: SectionContext, configuration: str) -> str:
    """Return why the run reads all rows, or "" if it reads only changed ones."""
    before = context.before
    if context.request.full:
        return "a full run was requested"
    if before is None:
        return ""
    if context.sitemap.change_detection_of(context.section) == "full":
        return "change_detection is 'full'"
    if before.fingerprint != configuration:
        return "the section's configuration changed"
    if before.digest_kind != context.source.digest_kind:
        return "the digest expression changed"
    return ""


def _differs(
    before: SectionManifest | None, actions: Sequence[RangeAction], survey: Survey, configuration: str, source: Source
) -> bool:
    """Return whether the manifest changes even if no file does."""
    if before is None:
        return True
    return (
        [action.range for action in actions] != [shard.range for shard in before.shards]
        or before.fingerprint != configuration
        or before.digest_kind != source.digest_kind
        or before.null_keys != survey.null_keys
        or any(not s.digest.same_rows(d) for s, d in zip(before.shards, survey.digests, strict=False))
    )
