"""The manifest: the last committed state of every section and shard, and which of it is public."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from msgspec import field
from msgspec.structs import replace

from airflow_sitemaps.protocol.lastmod import LastmodTrust
from airflow_sitemaps.shards import (
    BodyKey,
    Checksum,
    Count,
    Folder,
    Member,
    Moment,
    Record,
    RelativePath,
    RunName,
    SectionName,
)
from airflow_sitemaps.shards.ranges import EMPTY, Digest, Key, KeyRange, Known

FORMAT: Final = 1
"""Version of the persisted format. A reader refuses a newer one."""

PAST_CONTENTS: Final = 8
"""Number of earlier contents recorded per public name, so that a content that returns gets a new ETag."""


class PublicFile(Record, frozen=True, kw_only=True):
    """One file of the public area.

    Attributes:
        body: Key of its immutable private copy.
        xml_hash: BLAKE3 of the uncompressed content, whose size in bytes is ``xml_byte_size``.
        modified_at: Time of the last change of its bytes; the index's lastmod.
        etag: Etag of the public object. Default: None, while the file is not promoted yet.
        replaces: Etag of the object that the promotion replaces. Default: None, if no object has the name.
        variant: Number in the gzip header that distinguishes a returning content from its first appearance.
        past: Earlier contents under this name.
    """

    name: RelativePath
    body: BodyKey
    xml_hash: str
    xml_byte_size: Count
    byte_size: Count
    modified_at: Moment
    etag: str | None = None
    replaces: str | None = None
    variant: Count = 0
    past: tuple[str, ...] = ()
    listed: bool = True

    @property
    def stamp(self) -> str:
        """Identifier of these bytes at this name, recorded in the public object's metadata."""
        return f"{self.body}#{self.variant}"


class LedgerPart(Record, frozen=True, kw_only=True):
    """A private file of what each URL of one shard has been through (see ``ledger``).

    ``observed`` says whether the lastmods were observed. Default: False, they are those of a column.
    """

    body: BodyKey
    checksum: Checksum
    byte_size: Count
    observed: bool = False


class Content(Record, frozen=True, kw_only=True):
    """What the entries of one key range are: as rendered, as staged, and as committed.

    Attributes:
        digest: Digest of the rows read for the range, dropped ones included.
        articles: Number of entries that hold news.
        last_key: Greatest key read.
        lastmods: Number of entries with a lastmod.
        recheck_at: Time from which the same rows are rendered differently, because a lastmod is no longer in the future
            or an article is more than two days old. Default: None, never.
        settled: False if equal digests may hide a change; every run then reads the range.
        dropped: Number of dropped rows by rule.
        expired: Number of rows that a rule omits because of their age, by rule.
        fixed: Number of repaired rows by rule.
        sample_level: Level of the URL sample (see ``shards.url_sample``).
        sample: Encoded URL sample, or None (default) if none was taken.
        prefixes: Number of sampled URLs by scheme, host and first folder.
        must: URLs of ``Sitemap(must_list=)`` that are listed.
        extensions: Number of images, videos, articles and alternates of the entries, by kind.
        part: The ledger of the URLs. Default: None, if the section has no ledger or had none at the last writing.
    """

    digest: Digest = field(default_factory=lambda: EMPTY)
    urls: Count = 0
    articles: Count = 0
    last_key: Key | None = None
    newest_lastmod: str | None = None
    oldest_lastmod: str | None = None
    lastmods: Count = 0
    recheck_at: Moment | None = None
    settled: bool = True
    dropped: Mapping[str, Count] = {}
    expired: Mapping[str, Count] = {}
    fixed: Mapping[str, Count] = {}
    sample_level: Count = 0
    sample: str | None = None
    prefixes: Mapping[str, Count] = {}
    must: tuple[str, ...] = ()
    extensions: Mapping[str, Count] = {}
    part: LedgerPart | None = None

    def facts(self) -> dict[str, Any]:
        """Return the fields of this class by name, for another record of the same content."""
        return {name: getattr(self, name) for name in Content.__struct_fields__}


class Shard(Content, frozen=True, kw_only=True):
    """One key range and the file that holds its entries, or None if the range has no valid row.

    ``dirty_since`` is the time of the first run that found changes which wait. Default: None, the file has the surveyed rows.
    """

    range: KeyRange
    file: PublicFile | None = None
    written_in: Count = 0
    dirty_since: Moment | None = None


class Day(Record, frozen=True, kw_only=True):
    """What a section listed on one day on which it changed. Numbers of URLs include expired rows.

    Attributes:
        most: Greatest number of URLs, before the day's first change too.
        least: Smallest number of at least ``judgement.GROWN`` URLs. Default: 0, there was none.
        urls: Number of URLs of the sample.
        sample: Thinned sample of the URLs before the day's first change.
        changed: Number of URLs whose fingerprint changed. Default: None, the section had no ledger.
        trust: How far the dates of a column can be trusted. Default: None, they were not compared.
    """

    most: Count
    least: Count = 0
    urls: Count = 0
    sample: str = ""
    changed: Count | None = None
    trust: LastmodTrust | None = None


class Question(Record, frozen=True, kw_only=True):
    """The question whether the change that guards refused is to be published. It is open until it has an answer.

    Attributes:
        run: Run that publishes the staged change if the answer allows it.
        refused: Run that the guards refused.
        permits: What the answer allows, such as ``shrink:products=0.21``.
        deadline: Time from which an answer publishes nothing.
        answer: ``kept``, or ``withdrawn`` if Airflow could not ask it. Default: "", it is open.
        answered_by: Who answered. Default: "", no one did in time.
    """

    run: RunName
    refused: RunName
    permits: tuple[str, ...]
    asked_at: Moment
    deadline: Moment
    answer: str = ""
    answered_by: str = ""

    def is_open(self, now: datetime) -> bool:
        """Return whether an answer still counts."""
        return not self.answer and now < self.deadline


class EarlyRecord(Record, frozen=True, kw_only=True):
    """Where the entries that a section lists early are kept: the key, checksum and number of entries of a private object."""

    body: BodyKey
    checksum: Checksum
    urls: Count


class SectionManifest(Record, frozen=True, kw_only=True):
    """One section as committed.

    Attributes:
        digest_kind: Name and version of the expression of its digests.
        changed_in: Generation that last changed the section; a plan based on an older one is stale.
        next_serial: Number of the next new file name.
        base_url: Address of the folder of its files, ending in ``/``.
        path: Folder of its files below the sitemap's folder.
        null_keys: Number of rows whose key is NULL, which no shard can hold.
        key_kinds: Name, kind and collation of each key column under which the ranges were cut. Default: not recorded.
        samples: A few faulty rows by rule.
        days: What it listed on each day with a change, by date (ISO), of the last seven days.
        known: How far its table was read, for the next survey. Default: None, the next run surveys every range.
        dated_at: Time of the latest run or rollback that changed it, if its dates are observed or compared. Default: None.
        permitted_requests: Requests whose permits let changes pass, oldest first, at most ``shards.section_commit.REQUESTS``.
        question: The last question about a refused change since its last run without a refusal. Default: None.
        member: What it is of a ``Section.each``. Default: None, the code names the section itself.
        early: Changed entries of shards that wait, which files of recent entries list. Default: None, there are none.
    """

    name: SectionName
    fingerprint: str
    digest_kind: str
    changed_in: Count
    next_serial: Count
    shards: tuple[Shard, ...]
    base_url: str = ""
    path: Folder = ""
    null_keys: Count = 0
    key_kinds: tuple[str, ...] = ()
    samples: Mapping[str, tuple[str, ...]] = {}
    days: Mapping[str, Day] = {}
    known: Known | None = None
    permitted_requests: tuple[str, ...] = ()
    dated_at: Moment | None = None
    question: Question | None = None
    member: Member | None = None
    early: EarlyRecord | None = None

    @property
    def urls(self) -> int:
        """Number of entries in all files."""
        return sum(shard.urls for shard in self.shards)

    @property
    def rows(self) -> int:
        """Number of source rows, valid or not, with and without a key."""
        return sum(shard.digest.rows for shard in self.shards) + self.null_keys

    @property
    def expired_rows(self) -> int:
        """Number of source rows omitted because of their age."""
        return sum(sum(shard.expired.values()) for shard in self.shards)

    def files(self) -> Iterator[PublicFile]:
        """Iterate over the shards' files in key order."""
        for shard in self.shards:
            if shard.file is not None:
                yield shard.file


class IndexRecord(Record, frozen=True, kw_only=True):
    """Settings of a generation's indexes, and the names of its extra files.

    ``changed_in`` is the generation that last changed any of these; a plan based on an older one is stale.
    """

    name: RelativePath
    mode: Literal["one", "per_section"]
    limits: str
    extras: tuple[RelativePath, ...] = ()
    changed_in: Count = 0


class GoneRecord(Record, frozen=True, kw_only=True):
    """Where the gone URLs of a generation are kept (see ``shards.gone``): their number, and when the oldest left.

    ``awaits`` names the sections whose next run may change which URLs are gone.
    """

    body: BodyKey
    urls: Count = 0
    oldest: Moment | None = None
    awaits: tuple[SectionName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationNote:
    """One line of the history.

    Attributes:
        shards: Number of files of the sections.
        byte_size: Size of all files except the indexes, in bytes.
        touched: Number of files that the promotion wrote, without the indexes.
        dropped: Number of dropped rows.
        failed: Sections that the run could not publish.
    """

    generation: Count
    committed_at: Moment
    run: str
    urls: Count
    shards: Count
    byte_size: Count
    action: str = "build"
    touched: Count = 0
    dropped: Count = 0
    failed: tuple[str, ...] = ()


class Departed(Record, frozen=True, kw_only=True):
    """A file that the current generation no longer names, to be swept after the grace and the history allow it.

    Attributes:
        generation: First generation that does not name the file, committed ``at``.
        etag: Etag of a public object. An object with another one is left to its writer. Default: None, for a private
            object, or if the promotion was not finished.
    """

    area: Literal["public", "state"]
    key: RelativePath
    generation: Count
    at: Moment
    etag: str | None = None


class Manifest(Record, frozen=True, kw_only=True):
    """One complete generation.

    Attributes:
        generation: Its number; the first is 1.
        write_id: Identifier of this write of the manifest, different from that of every other write.
        indexes: The index files. Default: none, while a commit is computed.
        promoted: Whether all public files are those named here.
        extras: Files in addition to the shards: recent entries, feeds, a stylesheet.
        recheck_at: Time from which the same shards give different extra files. Default: None, never.
        recent_window: Age in seconds up to which the extra files list an entry. Default: None, not recorded.
        history: Notes of the last generations, oldest first.
        serials: Next serial of each removed section. If the section returns, no file name is used twice.
        swept_at: Time of the last search of the runs' folders for files that nothing names.
        gone: The URLs that left the source lately. Default: None, there are none.
        state_id: Identifier of the state area in the metadata of public objects.
        origin: Deployment that committed last, such as the address of its Airflow. Default: "", not known.
        headers: Settings of the headers that the store keeps with the public files. Default: "", not known or none.
    """

    generation: Count
    write_id: str
    run: RunName
    owner: str
    base_url: str
    committed_at: Moment
    sections: Mapping[str, SectionManifest]
    indexes: tuple[PublicFile, ...] = ()
    promoted: bool = False
    extras: tuple[PublicFile, ...] = ()
    recheck_at: Moment | None = None
    recent_window: Count | None = None
    history: tuple[GenerationNote, ...] = ()
    departed: tuple[Departed, ...] = ()
    serials: Mapping[str, Count] = {}
    swept_at: Moment | None = None
    index_record: IndexRecord | None = None
    gone: GoneRecord | None = None
    state_id: str = ""
    origin: str = ""
    headers: str = ""
    format: Count = field(default_factory=lambda: FORMAT)

    @property
    def urls(self) -> int:
        """Number of entries in all sections."""
        return sum(section.urls for section in self.sections.values())

    @property
    def index_urls(self) -> tuple[str, ...]:
        """Addresses of the index files."""
        return tuple(self.base_url + index.name for index in self.indexes)

    def files(self) -> Iterator[PublicFile]:
        """Iterate over every public file except the indexes."""
        for section in self.sections.values():
            yield from section.files()
        yield from self.extras

    def public_files(self) -> Iterator[PublicFile]:
        """Iterate over every public file in the order of promotion, the indexes last."""
        yield from self.files()
        yield from self.indexes

    def parts(self) -> dict[str, LedgerPart]:
        """Return the ledger parts of all shards by key."""
        shards = (shard for section in self.sections.values() for shard in section.shards)
        return {shard.part.body: shard.part for shard in shards if shard.part is not None}

    def bodies(self) -> set[str]:
        """Return the keys of all private bodies, ledger parts and records that this generation needs."""
        gone = {self.gone.body} if self.gone is not None else set()
        early = {section.early.body for section in self.sections.values() if section.early is not None}
        return {file.body for file in self.public_files()} | self.parts().keys() | gone | early


def succeed(before: PublicFile, after: PublicFile) -> PublicFile:
    """Return ``after`` as the successor of ``before``, in a variant that the name has not had with this content."""
    past = (*before.past, f"{before.xml_hash[:16]}:{before.variant}")[-PAST_CONTENTS:]
    seen = [int(entry.partition(":")[2]) for entry in past if entry.startswith(after.xml_hash[:16] + ":")]
    variant = max(seen) + 1 if seen else 0
    return replace(after, past=past, variant=variant, modified_at=later(after.modified_at, before.modified_at))


def restore(file: PublicFile, current_etag: str | None, now: datetime) -> PublicFile:
    """Return a file that another program changed or deleted, to be put over ``current_etag`` with the same bytes."""
    return replace(file, etag=None, replaces=current_etag, modified_at=later(now, file.modified_at))


def later(now: datetime, before: datetime) -> datetime:
    """Return the time of a change: ``now``, but at least one second after the previous change.

    A crawler reads a file again only if its ``lastmod`` increases, and the index writes ``lastmod`` in whole seconds.
    Clocks of workers differ, and two commits may share a second.
    """
    return max(now, before + timedelta(seconds=1))
