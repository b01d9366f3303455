"""Comparison of stored bytes with what the manifest says of a file. Sizes and metadata can be copied; this is the proof."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import InvalidSitemapError
from airflow_sitemaps.protocol.gzip import decompress, with_variant
from airflow_sitemaps.protocol.markup import with_comment, without_comment

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import PublicFile


def in_variant(file: PublicFile, body: bytes) -> bytes:
    """Return the bytes that a promotion puts, from those of the file's private body."""
    return with_variant(body, file.variant) if file.name.endswith(".gz") else with_comment(body, file.variant)


def is_body(file: PublicFile, body: bytes) -> bool:
    """Return whether bytes have the file's content, in any variant."""
    try:
        xml = decompress(body, max_byte_size=file.xml_byte_size) if file.name.endswith(".gz") else without_comment(body)
    except InvalidSitemapError:
        return False
    return hashlib.sha256(xml).hexdigest() == file.xml_sha256


def is_public_body(file: PublicFile, body: bytes) -> bool:
    """Return whether bytes have the file's content, in the file's variant."""
    plain = body if file.name.endswith(".gz") else without_comment(body)
    return is_body(file, body) and in_variant(file, plain) == body
