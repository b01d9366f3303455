"""The current settings in the DAG file, and changes to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from airflow_sitemaps.shards.guards import Guards
from airflow_sitemaps.shards.layout import ShardPolicy
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.sources.columns import Observed

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from airflow_sitemaps.ports import SourceConfig, StoreConfig

FREE: Final = Guards.disabled()
STRICT: Final = Guards(max_shrink=0.3, max_growth=5.0, min_rows=5, max_dropped=1.0)
GRACE: Final = timedelta(days=2)
GONE: Final = timedelta(days=1)
REWRITE_AFTER: Final = timedelta(hours=6)
MAX_SKEW: Final = timedelta(minutes=5)
NAMES: Final = ("pages", "posts")
OBSERVED: Final[tuple[tuple[str, ...], ...]] = (("title",), ("title", "priority"))
"""The columns whose changes date an entry, in histories with observed dates."""

KEYS: Final[tuple[str | tuple[str, ...], ...]] = ("id", "code", ("shop", "id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DagFile:
    """The settings of a sitemap of one or two sections.

    Attributes:
        max_urls: Maximum number of URLs in a shard.
        index: ``one`` or ``per_section``.
        guards: The guards of every section.
        sections: Names of the published sections.
        changefreq: Whether ``changefreq`` is mapped.
        drop_faulty: Whether a faulty priority drops the row. Otherwise only the priority is omitted.
        recent: Whether a file of recent entries is written.
        feed: Whether an Atom feed is written.
        stylesheet: Whether a stylesheet is written.
        folders: Whether each section has a folder of its own.
        detection: The change detection: ``digest``, ``watermark`` or ``full``.
        history: Number of generations kept.
        key: The key columns of every section.
        news: Whether the second section is of news.
        ledger: Whether the sections have a ledger.
        gone: Whether a file of gone URLs is written.
        observed: The columns whose changes date the entries of pages. Empty: dates are those of a column.
        initial: Whether a column has the first dates of observed ones.
        waits: Whether changes that list no URL and remove none may wait, where no other setting forbids it.
    """

    max_urls: int
    index: str
    guards: Guards
    sections: tuple[str, ...]
    changefreq: bool = True
    drop_faulty: bool = False
    recent: bool = False
    feed: bool = False
    stylesheet: bool = False
    folders: bool = False
    detection: str = "digest"
    history: int = 20
    key: str | tuple[str, ...] = "id"
    news: bool = False
    ledger: bool = False
    gone: bool = False
    observed: tuple[str, ...] = ()
    initial: bool = False
    waits: bool = False

    @classmethod
    def drawn(cls, random: Random) -> DagFile:
        """Return the first settings of a history."""
        return cls(
            sections=NAMES[: random.choice((1, 1, 2))],
            guards=random.choice((FREE, FREE, STRICT)),
            max_urls=random.choice((3, 4, 5)),
            index=random.choice(("one", "one", "one", "per_section")),
            recent=random.random() < 0.15,
            detection=random.choices(("digest", "watermark", "full"), (14, 5, 1))[0],
            history=random.choice((2, 4, 20)),
        )

    @property
    def is_guarded(self) -> bool:
        """Whether guards can keep a section unchanged."""
        return self.guards is STRICT

    def kind_of(self, section: str) -> Literal["pages", "news"]:
        """Return the kind of a section."""
        return "news" if self.news and section == NAMES[1] else "pages"

    def lastmod_of(self, section: str) -> str | Observed:
        """Return the lastmod of a section."""
        if not self.observed or self.detection == "watermark" or self.kind_of(section) == "news":
            return "lastmod"
        return Observed(*self.observed, initial="published" if self.initial else None)

    def shards_of(self, section: str) -> ShardPolicy:
        """Return the shard policy of a section."""
        forbidden = self.drop_faulty or self.kind_of(section) == "news" or self.lastmod_of(section) != "lastmod"
        waits = self.waits and not forbidden
        return ShardPolicy(max_urls=self.max_urls, rewrite_after=REWRITE_AFTER if waits else None)

    def next(self, random: Random) -> DagFile:
        """Return the settings with one change: of the mapping, the sections, their addresses, or the extra files."""
        if random.random() < 0.3:
            return random.choice(
                (
                    replace(self, recent=not self.recent),
                    replace(self, feed=not self.feed),
                    replace(self, stylesheet=not self.stylesheet),
                    replace(self, folders=not self.folders),
                    replace(self, key=random.choice(KEYS)),
                )
            )
        return random.choice(
            (
                replace(self, changefreq=not self.changefreq),
                replace(self, max_urls=random.choice((3, 4, 5))),
                replace(self, drop_faulty=not self.drop_faulty),
                replace(self, sections=NAMES if len(self.sections) == 1 else NAMES[:1]),
                replace(self, index="one" if self.index == "per_section" else "per_section"),
            )
        )

    def sitemap(self, store: StoreConfig, source: Callable[[str], SourceConfig]) -> Sitemap:
        """Return the sitemap.

        Args:
            store: The store.
            source: Returns the source of a section.
        """
        sections = [
            Section(
                name, source(name), path=f"{name}/" if self.folders else "", kind=self.kind_of(name), ledger=self.ledger,
                shards=self.shards_of(name),
            )
            for name in self.sections
        ]  # fmt: skip
        return Sitemap(
            store, sections, guards=self.guards,
            index=self.index, retired=tuple(name for name in NAMES if name not in self.sections),  # type: ignore[arg-type]
            grace=GRACE, history=self.history, change_detection=self.detection,  # type: ignore[arg-type]
            rules={"priority": "drop_row"} if self.drop_faulty else {},
            recent=timedelta(days=3) if self.recent else None, gone=GONE if self.gone else None,
            feeds=("atom",) if self.feed else (), stylesheet=self.stylesheet,
        )  # fmt: skip
