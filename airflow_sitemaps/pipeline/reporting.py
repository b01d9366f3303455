"""Reports from manifests, a plan and its receipts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.pipeline.report import Report, Result, SectionReport, ShardCounts, totals
from airflow_sitemaps.shards.index import robots_urls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_sitemaps.shards.manifest import Manifest, SectionState
    from airflow_sitemaps.shards.plan import Plan, SectionPlan
    from airflow_sitemaps.shards.receipt import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a report says beside what the manifests show. ``seconds``: wall time by stage."""

    run: str
    result: Result
    started: datetime
    finished: datetime
    seconds: Mapping[str, float]
    swept: int = 0
    warnings: Sequence[str] = ()
    refusals: Sequence[str] = ()
    action: str = "build"


def make_report(
    outcome: Outcome,
    *,
    old: Manifest | None,
    new: Manifest | None,
    plan: Plan | None = None,
    receipts: Sequence[Receipt] = (),
) -> Report:
    """The report of a run that led from ``old`` to ``new`` (the same where nothing changed)."""
    sections = {}
    for name in (*(new.sections if new is not None else ()), *_only_old(old, new)):
        before = old.sections.get(name) if old is not None else None
        after = new.sections.get(name) if new is not None else None
        section_plan = plan.sections.get(name) if plan is not None else None
        sections[name] = _section(before, after, section_plan, [r for r in receipts if r.section == name])
    drift = tuple(f"{name} was changed by somebody else" for name in (plan.index_drift if plan is not None else ()))
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
        sections=sections,
        seconds={stage: round(value, 3) for stage, value in outcome.seconds.items()},
        swept=outcome.swept,
        warnings=tuple(outcome.warnings),
        refusals=tuple(outcome.refusals),
        action=outcome.action,
        **sums,
    )


def _only_old(old: Manifest | None, new: Manifest | None) -> tuple[str, ...]:
    if old is None:
        return ()
    return tuple(name for name in old.sections if new is None or name not in new.sections)


def _section(
    before: SectionState | None, after: SectionState | None, plan: SectionPlan | None, receipts: Sequence[Receipt]
) -> SectionReport:
    dropped: Counter[str] = Counter()
    mended: Counter[str] = Counter()
    if after is not None:
        for shard in after.shards:
            dropped.update(shard.dropped)
            mended.update(shard.mended)
        if after.null_keys:
            dropped["key-null"] += after.null_keys
    files = list(after.files()) if after is not None else []
    newest = max((s.newest_lastmod for s in after.shards if s.newest_lastmod), default=None) if after else None
    return SectionReport(
        urls=after.urls if after is not None else 0,
        rows=after.rows if after is not None else 0,
        shards=count_shards(before, after),
        rows_dropped=dict(dropped),
        fields_mended=dict(mended),
        samples=dict(after.samples) if after is not None else {},
        reasons=_reasons(plan),
        xml_bytes=sum(file.xml_byte_size for file in files),
        file_bytes=sum(file.byte_size for file in files),
        rows_read=sum(receipt.rows for receipt in receipts),
        bytes_written=sum(receipt.bytes_written for receipt in receipts),
        newest_lastmod=newest,
        drift=plan.drift if plan is not None else (),
    )


def _reasons(plan: SectionPlan | None) -> dict[str, int]:
    if plan is None:
        return {}
    return dict(Counter(t.reason for t in plan.targets if t.reason and t.action.value not in ("keep", "empty")))


def count_shards(before: SectionState | None, after: SectionState | None) -> ShardCounts:
    """What became of a section's files, by their names and bytes."""
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
        dropped=len(old) - len(both),
        repaired=repaired,
    )
