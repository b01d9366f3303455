"""A ``urlset``: its header and footer, and one entry at a time.

``render_entry`` is the reference: the columnar path in ``columnar.batch`` gives the same bytes.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.protocol import lastmod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_sitemaps.protocol.entry import Entry

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
"""Namespaces of the extensions by their prefix in written files."""

EXTENSION_MARKS: Final = MappingProxyType(
    {"images": "<image:image>", "videos": "<video:video>", "news": "<news:news>", "alternates": "<xhtml:link "}
)
"""Beginning of each image, video, article and alternate in a rendered entry, by the name of its column."""

FOOTER: Final = b"</urlset>\n"

_ESCAPES: Final = str.maketrans({"&": "&amp;", "'": "&apos;", '"': "&quot;", "<": "&lt;", ">": "&gt;"})


def escape(text: str) -> str:
    """Escape the five characters of the protocol, for an element or attribute."""
    return text.translate(_ESCAPES)


def header(prefixes: Iterable[str] = ()) -> bytes:
    """Return the XML declaration and the opening tag, with the namespaces of these prefixes only."""
    used = set(prefixes)
    declared = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items() if prefix in used)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{NAMESPACE}"{declared}>\n'.encode()


def render_entry(entry: Entry) -> bytes:
    """Return one ``<url>`` element and a line end."""
    parts = ["<url><loc>", escape(entry.loc), "</loc>"]
    if entry.lastmod is not None:
        parts += ["<lastmod>", lastmod.render(entry.lastmod), "</lastmod>"]
    if entry.changefreq is not None:
        parts += ["<changefreq>", entry.changefreq, "</changefreq>"]
    if entry.priority is not None:
        parts += ["<priority>", entry.priority, "</priority>"]
    parts += [entry.extensions, "</url>\n"]
    return "".join(parts).encode()
