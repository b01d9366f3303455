"""What a run did: for the log, the shell, the asset event and the UI."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

REPORT_FORMAT = 1

Result = Literal["published", "unchanged", "planned", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCounts:
    """Shards after the run, and what became of them. ``dropped``: files the index no longer lists."""

    total: int = 0
    kept: int = 0
    created: int = 0
    rewritten: int = 0
    dropped: int = 0
    repaired: int = 0

    def __add__(self, other: ShardCounts) -> ShardCounts:
        mine, theirs = asdict(self), asdict(other)
        return ShardCounts(**{name: mine[name] + theirs[name] for name in mine})


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionReport:
    """One section. Counts are of the whole section as it now stands; ``*_read`` and ``bytes_written`` of this run.

    ``rows_dropped`` and ``fields_mended``: rows by rule. ``samples``: a few faulty rows by rule. ``reasons``: why
    shards were written → how many. ``xml_bytes`` and ``file_bytes``: of all its files, uncompressed and as stored.
    """

    urls: int = 0
    rows: int = 0
    shards: ShardCounts = field(default_factory=ShardCounts)
    rows_dropped: Mapping[str, int] = field(default_factory=dict)
    fields_mended: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    xml_bytes: int = 0
    file_bytes: int = 0
    rows_read: int = 0
    bytes_written: int = 0
    newest_lastmod: str | None = None
    drift: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole run. ``seconds``: wall time by stage. ``index_urls``: addresses of the index files;
    ``robots_urls``: those and the feeds, for robots.txt.

    ``result``: ``published`` (a new generation), ``unchanged`` (nothing to do), ``planned`` (a dry run) or
    ``refused`` (guards said no; ``warnings`` says which). Times are ISO 8601 in UTC.
    """

    run: str
    result: Result
    generation: int
    previous_generation: int
    started_at: str
    finished_at: str
    committed_at: str | None
    index_urls: tuple[str, ...]
    urls: int
    rows: int
    shards: ShardCounts
    rows_dropped: Mapping[str, int]
    fields_mended: Mapping[str, int]
    sections: Mapping[str, SectionReport]
    robots_urls: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    xml_bytes: int = 0
    file_bytes: int = 0
    rows_read: int = 0
    bytes_written: int = 0
    drift: tuple[str, ...] = ()
    swept: int = 0
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    action: str = "build"
    format: int = REPORT_FORMAT

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def totals(sections: Mapping[str, SectionReport]) -> dict[str, Any]:
    """The sums over all sections that a report carries."""
    shards = ShardCounts()
    dropped: dict[str, int] = {}
    mended: dict[str, int] = {}
    for section in sections.values():
        shards = shards + section.shards
        for counts, more in ((dropped, section.rows_dropped), (mended, section.fields_mended)):
            for rule, number in more.items():
                counts[rule] = counts.get(rule, 0) + number
    names = ("urls", "rows", "xml_bytes", "file_bytes", "rows_read", "bytes_written")
    sums = {name: sum(getattr(section, name) for section in sections.values()) for name in names}
    drift = tuple(sentence for section in sections.values() for sentence in section.drift)
    return {**sums, "shards": shards, "rows_dropped": dropped, "fields_mended": mended, "drift": drift}
