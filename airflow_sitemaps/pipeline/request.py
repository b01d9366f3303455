"""Request for one run: its sections, how much it reads, its permits; and what the steps of its plan need."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import RequestError
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.protocol.entry import RowContext

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Clock, ObjectInfo, Progress, Source, Store
    from airflow_sitemaps.shards.layout import ShardPolicy
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.sitemap import Section, Sitemap


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Options of one run.

    Attributes:
        sections: Names of the sections to build. Default: all.
        rebuild: Names of shards to write again, with or without ``.xml.gz``.
        check_rows: Rows of each section that a dry run checks, changed or not; the plan's ``checks`` then say what each
            rule does. Default: None, up to 10,000 rows of those that a build would read.
        allow: Permits for guards, such as ``shrink:products``.
        keep_lastmods: Names of sections whose changed URLs keep their observed dates.
        batch_rows: Number of rows to which a batch is filled. Default: None, the default of ``shards.range_actions``.
        origin: Deployment that starts the run, such as the address of its Airflow. Default: "", not known.
        asked_by: Identifier of the request, such as of a DAG run, which stays the same if its tasks are cleared.
            Default: "", each request is a new one.
        asks: Whether the run asks a person about sections that guards refuse. It then writes their changes too.
    """

    sections: tuple[str, ...] = ()
    full: bool = False
    rebuild: tuple[str, ...] = ()
    dry_run: bool = False
    check_rows: int | None = None
    allow: tuple[str, ...] = ()
    keep_lastmods: tuple[str, ...] = ()
    batch_rows: int | None = None
    adopt: bool = False
    origin: str = ""
    asked_by: str = ""
    asks: bool = False


def chosen(sitemap: Sitemap, request: RunRequest) -> tuple[Section, ...]:
    """Return the sections that a run builds. Raises ``RequestError`` if the request names one that does not exist."""
    unknown = sorted(set(request.sections) - {section.name for section in sitemap.sections})
    if unknown:
        names = ", ".join(section.name for section in sitemap.sections)
        raise RequestError(f"there is no section {', '.join(unknown)}; the sections are {names}")
    chosen_sections = tuple(s for s in sitemap.sections if not request.sections or s.name in request.sections)
    dated = [section.name for section in chosen_sections if section.observed]
    if undated := sorted(set(request.keep_lastmods) - set(dated)):
        names = ", ".join(dated) or "none"
        raise RequestError(
            f"keep_lastmods: {', '.join(undated)} is no section of this run with observed dates; those are: {names}. Give "
            "lastmod=Observed(…) to its source, or omit it"
        )
    return chosen_sections


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSitemap:
    """A sitemap with its opened store: what every stage works on."""

    sitemap: Sitemap
    store: Store
    clock: Clock
    progress: Progress

    @classmethod
    def of(cls, sitemap: Sitemap, clock: Clock, progress: Progress) -> OpenSitemap:
        """Open the store of a sitemap."""
        return cls(sitemap=sitemap, store=sitemap.store.open(), clock=clock, progress=progress)

    @property
    def state(self) -> StateRepository:
        """The state area."""
        return StateRepository(self.store.state)

    def values(self) -> dict[str, Any]:
        """Return the fields by name, for a context that adds others."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext(OpenSitemap):
    """The input of the plan of a run. The manifest is None before the first commit; the listing is by name.

    ``adopted`` are the public names of another sitemap, or of this one after its state was lost, that the run takes over.
    """

    manifest: Manifest | None
    listing: Mapping[str, ObjectInfo]
    request: RunRequest
    adopted: tuple[str, ...] = ()

    def of_section(self, section: Section, source: Source) -> SectionContext:
        """Return the input of the plan of one section."""
        return SectionContext(section=section, source=source, now=self.clock.now(), **self.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionContext(RunContext):
    """The input of the plan of one section, with its open source and the time of planning."""

    section: Section
    source: Source
    now: datetime

    @property
    def before(self) -> SectionManifest | None:
        """The section as last committed, or None."""
        return self.manifest.sections.get(self.section.name) if self.manifest is not None else None

    @property
    def policy(self) -> ShardPolicy:
        """The sizes of the section's shards."""
        return self.sitemap.shards_of(self.section)


def row_context_of(sitemap: Sitemap, section: Section, clock: Clock) -> RowContext:
    """Return the settings for the validation of a section's entries."""
    loc = str(getattr(section.source, "loc", ""))
    return RowContext(
        base_url=sitemap.base_url_of(section),
        cross_submit=tuple(sitemap.cross_submit),
        rulebook=sitemap.rulebook(section),
        limits=sitemap.limits_of(section),
        max_urls=sitemap.file_urls_of(section),
        now=clock.now(),
        format=section.format,
        kind=section.kind,
        section=section.name,
        timezone=section.source.timezone,
        feeds_since=clock.now() - sitemap.recent_window if sitemap.feeds else None,
        observed=bool(section.observed),
        template=loc if "{" in loc else "",
    )


class SystemClock:
    """Clock of this machine, and source of random tokens."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        return datetime.now(timezone.utc)

    def token(self) -> str:
        """Return 16 random hexadecimal digits."""
        return secrets.token_hex(8)


class Quiet:
    """Receiver that ignores all progress."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Ignore it."""

    def advance(self, number: int) -> None:
        """Ignore it."""

    def finish(self) -> None:
        """Ignore it."""


SYSTEM_CLOCK: Final = SystemClock()
QUIET: Final = Quiet()
