"""Names of public files: stable, ordered, never reused."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

RECENT: Final = "recent.xml.gz"
"""Name of the file of recent entries."""

FEED_NAMES: Final = {"atom": "recent.atom", "rss": "recent.rss", "mrss": "recent-media.rss"}
"""Names of the feeds by their style."""

SUFFIX: Final = {"xml": ".xml.gz", "text": ".txt.gz"}

Format = Literal["xml", "text"]


def shard_name(path: str, section: str, serial: int, form: Format) -> str:
    """Return the public name of a shard, such as ``de/products-00042.xml.gz``."""
    return f"{path}{section}-{serial:05d}{SUFFIX[form]}"


def shard_names(path: str, section: str) -> re.Pattern[str]:
    """Return a pattern that matches every name that a section's shards can have. Group 1 is the serial."""
    return re.compile(re.escape(path + section) + r"-(\d{5,})\.(?:xml|txt)\.gz")


def fits(name: str, path: str, section: str, form: Format) -> bool:
    """Return whether a name is one that a section with this path, name and format allocates."""
    return name.endswith(SUFFIX[form]) and shard_names(path, section).fullmatch(name) is not None


def with_part(name: str, part: str) -> str:
    """Return a file name with a part added: ``sitemap.xml`` and ``2`` give ``sitemap-2.xml``."""
    path = PurePosixPath(name)
    stem, dot, suffix = path.name.partition(".")
    return str(path.with_name(f"{stem}-{part}{dot}{suffix}"))


def collision(
    index_name: str,
    mode: Literal["one", "per_section"],
    *,
    sections: Mapping[str, tuple[str, Format]],
    extras: Collection[str],
    has_recent: bool,
) -> str:
    """Return a description of two files of a sitemap that could get the same name, or "" if there are none.

    ``sections`` holds paths and formats by name. With ``has_recent``, recent entries get an index of their own in the
    mode ``per_section``.
    """
    indexes = {"the index": index_name}
    if mode == "per_section":
        indexes = {f"the index of section {name!r}": with_part(index_name, name) for name in sections}
        indexes |= {"the index of recent entries": with_part(index_name, "recent")} if has_recent else {}
    families = {what: _numbered(name) for what, name in indexes.items()}
    for what, name in indexes.items():
        for other, pattern in families.items():
            if other != what and pattern.fullmatch(name):
                return f"{what} is named {name}, and {other} may need that name as well: {_ADVICE}"
        if name in extras:
            return f"{what} and a file beside the shards are both named {name}: {_ADVICE}"
        for section, (path, form) in sections.items():
            if fits(name, path, section, form):
                return f"{what} is named {name}, which is the name of a file of section {section!r}: {_ADVICE}"
    for name in extras:
        if any(pattern.fullmatch(name) for pattern in families.values()):
            return f"an index and a file beside the shards may both be named {name}: {_ADVICE}"
    return ""


_ADVICE: Final = "rename a section, or give the store another index_name"


def _numbered(index_name: str) -> re.Pattern[str]:
    """Return a pattern of an index and the files that continue it, such as ``sitemap.xml`` and ``sitemap-2.xml``."""
    path = PurePosixPath(index_name)
    stem, dot, suffix = path.name.partition(".")
    first = re.escape(str(path.with_name(stem)))
    return re.compile(rf"{first}(?:-(?:[2-9]|[1-9]\d+))?{re.escape(dot + suffix)}")
