"""Request for one run: its sections, how much it reads, its permits; and what the steps of its plan need."""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import ConfigurationError, RequestError
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import QUIET, Clock, ObjectInfo, Progress, Source, Store
from airflow_sitemaps.protocol import RowContext
from airflow_sitemaps.shards import Member
from airflow_sitemaps.sitemap import REST, SECTION_NAME

if TYPE_CHECKING:
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
    if unknown := sorted({*request.sections}.difference(*map(names_of, sitemap.sections))):
        names = ", ".join(section.name for section in sitemap.sections)
        raise RequestError(f"there is no section {', '.join(unknown)}; the sections are {names}")
    chosen_sections = tuple(s for s in sitemap.sections if not request.sections or names_of(s) & {*request.sections})
    dated = [section for section in chosen_sections if section.observed]
    if undated := sorted({*request.keep_lastmods}.difference(*map(names_of, dated))):
        names = ", ".join(section.name for section in dated) or "none"
        raise RequestError(
            f"keep_lastmods: {', '.join(undated)} is no section of this run with observed dates; those are: {names}. Give "
            "lastmod=Observed(…) to its source, or omit it"
        )
    return chosen_sections


def names_of(section: Section) -> set[str]:
    """Return the name of a section, and that of the ``Section.each`` of which a run makes it."""
    return {section.name, section.family}


# ------------------------------------------------------------ the sections of ``Section.each``


def member_name(family: str, value: object) -> str:
    """Return the name of the section of a value, such as ``products-pt-br``; "" if no section can have the name."""
    plain = unicodedata.normalize("NFKD", str(value).lower()).encode("ascii", "ignore").decode()
    part = re.sub(r"[^a-z0-9_]+", "-", plain).strip("-")
    name = f"{family}-{part}"
    return name if part not in ("", REST) and SECTION_NAME.fullmatch(name) else ""


def members_of(manifest: Manifest | None) -> dict[str, Member]:
    """Return the published sections that a run made of a ``Section.each``."""
    sections = {} if manifest is None else manifest.sections
    return {name: section.member for name, section in sections.items() if section.member is not None}


def expanded(sitemap: Sitemap, members: Mapping[str, Member], released: Sequence[str] = ()) -> Sitemap:
    """Return a sitemap with the given sections of each ``Section.each``, and one for the rows of all other values.

    The sections ``released`` are retired. A sitemap that has such sections already gets the given ones in their place.
    """
    if not any(section.split for section in sitemap.sections):
        return sitemap
    sections: list[Section] = []
    for section in sitemap.sections:
        if section.split is None:
            sections += [section] if section.member is None else []
            continue
        family = section.family
        whole: Any = section.split.source or section.source
        column = section.split.column
        own = {n: m for n, m in sorted(members.items()) if m.family == family and m.value is not None}
        if clash := own.keys() & {each.name for each in sitemap.sections if each.member is None}:
            raise ConfigurationError(
                f"section {min(clash)!r}: Section.each(…, name={family!r}) made one of this name in an earlier run. Give the other "
                "one another name"
            )
        sections += (
            replace(section, name=name, source=whole.part(column, member.value), split=None, member=member)
            for name, member in own.items()
        )
        source = whole.part(column, None, [member.value for member in own.values()])
        split = replace(section.split, source=whole)
        sections.append(
            replace(
                section,
                name=f"{family}-{REST}",
                source=source,
                split=split,
                member=Member(family=family, column=column),
            )
        )
    retired = tuple(dict.fromkeys((*sitemap.retired, *released)))
    return replace(sitemap, sections=tuple(sections), retired=retired)


def with_published_members(sitemap: Sitemap, store: Store | None = None) -> Sitemap:
    """Return a sitemap with the published sections of each ``Section.each``. By default, its store is opened for them."""
    if not any(section.split for section in sitemap.sections):
        return sitemap
    return expanded(sitemap, members_of(StateRepository((store or sitemap.store.open()).state).manifest()))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSitemap:
    """A sitemap with its opened store: what every stage works on."""

    sitemap: Sitemap
    store: Store
    clock: Clock
    progress: Progress

    @classmethod
    def of(cls, sitemap: Sitemap, clock: Clock, progress: Progress = QUIET) -> OpenSitemap:
        """Open the store of a sitemap."""
        store = sitemap.store.open()
        return cls(sitemap=with_published_members(sitemap, store), store=store, clock=clock, progress=progress)

    def of_members(self, members: Mapping[str, Member]) -> OpenSitemap:
        """Return the same with the sections that a plan or a generation made of ``Section.each``."""
        return replace(self, sitemap=expanded(self.sitemap, members))

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

    run: str
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

    @property
    def lists_early(self) -> bool:
        """Whether changed rows of the section may wait, and a file or feed of recent entries lists them meanwhile."""
        has_file = self.sitemap.recent is not None or bool(self.sitemap.feeds)
        return has_file and self.policy.rewrite_after is not None and self.section.format == "xml"


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


SYSTEM_CLOCK: Final = SystemClock()
