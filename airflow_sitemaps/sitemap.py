"""What a user writes: a sitemap, its sections, and where it goes. Only assigns; no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.limits import PROFILES, Limits
from airflow_sitemaps.protocol.rules import Rulebook
from airflow_sitemaps.shards.guards import Guards
from airflow_sitemaps.shards.policy import ShardPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_sitemaps.ports import SourceConfig, StoreConfig

SECTION_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
PATH: Final = re.compile(r"(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)*")

ChangeDetection = Literal["digest", "watermark", "full"]
"""How changes are found: by digests of every range, by a lastmod watermark, or by reading everything."""


@dataclass(frozen=True, slots=True)
class Section:
    """One source within a sitemap: products, articles.

    ``path`` puts its files in a folder below the sitemap's; ``base_url`` says that this folder is served at another
    address. ``shards``, ``guards``, ``rules``, ``change_detection`` and ``limits`` are the sitemap's where None.

    Raises:
        ConfigurationError: a name, path or setting that cannot be.
    """

    name: str
    source: SourceConfig
    path: str = field(default="", kw_only=True)
    base_url: str | None = field(default=None, kw_only=True)
    shards: ShardPolicy | None = field(default=None, kw_only=True)
    guards: Guards | None = field(default=None, kw_only=True)
    rules: Mapping[str, str] | None = field(default=None, kw_only=True)
    change_detection: ChangeDetection | None = field(default=None, kw_only=True)
    limits: Literal["current", "original"] | None = field(default=None, kw_only=True)
    kind: Literal["pages", "news"] = field(default="pages", kw_only=True)
    format: Literal["xml", "text"] = field(default="xml", kw_only=True)

    def __post_init__(self) -> None:
        if not SECTION_NAME.fullmatch(self.name):
            raise ConfigurationError(f"Section({self.name!r}): a section's name matches {SECTION_NAME.pattern}")
        if self.path and not PATH.fullmatch(self.path):
            raise ConfigurationError(
                f"Section({self.name!r}, path={self.path!r}): give a relative folder that ends in '/', like 'de/'"
            )
        if self.kind not in ("pages", "news"):
            raise ConfigurationError(f"Section({self.name!r}, kind={self.kind!r}): give 'pages' or 'news'")
        if self.format not in ("xml", "text"):
            raise ConfigurationError(f"Section({self.name!r}, format={self.format!r}): give 'xml' or 'text'")
        Rulebook.of(self.rules)


@dataclass(frozen=True, slots=True)
class Sitemap:
    """A sitemap: sections, the store they are published to, and the defaults of all sections.

    ``retired`` names sections that were taken out on purpose. ``owner`` tells this pipeline from another one that
    writes to the same address; give one where several teams share a bucket. ``history`` is how many generations are
    kept for rollback, ``grace`` how long a file that the index no longer lists stays readable. ``stylesheet`` publishes a
    stylesheet by which browsers show the index as a table.
    """

    store: StoreConfig
    sections: Sequence[Section]
    shards: ShardPolicy = field(default=ShardPolicy(), kw_only=True)
    guards: Guards = field(default=Guards(), kw_only=True)
    rules: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    change_detection: ChangeDetection = field(default="digest", kw_only=True)
    limits: Literal["current", "original"] = field(default="current", kw_only=True)
    recent: timedelta | None = field(default=None, kw_only=True)
    feeds: Sequence[Literal["atom", "rss", "mrss"]] = field(default=(), kw_only=True)
    index: Literal["one", "per_section"] = field(default="one", kw_only=True)
    stylesheet: bool = field(default=False, kw_only=True)
    cross_submit: Sequence[str] = field(default=(), kw_only=True)
    retired: Sequence[str] = field(default=(), kw_only=True)
    compression: Literal["fast", "small"] = field(default="fast", kw_only=True)
    owner: str = field(default="", kw_only=True)
    history: int = field(default=20, kw_only=True)
    grace: timedelta = field(default=timedelta(days=2), kw_only=True)

    def __post_init__(self) -> None:
        names = [section.name for section in self.sections]
        twice = sorted({name for name in names if names.count(name) > 1})
        if not names:
            raise ConfigurationError("Sitemap(sections=[]): give at least one Section")
        if twice:
            raise ConfigurationError(f"Sitemap: the section name(s) {', '.join(twice)} stand twice; names are unique")
        both = sorted(set(names) & set(self.retired))
        if both:
            raise ConfigurationError(f"Sitemap: {', '.join(both)} stand(s) in sections and in retired; choose one")
        for section in self.sections:
            self.rulebook(section)
            self.limits_of(section)

    def __str__(self) -> str:
        # Airflow keeps this text of a mapped operator's argument in its database: short, stable, without parameters.
        return f"Sitemap {self.index_url} of {', '.join(section.name for section in self.sections)}"

    def rulebook(self, section: Section) -> Rulebook:
        """The verdicts of a section: the defaults, the sitemap's, its own."""
        return Rulebook.of({**self.rules, **(section.rules or {})})

    def limits_of(self, section: Section) -> Limits:
        """The limit profile of a section."""
        name = section.limits or self.limits
        if name not in PROFILES:
            raise ConfigurationError(f"limits={name!r}: give one of {', '.join(PROFILES)}")
        return PROFILES[name]

    @property
    def index_limits(self) -> Limits:
        """The limit profile of the index: the tightest of the sections'."""
        return min((self.limits_of(section) for section in self.sections), key=lambda limits: limits.max_sitemaps)

    def shards_of(self, section: Section) -> ShardPolicy:
        """The shard policy of a section."""
        return section.shards or self.shards

    def guards_of(self, section: Section) -> Guards:
        """The guards of a section."""
        return section.guards or self.guards

    def change_detection_of(self, section: Section) -> ChangeDetection:
        """How a section's changes are found."""
        return section.change_detection or self.change_detection

    def base_url_of(self, section: Section) -> str:
        """The address of the folder a section's files are served from, ending in ``/``."""
        base = section.base_url or self.store.base_url + section.path
        return base if base.endswith("/") else base + "/"

    @property
    def index_url(self) -> str:
        """Public address of the index."""
        return self.store.base_url + self.store.index_name

    def rendered(self, render: Callable[[str], str]) -> Sitemap:
        """The same sitemap with the templated texts of its sources rendered."""
        sections = tuple(replace(s, source=s.source.rendered(render)) for s in self.sections)
        return replace(self, sections=sections)

    @property
    def asset(self) -> Any:
        """The Airflow asset that the publisher emits an event of: schedule other DAGs on it."""
        return import_module("airflow_sitemaps.assets").asset_of(self)
