"""Status of a sitemap: the published generation and the earlier ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.pipeline.state.repository import REPORTS, StateRepository
from airflow_sitemaps.shards.guards.judgement import changes_by_day, trust_of_week
from airflow_sitemaps.shards.layout import robots_urls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.protocol.lastmod import LastmodTrust
    from airflow_sitemaps.shards.manifest import GenerationNote, Manifest
    from airflow_sitemaps.sitemap import Sitemap


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
class Status:
    """Status of a sitemap as last committed; the generation is 0 if nothing was committed.

    Attributes:
        departed: Number of files to be swept.
        checked_at: End of the newest run that published or found nothing to change. Default: None, no such run.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the status as JSON values."""
        value = asdict(self)
        value["history"] = [{**asdict(n), "committed_at": n.committed_at.isoformat()} for n in self.history]
        return value


def status(sitemap: Sitemap) -> Status:
    """Return the published state and the generations kept for rollback. Writes nothing."""
    state = StateRepository(sitemap.store.open().state)
    manifest = state.manifest()
    return status_of(manifest, sitemap.store.base_url, None if manifest is None else last_check(state))


def robots(sitemap: Sitemap) -> tuple[str, ...]:
    """Return the addresses that robots.txt should name: every index and the feeds. Writes nothing."""
    manifest = StateRepository(sitemap.store.open().state).manifest()
    return () if manifest is None else robots_urls(manifest)


def last_check(state: StateRepository) -> str | None:
    """Return when the newest run ended that published the sources' state or found nothing to change, if there was one.

    A rollback does not count, because it publishes an earlier state.
    """
    report = next(_checks(state), None)
    return None if report is None else str(report["finished_at"])


def last_survey(state: StateRepository, sections: Sequence[str]) -> str | None:
    """Return the time since which each section was planned by a run that published it or found nothing to change.

    It is the start of the oldest of these runs. None: no kept report is of a run that planned one of the sections.
    """
    missing = set(sections)
    for report in _checks(state):
        missing -= set(report["planned"])
        if not missing:
            return str(report["started_at"])
    return None


def _checks(state: StateRepository) -> Iterator[dict[str, Any]]:
    """Read the reports of the runs that published the sources' state or found nothing to change, the newest first."""
    for key in sorted((info.key for info in state.objects.list(REPORTS)), reverse=True):
        report = state.read_report(key.removeprefix(REPORTS).removesuffix(".json"))
        if report and report.get("action") == "build" and report.get("result") in ("published", "unchanged"):
            yield report


def status_of(manifest: Manifest | None, base_url: str, checked_at: str | None = None) -> Status:
    """Return the status of a manifest."""
    if manifest is None:
        return Status()
    files = list(manifest.files())
    return Status(
        generation=manifest.generation,
        promoted=manifest.promoted,
        committed_at=manifest.committed_at.isoformat(),
        run=manifest.run,
        urls=manifest.urls,
        shards=len(files),
        byte_size=sum(file.byte_size for file in files),
        index_urls=tuple(base_url + index.name for index in manifest.indexes),
        sections={
            name: SectionStatus(
                urls=state.urls,
                rows=state.rows,
                shards=sum(shard.file is not None for shard in state.shards),
                newest_lastmod=max((s.newest_lastmod for s in state.shards if s.newest_lastmod), default=None),
                changed_in=state.changed_in,
                urls_changed=changes_by_day(state, manifest.committed_at),
                lastmod_trust=trust_of_week(state, manifest.committed_at),
            )
            for name, state in manifest.sections.items()
        },
        history=manifest.history,
        departed=len(manifest.departed),
        checked_at=checked_at,
    )
