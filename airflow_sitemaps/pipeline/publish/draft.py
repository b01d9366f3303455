"""The draft of a commit: the next manifest, the refusals of the guards, and warnings about what they do not refuse.

``proposal_of`` does the same for a blocked run, from what it left in the state area. A run that is blocked after it
rendered its entries has left a receipt for each batch: its generation is known URL by URL. A run that is blocked while it
plans has rendered nothing: only its row counts and the files of emptied ranges are known.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.errors import ConfigurationError, ConflictError, GuardError
from airflow_sitemaps.pipeline.publish import commit_files
from airflow_sitemaps.pipeline.publish.commit_files import commit_facts
from airflow_sitemaps.pipeline.publish.gone_urls import with_gone_urls
from airflow_sitemaps.pipeline.publish.public_files import headers_changed, put_again, with_files
from airflow_sitemaps.pipeline.refusals import at_commit, change_of, missing_at_commit
from airflow_sitemaps.pipeline.state.repository import StateRepository, receipts_directory
from airflow_sitemaps.protocol import CURRENT, lastmod
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards import url_sample
from airflow_sitemaps.shards.commit import complete, next_manifest
from airflow_sitemaps.shards.guards import SMALLEST, Refusal, RowLosses, refusal_text
from airflow_sitemaps.shards.layout import SUFFIX, Format
from airflow_sitemaps.shards.manifest import IndexRecord
from airflow_sitemaps.shards.plan import Action, Plan, SectionPlan, failures_of, plan_key
from airflow_sitemaps.shards.section_commit import CommitFacts, SectionFacts

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.publish.new_pages import Canaries
    from airflow_sitemaps.pipeline.request import OpenSitemap
    from airflow_sitemaps.shards.codec import Receipt
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.sitemap import Sitemap

_PAST_ITS_AGE: Final = (
    "no article is young enough to be listed, and an index must list a file (siteindex.xsd); the files published before "
    "stay until a row is listed again"
)

_BY_ROWS: Final = ("empty", "shrink", "growth", "total")
"""Guards that the plan judges too, by rows."""


def make_draft(
    canaries: Canaries, old: Manifest | None, plan: Plan, receipts: Sequence[Receipt], stored_at: datetime | None
) -> tuple[Plan, Manifest, tuple[Refusal, ...], tuple[str, ...]]:
    """Compute the manifest to commit, without the sections that guards refuse; return it with refusals and warnings.

    If only articles left, and no URL would be listed, the published shards stay, and those that another program changed
    are put again. The returned plan then has no sections, so that the next run surveys them; else it is the given one.
    Raises ``GuardError`` if the guards leave nothing to publish.
    """
    opened, given = canaries.opened, plan
    past: tuple[str, ...] = ()
    sitemap, fails_all = opened.sitemap, plan.fails_all(opened.sitemap.on_section_failure)
    facts = commit_facts(opened, old, plan.adopted, stored_at)
    manifest = next_manifest(old, plan, receipts, facts)
    refusals, passed = at_commit(opened, plan, receipts, old, manifest)
    if not (refusals and fails_all):
        refusals += canaries.refusals(plan, receipts, old, {refusal.section for refusal in refusals})
    refused = refusals
    while refused:
        names = {refusal.section for refusal in refused}
        plan = plan.without(names)
        if fails_all or not plan.changes:
            raise GuardError(refusal_text(refusals), refusals, run=plan.run)
        receipts = [receipt for receipt in receipts if receipt.section in plan.sections]
        manifest = next_manifest(old, plan, receipts, facts)
        refused = missing_at_commit(sitemap, plan, old, manifest)  # an omitted section may be the new home of a URL
        refusals = (*refusals, *refused)
    if old is not None and _is_quiet(opened, old, manifest):
        past = (_PAST_ITS_AGE, *_losses(sitemap, manifest))
        given = plan = plan.without(plan.sections)
        manifest, receipts = next_manifest(old, plan, (), facts), ()
        if not plan.changes or not any(manifest.files()):
            return plan, old, refusals, past
    gone_warnings: tuple[str, ...] = ()
    if sitemap.gone is not None:
        manifest, gone_warnings = with_gone_urls(opened, old, manifest, plan, receipts)
    manifest = commit_files.attach(opened, old, manifest, facts, receipts)
    if headers_changed(opened.store, old):
        manifest = with_files(manifest, put_again)
    manifest = replace(manifest, headers=opened.store.headers)
    failed = [failure.section for failure in (*plan.failures, *failures_of(refusals))]
    manifest = complete(old, manifest, facts, action="build", failed=failed, losses=_losses(sitemap, manifest))
    named = [warning for warning in plan.warnings if warning.startswith("allowed: ")]  # by rows, or in an answer
    allowed = (
        f"allowed: {r.message}"
        for r in passed
        if r.section not in failed
        and not any(r.message in n or (r.guard in _BY_ROWS and repr(r.section) in n) for n in named)
    )
    own = (
        *allowed,
        *content_warnings(sitemap, plan, old, manifest),
        *_ledger_warnings(plan, receipts),
        *gone_warnings,
        *past,
        *_moved_index(old, manifest),
    )
    warnings = (*plan.warnings[len(given.warnings) :], *canaries.warnings(), *own)
    return replace(given, failures=plan.failures), manifest, refusals, warnings


def _moved_index(old: Manifest | None, new: Manifest) -> tuple[str, ...]:
    """Return a warning if no index of the last generation is left."""
    before = {index.name for index in old.indexes} if old is not None else set()
    after = {index.name for index in new.indexes}
    if not before or before & after:
        return ()
    text = f"the index {', '.join(sorted(before)[:3])} is replaced by {', '.join(sorted(after)[:3])}: name it in robots.txt"
    return (f"{text} and to the search engines. The old one stays for the grace",)


def _is_quiet(opened: OpenSitemap, old: Manifest, new: Manifest) -> bool:
    """Return whether no URL is left because articles left that are past their age. A permit may allow others to leave."""
    news = [section for section in opened.sitemap.sections if section.kind == "news" and section.name in new.sections]
    others = new.sections.keys() - {section.name for section in news}
    if not news or any(new.files()) or any(any(old.sections[name].files()) for name in others & old.sections.keys()):
        return False
    changes = (change_of(opened, section, old.sections.get(section.name), new.committed_at) for section in news)
    return all(change.young is not None and change.young() == 0 for change in changes)


def _ledger_warnings(plan: Plan, receipts: Sequence[Receipt]) -> tuple[str, ...]:
    """Return a warning for each section whose ledger lost parts, and log what the others recorded."""
    warnings = []
    for name, section in plan.sections.items():
        pieces = [p for r in receipts if r.section == name for pieces in r.pieces.values() for p in pieces]
        if section.ledger is None or not pieces:
            continue
        fresh, changed, unjudged = (sum(getattr(p, n) for p in pieces) for n in ("fresh", "changed", "unjudged"))
        kept = ", whose dates stay" if section.ledger.dates is not None and section.ledger.dates.keep else ""
        log.info("section %s: of the URLs written, %s new and %s changed%s", name, f"{fresh:,}", f"{changed:,}", kept)
        if unjudged:
            warnings.append(
                f"section {name!r}: whether {counted(unjudged, 'URL')} changed is not known, because the ledger parts that "
                "recorded them are missing or damaged; the log of the writing tasks names them. They are recorded again"
            )
    return tuple(warnings)


def _losses(sitemap: Sitemap, manifest: Manifest) -> list[str]:
    """Explain for each section why its rows are not listed, if no row of any section is."""
    if any(file for section in manifest.sections.values() for file in section.files()):
        return []
    texts = {
        section.name: RowLosses.of_section(manifest.sections[section.name], sitemap.base_url_of(section)).explanation()
        for section in sitemap.sections
        if section.name in manifest.sections
    }
    return [f"section {name}: {text}" for name, text in texts.items() if text]


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

EARLIEST: Final = "1990"
"""Year before the first web page: a section whose dates are all earlier has the wrong unit, or another column."""

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
        warnings += _repeated(before, after)
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
    """Warn about new and missing folders and hosts."""
    old, new = url_sample.prefixes(before), url_sample.prefixes(after)
    if old is None or new is None or before is after:
        return []
    where = f"section {after.name!r}"
    return [
        f"{where}: about {number:,} of {before.urls:,} URLs were below {prefix}, and none is now"
        for prefix, number in old.items()
        if prefix not in new and prefix != url_sample.REST and number >= max(GONE_URLS, before.urls * GONE_PREFIX)
    ] + [
        f"{where}: about {number:,} of {after.urls:,} URLs are below {prefix}, and none was before"
        for prefix, number in new.items()
        if prefix not in old and prefix != url_sample.REST and number >= max(SMALLEST, after.urls * NEW_PREFIX)
    ]


def _repeated(before: SectionManifest | None, after: SectionManifest) -> list[str]:
    """Warn if many rows of a section that changed repeat the URLs of other rows."""
    part = url_sample.repeated(after)
    if before is after or part is None or part < REPEATED:
        return []
    what = f"about {part:.0%} of its {after.urls:,} URLs are listed more than once, under other keys"
    return [f"section {after.name!r}: {what}; `airflow-sitemaps duplicates` names them"]


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
    if newest is not None and newest < EARLIEST:
        warnings.append(
            f"{where}: its newest lastmod is {newest}; check the column of lastmod=, and lastmod_unit= if it holds numbers"
        )
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The live generation, and the generation that a blocked run would have published.

    If the run rendered no entries, its generation lacks those of every file that it would have written again.
    """

    live: Manifest
    manifest: Manifest
    plan: Plan
    is_rendered: bool


def proposal_of(state: StateRepository, run: str) -> Proposal:
    """Rebuild a blocked run's generation. Raises ``ConfigurationError`` if another run has published since.

    A staged change stands as long as its section does.
    """
    live = state.manifest()
    if live is None:
        raise ConfigurationError("Nothing is published yet, so there is nothing to compare with.")
    plan = _whole(state.read_plan(plan_key(run)))
    if live.generation != plan.base_generation and not plan.staged:
        raise ConfigurationError(
            f"The blocked run was planned on generation {plan.base_generation:,}; generation {live.generation:,} is "
            "live now. Plan the next run to see what it would do."
        )
    receipts = _receipts(state, plan)
    rendered = {receipt.batch for receipt in receipts} == {batch.number for batch in plan.batches}
    if not rendered or any(action.kind.writes for section in plan.refused.values() for action in section.actions):
        sections = {
            name: _without_emptied(section, plan.sections.get(name))
            for name, section in live.sections.items()
            if name not in plan.retired
        }
        manifest = replace(live, generation=live.generation + 1, sections=sections)
        return Proposal(live=live, manifest=manifest, plan=plan, is_rendered=False)
    try:
        manifest = next_manifest(live, plan, receipts, _facts(live, plan))
    except ConflictError as error:
        raise ConfigurationError(f"{str(error).rstrip('.')}. Plan the next run to see what it would do.") from error
    return Proposal(live=live, manifest=manifest, plan=plan, is_rendered=True)


def _whole(plan: Plan) -> Plan:
    """Return a plan with the sections that guards refused while planning, and without those that it would remove."""
    vanished = tuple(refusal.section for refusal in plan.refusals if refusal.guard == "vanished")
    return replace(
        plan, sections={**plan.sections, **plan.refused}, retired=tuple(dict.fromkeys((*plan.retired, *vanished)))
    )


def _receipts(state: StateRepository, plan: Plan) -> list[Receipt]:
    """Read the receipt of each batch's last try."""
    newest: dict[str, tuple[str, str]] = {}
    for info in state.objects.list(receipts_directory(plan.run)):
        batch = info.key.rpartition("/")[2].partition("-")[0]
        written = info.modified_at.isoformat() if info.modified_at is not None else ""
        newest[batch] = max(newest.get(batch, ("", "")), (written, info.key))
    return [state.read_receipt(key) for _, key in newest.values()]


def _without_emptied(section: SectionManifest, plan: SectionPlan | None) -> SectionManifest:
    """Return a section without the files that the plan removes because their ranges have no rows."""
    if plan is None or plan.base != section.changed_in:
        return section
    lowers = {shard.range.lower: position for position, shard in enumerate(section.shards)}
    uppers = {shard.range.upper: position + 1 for position, shard in enumerate(section.shards)}
    emptied: set[int] = set()
    for action in plan.actions:
        within = action.range
        moves = action.kind in (Action.MERGE, Action.SPLIT)  # to files with other names
        if not moves and within.lower in lowers and within.upper in uppers:
            emptied.update({*range(lowers[within.lower], uppers[within.upper])} & {*plan.gone} - {action.carries})
    shards = [
        replace(shard, file=None, urls=0) if position in emptied else shard
        for position, shard in enumerate(section.shards)
    ]
    return replace(section, shards=tuple(shards))


def _facts(live: Manifest, plan: Plan) -> CommitFacts:
    """Return the input of the reducer from the live generation, whose address new sections get."""
    facts = {
        name: SectionFacts(path="", base_url=live.base_url, format="xml", member=plan.members.get(name))
        for name in plan.sections
    }
    for name, section in live.sections.items():
        form: Format = "text" if any(file.name.endswith(SUFFIX["text"]) for file in section.files()) else "xml"
        facts[name] = SectionFacts(path=section.path, base_url=section.base_url, format=form, member=section.member)
    return CommitFacts(
        owner=live.owner,
        sections=facts,
        base_url=live.base_url,
        index=IndexRecord(name="", mode="one", limits=CURRENT.name),
        history=0,
        now=plan.created_at,
        write_id="",
        state_id=live.state_id,
    )
