"""A check that a folder contains a complete sitemap, read like a crawler: from the index to every URL."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

SITEMAP: Final = "{http://www.sitemaps.org/schemas/sitemap/0.9}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Totals of the files that the index lists.

    ``distinct`` counts different URLs. ``not_ascii`` counts URLs with percent-encoded letters beyond ASCII.
    """

    files: int
    urls: int
    distinct: int
    not_ascii: int
    examples: tuple[str, ...]


def read_site(folder: Path, base_url: str, index: str = "sitemap.xml") -> Checked:
    """Read all files that the index in a folder lists.

    Raises:
        FileNotFoundError: The index lists a file that does not exist.
        xml.etree.ElementTree.ParseError: A file is not XML.
    """
    from xml.etree import ElementTree as ET

    seen: set[str] = set()
    urls = 0
    names = [
        (loc.text or "").removeprefix(base_url)
        for loc in ET.parse(folder / index).iter(f"{SITEMAP}loc")  # noqa: S314
    ]
    for name in names:
        with gzip.open(folder / name) as stream:
            locs = [loc.text or "" for loc in ET.parse(stream).iter(f"{SITEMAP}loc")]  # noqa: S314
        urls += len(locs)
        seen.update(locs)
    encoded = sorted(loc for loc in seen if "%" in loc)
    examples = tuple(encoded[:: max(1, len(encoded) // 3)][:3])
    return Checked(files=len(names), urls=urls, distinct=len(seen), not_ascii=len(encoded), examples=examples)
