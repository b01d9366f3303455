"""The part of a manifest that the search for a URL needs, decoded many times as fast as the whole manifest.

The shards are decoded into structs that have the names of ``Shard``'s fields, and no others: to make 50,000 shards of them
takes longer than to decode them.

Keys of other types than numbers and texts are not decoded: the search needs integer keys, and reads every file otherwise.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Final, cast

import msgspec

from airflow_sitemaps.errors import InvalidSitemapError, ManifestError
from airflow_sitemaps.protocol import gzip as capped
from airflow_sitemaps.shards.codec import RATIO, ROOM
from airflow_sitemaps.shards.manifest import FORMAT, Manifest, SectionManifest, Shard

NOT_READ: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""Stands for times that the search does not need."""


class _File(msgspec.Struct, gc=False):
    name: str
    body: str
    xml_byte_size: int
    byte_size: int = 0


class _Range(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    lower: tuple[Any, ...] | None
    upper: tuple[Any, ...] | None


class _Shard(msgspec.Struct, gc=False):
    range: _Range
    file: _File | None = None
    urls: int = 0
    dropped: dict[str, int] = {}
    expired: dict[str, int] = {}
    written_in: int = 0


class _Section(msgspec.Struct, gc=False):
    name: str
    shards: tuple[_Shard, ...]
    base_url: str = ""
    path: str = ""
    key_kinds: list[str] = []


class _Manifest(msgspec.Struct, gc=False):
    generation: int
    base_url: str
    sections: dict[str, _Section]


class _Version(msgspec.Struct):
    format: int = FORMAT


def read_search_manifest(body: bytes, where: str) -> Manifest:
    """Return a manifest that holds what a search needs; other fields have their defaults.

    Args:
        body: The compressed manifest.
        where: Address of the manifest, for messages.

    Raises:
        ManifestError: The manifest is damaged, or written by a later version.
    """
    try:
        text = capped.decompress(body, max_byte_size=max(ROOM, RATIO * len(body)))
        try:
            decoded = _read(text, where)
        except UnicodeDecodeError:  # lone surrogates in keys: the search for integer keys does not need them
            decoded = _read(text.decode("utf-8", "surrogatepass").encode("utf-8", "replace"), where)
    except (OSError, EOFError, ValueError, OverflowError, RecursionError, InvalidSitemapError) as e:
        raise ManifestError(f"{where} cannot be read ({type(e).__name__}: {e}): it is damaged") from e
    return Manifest(
        generation=decoded.generation,
        write_id="",
        run="",
        owner="",
        base_url=decoded.base_url,
        committed_at=NOT_READ,
        sections={name: _section(section) for name, section in decoded.sections.items()},
        indexes=(),
    )


def _read(text: bytes, where: str) -> _Manifest:
    version = msgspec.json.decode(text, type=_Version).format
    if version > FORMAT:
        raise ManifestError(
            f"{where} has format {version}; airflow-sitemaps on the API server reads up to {FORMAT}: upgrade it"
        )
    return msgspec.json.decode(text, type=_Manifest)


def _section(section: _Section) -> SectionManifest:
    return SectionManifest(
        name=section.name,
        fingerprint="",
        digest_kind="",
        changed_in=0,
        next_serial=0,
        shards=cast("tuple[Shard, ...]", section.shards),
        base_url=section.base_url,
        path=section.path,
        key_kinds=tuple(section.key_kinds),
    )
