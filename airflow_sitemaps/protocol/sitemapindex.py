"""A ``sitemapindex``: the list of all files, and the one address that crawlers need."""

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
        loc: the file's address.
        lastmod: when the file, not its pages, was last modified, aware; None: not written.
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
    """Render an index.

    Args:
        entries: the files, written in this order.
        comment: written before the root element.
        stylesheet: the address of an XSL.
        limits: the limits of the index.

    Returns:
        The bytes; ``lastmod`` is in UTC to the second.

    Raises:
        RefusedError: more entries, or more bytes, than the limits allow.
        ConfigurationError: a ``comment`` with ``--`` in it.
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
