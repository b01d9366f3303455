"""Manifests, plans and receipts as bytes: JSON, gzipped, the same bytes for the same values.

The form is versioned (``manifest.FORMAT``); a test reads the first one for ever.
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
from airflow_sitemaps.shards.digest import Digest
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.key import Key, KeyRange
from airflow_sitemaps.shards.manifest import (
    FORMAT,
    Departed,
    GenerationNote,
    IndexFile,
    Manifest,
    PublicFile,
    SectionState,
    Shard,
)
from airflow_sitemaps.shards.plan import Action, Batch, Plan, SectionPlan, Target
from airflow_sitemaps.shards.receipt import Piece, Receipt
from airflow_sitemaps.shards.shapes import checks_of, misfit

ROOM: Final = 64 << 20
"""Bytes that any object may unpack to."""

RATIO: Final = 200
"""Times its size that a larger object may unpack to: what we write packs to a tenth; a bomb to a thousandth."""

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
"""What damaged bytes can end in."""

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
        "last_key": _key,
        "recheck_at": _moment,
    },
    SectionState: {"shards": _many(Shard), "samples": _samples},
    IndexFile: {},
    GenerationNote: {"committed_at": _moment},
    Departed: {"at": _moment},
    Manifest: {
        "committed_at": _moment,
        "sections": _by_name(SectionState),
        "indexes": _many(IndexFile),
        "extras": _many(PublicFile),
        "recheck_at": _moment,
        "swept_at": _moment,
        "history": _many(GenerationNote),
        "departed": _many(Departed),
    },
    Target: {"range": _range, "digest": _digest, "action": Action},
    SectionPlan: {
        "watermark": _moment,
        "targets": _many(Target),
        "gone": _listed,
        "taken": _listed,
        "drift": _listed,
        "null_key_samples": _listed,
    },
    Batch: {"targets": _listed},
    Refusal: {},
    Plan: {
        "created_at": _moment,
        "sections": _by_name(SectionPlan),
        "batches": _many(Batch),
        "retired": _listed,
        "index_drift": _listed,
        "adopted": _listed,
        "refusals": _many(Refusal),
        "warnings": _listed,
        "allow": _listed,
    },
    Piece: {
        "range": _range,
        "digest": _digest,
        "last_key": _key,
        "recheck_at": _moment,
        "samples": _samples,
    },
    Receipt: {"pieces": lambda values: {int(t): tuple(_read(Piece, p) for p in ps) for t, ps in values.items()}},
}

_LEAVES: Final = frozenset({str, int, float, bool, type(None)})
_FIELDS: Final = {kind: tuple(f.name for f in fields(kind)) for kind in _READERS}
_CHECKS: Final = {kind: checks_of(kind) for kind in _READERS}
_NEEDED: Final = {
    kind: frozenset(f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    for kind in _READERS
}


def _plain(value: object) -> object:
    """A value as JSON values; fields that have a default are left out where they are None or empty."""
    if type(value) in _LEAVES:  # most are: of 50,000 shards a million
        return value
    if type(value) in _FIELDS:
        pairs = ((name, getattr(value, name)) for name in _FIELDS[type(value)])
        needed = _NEEDED[type(value)]
        return {name: _plain(v) for name, v in pairs if name in needed or (v is not None and v not in ((), {}))}
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
    known = _FIELDS[kind]
    made = kind(**{n: readers[n](v) if n in readers and v is not None else v for n, v in value.items() if n in known})
    for name, fits in _CHECKS[kind]:
        if not fits(getattr(made, name)):
            raise ValueError(f"{kind.__name__}.{name} cannot be {getattr(made, name)!r:.200}")
    return made


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
            f"{what} cannot be read ({type(error).__name__}: {error}); it was damaged or written by something else. "
            "Restore it from the state area's generations/, or publish to a fresh state_url with adopt."
        ) from error


def encode_manifest(manifest: Manifest) -> bytes:
    """A manifest as bytes."""
    return _encode(manifest)


def decode_manifest(data: bytes, where: str = "the manifest") -> Manifest:
    """A manifest from bytes. Raises ManifestError, naming ``where``."""
    manifest: Manifest = _decode(Manifest, data, where)
    return manifest


def encode_plan(plan: Plan) -> bytes:
    """A plan as bytes."""
    return _encode(plan)


def decode_plan(data: bytes, where: str = "the plan") -> Plan:
    """A plan from bytes. Raises ManifestError, naming ``where``."""
    plan: Plan = _decode(Plan, data, where)
    if problem := misfit(plan):
        raise ManifestError(f"{where} cannot be carried out: {problem}; it was damaged or planted. Plan again.")
    return plan


def encode_receipt(receipt: Receipt) -> bytes:
    """A receipt as bytes."""
    return _encode(receipt)


def decode_receipt(data: bytes, where: str = "the receipt") -> Receipt:
    """A receipt from bytes. Raises ManifestError, naming ``where``."""
    receipt: Receipt = _decode(Receipt, data, where)
    return receipt
