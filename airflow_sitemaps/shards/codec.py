"""Encode manifests, plans and receipts as gzipped JSON. Equal values give equal bytes.

The format is versioned (``manifest.FORMAT``). A test ensures that the first version stays readable.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any, Final

from airflow_sitemaps.errors import InvalidSitemapError, ManifestError
from airflow_sitemaps.protocol import gzip as capped
from airflow_sitemaps.protocol.feeds import FeedText
from airflow_sitemaps.shards.digest import Digest
from airflow_sitemaps.shards.feed_mark import FeedMark
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.key import Key, KeyRange
from airflow_sitemaps.shards.manifest import (
    FORMAT,
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
    Action,
    Batch,
    Plan,
    RangeAction,
    RuleCheck,
    SectionCheck,
    SectionFailure,
    SectionPlan,
)
from airflow_sitemaps.shards.receipt import Receipt, StagedShard
from airflow_sitemaps.shards.scan_estimate import ScanEstimate
from airflow_sitemaps.shards.schema_validation import checks_of, misfit
from airflow_sitemaps.shards.url_sample import PrefixCount

ROOM: Final = 64 << 20
"""Unpacked size that is allowed for any object, in bytes."""

RATIO: Final = 200
"""Maximum compression ratio of a larger object. This module's own objects have about 10, a gzip bomb about 1,000."""

_UNREADABLE: Final = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
    RecursionError,
    InvalidSitemapError,
)
"""Exceptions that damaged bytes can cause."""

Json = dict[str, Any]
Reader = Callable[[Any], Any]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _key(parts: Any) -> Key:
    return _listed(parts)


def _range(pair: list[Any]) -> KeyRange:
    lower, upper = pair
    return KeyRange(None if lower is None else _key(lower), None if upper is None else _key(upper))


def _digest(value: list[Any]) -> Digest:
    rows, newest, checksum = value
    return Digest(rows=rows, newest=newest, checksum=int(checksum, 16))


def _listed(values: Any) -> tuple[Any, ...]:
    if not isinstance(values, list):
        raise TypeError(f"a list is expected, not {type(values).__name__}")
    return tuple(values)


def _many(kind: type) -> Reader:
    return lambda values: tuple(_read(kind, value) for value in _listed(values))


def _by_name(kind: type) -> Reader:
    return lambda values: {name: _read(kind, value) for name, value in values.items()}


def _samples(values: Json) -> dict[str, tuple[str, ...]]:
    return {rule: _listed(texts) for rule, texts in values.items()}


_READERS: Final[Mapping[type, Mapping[str, Reader]]] = {
    PublicFile: {"modified_at": _moment, "past": _listed},
    Shard: {
        "range": _range,
        "digest": _digest,
        "file": lambda value: _read(PublicFile, value),
        "must": _listed,
        "last_key": _key,
        "recheck_at": _moment,
    },
    FeedMark: {"surveyed_at": _moment},
    SectionManifest: {
        "shards": _many(Shard),
        "samples": _samples,
        "key_kinds": _listed,
        "feed": lambda value: _read(FeedMark, value),
    },
    IndexFile: {},
    IndexRecord: {"extras": _listed},
    GenerationNote: {"committed_at": _moment, "failed": _listed},
    Departed: {"at": _moment},
    Manifest: {
        "committed_at": _moment,
        "sections": _by_name(SectionManifest),
        "indexes": _many(IndexFile),
        "extras": _many(PublicFile),
        "recheck_at": _moment,
        "swept_at": _moment,
        "index_record": lambda value: _read(IndexRecord, value),
        "history": _many(GenerationNote),
        "departed": _many(Departed),
    },
    RangeAction: {"range": _range, "digest": _digest, "action": Action},
    SectionPlan: {
        "watermark": _moment,
        "surveyed_at": _moment,
        "scan": lambda value: _read(ScanEstimate, value),
        "targets": _many(RangeAction),
        "gone": _listed,
        "taken": _listed,
        "drift": _listed,
        "key_kinds": _listed,
        "ages": _listed,
        "null_key_samples": _listed,
        "feed": lambda value: _read(FeedMark, value),
        "warnings": _listed,
    },
    ScanEstimate: {},
    Batch: {"targets": _listed},
    Refusal: {},
    SectionFailure: {},
    RuleCheck: {"samples": _listed},
    SectionCheck: {"rules": _many(RuleCheck), "unbroken": _listed},
    Plan: {
        "created_at": _moment,
        "sections": _by_name(SectionPlan),
        "batches": _many(Batch),
        "retired": _listed,
        "index_drift": _listed,
        "adopted": _listed,
        "refusals": _many(Refusal),
        "refused": _by_name(SectionPlan),
        "failures": _many(SectionFailure),
        "warnings": _listed,
        "allow": _listed,
        "prefixes": _many(PrefixCount),
        "notes": _listed,
        "checks": _many(SectionCheck),
    },
    PrefixCount: {},
    StagedShard: {
        "range": _range,
        "digest": _digest,
        "last_key": _key,
        "recheck_at": _moment,
        "samples": _samples,
        "must": _listed,
    },
    FeedText: {},
    Receipt: {
        "pieces": lambda values: {int(t): tuple(_read(StagedShard, p) for p in ps) for t, ps in values.items()},
        "feed_texts": _many(FeedText),
    },
}

_LEAVES: Final = frozenset({str, int, float, bool, type(None)})
_FIELDS: Final = {kind: tuple(f.name for f in fields(kind)) for kind in _READERS}
_CHECKS: Final = {kind: checks_of(kind) for kind in _READERS}
_NEEDED: Final = {
    kind: frozenset(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    for kind in _READERS
}


_LATER: Final[Mapping[type, frozenset[str]]] = {
    Shard: frozenset({"articles", "sample_level", "lastmods"}),
    StagedShard: frozenset({"articles", "sample_level", "lastmods"}),
}
"""Numbers that the first version of the format lacks; they are omitted if they are 0, so that its bytes stay equal."""


def _plain(value: object) -> object:
    """Convert a value to JSON values; omit fields with a default if they are None or empty."""
    if type(value) in _LEAVES:  # most are: of 50,000 shards a million
        return value
    if type(value) in _FIELDS:
        pairs = ((name, getattr(value, name)) for name in _FIELDS[type(value)])
        needed, later = _NEEDED[type(value)], _LATER.get(type(value), frozenset())
        return {
            name: _plain(v)
            for name, v in pairs
            if name in needed or (v is not None and v not in ((), {}) and not (name in later and v == 0))
        }
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


def _read(kind: type, value: Json) -> Any:
    readers = _READERS[kind]
    names = _FIELDS[kind]
    decoded = kind(
        **{n: readers[n](v) if n in readers and v is not None else v for n, v in value.items() if n in names}
    )
    for name, fits in _CHECKS[kind]:
        if not fits(getattr(decoded, name)):
            raise ValueError(f"{kind.__name__}.{name} has the invalid value {getattr(decoded, name)!r:.200}")
    return decoded


def _encode(value: object) -> bytes:
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode("utf-8", "surrogatepass"), compresslevel=4, mtime=0)


def _decode(kind: type, data: bytes, what: str) -> Any:
    try:
        text = capped.decompress(data, max_byte_size=max(ROOM, RATIO * len(data)))
        value = json.loads(text.decode("utf-8", "surrogatepass"))
        version = value.get("format", FORMAT)
        if version > FORMAT:
            raise ManifestError(
                f"{what} has format {version}; this version of airflow-sitemaps reads up to {FORMAT}: upgrade it"
            )
        return _read(kind, value)
    except _UNREADABLE as error:
        raise ManifestError(
            f"{what} cannot be read ({type(error).__name__}: {error}); it is damaged, or another program wrote it. "
            "Restore it from the state area's generations/, or publish with a new state_url and adopt."
        ) from error


def encode_manifest(manifest: Manifest) -> bytes:
    """Encode a manifest."""
    return _encode(manifest)


def decode_manifest(data: bytes, where: str = "the manifest") -> Manifest:
    """Decode a manifest.

    Args:
        data: The bytes.
        where: Location of the bytes, for messages.

    Raises:
        ManifestError: The bytes are damaged or of a newer format.
    """
    manifest: Manifest = _decode(Manifest, data, where)
    return manifest


def encode_plan(plan: Plan) -> bytes:
    """Encode a plan."""
    return _encode(plan)


def decode_plan(data: bytes, where: str = "the plan") -> Plan:
    """Decode a plan.

    Args:
        data: The bytes.
        where: Location of the bytes, for messages.

    Raises:
        ManifestError: The bytes are damaged or of a newer format.
    """
    plan: Plan = _decode(Plan, data, where)
    if problem := misfit(plan):
        raise ManifestError(f"{where} is not a valid plan: {problem}. It was damaged or forged. Plan again.")
    return plan


def encode_receipt(receipt: Receipt) -> bytes:
    """Encode a receipt."""
    return _encode(receipt)


def decode_receipt(data: bytes, where: str = "the receipt") -> Receipt:
    """Decode a receipt.

    Args:
        data: The bytes.
        where: Location of the bytes, for messages.

    Raises:
        ManifestError: The bytes are damaged or of a newer format.
    """
    receipt: Receipt = _decode(Receipt, data, where)
    return receipt
