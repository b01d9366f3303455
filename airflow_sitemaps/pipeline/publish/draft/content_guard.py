"""Compare the rendered content with the published content: the guards at the commit, and the warnings."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.state.fingerprint import fingerprint
from airflow_sitemaps.pipeline.state.published_articles import news_refusals
from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards import url_sample, week
from airflow_sitemaps.shards.guards import (
    SMALLEST,
    Refusal,
    check_churn,
    check_dropped,
    check_missing,
    check_size,
    permitted,
)
from airflow_sitemaps.shards.row_losses import RowLosses
from airflow_sitemaps.shards.total_guard import SectionSize, check_total, judged_apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from airflow_sitemaps.ports import Store
    from airflow_sitemaps.shards.guards import Guards
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.sitemap import Section, Sitemap

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


def guard(sitemap: Sitemap, store: Store, plan: Plan, old: Manifest | None, new: Manifest) -> tuple[Refusal, ...]:
    """Return the guards' refusals for the sections that a plan renders, except those that the run's permits allow."""
    refusals: list[Refusal] = []
    for section, before, after in _rendered(sitemap, plan, old, new):
        refusals += _judge(sitemap, store, section, before, after, new)
    stand = (*permitted(refusals, plan.allow)[0], *guard_missing(sitemap, plan, old, new))
    sizes = {
        name: SectionSize(before=before, now=new.sections[name].urls + new.sections[name].expired_rows)
        for name, before in counted_in_total(sitemap, old, stand, plan.allow).items()
        if name in new.sections
    }
    total = check_total(sitemap.guards, sizes, now=new.committed_at, what="URLs")
    return (*stand, *permitted(total, plan.allow)[0])


def guard_missing(sitemap: Sitemap, plan: Plan, old: Manifest | None, new: Manifest) -> tuple[Refusal, ...]:
    """Return refusals of sections without a URL that must be listed, except those that the run's permits allow."""
    return permitted(check_missing(_missing(sitemap, plan, old, new)), plan.allow)[0]


def counted_in_total(
    sitemap: Sitemap, published: Manifest | None, refused: Sequence[Refusal], allow: Sequence[str]
) -> dict[str, SectionManifest]:
    """Return the published sections that the guard over all sections together judges.

    Some sections are judged separately: sections of news, sections with their own guards, sections that their guards
    refuse, and sections with a permit.

    Args:
        published: The last manifest, or None before the first commit.
    """
    names = [s.name for s in sitemap.sections if s.kind != "news" and s.guards is None]
    sections = published.sections if published is not None else {}
    return {name: sections[name] for name in names if name in sections and not judged_apart(name, refused, allow)}


def _rendered(
    sitemap: Sitemap, plan: Plan, old: Manifest | None, new: Manifest
) -> Iterator[tuple[Section, SectionManifest | None, SectionManifest]]:
    """Yield each section that the plan renders, with its state before (None for a new section) and after."""
    for section in sitemap.sections:
        if section.name in plan.sections:
            before = old.sections.get(section.name) if old is not None else None
            yield section, before, new.sections[section.name]


def _missing(sitemap: Sitemap, plan: Plan, old: Manifest | None, new: Manifest) -> dict[str, list[str]]:
    """Find the URLs that must be listed and are in no section, by the planned or retired section that listed them before.

    A URL that no section listed before is missing from each section of the plan, unless a section that stays as
    published may list it.
    """
    listed = {loc for section in new.sections.values() for shard in section.shards for loc in shard.must}
    homes = {
        loc: name
        for name, section in (old.sections if old is not None else {}).items()
        for shard in section.shards
        for loc in shard.must
    }
    missing: dict[str, list[str]] = {}
    unknown = _may_list_more(sitemap, plan, new)
    for loc in (loc for loc in sitemap.must_urls if loc not in listed):
        home = homes.get(loc)
        if home is None and unknown:
            log.warning(
                "must_list: no section is known to list %s; section %s, which this run does not read, may list it",
                loc,
                ", ".join(unknown),
            )
            continue
        for name in [home] if home in plan.sections or home in plan.retired else plan.sections:
            missing.setdefault(str(name), []).append(loc)
    return missing


def _may_list_more(sitemap: Sitemap, plan: Plan, new: Manifest) -> list[str]:
    """Return the sections that stay as they were published with another ``must_list``, or another configuration."""
    code = {section.name: section for section in sitemap.sections}
    return [
        name
        for name, section in new.sections.items()
        if name not in plan.sections and (name not in code or section.fingerprint != fingerprint(sitemap, code[name]))
    ]


def content_warnings(sitemap: Sitemap, plan: Plan, old: Manifest | None, new: Manifest) -> tuple[str, ...]:
    """Return warnings about the rendered sections, for changes that the guards do not refuse."""
    warnings: list[str] = []
    for section, before, after in _rendered(sitemap, plan, old, new):
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
    """Warn if most rows that should be listed are dropped.

    Guards do not refuse small sections, and a permit allows any loss.
    """
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


def _judge(
    sitemap: Sitemap,
    store: Store,
    section: Section,
    before: SectionManifest | None,
    after: SectionManifest,
    new: Manifest,
) -> list[Refusal]:
    guards = sitemap.guards_of(section)
    due = after.rows - after.expired_rows
    refusals = list(
        check_size(
            guards,
            section.name,
            now=after.urls + after.expired_rows,
            before=before.urls + before.expired_rows if before is not None else None,
            peak=week.most(before, new.committed_at) if before is not None else 0,
            what="URLs",
            least=week.least(before, new.committed_at) if before is not None else 0,
        )
    )
    if section.kind == "news" and (after.urls or not due):  # age may empty it, rules may not
        moment = new.committed_at
        refusals[:] = news_refusals(
            guards, store, section, refusals, before, number=after.urls, what="URLs", now=moment
        )
    if before is not None and before.urls and section.kind != "news":
        refusals += _check_churn(guards, before, after, new.committed_at)
    refusals += check_dropped(guards, section.name, rows=due, dropped=due - after.urls)
    cause = RowLosses.of_section(after, sitemap.base_url_of(section)).explanation() if refusals else ""
    return [_with_cause(refusal, cause) for refusal in refusals]


def _check_churn(guards: Guards, before: SectionManifest, after: SectionManifest, now: datetime) -> list[Refusal]:
    """Compare the URLs with those of the last generation, and of the first day of the week."""
    lost = [(before.urls, url_sample.gone(before, after))]
    first = week.oldest_sample(before, now)
    if first is not None:
        lost.append((first.urls, url_sample.gone_since(first.sample, after)))
    for earlier, gone in lost:
        replaced = _replaced(gone or 0.0, earlier=earlier, now=after.urls)
        if refused := check_churn(guards, after.name, gone=replaced, earlier=earlier):
            return list(refused)
    return []


def _replaced(gone: float, *, earlier: int, now: int) -> float:
    """Return the fraction of URLs that others replaced. ``check_size`` covers those that are gone without another."""
    return gone - max(0.0, 1 - now / max(1, earlier))


def _with_cause(refusal: Refusal, cause: str) -> Refusal:
    if not cause or refusal.guard not in ("empty", "shrink", "dropped"):
        return refusal
    return Refusal(
        guard=refusal.guard, section=refusal.section, message=f"{refusal.message} {cause}", value=refusal.value
    )


def refusal_text(refusals: Sequence[Refusal]) -> str:
    """Write one message, for an operator, about all refusals."""
    lines = "\n".join(f"  - {refusal}" for refusal in refusals)
    return (
        f"This run was refused by {counted(len(refusals), 'guard')}; nothing was published, the sitemap published before stays "
        f"up, and trying again will not help until the data or the guard changes:\n{lines}"
    )
