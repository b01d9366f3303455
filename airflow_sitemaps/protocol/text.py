"""Text sitemaps: one absolute URL per line, in UTF-8, and nothing else (sitemaps.org/protocol.html, "Other formats")."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def render(locs: Iterable[str]) -> bytes:
    """Return the file of URLs in normal form, each with a line end, in the given order."""
    return "".join(f"{loc}\n" for loc in locs).encode()


def parse(body: bytes) -> list[str]:
    """Return the lines of a text sitemap without surrounding white space and without empty lines.

    Raises:
        UnicodeDecodeError: The file is not UTF-8. A byte-order mark is ignored.
    """
    lines = body.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [stripped for line in lines if (stripped := line.strip(" \t"))]
