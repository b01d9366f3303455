"""The part of a manifest that the search for a URL needs, decoded many times as fast as the whole manifest.

The shards are decoded into structs that have some of ``Shard``'s fields, under the same names and with the same types.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Final, cast

import msgspec

from airflow_sitemaps.shards.codec import decode
from airflow_sitemaps.shards.key import KeyRange
from airflow_sitemaps.shards.manifest import Manifest, SectionManifest, Shard
from airflow_sitemaps.shards.schema import Count, Decoder

NOT_READ: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
"""Stands for times that the search does not need."""


class _File(msgspec.Struct, gc=False):
    name: str
    body: str
    xml_byte_size: Count
    byte_size: Count = 0


class _Shard(msgspec.Struct, gc=False):
    range: KeyRange
    file: _File | None = None
    urls: Count = 0
    dropped: dict[str, Count] = {}
    expired: dict[str, Count] = {}
    written_in: Count = 0


class _Section(msgspec.Struct, gc=False):
    name: str
    shards: tuple[_Shard, ...]
    base_url: str = ""
    path: str = ""
    key_kinds: list[str] = []


class _Manifest(msgspec.Struct, gc=False):
    generation: Count
    base_url: str
    sections: dict[str, _Section]


_MANIFEST: Final = Decoder(_Manifest)


def read_search_manifest(body: bytes, where: str) -> Manifest:
    """Return a manifest that holds what a search needs; other fields have their defaults.

    Raises:
        ManifestError: The manifest is damaged, or written by a later version.
    """
    decoded = decode(_MANIFEST, body, where)
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
        shards=cast("tuple[Shard, ...]", section.shards),
        base_url=section.base_url,
        path=section.path,
        key_kinds=tuple(section.key_kinds),
    )
