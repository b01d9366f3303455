"""Layout of the public files: the sizes and names of shards, and the index files with their entries.

The names of shards are stable, ordered and never used again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol import CURRENT, PROFILES, Limits
from airflow_sitemaps.protocol.loc import normalise
from airflow_sitemaps.protocol.markup import STYLESHEET_NAME as STYLESHEET
from airflow_sitemaps.protocol.markup import IndexEntry, render_index

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import IndexRecord, Manifest, SectionManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPolicy:
    """Sizes of shards, in rows and URLs.

    Attributes:
        max_urls: Maximum number of URLs in a shard, 1 to 50,000 (sitemaps.org). Default: 50,000.
        fill: Fraction of ``max_urls`` to which a newly cut shard is filled, above 0 up to 1. Less than 1 leaves room
            for keys that arrive anywhere. Default: 1.0.
        merge_below: Two neighbours are merged if together they hold less than this fraction of ``max_urls``. It
            counts as ``fill`` at most, so that a split never makes two shards that merge again. Default: 0.4.
        rewrite_after: How long a shard may wait to be rewritten, if nothing but lastmods, change frequencies and
            priorities changed. The shards take turns. Default: None, each is rewritten at once.
    """

    max_urls: int = CURRENT.max_urls
    fill: float = 1.0
    merge_below: float = 0.4
    rewrite_after: timedelta | None = None

    def __post_init__(self) -> None:
        setting_checks.whole_number("ShardPolicy", "max_urls", self.max_urls, 1)
        setting_checks.number("ShardPolicy", "fill", self.fill, 0, 1)
        setting_checks.number("ShardPolicy", "merge_below", self.merge_below, 0)
        if self.rewrite_after is not None:
            setting_checks.duration("ShardPolicy", "rewrite_after", self.rewrite_after, positive=True)
        if not 1 <= self.max_urls <= CURRENT.max_urls:
            raise ConfigurationError(
                f"ShardPolicy(max_urls={self.max_urls:,}): a sitemap holds 1 to {CURRENT.max_urls:,} URLs (sitemaps.org)"
            )
        if not 0 < self.fill <= 1:
            raise ConfigurationError(f"ShardPolicy(fill={self.fill}): give a fraction above 0 and at most 1")
        if not 0 <= self.merge_below < 0.5:
            raise ConfigurationError(
                f"ShardPolicy(merge_below={self.merge_below}): give a fraction from 0 to below 0.5; "
                "a larger one would merge the shards of a split again"
            )

    @property
    def target_urls(self) -> int:
        """Number of URLs that a newly cut shard is filled to: at least 1."""
        return max(1, int(self.max_urls * self.fill))


RECENT: Final = "recent.xml.gz"
"""Name of the file of recent entries."""

GONE: Final = "gone.xml.gz"
"""Name of the file of URLs that left the source."""

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
    families = {what: numbered(name) for what, name in indexes.items()}
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


def numbered(index_name: str) -> re.Pattern[str]:
    """Return a pattern of an index and the files that continue it, such as ``sitemap.xml`` and ``sitemap-2.xml``."""
    path = PurePosixPath(index_name)
    stem, dot, suffix = path.name.partition(".")
    first = re.escape(str(path.with_name(stem)))
    return re.compile(rf"{first}(?:-(?:[2-9]|[1-9]\d+))?{re.escape(dot + suffix)}")


def checked_base_url(base_url: str, *, where: str) -> str:
    """Return the address of a public folder, ending in ``/``, or raise ConfigurationError, which says what is wrong."""
    shown = "…" if "@" in str(base_url) else repr(base_url)  # it may hold a password
    try:
        parts = urlsplit(base_url if isinstance(base_url, str) else "")
        _ = parts.port
    except ValueError as e:  # its text may hold a part of the password
        why = "remove user name and password, or correct the port" if "@" in base_url else e
        raise ConfigurationError(f"{where}: base_url={shown} is not a URL ({why})") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            f"{where}: base_url contains a user name or password, which every crawler would see; remove both"
        )
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"{where}: base_url={shown} must be absolute, a text like 'https://www.example.com/sitemaps/': "
            "it is the address at which crawlers read the folder"
        )
    if parts.path.endswith((".xml", ".xml.gz")):
        raise ConfigurationError(
            f"{where}: base_url={base_url!r} names a file: give its folder, and the file's name as index_name= of the store"
        )
    if parts.query or parts.fragment or "?" in base_url or "#" in base_url:
        raise ConfigurationError(f"{where}: base_url={base_url!r} must have no query and no fragment")
    if re.search(r"[\x00-\x20\x7f]", base_url):
        raise ConfigurationError(
            f"{where}: base_url={base_url!r} holds a space or control character: percent-encode it"
        )
    folder = base_url if base_url.endswith("/") else base_url + "/"
    reading = normalise(folder, origin="")  # lower case, without the scheme's own port
    return folder if reading.faults or reading.loc is None else reading.loc


def address(section: SectionManifest, name: str) -> str:
    """Return the public address of a section's file."""
    return section.base_url + name[len(section.path) :]


def index_entries(manifest: Manifest, settings: IndexRecord) -> dict[str, tuple[IndexEntry, ...]]:
    """Return the entries of each index file by its name; there are several files if one is not enough.

    The files of recent entries and gone URLs come first, then the sections in order, and their shards in key order.
    """
    groups: dict[str, list[IndexEntry]] = {}
    listed: list[IndexEntry] = [(manifest.base_url + f.name, f.modified_at) for f in manifest.extras if f.listed]
    if listed:
        groups[settings.name if settings.mode == "one" else with_part(settings.name, "recent")] = listed
    for section in manifest.sections.values():
        stem = settings.name if settings.mode == "one" else with_part(settings.name, section.name)
        groups.setdefault(stem, []).extend((address(section, f.name), f.modified_at) for f in section.files())
    result: dict[str, tuple[IndexEntry, ...]] = {}
    for stem, entries in groups.items():
        for number, part in enumerate(_parts(entries, PROFILES[settings.limits]), start=1):
            result[stem if number == 1 else with_part(stem, str(number))] = part
    return result


def robots_urls(manifest: Manifest) -> tuple[str, ...]:
    """Return the addresses for robots.txt: every index, and the extra files that no index lists (feeds)."""
    feeds = (f.name for f in manifest.extras if not f.listed and f.name != STYLESHEET)
    return (*manifest.index_urls, *(manifest.base_url + name for name in feeds))


def extra_urls(manifest: Manifest) -> tuple[str, ...]:
    """Return the addresses of the file of recent entries and of the feeds."""
    return tuple(manifest.base_url + file.name for file in manifest.extras if file.name not in (STYLESHEET, GONE))


def index_contents(manifest: Manifest, settings: IndexRecord) -> dict[str, bytes]:
    """Return the uncompressed bytes of each index file by its name."""
    # Beside the index, so that a copy of the folder shows it as well.
    stylesheet = STYLESHEET if any(file.name == STYLESHEET for file in manifest.extras) else None
    entries = index_entries(manifest, settings)
    return {name: render_index(listed, stylesheet=stylesheet) for name, listed in entries.items()}


def _parts(entries: Sequence[IndexEntry], limits: Limits) -> list[tuple[IndexEntry, ...]]:
    longest = max((len(loc.encode()) for loc, _ in entries), default=0) + 200  # a lastmod, and the tags
    size = min(limits.max_sitemaps, max(1, (limits.max_byte_size - 1_000) // longest))
    return [tuple(entries[start : start + size]) for start in range(0, len(entries), size)]
