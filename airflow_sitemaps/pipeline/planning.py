"""Make a plan: survey the sources, compare with the manifest, decide. Writes nothing public."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import ConfigurationError, OwnershipError
from airflow_sitemaps.pipeline import drift, extras, indexes, layout, touched, watermark
from airflow_sitemaps.pipeline.fingerprint import fingerprint
from airflow_sitemaps.pipeline.state import State
from airflow_sitemaps.shards.batches import make_batches
from airflow_sitemaps.shards.guards import Refusal, judge_size, judge_vanished, permitted
from airflow_sitemaps.shards.naming import fits
from airflow_sitemaps.shards.plan import Action, Plan, SectionPlan
from airflow_sitemaps.shards.targets import Inquiry, decide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_sitemaps.ports import Clock, ObjectInfo, Progress, Source, Store
    from airflow_sitemaps.shards.balance import Range
    from airflow_sitemaps.shards.digest import Survey
    from airflow_sitemaps.shards.manifest import IndexFile, Manifest, PublicFile, SectionState
    from airflow_sitemaps.sitemap import Section, Sitemap

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What one run is asked to do.

    ``sections``: only these (empty: all). ``full``: read and render everything. ``rebuild``: names of shards to write
    again, with or without ``.xml.gz``. ``dry_run``: plan, explain, and write nothing. ``allow``: guards to let pass (``shrink:products``).
    ``batch_rows``: rows a batch is filled to. ``adopt``: take over an index that something else wrote.
    """

    sections: tuple[str, ...] = ()
    full: bool = False
    rebuild: tuple[str, ...] = ()
    dry_run: bool = False
    allow: tuple[str, ...] = ()
    batch_rows: int | None = None
    adopt: bool = False


def chosen(sitemap: Sitemap, request: RunRequest) -> tuple[Section, ...]:
    """The sections a run is about. Raises ConfigurationError for one that is not there."""
    unknown = sorted(set(request.sections) - {section.name for section in sitemap.sections})
    if unknown:
        known = ", ".join(section.name for section in sitemap.sections)
        raise ConfigurationError(f"there is no section {', '.join(unknown)}; the sections are {known}")
    return tuple(s for s in sitemap.sections if not request.sections or s.name in request.sections)


def check_owner(sitemap: Sitemap, manifest: Manifest) -> None:
    """Refuse to work on another pipeline's sitemap."""
    if manifest.base_url != sitemap.store.base_url or manifest.owner != sitemap.owner:
        raise OwnershipError(
            f"the state area belongs to another sitemap: {manifest.base_url} (owner {manifest.owner!r}), and this one "
            f"is {sitemap.store.base_url} (owner {sitemap.owner!r}). Give this sitemap an address and a state_url of "
            "its own."
        )
    names = {section.name for section in sitemap.sections} | set(sitemap.retired)
    if manifest.sections and not names & set(manifest.sections):
        raise OwnershipError(
            f"the sitemap at {manifest.base_url} has the sections {', '.join(manifest.sections)}, and none of them is "
            "in this pipeline: two pipelines would publish to one address. Give this one an address of its own, or "
            "name the old sections in retired= if it really replaces them."
        )


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
    """The plan of a run over a manifest whose promotion is complete. Guards are judged, not enforced."""
    started = clock.now()
    listing = drift.look(store)
    sections = chosen(sitemap, request)
    request = replace(request, rebuild=_rebuilt(request, manifest))
    plans: dict[str, SectionPlan] = {}
    refusals: list[Refusal] = []
    progress.start("survey", len(sections), "sections")
    for section in sections:
        state = manifest.sections.get(section.name) if manifest is not None else None
        with section.source.open(section=section.name) as source:
            plans[section.name] = plan_section(
                sitemap, section, store, source, state, manifest, listing, request, clock.now()
            )
        refusals.extend(_judge(sitemap, section, plans[section.name], state, clock.now()))
        progress.advance(1)
    progress.finish()
    retired, vanished = _left_out(sitemap, manifest, request)
    stand, passed = permitted((*refusals, *vanished), request.allow)
    retired += tuple(r.section for r in passed if r.guard == "vanished")
    for shrunk in (r.section for r in passed if r.guard == "shrink"):
        plans[shrunk] = replace(plans[shrunk], refresh=True)  # the new measure goes into the manifest
    return Plan(
        run=run,
        created_at=started,
        base_generation=manifest.generation if manifest is not None else 0,
        sections=plans,
        batches=make_batches(plans, request.batch_rows),
        retired=retired,
        index_drift=_index_drift(store, manifest, listing),
        adopted=adopted,
        extras_due=extras.due(sitemap, manifest, clock.now()) or indexes.are_to_change(sitemap, manifest),
        refusals=stand,
        warnings=(
            *(f"allowed: {refusal.message}" for refusal in passed),
            *touched.warnings(sitemap, plans, manifest),
            *indexes.too_many(sitemap, plans, manifest),
        ),
        allow=request.allow,
        seconds=max(0.0, (clock.now() - started).total_seconds()),  # a clock may be set back
    )


def plan_section(
    sitemap: Sitemap,
    section: Section,
    store: Store,
    source: Source,
    state: SectionState | None,
    manifest: Manifest | None,
    listing: Mapping[str, ObjectInfo],
    request: RunRequest,
    now: datetime,
) -> SectionPlan:
    """One section's plan."""
    mark = fingerprint(sitemap, section)
    mark_at, kept_mark = _watermark(sitemap, section, store, source, state, request, mark)
    partial = watermark.Partial(source, state, kept_mark) if state is not None and kept_mark is not None else None
    found = drift.Drift() if state is None else drift.find(store, state, listing)
    reads_all = sitemap.change_detection_of(section) == "full"
    everything = _everything(request, state, mark, source, reads_all=reads_all)
    shards = state.shards if state is not None else ()
    while True:
        ranges, survey, cause = _ranges(sitemap, section, source, state, partial)
        inquiry = Inquiry(
            now=now,
            everything=cause or everything,
            rebuild=frozenset(request.rebuild),
            drifted=found.files,
            bodiless=found.bodiless,
        )
        targets = decide(ranges, shards, inquiry)
        pairs = zip(ranges, targets, strict=True)
        read = [old for item, target in pairs if target.action.writes for old in item.olds]
        if partial is None or not partial.ask_also(read):
            break
    carried = {t.carries for t in targets if t.carries is not None and t.action is not Action.EMPTY}
    gone = tuple(p for p, shard in enumerate(shards) if shard.file is not None and p not in carried)
    return SectionPlan(
        name=section.name,
        base=state.changed_in if state is not None else 0,
        fingerprint=mark,
        digest_kind=source.digest_kind,
        targets=targets,
        gone=gone,
        taken=drift.taken(section.path, section.name, listing, manifest),
        drift=found.sentences,
        null_keys=survey.null_keys,
        null_key_samples=survey.null_key_samples,
        watermark=mark_at,
        slice=(kept_mark.slice + 1) % watermark.SLICES if kept_mark is not None else 0,
        refresh=_differs(state, targets, survey, mark, source),
    )


def _ranges(
    sitemap: Sitemap, section: Section, source: Source, state: SectionState | None, partial: watermark.Partial | None
) -> tuple[tuple[Range, ...], Survey, str]:
    """The new ranges, their survey, and why everything is fresh ("" if it is not)."""
    policy, limits = sitemap.shards_of(section), sitemap.limits_of(section)
    why = ""
    if state is None or not state.shards:
        why = "first build"
    elif any(
        s.file is not None and not fits(s.file.name, section.path, section.name, section.format) for s in state.shards
    ):
        why = "the section's path or format changed"
    elif not layout.ordered(source, state.shards):
        why = "the database orders the keys otherwise than before (its collation changed?)"
    if why or state is None:
        ranges, survey = layout.first_layout(source, section.name, policy, why)
    else:
        ranges, survey = layout.next_layout(source, section.name, state.shards, policy, limits, partial or source)
    return ranges, survey, why


def _watermark(
    sitemap: Sitemap,
    section: Section,
    store: Store,
    source: Source,
    state: SectionState | None,
    request: RunRequest,
    mark: str,
) -> tuple[datetime | None, watermark.Watermark | None]:
    """The watermark for the next run, and the one to survey by now (None: survey everything)."""
    if sitemap.change_detection_of(section) != "watermark":
        return None, None
    moment = source.now()
    if state is None or request.full or _everything(request, state, mark, source):
        return moment, None
    return moment, watermark.remembered(State(store.state), state)


def _everything(
    request: RunRequest, state: SectionState | None, mark: str, source: Source, *, reads_all: bool = False
) -> str:
    if request.full:
        return "asked to read everything (full)"
    if reads_all and state is not None:
        return "change_detection is 'full'"
    if state is not None and state.fingerprint != mark:
        return "the section's configuration changed"
    if state is not None and state.digest_kind != source.digest_kind:
        return "digests are made otherwise than before"
    return ""


def _differs(state: SectionState | None, targets: Sequence[object], survey: Survey, mark: str, source: Source) -> bool:
    """Whether the manifest has to be told something though no file may change."""
    if state is None:
        return True
    ranges = [getattr(target, "range", None) for target in targets]
    return (
        ranges != [shard.range for shard in state.shards]
        or state.fingerprint != mark
        or state.digest_kind != source.digest_kind
        or state.null_keys != survey.null_keys
        or any(not s.digest.same_rows(d) for s, d in zip(state.shards, survey.digests, strict=False))
    )


def _judge(
    sitemap: Sitemap, section: Section, plan: SectionPlan, state: SectionState | None, now: datetime
) -> tuple[Refusal, ...]:
    if section.kind == "news" and plan.rows == 0:
        return ()
    return judge_size(
        sitemap.guards_of(section),
        section.name,
        now=plan.rows,
        before=state.rows - state.null_keys if state is not None else None,  # as counted by the plan
        peak=state.peak(now) if state is not None else 0,
        what="rows",
    )


def _left_out(
    sitemap: Sitemap, manifest: Manifest | None, request: RunRequest
) -> tuple[tuple[str, ...], tuple[Refusal, ...]]:
    """Sections to be taken out, and those that vanished from the code."""
    if manifest is None or request.sections:
        return (), ()
    present = {section.name for section in sitemap.sections}
    missing = [name for name in manifest.sections if name not in present]
    retired = tuple(name for name in missing if name in sitemap.retired)
    return retired, tuple(judge_vanished(name) for name in missing if name not in retired)


def _rebuilt(request: RunRequest, manifest: Manifest | None) -> tuple[str, ...]:
    """File names of the shards to write again, which may be named without their ending. Raises ConfigurationError."""
    known = [file.name for file in manifest.files()] if manifest is not None else []
    names = {name.removesuffix(".xml.gz").removesuffix(".txt.gz"): name for name in known} | {n: n for n in known}
    unknown = sorted(set(request.rebuild) - set(names))
    if unknown:
        raise ConfigurationError(
            f"rebuild: {', '.join(unknown)} is no shard of this sitemap; names look like {sorted(known)[:2]}"
        )
    return tuple(names[name] for name in request.rebuild)


def _index_drift(store: Store, manifest: Manifest | None, listing: Mapping[str, ObjectInfo]) -> tuple[str, ...]:
    """Names of index files and files beside the shards that are not as we left them."""
    if manifest is None:
        return ()
    files: tuple[IndexFile | PublicFile, ...] = (*manifest.indexes, *manifest.extras)
    return tuple(i.name for i in files if i.name not in listing or listing[i.name].etag != i.etag)
