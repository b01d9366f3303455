"""The XML of sitemaps: escaping, the frame of a ``urlset``, a ``sitemapindex``, and a stylesheet for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.protocol import CURRENT, Limits, lastmod

NAMESPACE: Final = "http://www.sitemaps.org/schemas/sitemap/0.9"
"""Namespace of ``urlset`` and ``sitemapindex`` (sitemaps.org/protocol.html)."""

NAMESPACES: Final = MappingProxyType(
    {
        "image": "http://www.google.com/schemas/sitemap-image/1.1",
        "video": "http://www.google.com/schemas/sitemap-video/1.1",
        "news": "http://www.google.com/schemas/sitemap-news/0.9",
        "xhtml": "http://www.w3.org/1999/xhtml",
    }
)

EXTENSION_MARKS: Final = MappingProxyType(
    {"images": "<image:image>", "videos": "<video:video>", "news": "<news:news>", "alternates": "<xhtml:link "}
)
"""Beginning of each image, video, article and alternate in a rendered entry. Text is escaped, so it cannot occur there."""

FOOTER: Final = b"</urlset>\n"

FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that no XML 1.0 document may contain, not even as a reference: controls, lone surrogates, U+FFFE, U+FFFF."""

_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_VARIANT: Final = re.compile(rb"<!-- variant \d+ -->\n\Z", re.ASCII)
_TEXT: Final = {"&": "&amp;", "'": "&apos;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_ATTRIBUTE: Final = {**_TEXT, "\t": "&#9;", "\n": "&#10;"}
_IN_TEXT: Final = re.compile("[&'\"<>\r]")
_IN_ATTRIBUTE: Final = re.compile("[&'\"<>\r\t\n]")


def escape(value: str) -> str:
    """Escape a value without forbidden characters as the text of an element."""
    return _IN_TEXT.sub(lambda match: _TEXT[match[0]], value) if _IN_TEXT.search(value) else value


def attribute(value: str) -> str:
    """Escape a value without forbidden characters as an attribute in double quotes."""
    return _IN_ATTRIBUTE.sub(lambda match: _ATTRIBUTE[match[0]], value) if _IN_ATTRIBUTE.search(value) else value


def element(name: str, value: str, attributes: str = "") -> str:
    """Return ``<name attributes>value</name>``. ``value`` and ``attributes`` must be escaped already."""
    return f"<{name}{attributes}>{value}</{name}>"


def attributes(**values: str | None) -> str:
    """Return escaped attributes in the given order, each after a space. Those that are None are omitted."""
    return "".join(f' {name}="{attribute(value)}"' for name, value in values.items() if value is not None)


def with_comment(xml: bytes, variant: int) -> bytes:
    """Return the same document with a comment at its end, which makes its bytes differ. Variant 0 is the plain form."""
    return xml + b"<!-- variant %d -->\n" % variant if variant else xml


def without_comment(xml: bytes) -> bytes:
    """Return a document as it was before ``with_comment``."""
    comment = _VARIANT.search(xml, max(0, len(xml) - 64))
    return xml[: comment.start()] if comment else xml


def header(prefixes: Iterable[str] = ()) -> bytes:
    """Return the XML declaration and the opening tag of a urlset, with the namespaces of these prefixes only."""
    used = set(prefixes)
    declared = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items() if prefix in used)
    return f'{_DECLARATION}<urlset xmlns="{NAMESPACE}"{declared}>\n'.encode()


# ---------------------------------------------------------------- index


IndexEntry = tuple[str, "datetime | None"]
"""One ``<sitemap>``: the address of a file, and the time at which the file, not its pages, last changed."""


def render_index(entries: Sequence[IndexEntry], *, stylesheet: str | None = None, limits: Limits = CURRENT) -> bytes:
    """Return the bytes of an index. Raises RefusedError if it has more entries, or more bytes, than the limits allow."""
    advice = f"{limits.name} profile); make the shards larger, or write one index per section (index='per_section')"
    if len(entries) > limits.max_sitemaps:
        raise RefusedError(f"sitemapindex: {len(entries):,} sitemaps (limit {limits.max_sitemaps:,}, {advice}")
    parts = [_DECLARATION]
    if stylesheet:
        parts.append(f'<?xml-stylesheet type="text/xsl" href="{attribute(stylesheet)}"?>\n')
    parts.append(f'<sitemapindex xmlns="{NAMESPACE}">\n')
    for loc, moment in entries:
        changed = "" if moment is None else element("lastmod", lastmod.render(moment))
        parts.append(f"<sitemap>{element('loc', escape(loc))}{changed}</sitemap>\n")
    parts.append("</sitemapindex>\n")
    body = "".join(parts).encode()
    if len(body) > limits.max_byte_size:
        raise RefusedError(
            f"sitemapindex: {len(body):,} bytes for {len(entries):,} sitemaps (limit {limits.max_byte_size:,}, {advice}"
        )
    return body


# ---------------------------------------------------------------- stylesheet

STYLESHEET_NAME: Final = "sitemap.xsl"

_CSS: Final = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b1f24}"
    "h1{font-size:1.25rem}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.35rem .75rem .35rem 0;border-bottom:1px solid #d8dee4;vertical-align:top}"
    "td:first-child{word-break:break-all}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    "@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}a{color:#79b8ff}th,td{border-color:#30363d}}"
)

_HEAD: Final = """<xsl:template match="/">
<html lang="en"><head><meta name="robots" content="noindex"/><title>Sitemap</title><style>{css}</style></head>
<body><xsl:apply-templates/></body></html>
</xsl:template>
"""

_INDEX: Final = """<xsl:template match="s:sitemapindex">
<h1>Sitemap index: <xsl:value-of select="count(s:sitemap)"/> sitemaps</h1>
<table><tr><th>Sitemap</th><th>Last modified</th></tr>
<xsl:for-each select="s:sitemap"><tr>
<td><a href="{s:loc}"><xsl:value-of select="s:loc"/></a></td><td><xsl:value-of select="s:lastmod"/></td>
</tr></xsl:for-each></table>
</xsl:template>
"""

_URLSET: Final = """<xsl:template match="s:urlset">
<h1>Sitemap: <xsl:value-of select="count(s:url)"/> URLs</h1>
<table><tr><th>URL</th><th>Last modified</th><th class="n">Images</th><th class="n">Videos</th><th class="n">Languages</th></tr>
<xsl:for-each select="s:url"><tr>
<td><a href="{s:loc}"><xsl:value-of select="s:loc"/></a></td><td><xsl:value-of select="s:lastmod"/></td>
<td class="n"><xsl:value-of select="count(image:image)"/></td>
<td class="n"><xsl:value-of select="count(video:video)"/></td>
<td class="n"><xsl:value-of select="count(xhtml:link)"/></td>
</tr></xsl:for-each></table>
</xsl:template>
"""


def render_stylesheet() -> bytes:
    """Return a stylesheet with which a browser shows a sitemap as a table. It always has the same bytes.

    No crawler reads it. Browsers are about to remove XSLT; one that does not apply it shows the XML. It loads no
    script, font or image.
    """
    prefixes = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())
    return (
        f'{_DECLARATION}<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"'
        f' xmlns:s="{NAMESPACE}"{prefixes} exclude-result-prefixes="s {" ".join(NAMESPACES)}">\n'
        '<xsl:output method="html" encoding="UTF-8" doctype-system="about:legacy-compat"/>\n'
        f"{_HEAD.replace('{css}', _CSS)}{_INDEX}{_URLSET}</xsl:stylesheet>\n"
    ).encode()
