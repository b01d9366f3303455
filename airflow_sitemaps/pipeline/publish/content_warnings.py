"""Warnings about rendered content that the guards do not refuse, compared with the published content."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards.files import url_sample
from airflow_sitemaps.shards.guards import SMALLEST
from airflow_sitemaps.shards.guards.row_losses import RowLosses

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

FEW: Final = 0.5
"""Fraction of a section's rows below which a warning says why the others are not listed."""

GONE_PREFIX: Final = 0.005
"""Minimum fraction of a section's URLs below a prefix for a warning that no URL below it is left."""

GONE_URLS: Final = 5
"""Minimum number of URLs below a prefix for that warning."""

GONE_SMALL: Final = 0.5
"""Fraction of the URLs of a section too small for guards above which their absence is warned of."""

LOAD_TIME: Final = timedelta(hours=1)
"""Longest time between a section's lastmods for a warning that a load stamped them, if they were further apart before."""

NEW_PREFIX: Final = 0.2
"""Minimum fraction of a section's URLs below a prefix for a warning that the prefix is new."""

IGNORED: Final = "search engines ignore lastmods that are the time of a load, not of a change"

REPEATED: Final = 0.2
"""Minimum fraction of a section's URLs for a warning that they are listed more than once."""


def content_warnings(sitemap: Sitemap, plan: Plan, old: Manifest | None, new: Manifest) -> tuple[str, ...]:
    """Return warnings about the rendered sections, for changes that the guards do not refuse."""
    warnings: list[str] = []
    for section in sitemap.sections:
        if section.name not in plan.sections:
            continue
        before, after = old.sections.get(section.name) if old is not None else None, new.sections[section.name]
        warnings += _lost(after, sitemap.base_url_of(section))
        if section.kind == "news":
            continue
        if before is None:
            log.warning(
                "section %s: first build (%s); there is no earlier one to compare it with",
                section.name,
                counted(after.urls, "URL"),
            )
        else:
            warnings += _small(before, after)
            warnings += _moved(before, after)
        warnings += _lastmods(before, after)
    return tuple(warnings)


def _lost(after: SectionManifest, base_url: str) -> list[str]:
    """Warn if most rows are dropped: guards do not refuse small sections, and a permit allows any loss."""
    due = after.rows - after.expired_rows
    if not after.urls or after.urls >= due * FEW:
        return []
    text = RowLosses.of_section(after, base_url).explanation()
    return [f"section {after.name!r}: only {after.urls:,} of {due:,} rows are listed. {text}"]


def _small(before: SectionManifest, after: SectionManifest) -> list[str]:
    """Warn if most URLs of a section that is too small for guards are gone, or replaced by others."""
    gone = url_sample.gone(before, after)
    if before.urls >= SMALLEST or gone is None or gone <= GONE_SMALL:
        return []
    text = (
        f"section {after.name!r}: {round(gone * before.urls):,} of the {counted(before.urls, 'URL')} published before "
        f"are no longer listed; guards refuse no such change of a section with fewer than {SMALLEST} URLs"
    )
    return [text]


def _moved(before: SectionManifest, after: SectionManifest) -> list[str]:
    """Warn about new and missing folders and hosts, and about rows that repeat the URLs of other rows."""
    old, new = url_sample.prefixes(before), url_sample.prefixes(after)
    if old is None or new is None or before is after:
        return []
    where = f"section {after.name!r}"
    warnings = [
        f"{where}: about {number:,} of {before.urls:,} URLs were below {prefix}, and none is now"
        for prefix, number in old.items()
        if prefix not in new and prefix != url_sample.REST and number >= max(GONE_URLS, before.urls * GONE_PREFIX)
    ]
    warnings += [
        f"{where}: about {number:,} of {after.urls:,} URLs are below {prefix}, and none was before"
        for prefix, number in new.items()
        if prefix not in old and prefix != url_sample.REST and number >= max(SMALLEST, after.urls * NEW_PREFIX)
    ]
    repeated = url_sample.repeated(after)
    if repeated is not None and repeated >= REPEATED:
        warnings.append(
            f"{where}: about {repeated:.0%} of its {after.urls:,} URLs are listed more than once, under other keys; "
            "`airflow-sitemaps duplicates` names them"
        )
    return warnings


def _lastmods(before: SectionManifest | None, after: SectionManifest) -> list[str]:
    """Warn if lastmods of the last generation are missing, or if a load seems to have stamped all of them."""
    where = f"section {after.name!r}"
    warnings = []
    have = sum(shard.lastmods for shard in after.shards)
    had = sum(shard.lastmods for shard in before.shards) if before is not None else 0
    if before is not None and before.urls and had / before.urls >= 0.5 and have < after.urls * had / before.urls / 2:
        warnings.append(
            f"{where}: {have:,} of {after.urls:,} URLs have a lastmod, and {had:,} of {before.urls:,} had one before"
        )
    oldest, newest = _extremes(after)
    if have < SMALLEST or oldest is None or newest is None:
        return warnings
    if oldest == newest and "T" in oldest:
        warnings.append(f"{where}: all {have:,} lastmods are {newest}; {IGNORED}")
    elif before is not None and _between(oldest, newest) <= LOAD_TIME < _between(*_extremes(before)):
        warnings.append(
            f"{where}: all {have:,} lastmods are from {oldest} to {newest}, and they were further apart before; {IGNORED}"
        )
    return warnings


def _extremes(section: SectionManifest) -> tuple[str | None, str | None]:
    """Return the oldest and the newest lastmod of a section, each None if no shard has one."""
    oldest = min((s.oldest_lastmod for s in section.shards if s.oldest_lastmod), default=None)
    return oldest, max((s.newest_lastmod for s in section.shards if s.newest_lastmod), default=None)


def _between(oldest: str | None, newest: str | None) -> timedelta:
    """Return the time between two lastmods, zero if there are none."""
    first, last = (lastmod.parse(text or "") for text in (oldest, newest))
    return lastmod.begins(last) - lastmod.begins(first) if first is not None and last is not None else timedelta(0)
