"""The manifest: what was last committed, for every section and shard, and what has been promoted of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from airflow_sitemaps.shards.digest import EMPTY, Digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from airflow_sitemaps.shards.key import Key, KeyRange

FORMAT: Final = 1
"""Version of the persisted form. A reader refuses a newer one."""

PAST_CONTENTS: Final = 8
"""Earlier contents remembered for each public name, so that a content that returns gets a new ETag."""

PEAK_DAYS: Final = 7
"""Days over which a section's greatest number of URLs is remembered, for the guard against slow shrinking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFile:
    """One file of the public area.

    ``name``: path below the public area. ``body``: key of its immutable private copy. ``etag``: the store's token of
    the public object, None while it waits for its promotion; ``replaces``: the token it is expected to replace then.
    ``xml_sha256`` and ``xml_byte_size`` are of the uncompressed content, ``byte_size`` of the file. ``modified_at``:
    when its bytes last changed, the index's lastmod. ``variant``: a number in the gzip header that tells a content
    that returns from its first appearance; ``past``: earlier contents under this name.
    ``listed``: whether the index lists it.
    """

    name: str
    body: str
    xml_sha256: str
    xml_byte_size: int
    byte_size: int
    modified_at: datetime
    etag: str | None = None
    replaces: str | None = None
    variant: int = 0
    past: tuple[str, ...] = ()
    listed: bool = True

    @property
    def stamp(self) -> str:
        """Identifies these bytes at this name; stands in the public object's metadata."""
        return f"{self.body}#{self.variant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One key range and the file that holds its entries (None: it has no valid row).

    ``digest`` is of the rows that were read for it. ``urls`` counts entries written. ``last_key``: greatest key read.
    ``newest_lastmod``: of the written entries. ``recheck_at``: when the same rows would be rendered otherwise.
    ``settled`` is False when the digest may not be that of the rows read. ``dropped`` and ``mended`` count rows by
    rule. ``written_in``: the generation that last changed the file.
    """

    range: KeyRange
    digest: Digest = EMPTY
    urls: int = 0
    file: PublicFile | None = None
    last_key: Key | None = None
    newest_lastmod: str | None = None
    recheck_at: datetime | None = None
    settled: bool = True
    dropped: Mapping[str, int] = field(default_factory=dict)
    mended: Mapping[str, int] = field(default_factory=dict)
    written_in: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionState:
    """One section as committed.

    ``fingerprint`` is of its configuration, ``digest_kind`` of the digests' expression. ``changed_in``: the generation
    that last changed it; a plan made on an older one is stale. ``next_serial``: the next number of a file name.
    ``null_keys``: rows that no shard can hold. ``samples``: a few faulty rows by rule. ``peaks``: the greatest number
    of URLs by day (ISO date), of the last seven days.
    """

    name: str
    fingerprint: str
    digest_kind: str
    changed_in: int
    next_serial: int
    shards: tuple[Shard, ...]
    base_url: str = ""
    path: str = ""
    null_keys: int = 0
    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    peaks: Mapping[str, int] = field(default_factory=dict)

    @property
    def urls(self) -> int:
        """Entries in all files."""
        return sum(shard.urls for shard in self.shards)

    @property
    def rows(self) -> int:
        """Source rows, valid or not, with and without a key."""
        return sum(shard.digest.rows for shard in self.shards) + self.null_keys

    def peak(self, now: datetime) -> int:
        """The greatest number of URLs of the last ``PEAK_DAYS`` days, 0 where nothing is known."""
        first = (now.date() - timedelta(days=PEAK_DAYS - 1)).isoformat()
        return max((number for day, number in self.peaks.items() if day >= first), default=0)

    def files(self) -> Iterator[PublicFile]:
        """The shards' files in key order."""
        for shard in self.shards:
            if shard.file is not None:
                yield shard.file


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """One index file. ``changed_in``: the generation that last changed its bytes (it stands in a comment there)."""

    name: str
    changed_in: int
    xml_sha256: str
    byte_size: int
    etag: str | None = None
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationNote:
    """A line of the history. ``key``: where the whole manifest of that generation lies, None for the current one."""

    generation: int
    committed_at: datetime
    run: str
    urls: int
    shards: int
    byte_size: int
    action: str = "build"
    touched: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    """A file that the current generation no longer names: swept once the grace and the history allow it.

    ``etag``: of a public object whose name may come back (an index, recent entries, a feed); None for names that are
    never used again.
    """

    area: Literal["public", "state"]
    key: str
    generation: int
    at: datetime
    etag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One generation, whole.

    ``write_id`` tells this very write from any other. ``run``: the run that committed it. ``owner`` and ``base_url``:
    whose it is. ``promoted``: whether all public files are those named here. ``extras``: files beside the shards
    (recent entries, feeds); ``recheck_at``: when they would be made otherwise of the same shards. ``serials``: the next
    serial of sections that were taken out, for when they come back: a name is never used again. ``swept_at``: when the
    runs' folders were last looked through for what nothing names.
    """

    generation: int
    write_id: str
    run: str
    owner: str
    base_url: str
    committed_at: datetime
    sections: Mapping[str, SectionState]
    indexes: tuple[IndexFile, ...]
    promoted: bool = False
    extras: tuple[PublicFile, ...] = ()
    recheck_at: datetime | None = None
    history: tuple[GenerationNote, ...] = ()
    departed: tuple[Departed, ...] = ()
    serials: Mapping[str, int] = field(default_factory=dict)
    swept_at: datetime | None = None
    format: int = FORMAT

    @property
    def urls(self) -> int:
        """Entries in all sections."""
        return sum(section.urls for section in self.sections.values())

    def files(self) -> Iterator[PublicFile]:
        """Every public file but the indexes."""
        for section in self.sections.values():
            yield from section.files()
        yield from self.extras

    def bodies(self) -> set[str]:
        """Keys of all private bodies that this generation needs."""
        return {file.body for file in self.files()}
