"""The decoded content of published files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from airflow_sitemaps.protocol import gzip, lastmod
from airflow_sitemaps.protocol.markup import without_comment
from airflow_sitemaps.protocol.reader import read

if TYPE_CHECKING:
    from datetime import datetime

MAX_BYTE_SIZE: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Content:
    """The decoded content of a public file or body: its hash, the locs that it lists, and when articles were published."""

    hash: str
    kind: str
    locs: tuple[str, ...]
    published: tuple[datetime, ...] = ()


def parsed(name: str, body: bytes) -> Content:
    """Decode a file.

    Args:
        name: Its public name; the ending says what it is.
        body: Its bytes.
    """
    xml = gzip.decompress(body, max_byte_size=MAX_BYTE_SIZE) if name.endswith(".gz") else body
    digest = blake3(without_comment(xml)).hexdigest()
    if name.endswith((".atom", ".rss")):
        return Content(digest, "feed", ())
    document = read(xml)
    articles = (article for entry in document.entries for article in entry.extensions.get("news", ()))
    dates = (lastmod.parse(article["publication_date"]) for article in articles)
    published = tuple(lastmod.begins(date) for date in dates if date is not None)
    return Content(digest, document.kind, tuple(entry.loc for entry in document.entries), published)
