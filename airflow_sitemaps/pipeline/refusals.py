"""What the guards refuse of a run, at its plan and at its commit, the permits that it may use, and the questions that it asks.

The manifest records the last question of each section. Whatever changes it replaces the manifest: the answer, a run that
commits the section, a run that looks at the section and refuses nothing. So an answer never publishes a change whose
question was closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec import structs

from airflow_sitemaps.errors import ConflictError
from airflow_sitemaps.pipeline.state.identity import fingerprint
from airflow_sitemaps.pipeline.state.repository import RACES, RefusedPutError
from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.extensions.languages import NEWS_WINDOW
from airflow_sitemaps.shards import url_sample
from airflow_sitemaps.shards.guards import ADDRESS, Permit, Refusal, permitted
from airflow_sitemaps.shards.guards.judgement import (
    SectionChange,
    check_missing,
    check_redated,
    check_renamed,
    check_total,
    check_vanished,
    is_judged_apart,
    size_of,
    urls_at_commit,
)

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.request import OpenSitemap, RunRequest
    from airflow_sitemaps.ports import Store
    from airflow_sitemaps.protocol.reader import ReadEntry
    from airflow_sitemaps.shards.codec import Receipt
    from airflow_sitemaps.shards.manifest import Manifest, Question, SectionManifest
    from airflow_sitemaps.shards.plan import Plan, SectionCheck, SectionPlan
    from airflow_sitemaps.sitemap import Section, Sitemap

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Judgment:
    """What is said of a section's plan, and in a dry run of its first rows.

    It refuses what a build would if these are all rows of the section.
    """

    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    checks: tuple[SectionCheck, ...] = ()


def change_of(opened: OpenSitemap, section: Section, before: SectionManifest | None, now: datetime) -> SectionChange:
    """Return what the guards compare a section's plan or content with."""
    zone = section.source.timezone
    return SectionChange(
        name=section.name,
        guards=opened.sitemap.guards_of(section),
        before=before,
        now=now,
        young=(lambda: _young_articles(opened.store, before, now, zone)) if section.kind == "news" else None,
    )


def _young_articles(store: Store, section: SectionManifest | None, now: datetime, timezone: str) -> int | None:
    """Count the published articles younger than two days, or without a time; None if a file is missing.

    This tells a quiet weekend from a table that is being loaded.
    """
    from airflow_sitemaps.protocol.reader import read  # noqa: PLC0415 - lxml is loaded where it is needed

    young = 0
    for file in section.files() if section is not None else ():
        body = store.state.get(file.body)
        if body is None:
            return None
        moments = (_published_at(entry, timezone) for entry in read(body.body).entries)
        young += sum(moment is None or moment > now - NEWS_WINDOW for moment in moments)
    return young


def _published_at(entry: ReadEntry, timezone: str) -> datetime | None:
    """Return the publication date of an article, else its lastmod, or None if it has neither."""
    dates = [article.get("publication_date") for article in entry.extensions.get("news", ())]
    given = next((date for date in (*dates, entry.lastmod) if date), None)
    value = None if given is None else lastmod.parse(given, timezone)
    return None if value is None else lastmod.begins(value, timezone)


def _counted_in_total(
    sitemap: Sitemap, published: Manifest | None, refused: Sequence[Refusal], allow: Sequence[str]
) -> dict[str, SectionManifest]:
    """Return the published sections that the guard over all sections together judges (see ``Guards.max_shrink_total``)."""
    names = [s.name for s in sitemap.sections if s.kind != "news" and s.guards is None]
    sections = published_sections(published)
    return {name: sections[name] for name in names if name in sections and not is_judged_apart(name, refused, allow)}


def published_sections(manifest: Manifest | None) -> Mapping[str, SectionManifest]:
    """Return the sections of a manifest; none before the first commit."""
    return manifest.sections if manifest is not None else {}


# ------------------------------------------------------------ at the plan


def at_plan(
    sitemap: Sitemap,
    manifest: Manifest | None,
    plans: Mapping[str, SectionPlan],
    refused: Sequence[Refusal],
    request: RunRequest,
    now: datetime,
) -> tuple[tuple[Refusal, ...], tuple[Refusal, ...], tuple[str, ...]]:
    """Judge the sitemap as a whole by the rows that a plan counts, after what the guards refuse of single sections.

    Return what stands, what the permits let pass, and the names of the sections that the run removes.
    """
    published = published_sections(manifest)
    code = {section.name for section in sitemap.sections}
    missing = [name for name in published if name not in code] if not request.sections else []
    families = {name: member.family for name in missing if (member := published[name].member) is not None}
    retired = [name for name in missing if {name, families.get(name, name)} & {*sitemap.retired}]
    vanished = [check_vanished(name) for name in missing if name not in retired]
    renamed = check_renamed(
        sitemap.guards,
        {name: published[name].urls for name in retired},
        {name: plan.rows for name, plan in plans.items() if name not in published},
    )
    stand, passed = permitted((*refused, *vanished, *renamed), request.allow)
    before = _counted_in_total(sitemap, manifest, stand, request.allow)
    after = {name: size_of(section) for name, section in before.items()}
    after |= {n: max(p.rows, min(p.rows + p.moved, after[n])) for n, p in plans.items() if n in after}
    total = permitted(check_total(sitemap.guards, before, after, now=now, what="rows"), request.allow)
    passed = (*passed, *total[1])
    return (*stand, *total[0]), passed, (*retired, *(r.section for r in passed if r.guard == "vanished"))


def names_of_permits(sitemap: Sitemap, manifest: Manifest | None) -> set[str]:
    """Return the names of sections that a permit may name."""
    return {*published_sections(manifest), *(section.name for section in sitemap.sections), *sitemap.retired}


def without_spent(
    request: RunRequest, sitemap: Sitemap, manifest: Manifest | None
) -> tuple[RunRequest, tuple[str, ...]]:
    """Return the request without permits that it used before (each is for one publication), with a warning for each."""
    published = published_sections(manifest)
    used = [
        name for name, state in published.items() if request.asked_by and request.asked_by in state.permitted_requests
    ]
    if not used or not request.allow:
        return request, ()
    names = sorted(names_of_permits(sitemap, manifest).difference(used))
    allow: list[str] = []
    for text in request.allow:
        permit = Permit.of(text)
        name, equals, bound = text.partition("=")
        if permit.section is None and permit.guard not in ADDRESS:
            allow += [f"{name}:{section}{equals}{bound}" for section in names]
        elif permit.section not in used:
            allow.append(text)
    warnings = tuple(
        f"section {name!r}: the permits of this run were used for an earlier publication, and hold no longer; to allow "
        "another change, start a new run"
        for name in used
    )
    return replace(request, allow=tuple(allow)), warnings


# ------------------------------------------------------------ at the commit


def at_commit(
    opened: OpenSitemap, plan: Plan, receipts: Sequence[Receipt], old: Manifest | None, new: Manifest
) -> tuple[tuple[Refusal, ...], tuple[Refusal, ...]]:
    """Judge the sections that a plan renders, and the whole; return what the run's permits do not allow, and what they do."""
    sitemap = opened.sitemap
    refusals: list[Refusal] = []
    moved = {
        name: _moved(plan, section, published_sections(old).get(name), new) for name, section in plan.sections.items()
    }
    for section in sitemap.sections:
        if section.name in plan.sections:
            change = change_of(opened, section, published_sections(old).get(section.name), new.committed_at)
            state = new.sections[section.name]
            refusals += urls_at_commit(change, state, sitemap.base_url_of(section), moved[section.name])
            refusals += _redated(change, plan.sections[section.name], receipts, state)
    refusals += check_missing(_missing(sitemap, plan, old, new))
    stand, passed = permitted(refusals, plan.allow)
    counted = _counted_in_total(sitemap, old, stand, plan.allow)
    before = {name: section for name, section in counted.items() if name in new.sections}
    after = {name: size_of(new.sections[name]) + moved.get(name, 0) for name in before}
    total = check_total(sitemap.guards, before, after, now=new.committed_at, what="URLs")
    of_whole = permitted(total, plan.allow)
    return (*stand, *of_whole[0]), (*passed, *of_whole[1])


def _moved(plan: Plan, section: SectionPlan, before: SectionManifest | None, new: Manifest) -> int:
    """Return how many of a section's URLs are in its new sections now. Rows that were never listed may move there too."""
    heirs = [new.sections[n] for group in plan.tied if section.name in group for n in group if n != section.name]
    shares = (
        url_sample.moved(before, new.sections[section.name], heirs) if section.moved and before is not None else None
    )
    if shares is None or before is None:
        return section.moved
    listed, lost = shares
    return min(
        section.moved, round(max(before.urls * listed, before.urls * (1 - lost) - new.sections[section.name].urls))
    )


def _redated(
    change: SectionChange, plan: SectionPlan, receipts: Sequence[Receipt], after: SectionManifest
) -> tuple[Refusal, ...]:
    """Judge the observed dates that a run moves."""
    if plan.ledger is None or plan.ledger.dates is None or plan.ledger.dates.keep:
        return ()
    pieces = [p for r in receipts if r.section == change.name for pieces in r.pieces.values() for p in pieces]
    written = {piece.range.lower for piece in pieces}
    unread = sum(
        s.urls for s in after.shards if s.part is not None and s.part.observed and s.range.lower not in written
    )
    compared = unread + sum(piece.compared for piece in pieces)
    return check_redated(change.guards, change.name, changed=sum(piece.changed for piece in pieces), compared=compared)


def missing_at_commit(sitemap: Sitemap, plan: Plan, old: Manifest | None, new: Manifest) -> tuple[Refusal, ...]:
    """Return refusals of sections without a URL that must be listed, except those that the run's permits allow."""
    return permitted(check_missing(_missing(sitemap, plan, old, new)), plan.allow)[0]


def _missing(sitemap: Sitemap, plan: Plan, old: Manifest | None, new: Manifest) -> dict[str, list[str]]:
    """Find the URLs that must be listed and are in no section, by the planned or retired section that listed them before.

    A URL that no section listed before is missing from each section of the plan, unless a section that stays as
    published may list it.
    """
    listed = {loc for section in new.sections.values() for shard in section.shards for loc in shard.must}
    sections = published_sections(old).items()
    homes = {loc: name for name, section in sections for shard in section.shards for loc in shard.must}
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


# ------------------------------------------------------------ questions


ASKABLE: Final = frozenset({"shrink", "growth", "empty", "dropped", "churn", "redated", "must_list", "canary"})
"""Guards whose refusals a person may allow by an answer. The others concern more than one section's change."""

AGAIN: Final = timedelta(days=1)
"""Time after which a run asks about an equal change again."""

WITHDRAWN: Final = "withdrawn"
"""Answer to a question that Airflow could not ask."""


def to_ask(manifest: Manifest | None, refusals: Sequence[Refusal], now: datetime) -> dict[str, tuple[Refusal, ...]]:
    """Return the refusals by section of each section about which a run is to ask a person.

    A section has one open question. After an answer, or none in time, a run asks about the same change again after a
    day, and about a change beyond the permits of that question at once. A section that was never published has nothing to keep.
    """
    by_section: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        by_section.setdefault(refusal.section, []).append(refusal)
    published = published_sections(manifest)
    return {
        name: tuple(own)
        for name, own in by_section.items()
        if name in published
        and all(refusal.guard in ASKABLE for refusal in own)
        and is_due(published[name].question, own, now)
    }


def is_due(last: Question | None, refusals: Sequence[Refusal], now: datetime) -> bool:
    """Return whether a run is to ask a person, given the last question about the section."""
    if last is None or last.answer == WITHDRAWN:
        return True
    if last.is_open(now):
        return False
    return now >= last.asked_at + AGAIN or bool(permitted(refusals, last.permits)[0])


def open_questions(manifest: Manifest | None, now: datetime) -> dict[str, Question]:
    """Return the open question of each section that has one."""
    sections = published_sections(manifest)
    return {n: s.question for n, s in sections.items() if s.question is not None and s.question.is_open(now)}


def check_open(manifest: Manifest | None, plan: Plan, now: datetime) -> None:
    """Refuse a staged plan whose question is closed. Raises ``ConflictError``."""
    opens = open_questions(manifest, now)
    closed = [name for name in plan.sections if name not in opens or opens[name].run != plan.run]
    if closed:
        raise ConflictError(
            f"the question about section {closed[0]!r} is closed: a newer run published the section or had nothing to refuse, or its time "
            "is over. Nothing was published. The next run that a guard refuses asks again.",
            winner=manifest.run if manifest is not None else "",
        )


def close(opened: OpenSitemap, manifest: Manifest | None, names: Collection[str]) -> None:
    """Close the questions about sections of which a run has found that there is nothing to refuse."""
    if manifest is not None and any(s.question for n, s in manifest.sections.items() if n in names):
        replace_sections(opened, dict.fromkeys(names, lambda section: structs.replace(section, question=None)))


def replace_sections(
    opened: OpenSitemap, changes: Mapping[str, Callable[[SectionManifest], SectionManifest | None]]
) -> None:
    """Replace the manifest by one with changed sections, if there is anything to change.

    Every run that has read the manifest before has to commit again, and finds the change.
    """
    for _ in range(RACES):
        current = opened.state.current()
        if current is None:
            return
        sections = dict(current.manifest.sections)
        for name in changes.keys() & sections.keys():
            sections[name] = changes[name](sections[name]) or sections[name]
        if sections == dict(current.manifest.sections):
            return
        with suppress(RefusedPutError):
            opened.state.replace_manifest(
                structs.replace(current.manifest, sections=sections, write_id=opened.clock.token()), current
            )
            return
    raise ConflictError(f"other runs published first, {RACES} times in a row; the question is as it was before")
