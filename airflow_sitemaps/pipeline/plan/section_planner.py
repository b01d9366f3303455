"""Plan one section: survey its source, adapt its ranges, compare them with the manifest, and decide about each range."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.earlier_parts import rows_of_body
from airflow_sitemaps.pipeline.plan.surveys import Narrowed, SharedSurveys, key_change, narrow, survey_of
from airflow_sitemaps.pipeline.publish import public_files
from airflow_sitemaps.pipeline.publish.early_entries import next_early
from airflow_sitemaps.pipeline.request import SectionContext, names_of
from airflow_sitemaps.pipeline.state.identity import fingerprint, is_of_owner
from airflow_sitemaps.ports import Source
from airflow_sitemaps.protocol.lastmod import next_second
from airflow_sitemaps.shards.layout import fits, shard_names
from airflow_sitemaps.shards.manifest import SectionManifest, Shard
from airflow_sitemaps.shards.plan import Action, DatePlan, LedgerPlan, RangeAction, SectionPlan
from airflow_sitemaps.shards.range_actions import DecisionContext, LayoutRange, decide, join, old_shards, split_size
from airflow_sitemaps.shards.ranges import INTEGER, UNKNOWN, Digest, Key, KeyRange, Survey, cut, same_kinds, show

MOST_JOINED: Final = 250_000
"""Number of URLs that a writing task joins with every URL of a section at once, within 60 MB of memory."""

NOT_IN_TEXT: Final = (
    "lastmod", "changefreq", "priority", "images", "videos", "alternates", "group", "title", "description",
)  # fmt: skip
"""Arguments of sources that a section with ``format="text"`` does not write."""


def plan_section(context: SectionContext, shared: SharedSurveys | None) -> SectionPlan:
    """Make the plan of one section, whose survey may be one that the sections of a run share."""
    section, source, before = context.section, context.source, context.before
    configuration = fingerprint(context.sitemap, section)
    fresh = _fresh_cause(context)
    renamed = "" if fresh else _rename_cause(context)
    everything = fresh or renamed or _everything(context, configuration)
    narrowed = narrow(context, everything)
    files = public_files.Drift()
    if context.manifest is not None and before is not None:
        files = public_files.find(context.store, context.manifest, before, context.listing, context.request.rebuild)
    actions, survey = _actions(context, everything, fresh, renamed, narrowed, files, shared)
    carried = {t.carries for t in actions if t.carries is not None and t.kind is not Action.EMPTY}
    shards = before.shards if before is not None else ()
    early = next_early(context, actions, narrowed.changed) if context.lists_early else None
    return SectionPlan(
        name=section.name,
        base=before.changed_in if before is not None else 0,
        fingerprint=configuration,
        digest_kind=source.digest_kind,
        actions=actions,
        gone=tuple(p for p, shard in enumerate(shards) if shard.file is not None and p not in carried),
        taken=public_files.taken(section.path, section.name, context.listing, context.manifest),
        drift=files.sentences,
        drifted=tuple(sorted(files.files)),
        key_kinds=_key_kinds(source, before),
        null_keys=survey.null_keys,
        null_key_samples=survey.null_key_samples,
        known=narrowed.with_ages(before, actions),
        survey_note=narrowed.note,
        warnings=(*narrowed.warnings, *_begins_again(context, fresh), *_begins_empty(context), *_unwritten(context)),
        state=source.state,
        scan=source.scan_estimate(),
        refresh=_differs(before, actions, survey, configuration, source) or early != (before and before.early),
        ledger=_ledger(context, fresh, renamed),
        early=early,
    )


def _begins_again(context: SectionContext, fresh: str) -> tuple[str, ...]:
    """Return a warning if the ledger begins again because the section is laid out from scratch, or none."""
    section, before = context.section, context.before
    if not (section.ledger and fresh and before is not None) or before.urls <= MOST_JOINED:
        return ()
    dates, begins = (" and the observed dates", "begin") if section.observed else ("", "begins")
    text = (
        f"section {section.name!r} is laid out from scratch ({fresh}), and its ledger{dates} of {before.urls:,} URLs {begins} again: "
        f"a writing task compares at most {MOST_JOINED:,} URLs with all that were listed before"
    )
    return (text,)


def _begins_empty(context: SectionContext) -> tuple[str, ...]:
    """Return a warning if a new section has observed dates and may be a retired one under another name, or none."""
    manifest, name = context.manifest, context.section.name
    if not context.section.observed or manifest is None or name in manifest.serials:
        return ()
    retired = (manifest.sections.get(each) for each in context.sitemap.retired)
    dated = [section.name for section in retired if section is not None and section.dated_at is not None]
    text = f"section {name!r} begins without observed dates: a retired section ({', '.join(dated)}) passes none on"
    return (text,) if dated else ()


def _unwritten(context: SectionContext) -> tuple[str, ...]:
    """Return a warning if the first build of a text file leaves out columns that its source names, or none."""
    section = context.section
    given = [name for name in NOT_IN_TEXT if getattr(section.source, name, None) is not None]
    if section.format != "text" or not given or context.before is not None:
        return ()
    names = ", ".join(f"{name}=" for name in given)
    return (
        f"section {section.name!r}: format='text' lists URLs alone, so its files leave out what its source names by {names}",
    )


def _ledger(context: SectionContext, fresh: str, renamed: str) -> LedgerPlan | None:
    """Return what the writers of the ledger need. A small section keeps what it knows when it is laid out from scratch."""
    section, before = context.section, context.before
    if not section.ledger:
        return None
    adopted, lost = _adopted(context)
    keeps = fresh and before is not None and before.urls <= MOST_JOINED
    olds = old_shards(before.shards) if keeps and before is not None else ()
    identity: dict[str, Any] = dict(section.source.identity())
    if identity.get("where"):  # which rows there are says nothing of how a row's fingerprint is made
        of_query = {n: v for n, v in identity.get("parameters", {}).items() if not n.startswith("sitemap_")}
        identity |= {"where": None, "parameters": of_query if identity.get("query") else {}}
    text = json.dumps(identity, sort_keys=True, default=str)
    kind = sha256(f"{context.source.digest_kind} {text}".encode()).hexdigest()[:16]
    same_code = before is not None and before.fingerprint == fingerprint(context.sitemap, section)
    same_digests = before is not None and before.digest_kind == context.source.digest_kind
    finds_left = context.sitemap.gone is not None and not (fresh or renamed) and same_code and same_digests
    if section.observed:
        at = next_second(context.source.clock())  # after the survey, so later than any change that it found
        since = before.dated_at if before is not None and (keeps or not fresh or not before.urls) else None
        returns = before is None and context.manifest is not None and section.name in context.manifest.serials
        if adopted or returns:
            since = at  # crawlers know its pages
        dates = DatePlan(since=since, keep=bool(names_of(section) & {*context.request.keep_lastmods}), lost=lost)
        return LedgerPlan(at=at, kind=kind, olds=olds, adopted=adopted, dates=dates, finds_left=finds_left)
    at = context.now if not context.now.microsecond else next_second(context.now)
    since = before.dated_at if before is not None else None
    if since is not None and before is not None:  # a shard that waits was last compared before its first change
        since = min([since, *(shard.dirty_since for shard in before.shards if shard.dirty_since is not None)])
    compared = DatePlan(since=since) if section.page_columns else None
    return LedgerPlan(at=at, kind=kind, olds=olds, adopted=adopted, compared=compared, finds_left=finds_left)


def _adopted(context: SectionContext) -> tuple[tuple[str, ...], int]:
    """Return the section's own files that a run without its state takes over, or how many URLs they list if too many."""
    section, public = context.section, context.store.public
    pattern = shard_names(section.path, section.name)
    names = [name for name in context.adopted if pattern.fullmatch(name)] if context.manifest is None else []
    infos = zip(names, mapped(public.head, names, "sitemap-adopt"), strict=True)
    own = tuple(name for name, info in infos if info is not None and is_of_owner(info, context.sitemap.owner))
    number = 0
    for name in own:
        number += rows_of_body(public, name).num_rows
        if number > MOST_JOINED:
            return (), number
    return own, 0


def _actions(
    context: SectionContext,
    everything: str,
    fresh: str,
    renamed: str,
    narrowed: Narrowed,
    files: public_files.Drift,
    shared: SharedSurveys | None,
) -> tuple[tuple[RangeAction, ...], Survey]:
    """Decide the actions of all ranges; return them with their survey. If ``renamed``, no range continues a file.

    If only some ranges were surveyed, the ranges to read are surveyed too, because a plan needs their number of rows.
    """
    shards, is_partial = context.before.shards if context.before is not None else (), narrowed.wanted is not None
    version = "" if narrowed.known is None else narrowed.known.version
    taken = None if shared is None else shared.take(context, None if fresh or is_partial else version)
    while True:
        ranges, survey = _ranges(context, fresh, narrowed, taken)
        if renamed:
            ranges = tuple(replace(item, carries=None, reason=item.reason or renamed) for item in ranges)
        decision = DecisionContext(
            now=context.now,
            everything=everything,
            rebuild=frozenset(context.request.rebuild),
            drifted=files.files,
            bodiless=files.bodiless,
            names_olds=context.section.ledger or context.sitemap.guards_of(context.section).canary is not None,
            rewrite_after=context.policy.rewrite_after,
            surveyed=narrowed.surveyed if is_partial else None,
            reads_early=bool(narrowed.changed),
        )
        actions = decide(ranges, shards, decision)
        pairs = zip(ranges, actions, strict=True)
        read = [old for item, action in pairs if action.kind.writes for old in item.olds]
        if not narrowed.include(read):
            return actions, survey


def _ranges(
    context: SectionContext, fresh: str, narrowed: Narrowed, taken: Survey | None
) -> tuple[tuple[LayoutRange, ...], Survey]:
    """Return the new ranges and their survey, unless it is ``taken`` already.

    Too large ranges are cut (all if ``fresh``), and small neighbours joined.
    """
    section, before, policy = context.section, context.before, context.policy
    if fresh or before is None:
        everything = KeyRange(None, None)
        ranges = cut(everything, context.source.boundaries(everything, policy.target_urls))
        survey = survey_of(context, ranges)
        pieces = zip(ranges, survey.digests, strict=True)
        return tuple(_checked(context, LayoutRange(range=r, digest=d, reason=fresh)) for r, d in pieces), survey
    survey = taken or narrowed.survey(context, [shard.range for shard in before.shards])
    layout: list[LayoutRange] = []
    for position, (shard, digest) in enumerate(zip(before.shards, survey.digests, strict=True)):
        if digest.rows > policy.max_urls:
            layout.extend(_cut(context, shard, position, digest))
        else:
            carries = position if digest.rows else None
            olds = (position,) if digest.rows else ()
            item = LayoutRange(range=shard.range, digest=digest, olds=olds, before=(position,), carries=carries)
            layout.append(item)
    file_urls = context.sitemap.file_urls_of(section) if section.kind == "news" else None
    return join(layout, before.shards, policy, context.sitemap.limits_of(section), file_urls), survey


def _cut(context: SectionContext, shard: Shard, position: int, digest: Digest) -> list[LayoutRange]:
    source, policy = context.source, context.policy
    appended = _append_cut(context, shard) if shard.range.upper is None else ()
    boundaries = appended or source.boundaries(shard.range, split_size(digest.rows, policy))
    pieces = cut(shard.range, boundaries)
    result = []
    for number, (within, part) in enumerate(zip(pieces, survey_of(context, pieces).digests, strict=True)):
        if number == 0 and (appended or len(pieces) == 1):
            piece = LayoutRange(range=within, digest=part, olds=(position,), before=(position,), carries=position)
        elif appended:
            piece = LayoutRange(range=within, digest=part, reason="rows appended at the end")
        else:
            reason = f"{digest.rows:,} rows no longer fit into one shard of {policy.max_urls:,}"
            piece = LayoutRange(
                range=within, digest=part, olds=(position,), before=(position,), fresh=True, reason=reason
            )
        result.append(_checked(context, piece))
    return result


def _append_cut(context: SectionContext, shard: Shard) -> Sequence[Key]:
    """Return where to cut the last range so that its first piece keeps all earlier entries; empty if impossible."""
    source, policy = context.source, context.policy
    boundaries = source.boundaries(shard.range, policy.max_urls) if shard.last_key is not None else ()
    if shard.last_key is None or not boundaries:
        return ()
    ranks = source.rank([shard.last_key, boundaries[0]])
    if ranks is None or ranks[0] >= ranks[1]:
        return ()
    if policy.target_urls == policy.max_urls:
        return boundaries
    rest = source.boundaries(KeyRange(boundaries[0], shard.range.upper), policy.target_urls)
    return (boundaries[0], *rest)


def _checked(context: SectionContext, piece: LayoutRange) -> LayoutRange:
    """Refuse a key that has more rows than a shard holds.

    The rows of the largest key are counted before a refusal: in a database without snapshots, rows may have been added
    and deleted since the range was cut and surveyed. If the range has become too large but no key has, it is not
    refused: it is cut when it is written.
    """
    most = context.policy.max_urls
    largest = context.source.largest_key(piece.range) if piece.digest.rows > most else None
    if largest is not None and largest[1] > most:
        raise RefusedError(
            f"section {context.section.name!r}: the key {show(largest[0])} has {largest[1]:,} rows, but a shard holds at most "
            f"{most:,} and cannot share a key with another shard. Add a column to key= that distinguishes these rows "
            "(the primary key, for example). The section was not published."
        )
    return piece


def _fresh_cause(context: SectionContext) -> str:
    """Return why all ranges of the section are cut again, or "" if the earlier ranges are still valid."""
    before = context.before
    if before is None or not before.shards:
        return "first build"
    return key_change(context.source, before) or _boundary_fault(context.source, before.shards)


def _rename_cause(context: SectionContext) -> str:
    """Return why the files of all ranges get other names, or "" if they keep theirs."""
    section, before = context.section, context.before
    files = before.files() if before is not None else ()
    fit = all(fits(file.name, section.path, section.name, section.format) for file in files)
    return "" if fit else "the section's path or format changed"


def _key_kinds(source: Source, before: SectionManifest | None) -> tuple[str, ...]:
    """Return the key kinds to record: the recorded ones if the source does not know its own (an empty table)."""
    now = tuple(source.key_kinds)
    if any(kind.endswith(UNKNOWN) for kind in now):
        return before.key_kinds if before is not None and same_kinds(before.key_kinds, now) else ()
    return now


def _everything(context: SectionContext, configuration: str) -> str:
    """Return why the run reads all rows, or "" if it reads only changed ones."""
    before = context.before
    if context.request.full:
        return "a full run was requested"
    if before is None:
        return ""
    if context.sitemap.change_detection_of(context.section) == "full":
        return "change_detection is 'full'"
    if before.fingerprint != configuration:
        return "the section's configuration changed"
    if before.digest_kind != context.source.digest_kind:
        return "the digest expression changed"
    return ""


def _differs(
    before: SectionManifest | None, actions: Sequence[RangeAction], survey: Survey, configuration: str, source: Source
) -> bool:
    """Return whether the manifest changes even if no file does."""
    if before is None:
        return True
    return (
        [action.range for action in actions] != [shard.range for shard in before.shards]
        or before.fingerprint != configuration
        or before.digest_kind != source.digest_kind
        or before.null_keys != survey.null_keys
        or any(_shard_differs(*each) for each in zip(before.shards, survey.digests, actions, strict=False))
    )


def _shard_differs(shard: Shard, digest: Digest, action: RangeAction) -> bool:
    """Return whether the manifest has something else to record of a shard in a run that writes no file."""
    if action.kind is Action.WAIT or action.dirty_since != shard.dirty_since:
        return action.dirty_since != shard.dirty_since
    return not digest.same_rows(shard.digest) or digest.urgent not in (None, shard.digest.urgent)


def _boundary_fault(source: Source, shards: Sequence[Shard]) -> str:
    """Return why the boundaries no longer order the rows, or "" if they still do.

    An upgraded collation may reorder text. A narrower type, an enum or a domain may no longer accept a boundary.
    Integers keep their order, so the least and the greatest are enough if the key column is known to hold integers.
    """
    boundaries = [shard.range.lower for shard in shards if shard.range.lower is not None]
    integers = all(len(key) == 1 and isinstance(key[0], int) for key in boundaries)
    if integers and all(kind.endswith((INTEGER, UNKNOWN)) for kind in source.key_kinds):
        boundaries = boundaries[:: max(1, len(boundaries) - 1)]
    ranks = source.rank(boundaries)
    if ranks is None:
        return "the key's type no longer accepts a boundary of the ranges"
    if all(left < right for left, right in itertools.pairwise(ranks)):
        return ""
    return "the database orders the keys differently than before (its collation changed?)"
