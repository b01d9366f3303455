"""Encode manifests, plans and receipts as gzipped JSON. Equal values give equal bytes.

msgspec decodes them by the annotations of the dataclasses (see ``shards.schema``), which also say what is valid. The
format is versioned (``manifest.FORMAT``).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from airflow_sitemaps.errors import InvalidSitemapError, ManifestError
from airflow_sitemaps.protocol import gzip as capped
from airflow_sitemaps.protocol.feeds import FeedText
from airflow_sitemaps.shards.decoder import Decoder
from airflow_sitemaps.shards.digest import Digest
from airflow_sitemaps.shards.feed_mark import FeedMark
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.key import KeyRange
from airflow_sitemaps.shards.manifest import (
    FORMAT,
    Day,
    Departed,
    GenerationNote,
    IndexFile,
    IndexRecord,
    Manifest,
    PublicFile,
    SectionManifest,
    Shard,
)
from airflow_sitemaps.shards.plan import (
    Batch,
    Plan,
    RangeAction,
    Repair,
    RuleCheck,
    SectionCheck,
    SectionFailure,
    SectionPlan,
)
from airflow_sitemaps.shards.receipt import Receipt, StagedShard
from airflow_sitemaps.shards.url_sample import PrefixCount

ROOM: Final = 64 << 20
"""Unpacked size that is allowed for any object, in bytes."""

RATIO: Final = 200
"""Maximum compression ratio of a larger object. This module's own objects have about 10, a gzip bomb about 1,000."""

_UNREADABLE: Final = (OSError, EOFError, ValueError, TypeError, OverflowError, RecursionError, InvalidSitemapError)
"""Exceptions that damaged bytes can cause."""

T = TypeVar("T")

_PERSISTED: Final[tuple[type, ...]] = (
    PublicFile,
    Shard,
    FeedMark,
    Day,
    SectionManifest,
    IndexFile,
    IndexRecord,
    GenerationNote,
    Departed,
    Manifest,
    RangeAction,
    SectionPlan,
    Batch,
    Refusal,
    SectionFailure,
    RuleCheck,
    SectionCheck,
    Repair,
    Plan,
    PrefixCount,
    StagedShard,
    FeedText,
    Receipt,
)
"""Classes whose fields are encoded by name."""

_LEAVES: Final = frozenset({str, int, float, bool, type(None)})


def _omitted(kind: type) -> tuple[tuple[str, tuple[object, ...]], ...]:
    """Return the names of a class's fields in order, each with the values that are omitted."""
    omitted: list[tuple[str, tuple[object, ...]]] = []
    for f in fields(kind):
        needed = f.default is MISSING and f.default_factory is MISSING
        counts = type(f.default) is int and f.default == 0
        omitted.append((f.name, () if needed else (None, (), {}, 0) if counts else (None, (), {})))
    return tuple(omitted)


_FIELDS: Final = {kind: _omitted(kind) for kind in _PERSISTED}


def _plain(value: object) -> object:
    """Convert a value to JSON values; omit fields with a default if they are None or empty, and counts of 0."""
    if type(value) in _LEAVES:
        return value
    if (names := _FIELDS.get(type(value))) is not None:
        plain = {}
        for name, omitted in names:
            part = getattr(value, name)
            if part not in omitted:  # most parts are leaves: of 50,000 shards a million
                plain[name] = part if type(part) in _LEAVES else _plain(part)
        return plain
    if isinstance(value, KeyRange):
        return [value.lower, value.upper]
    if isinstance(value, Digest):
        return [value.rows, value.newest, f"{value.checksum:016x}"]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): _plain(v) for name, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(v) for v in value]
    return value


def _encode(value: object) -> bytes:
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode("utf-8", "surrogatepass"), compresslevel=4, mtime=0)


class _Version(msgspec.Struct):
    format: int = FORMAT


_VERSION: Final = Decoder(_Version)
_MANIFEST: Final = Decoder(Manifest)
_PLAN: Final = Decoder(Plan)
_RECEIPT: Final = Decoder(Receipt)


def decode(decoder: Decoder[T], data: bytes, what: str) -> T:
    """Decode a persisted object, or the part of it that another type of the same field names describes.

    Args:
        decoder: Decoder of ``Manifest``, ``Plan``, ``Receipt``, or of a dataclass or Struct with some of their fields.
        what: Description of the object with its location, for messages.

    Raises:
        ManifestError: The bytes are damaged or of a newer format.
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
            f"{what} cannot be read ({type(error).__name__}: {error}); it is damaged, or another program wrote it. "
            "Restore it from the state area's generations/, or set a new state_url and run `airflow-sitemaps adopt`."
        ) from error
    return decoded


def _check_version(text: bytes, what: str) -> None:
    version = _VERSION.decode(text).format
    if version > FORMAT:
        raise ManifestError(
            f"{what} has format {version}; this version of airflow-sitemaps reads up to {FORMAT}: upgrade it"
        )


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest."""
    return _encode(manifest)


def decode_manifest(data: bytes, where: str = "the manifest") -> Manifest:
    """Decode a manifest.

    Raises:
        ManifestError: The bytes are damaged or of a newer format.
    """
    return decode(_MANIFEST, data, where)


def encode_plan(plan: Plan) -> bytes:
    """Encode a plan."""
    return _encode(plan)


def decode_plan(data: bytes, where: str = "the plan") -> Plan:
    """Decode a plan.

    Raises:
        ManifestError: The bytes are damaged or of a newer format.
    """
    plan = decode(_PLAN, data, where)
    if problem := _misfit(plan):
        raise ManifestError(f"{where} is not a valid plan: {problem}. It was damaged or forged. Plan again.")
    return plan


def encode_receipt(receipt: Receipt) -> bytes:
    """Encode a receipt."""
    return _encode(receipt)


def decode_receipt(data: bytes, where: str = "the receipt") -> Receipt:
    """Decode a receipt.

    Raises:
        ManifestError: The bytes are damaged or of a newer format.
    """
    return decode(_RECEIPT, data, where)


def _misfit(plan: Plan) -> str | None:
    """Return what a plan refers to that does not exist, or None if every reference is valid."""
    for name, section in plan.sections.items():
        if name != section.name:
            return f"section {name!r} has the name {section.name!r}"
    for number, batch in enumerate(plan.batches):
        section_plan = plan.sections.get(batch.section)
        if section_plan is None or batch.number != number:
            return f"batch {number} is of section {batch.section!r} and numbered {batch.number}"
        if any(position >= len(section_plan.targets) for position in batch.targets):
            return f"batch {number} writes ranges that do not exist"
    return None
