"""Receipt of a written batch."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_sitemaps.protocol.feeds import FeedText
from airflow_sitemaps.shards.digest import Digest
from airflow_sitemaps.shards.key import Key, KeyRange
from airflow_sitemaps.shards.schema import BodyKey, Count, Moment, Number, Record, RunName, SectionName


class StagedShard(Record, frozen=True, kw_only=True):
    """One file's part of a target's range, as its rows were read.

    Attributes:
        range: The key range.
        digest: Digest of the rows read.
        urls: Number of entries.
        articles: Number of entries that hold news. Default: 0.
        body: Key of the private body. None (default) if the range has no valid row, or if its content equals that of
            the carried shard.
        same: Whether the content equals that of the carried shard, so that nothing was stored. Default: False.
        xml_sha256: SHA-256 of the uncompressed content. Default: "".
        xml_byte_size: Size of the uncompressed content, in bytes. Default: 0.
        byte_size: Size of the file, in bytes. Default: 0.
        last_key: Greatest key read. Default: None.
        newest_lastmod: Newest lastmod of the entries. Default: None.
        recheck_at: Time from which the same rows are rendered differently. Default: None, never.
        settled: False if equal digests may hide a change. Default: True.
        dropped: Number of dropped rows by rule. Default: none.
        expired: Number of rows omitted because of their age, by rule. Default: none.
        mended: Number of repaired rows by rule. Default: none.
        samples: A few faulty rows by rule. Default: none.
        sample_level: Level of the URL sample (see ``shards.url_sample``). Default: 0.
        sample: Encoded URL sample, or None (default) if none was taken.
        prefixes: Number of sampled URLs by scheme, host and first folder. Default: none.
        lastmods: Number of entries with a lastmod. Default: 0.
        oldest_lastmod: Oldest lastmod of the entries. Default: None.
        must: URLs of ``Sitemap(must_list=)`` that the file lists. Default: none.
        extensions: Number of images, videos, articles and alternates of the entries, by kind. Default: none.
    """

    range: KeyRange
    digest: Digest
    urls: Count
    articles: Count = 0
    body: BodyKey | None = None
    same: bool = False
    xml_sha256: str = ""
    xml_byte_size: Count = 0
    byte_size: Count = 0
    last_key: Key | None = None
    newest_lastmod: str | None = None
    recheck_at: Moment | None = None
    settled: bool = True
    dropped: Mapping[str, Count] = {}
    expired: Mapping[str, Count] = {}
    mended: Mapping[str, Count] = {}
    samples: Mapping[str, tuple[str, ...]] = {}
    sample_level: Count = 0
    sample: str | None = None
    prefixes: Mapping[str, Count] = {}
    lastmods: Count = 0
    oldest_lastmod: str | None = None
    must: tuple[str, ...] = ()
    extensions: Mapping[str, Count] = {}


class Receipt(Record, frozen=True, kw_only=True):
    """Result of a written batch.

    Attributes:
        run: Identifier of the run.
        batch: Number of the batch.
        section: Name of the section.
        pieces: The pieces of every target, by the target's position in its section's plan.
        rows: Number of rows read.
        bytes_written: Number of bytes stored.
        seconds: Wall time, in seconds.
        feed_texts: Titles and descriptions of the newest entries, if the section has columns for them and the sitemap
            has feeds. Default: none.
    """

    run: RunName
    batch: Count
    section: SectionName
    pieces: Mapping[Count, tuple[StagedShard, ...]]
    rows: Count
    bytes_written: Count
    seconds: Number
    feed_texts: tuple[FeedText, ...] = ()
