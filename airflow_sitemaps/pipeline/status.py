"""Status of a sitemap: the published generation and the earlier ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards.guards.judgement import changes_by_day, trust_of_week
from airflow_sitemaps.shards.layout import robots_urls

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.protocol.lastmod import LastmodTrust
    from airflow_sitemaps.shards.manifest import GenerationNote
    from airflow_sitemaps.sitemap import Sitemap

MAX_REPORTS: Final = 40
"""Number of the newest reports that are searched for results of guards."""

DECIDED: Final = ("allowed: ", "the published section is kept")
"""Beginnings of the warnings of a report that say what a permit or a person decided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionStatus:
    """Status of one section. What changed is of the seven days before its last commit."""

    urls: int
    rows: int
    shards: int
    newest_lastmod: str | None
    changed_in: int
    urls_changed: dict[str, int]
    lastmod_trust: LastmodTrust | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardResults:
    """What guards refused in a run, what a permit or a person decided, and what canaries counted."""

    run: str
    at: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Status of a sitemap as last committed; the generation is 0 if nothing was committed.

    Attributes:
        departed: Number of files to be swept.
        checked_at: End of the newest run that published or found nothing to change. Default: None, no such run.
        guard_results: Runs with results of guards among the newest ``MAX_REPORTS`` reports, the newest first.
    """

    generation: int = 0
    promoted: bool = False
    committed_at: str | None = None
    run: str | None = None
    urls: int = 0
    shards: int = 0
    byte_size: int = 0
    index_urls: tuple[str, ...] = ()
    sections: dict[str, SectionStatus] = field(default_factory=dict)
    history: tuple[GenerationNote, ...] = ()
    departed: int = 0
    checked_at: str | None = None
    guard_results: tuple[GuardResults, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the status as JSON values."""
        value = asdict(self)
        value["history"] = [{**asdict(n), "committed_at": n.committed_at.isoformat()} for n in self.history]
        return value


def status(sitemap: Sitemap) -> Status:
    """Return the published state and the generations kept for rollback. Writes nothing."""
    state = StateRepository(sitemap.store.open().state)
    manifest = state.manifest()
    if manifest is None:
        return Status()
    files = list(manifest.files())
    return Status(
        generation=manifest.generation,
        promoted=manifest.promoted,
        committed_at=manifest.committed_at.isoformat(),
        run=manifest.run,
        urls=manifest.urls,
        shards=sum(shard.file is not None for section in manifest.sections.values() for shard in section.shards),
        byte_size=sum(file.byte_size for file in files),
        index_urls=manifest.index_urls,
        sections={
            name: SectionStatus(
                urls=section.urls,
                rows=section.rows,
                shards=sum(shard.file is not None for shard in section.shards),
                newest_lastmod=max((s.newest_lastmod for s in section.shards if s.newest_lastmod), default=None),
                changed_in=section.changed_in,
                urls_changed=changes_by_day(section, manifest.committed_at),
                lastmod_trust=trust_of_week(section, manifest.committed_at),
            )
            for name, section in manifest.sections.items()
        },
        history=manifest.history,
        departed=len(manifest.departed),
        checked_at=last_check(state),
        guard_results=guard_results(state),
    )


def guard_results(state: StateRepository) -> tuple[GuardResults, ...]:
    """Return what the newest reports say of guards, the newest run first. Runs in which no guard spoke are left out."""
    runs = state.reported_runs()[:MAX_REPORTS]
    reports = [report for report in mapped(state.read_report, runs, "sitemap-reports") if report is not None]
    reports.sort(key=lambda report: report.finished_at, reverse=True)
    results = [
        GuardResults(run=report.run, at=report.finished_at, lines=tuple(dict.fromkeys(_lines(report))))
        for report in reports
    ]
    return tuple(result for result in results if result.lines)


def _lines(report: Report) -> Iterator[str]:
    refused = [refusal.message for each in report.failures for refusal in each.refusals]
    yield from (f"refused: {message}" for message in refused or report.refusals)
    yield from (warning for warning in report.warnings if warning.startswith(DECIDED))
    for name, canary in report.canaries.items():
        pages = f"{canary.faulty:,} of {counted(canary.requested, 'page')} faulty"
        yield f"canary of section {name}: {canary.verdict}, {pages}"


def robots(sitemap: Sitemap) -> tuple[str, ...]:
    """Return the addresses that robots.txt should name: every index and the feeds. Writes nothing."""
    manifest = StateRepository(sitemap.store.open().state).manifest()
    return () if manifest is None else robots_urls(manifest)


def last_check(state: StateRepository) -> str | None:
    """Return when the newest run ended that published the sources' state or found nothing to change, if there was one.

    A rollback does not count, because it publishes an earlier state.
    """
    report = next(_checks(state), None)
    return None if report is None else report.finished_at


def last_survey(state: StateRepository, sections: Sequence[str]) -> str | None:
    """Return the time since which each section was planned by a run that published it or found nothing to change.

    It is the start of the oldest of these runs. None: no kept report is of a run that planned one of the sections.
    """
    missing = set(sections)
    for report in _checks(state):
        missing -= set(report.planned)
        if not missing:
            return report.started_at
    return None


def _checks(state: StateRepository) -> Iterator[Report]:
    """Read the reports of the runs that published the sources' state or found nothing to change, the newest first."""
    by_second = groupby(state.reported_runs(), key=lambda run: run.partition("-")[0])  # what follows it is random
    for _second, names in by_second:
        reports = [report for report in map(state.read_report, names) if report]
        for report in sorted(reports, key=lambda report: report.started_at, reverse=True):
            if report.action == "build" and report.result in ("published", "unchanged"):
                yield report
