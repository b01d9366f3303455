"""A ``sitemapindex``: the list of all files, whose address is the only one that crawlers need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import ConfigurationError, RefusedError
from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.limits import CURRENT
from airflow_sitemaps.protocol.urlset import NAMESPACE, escape

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from airflow_sitemaps.protocol.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """One ``<sitemap>``.

    Attributes:
        loc: Address of the file.
        lastmod: Time at which the file, not its pages, was last modified, with a zone. None: not written.
    """

    loc: str
    lastmod: datetime | None = None


def render_index(
    entries: Sequence[IndexEntry],
    *,
    comment: str | None = None,
    stylesheet: str | None = None,
    limits: Limits = CURRENT,
) -> bytes:
    """Return the bytes of an index. Its ``lastmod`` values are in UTC, to the second.

    Args:
        entries: The files, in the order in which they are written.
        comment: Comment before the root element.

    Raises:
        RefusedError: The index has more entries, or more bytes, than the limits allow.
        ConfigurationError: ``comment`` contains ``--``.
    """
    if len(entries) > limits.max_sitemaps:
        raise RefusedError(
            f"sitemapindex: {len(entries):,} sitemaps (limit {limits.max_sitemaps:,}, {limits.name} profile); "
            "make the shards larger, or write one index per section (index='per_section')"
        )
    parts = ['<?xml version="1.0" encoding="UTF-8"?>\n', *_prolog(comment, stylesheet)]
    parts.append(f'<sitemapindex xmlns="{NAMESPACE}">\n')
    parts += map(_element, entries)
    parts.append("</sitemapindex>\n")
    body = "".join(parts).encode()
    if len(body) > limits.max_byte_size:
        raise RefusedError(
            f"sitemapindex: {len(body):,} bytes for {len(entries):,} sitemaps (limit {limits.max_byte_size:,}, "
            f"{limits.name} profile); make the shards larger, or write one index per section (index='per_section')"
        )
    return body


def _prolog(comment: str | None, stylesheet: str | None) -> list[str]:
    parts = []
    if stylesheet:
        parts.append(f'<?xml-stylesheet type="text/xsl" href="{escape(stylesheet)}"?>\n')
    if comment:
        if "--" in comment or comment.endswith("-"):
            raise ConfigurationError(f"comment {comment!r}: XML allows no '--' in a comment and no '-' at its end")
        parts.append(f"<!-- {comment} -->\n")
    return parts


def _element(entry: IndexEntry) -> str:
    changed = "" if entry.lastmod is None else f"<lastmod>{lastmod.render(entry.lastmod)}</lastmod>"
    return f"<sitemap><loc>{escape(entry.loc)}</loc>{changed}</sitemap>\n"
