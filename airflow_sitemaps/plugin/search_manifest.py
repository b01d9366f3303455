"""The part of a manifest that the search for a URL needs, decoded eight times as fast as the whole manifest.

Keys of other types than numbers and texts are not decoded: the search needs integer keys, and reads every file otherwise.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Final

import msgspec

from airflow_sitemaps.plugin.manifest_view import decode_view
from airflow_sitemaps.shards.key import KeyRange
from airflow_sitemaps.shards.manifest import Manifest, PublicFile, SectionManifest, Shard

NOT_READ: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""Stands for times that the search does not need."""


class _File(msgspec.Struct, gc=False):
    name: str
    body: str
    xml_byte_size: int
    byte_size: int = 0


class _Shard(msgspec.Struct, gc=False):
    range: tuple[list[Any] | None, list[Any] | None]
    file: _File | None = None
    urls: int = 0
    dropped: dict[str, int] = {}
    expired: dict[str, int] = {}
    written_in: int = 0


class _Section(msgspec.Struct, gc=False):
    name: str
    shards: list[_Shard]
    base_url: str = ""
    path: str = ""
    key_kinds: list[str] = []


class _Manifest(msgspec.Struct, gc=False):
    generation: int
    base_url: str
    sections: dict[str, _Section]


def read_search_manifest(body: bytes, where: str) -> Manifest:
    """Return a manifest that holds what a search needs; other fields have their defaults.

    Args:
        body: The compressed manifest.
        where: Address of the manifest, for messages.

    Raises:
        ManifestError: The manifest is damaged, or written by a later version.
    """
    decoded = decode_view(body, where, _Manifest)
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


def _section(section: _Section) -> SectionManifest:
    return SectionManifest(
        name=section.name,
        fingerprint="",
        digest_kind="",
        changed_in=0,
        next_serial=0,
        shards=tuple(map(_shard, section.shards)),
        base_url=section.base_url,
        path=section.path,
        key_kinds=tuple(section.key_kinds),
    )


def _shard(shard: _Shard) -> Shard:
    lower, upper = shard.range
    return Shard(
        range=KeyRange(None if lower is None else tuple(lower), None if upper is None else tuple(upper)),
        urls=shard.urls,
        file=_file(shard.file),
        dropped=shard.dropped,
        expired=shard.expired,
        written_in=shard.written_in,
    )


def _file(file: _File | None) -> PublicFile | None:
    if file is None:
        return None
    return PublicFile(
        name=file.name,
        body=file.body,
        xml_sha256="",
        xml_byte_size=file.xml_byte_size,
        byte_size=file.byte_size,
        modified_at=NOT_READ,
    )
