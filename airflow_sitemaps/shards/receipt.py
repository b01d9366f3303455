"""The receipts of written batches: what a task read of each range, and the key of its content."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_sitemaps.protocol.feeds import FeedText
from airflow_sitemaps.protocol.lastmod import LastmodTrust
from airflow_sitemaps.shards.manifest import Content
from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.shards.schema import BodyKey, Count, Number, Record, RunName, SectionName


class StagedShard(Content, frozen=True, kw_only=True):
    """One file's part of an action's range, as its rows were read.

    Attributes:
        body: Key of the private body. None (default) if the range has no valid row, or if its content equals that of
            the carried shard.
        same: Whether the content equals that of the carried shard, so that nothing was stored.
        xml_sha256: SHA-256 of the uncompressed content, whose size in bytes is ``xml_byte_size``.
        fresh: Number of URLs that no old shard of the range lists, if the section has a ledger.
        changed: Number of URLs whose fingerprint changed.
        unjudged: Number of URLs that were listed, but whose earlier fingerprint is not known, because a part was lost.
        compared: Number of URLs whose earlier fingerprint is known.
        trust: How far the dates of a column can be trusted. Default: None, they are not compared.
        left: In the first piece of a range: the URLs that its old shards list and whose rows left the source, of which there
            are ``leaving``. None (default) if the task did not look for them.
    """

    range: KeyRange
    body: BodyKey | None = None
    same: bool = False
    xml_sha256: str = ""
    xml_byte_size: Count = 0
    byte_size: Count = 0
    samples: Mapping[str, tuple[str, ...]] = {}
    fresh: Count = 0
    changed: Count = 0
    unjudged: Count = 0
    compared: Count = 0
    trust: LastmodTrust | None = None
    leaving: Count = 0
    left: tuple[str, ...] | None = None


class Receipt(Record, frozen=True, kw_only=True):
    """Result of a written batch.

    Attributes:
        pieces: The pieces of every action, by the action's position in its section's plan.
        seconds: Wall time, in seconds.
        feed_texts: Titles and descriptions of the newest entries, if the section has them and the sitemap has feeds.
    """

    run: RunName
    batch: Count
    section: SectionName
    pieces: Mapping[Count, tuple[StagedShard, ...]]
    rows: Count
    bytes_written: Count
    seconds: Number
    feed_texts: tuple[FeedText, ...] = ()
