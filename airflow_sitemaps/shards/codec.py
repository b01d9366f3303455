"""Receipts, and the encoding of manifests, plans and receipts as gzipped JSON. Equal values give equal bytes.

The annotations of the records say how msgspec encodes and decodes them, and which values are valid (see
``airflow_sitemaps.shards``). The format is versioned (``manifest.FORMAT``).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import partial
from typing import Final, TypeVar

import msgspec

from airflow_sitemaps.errors import InvalidSitemapError, ManifestError
from airflow_sitemaps.protocol import gzip as capped
from airflow_sitemaps.protocol.feeds import FeedText
from airflow_sitemaps.protocol.lastmod import LastmodTrust
from airflow_sitemaps.shards import BodyKey, Count, Decoder, Number, Record, RunName, SectionName
from airflow_sitemaps.shards.gone import GoneUrls
from airflow_sitemaps.shards.manifest import FORMAT, Content, Manifest
from airflow_sitemaps.shards.plan import Plan
from airflow_sitemaps.shards.ranges import EarlyEntries, KeyRange

# ------------------------------------------------------------ receipts


class StagedShard(Content, frozen=True, kw_only=True):
    """One file's part of an action's range, as its rows were read.

    Attributes:
        body: Key of the private body. None (default) if the range has no valid row, or if its content equals that of
            the carried shard.
        same: Whether the content equals that of the carried shard, so that nothing was stored.
        xml_hash: BLAKE3 of the uncompressed content, whose size in bytes is ``xml_byte_size``.
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
    xml_hash: str = ""
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
    """Result of a written batch: the pieces of every action, by the action's position in its section's plan.

    ``feed_texts`` are those of the newest entries, if the section has them and the sitemap has feeds.
    """

    run: RunName
    batch: Count
    section: SectionName
    pieces: Mapping[Count, tuple[StagedShard, ...]]
    rows: Count
    bytes_written: Count
    seconds: Number
    feed_texts: tuple[FeedText, ...] = ()


# ------------------------------------------------------------ encoding


ROOM: Final = 64 << 20
"""Unpacked size that is allowed for any object, in bytes."""

RATIO: Final = 200
"""Maximum compression ratio of a larger object. This module's own objects have about 10, a gzip bomb about 1,000."""

_UNREADABLE: Final = (OSError, EOFError, ValueError, TypeError, OverflowError, RecursionError, InvalidSitemapError)
"""Exceptions that damaged bytes can cause."""

T = TypeVar("T")


class _Version(msgspec.Struct):
    format: int = FORMAT


_VERSION: Final = Decoder(_Version)
_MANIFEST: Final = Decoder(Manifest)
_PLAN: Final = Decoder(Plan)
_RECEIPT: Final = Decoder(Receipt)
_GONE: Final = Decoder(GoneUrls)
_EARLY: Final = Decoder(EarlyEntries)


def encode(value: Manifest | Plan | Receipt | GoneUrls | EarlyEntries) -> bytes:
    """Encode a persisted object."""
    try:
        text = msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):  # keys with a lone surrogate, or with an integer of more than 64 bits
        plain = msgspec.to_builtins(value, str_keys=True)
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return gzip.compress(text, compresslevel=4, mtime=0)


RESTORE: Final = (
    "Restore it from the state area's generations/, or set a new state area and run `airflow-sitemaps adopt`."
)
RUN_AGAIN: Final = "Run the DAG again, or clear its planning task with those after it."


def decode(decoder: Decoder[T], data: bytes, what: str = "a record", step: str = RESTORE) -> T:
    """Decode a persisted object, or the part of it that another type of the same field names describes.

    ``what`` describes the object with its location, and ``step`` the next step, for messages.
    """
    try:
        text = capped.decompress(data, max_byte_size=max(ROOM, RATIO * len(data)))
        try:
            decoded = decoder.decode(text)
        except msgspec.ValidationError:
            _check_version(text, what)
            raise
        _check_version(text, what)
    except _UNREADABLE as error:
        raise ManifestError(
            f"{what} cannot be read ({type(error).__name__}: {error}); it is damaged, or another program wrote it. {step}"
        ) from error
    return decoded


def _check_version(text: bytes, what: str) -> None:
    version = _VERSION.decode(text).format
    if version > FORMAT:
        raise ManifestError(
            f"{what} has format {version}; this version of airflow-sitemaps reads up to {FORMAT}: upgrade it"
        )


decode_manifest: Final = partial(decode, _MANIFEST)
decode_receipt: Final = partial(decode, _RECEIPT, step=RUN_AGAIN)
decode_gone: Final = partial(decode, _GONE)
decode_early: Final = partial(decode, _EARLY)


def decode_plan(data: bytes, where: str = "the plan") -> Plan:
    """Decode a plan."""
    plan = decode(_PLAN, data, where, RUN_AGAIN)
    if problem := _misfit(plan):
        raise ManifestError(f"{where} is not a valid plan: {problem}. It was damaged or forged. Plan again.")
    return plan


def _misfit(plan: Plan) -> str | None:
    """Return what a plan refers to that does not exist, or None if every reference is valid."""
    for name, section in plan.sections.items():
        if name != section.name:
            return f"section {name!r} has the name {section.name!r}"
    for number, batch in enumerate(plan.batches):
        section_plan = plan.sections.get(batch.section) or plan.refused.get(batch.section)
        if section_plan is None or batch.number != number:
            return f"batch {number} is of section {batch.section!r} and numbered {batch.number}"
        if any(position >= len(section_plan.actions) for position in batch.actions):
            return f"batch {number} writes ranges that do not exist"
    return None
