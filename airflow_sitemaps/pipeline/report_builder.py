"""Builds the report of a run from its manifests, its plan and its receipts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.pipeline.report import Report, SectionReport, ShardCounts, totals
from airflow_sitemaps.shards.index_layout import extra_urls, robots_urls
from airflow_sitemaps.shards.url_sample import top_prefixes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_sitemaps.pipeline.report import Result
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.shards.plan import Plan, SectionFailure, SectionPlan
    from airflow_sitemaps.shards.receipt import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The part of a report that the manifests do not show.

    Attributes:
        run: Identifier of the run.
        result: Result of the run, as in ``Report``.
        started: Start of the run.
        finished: End of the run.
        seconds: Duration of each stage, in seconds.
        swept: Number of files and private objects removed. Default: 0.
        warnings: Sentences for people. Default: none.
        refusals: What the guards refused. Default: none.
        failures: Sections that the run could not publish. Default: none.
        action: What the run did. Default: ``build``.
    """

    run: str
    result: Result
    started: datetime
    finished: datetime
    seconds: Mapping[str, float]
    swept: int = 0
    warnings: Sequence[str] = ()
    refusals: Sequence[str] = ()
    failures: Sequence[SectionFailure] = ()
    action: str = "build"


def outcome_of(
    plan: Plan,
    result: Result,
    finished: datetime,
    *,
    receipts: Sequence[Receipt] = (),
    seconds: Mapping[str, float] | None = None,
    swept: int = 0,
    warnings: Sequence[str] = (),
    refusals: Sequence[str] = (),
    failures: Sequence[SectionFailure] = (),
) -> Outcome:
    """Create the outcome of a run that has a plan.

    Args:
        result: Result of the run, as in ``Report``.
        receipts: Receipts of the written batches. Default: none.
        seconds: Duration of further stages than ``plan`` and ``write``, in seconds. Default: none.
        swept: Number of files and private objects removed. Default: 0.
        warnings: Further warnings than the plan's. Default: none.
        refusals: What the guards refused. Default: none.
        failures: Sections that the run could not publish. Default: none.
    """
    return Outcome(
        run=plan.run,
        result=result,
        started=plan.created_at,
        finished=finished,
        seconds={"plan": plan.seconds, "write": sum(receipt.seconds for receipt in receipts), **(seconds or {})},
        swept=swept,
        warnings=(*plan.warnings, *warnings),
        refusals=refusals,
        failures=failures,
    )


def make_report(
    outcome: Outcome,
    *,
    old: Manifest | None,
    new: Manifest | None,
    plan: Plan | None = None,
    receipts: Sequence[Receipt] = (),
) -> Report:
    """Create the report of a run.

    Args:
        old: The manifest before the run, or None.
        new: The manifest after the run, or None; equal to ``old`` if nothing changed.
        plan: The plan of the run. Default: None.
        receipts: Receipts of the written batches. Default: none.
    """
    sections = {}
    for name in (*(new.sections if new is not None else ()), *_only_old(old, new)):
        before = old.sections.get(name) if old is not None else None
        after = new.sections.get(name) if new is not None else None
        section_plan = plan.sections.get(name) if plan is not None else None
        sections[name] = _section(before, after, section_plan, [r for r in receipts if r.section == name])
    names = (*plan.index_drift, *(repair.name for repair in plan.repairs_elsewhere)) if plan is not None else ()
    drift = tuple(f"{name} was changed by another program" for name in names)
    sums = totals(sections)
    sums["drift"] = (*sums["drift"], *drift)
    return Report(
        run=outcome.run,
        result=outcome.result,
        generation=new.generation if new is not None else 0,
        previous_generation=old.generation if old is not None else 0,
        started_at=outcome.started.isoformat(),
        finished_at=outcome.finished.isoformat(),
        committed_at=new.committed_at.isoformat() if new is not None else None,
        index_urls=tuple(new.base_url + index.name for index in new.indexes) if new is not None else (),
        robots_urls=robots_urls(new) if new is not None else (),
        extra_urls=extra_urls(new) if new is not None else (),
        sections=sections,
        seconds={stage: round(value, 3) for stage, value in outcome.seconds.items()},
        swept=outcome.swept,
        warnings=tuple(outcome.warnings),
        refusals=tuple(outcome.refusals),
        failures=tuple(outcome.failures),
        action=outcome.action,
        prefixes=top_prefixes(
            old.sections.values() if old is not None else (), new.sections.values() if new is not None else ()
        ),
        planned=tuple(plan.sections) if plan is not None else (),
        **sums,
    )


def _only_old(old: Manifest | None, new: Manifest | None) -> tuple[str, ...]:
    if old is None:
        return ()
    return tuple(name for name in old.sections if new is None or name not in new.sections)


def _section(
    before: SectionManifest | None, after: SectionManifest | None, plan: SectionPlan | None, receipts: Sequence[Receipt]
) -> SectionReport:
    dropped: Counter[str] = Counter()
    mended: Counter[str] = Counter()
    expired: Counter[str] = Counter()
    extensions: Counter[str] = Counter()
    if after is not None:
        for shard in after.shards:
            extensions.update(shard.extensions)
            dropped.update(shard.dropped)
            mended.update(shard.mended)
            expired.update(shard.expired)
        if after.null_keys:
            dropped["key-null"] += after.null_keys
    files = list(after.files()) if after is not None else []
    newest = max((s.newest_lastmod for s in after.shards if s.newest_lastmod), default=None) if after else None
    return SectionReport(
        urls=after.urls if after is not None else 0,
        rows=after.rows if after is not None else 0,
        shards=count_shards(before, after),
        rows_dropped=dict(dropped),
        fields_fixed=dict(mended),
        rows_expired=dict(expired),
        samples=dict(after.samples) if after is not None else {},
        reasons=_reasons(plan),
        xml_bytes=sum(file.xml_byte_size for file in files),
        file_bytes=sum(file.byte_size for file in files),
        rows_read=sum(receipt.rows for receipt in receipts),
        bytes_written=sum(receipt.bytes_written for receipt in receipts),
        newest_lastmod=newest,
        faults_before=_faults(before),
        rows_before=before.rows if before is not None else 0,
        extensions=dict(extensions),
        drift=plan.drift if plan is not None else (),
    )


def _reasons(plan: SectionPlan | None) -> dict[str, int]:
    if plan is None:
        return {}
    return dict(Counter(t.reason for t in plan.actions if t.reason and t.kind.value not in ("keep", "empty")))


def _faults(section: SectionManifest | None) -> dict[str, int]:
    """Count dropped rows and repaired fields by rule."""
    faults: Counter[str] = Counter()
    if section is not None:
        for shard in section.shards:
            faults.update(shard.dropped)
            faults.update(shard.mended)
        if section.null_keys:
            faults["key-null"] += section.null_keys
    return dict(faults)


def count_shards(before: SectionManifest | None, after: SectionManifest | None) -> ShardCounts:
    """Count the changes of a section's files, by their names and bytes.

    Args:
        before: The section before the run, or None if there was none.
        after: The section after the run, or None if there is none.
    """
    old = {file.name: file for file in before.files()} if before is not None else {}
    new = {file.name: file for file in after.files()} if after is not None else {}
    both = [name for name in new if name in old]
    same = [name for name in both if new[name].stamp == old[name].stamp]
    repaired = sum(new[name].modified_at != old[name].modified_at for name in same)
    return ShardCounts(
        total=len(new),
        kept=len(same) - repaired,
        created=len(new) - len(both),
        rewritten=len(both) - len(same),
        removed=len(old) - len(both),
        repaired=repaired,
    )
