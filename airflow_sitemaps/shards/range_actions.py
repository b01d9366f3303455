"""From a survey to the work of a run: which ranges to cut and join, what to do with each and why, and in which batches.

A range is too large if it has more than ``max_urls`` rows. Neighbours are joined if both together fill less than
``merge_below`` of a shard. A cut makes pieces of about half a shard or more, so they are not joined again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.protocol.extensions.languages import MAX_NEWS
from airflow_sitemaps.shards.plan import Action, Batch, OldShard, RangeAction, SectionPlan
from airflow_sitemaps.shards.ranges import Digest, KeyRange

if TYPE_CHECKING:
    from airflow_sitemaps.protocol import Limits
    from airflow_sitemaps.shards.layout import ShardPolicy
    from airflow_sitemaps.shards.manifest import Shard

CHANGED: Final = "rows changed"

SPLIT_FILL: Final = 0.75
"""Fraction of a shard that a piece fills after a cut in the middle of a section, so that it can grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRange:
    """A range of a new layout, before its action is decided.

    Attributes:
        olds: Positions of the base generation's shards that hold its entries now, without those that have no rows.
        before: Positions of all shards whose range it continues, those without rows included.
        carries: Position of the shard whose file name it continues.
        fresh: Whether it was cut, so that its entries move to a new file name.
    """

    range: KeyRange
    digest: Digest
    olds: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    carries: int | None = None
    fresh: bool = False
    reason: str = ""


def split_size(rows: int, policy: ShardPolicy) -> int:
    """Return the number of rows per piece for a range in the middle of a section that has too many rows."""
    fill = max(1, int(policy.max_urls * min(policy.fill, SPLIT_FILL)))
    return max(1, -(-rows // max(2, -(-rows // fill))))


def join(
    ranges: Sequence[LayoutRange],
    shards: Sequence[Shard],
    policy: ShardPolicy,
    limits: Limits,
    file_urls: int | None = None,
) -> tuple[LayoutRange, ...]:
    """Join neighbours in key order that together stay under the threshold; an empty range joins its neighbour.

    ``file_urls`` is the maximum number of entries per file if it is less than ``policy.max_urls`` (news: 1,000). A range may
    then hold far more rows than entries.
    """
    per_row = _bytes_per_row(shards)
    joined: list[LayoutRange] = []
    weights: list[float] = []
    for item in ranges:
        size = _known_bytes(item, shards, per_row) / limits.max_byte_size
        articles = sum(shards[old].articles for old in item.olds) / MAX_NEWS
        weight = max(item.digest.rows / policy.max_urls, size, articles)  # 1: full, by the strictest limit
        if file_urls is not None:
            weight = max(weight, sum(shards[old].urls for old in item.olds) / file_urls)
        is_empty = bool(joined) and 0 in (joined[-1].digest.rows, item.digest.rows)
        if is_empty or (joined and weights[-1] + weight < min(policy.merge_below, policy.fill)):
            joined[-1] = _joined(joined[-1], item)
            weights[-1] += weight
        else:
            joined.append(item)
            weights.append(weight)
    return tuple(joined)


def _joined(left: LayoutRange, right: LayoutRange) -> LayoutRange:
    within = KeyRange(left.range.lower, right.range.upper)
    before = tuple(dict.fromkeys((*left.before, *right.before)))
    if right.digest.rows == 0 or left.digest.rows == 0:
        full = left if right.digest.rows == 0 else right
        return dataclasses.replace(full, range=within, before=before)
    digest, olds = left.digest + right.digest, left.olds + right.olds
    return LayoutRange(
        range=within, digest=digest, olds=olds, before=before, fresh=True, reason="neighbours became small"
    )


def _bytes_per_row(shards: Sequence[Shard]) -> float:
    rows = sum(shard.digest.rows for shard in shards)
    return sum(shard.file.xml_byte_size for shard in shards if shard.file is not None) / rows if rows else 0.0


def _known_bytes(item: LayoutRange, shards: Sequence[Shard], per_row: float) -> int:
    """Return the uncompressed bytes: those of the file that it continues, or else the section's average."""
    if item.carries is not None:
        shard = shards[item.carries]
        if shard.file is not None and shard.digest.rows:
            return int(shard.file.xml_byte_size * item.digest.rows / shard.digest.rows)
    return int(per_row * item.digest.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """The input of the decision on a section's ranges, in addition to its shards.

    Attributes:
        everything: Why the run reads all rows. Default: "", it does not.
        drifted: Etag of the object that now has the file's name (None: no object), by position of each shard whose
            public file another program changed or deleted.
        bodiless: Positions of those shards whose private body is missing too.
        names_olds: Whether the section's ledger or canary needs the old shards of each range.
        rewrite_after: How long changes may wait that list no URL and remove none. Default: None, not at all.
        surveyed: Positions of the shards whose rows were surveyed. Default: None, all.
        reads_early: Whether rows were read to be listed early if their ranges wait. They are known by the range that they were
            in before the run, so a range whose end moves does not wait then.
    """

    now: datetime
    everything: str = ""
    rebuild: frozenset[str] = frozenset()
    drifted: Mapping[int, str | None] = field(default_factory=dict)
    bodiless: frozenset[int] = frozenset()
    names_olds: bool = False
    rewrite_after: timedelta | None = None
    surveyed: Collection[int] | None = None
    reads_early: bool = False


def decide(ranges: Sequence[LayoutRange], shards: Sequence[Shard], context: DecisionContext) -> tuple[RangeAction, ...]:
    """Decide the action of each range, in key order."""
    actions = tuple(_decide(item, shards, context) for item in ranges)
    if not context.names_olds:
        return actions
    return tuple(
        replace(action, olds=old_shards(shards[position] for position in item.before)) if action.kind.writes else action
        for item, action in zip(ranges, actions, strict=True)
    )


def old_shards(shards: Iterable[Shard]) -> tuple[OldShard, ...]:
    """Return where the entries of old shards are kept."""
    return tuple(OldShard(body=shard.file.body, part=shard.part) for shard in shards if shard.file is not None)


def _decide(item: LayoutRange, shards: Sequence[Shard], context: DecisionContext) -> RangeAction:
    action = RangeAction(range=item.range, digest=item.digest, kind=Action.EMPTY, reason=item.reason)
    if item.digest.rows == 0:
        return action
    if item.fresh:
        return replace(action, kind=Action.MERGE if len(item.olds) > 1 else Action.SPLIT)
    if item.carries is None:
        return replace(action, kind=Action.CREATE, reason=item.reason or "new rows")
    shard = shards[item.carries]
    drifted = item.carries in context.drifted
    etag = context.drifted.get(item.carries)
    action = replace(action, carries=item.carries, drifted=drifted, found_etag=etag)
    reason = _dirty(item, shard, context)
    since = shard.dirty_since or context.now
    if (
        reason == CHANGED
        and _may_wait(item, shard, context)
        and not _is_due(since, item.carries / len(shards), context)
    ):
        return replace(action, kind=Action.WAIT, dirty_since=since, reason=f"{CHANGED}, and its turn has not come")
    if reason:
        known_hash = "" if shard.file is None or item.carries in context.bodiless else shard.file.xml_hash
        kind = Action.CREATE if shard.file is None else Action.REWRITE
        return replace(action, kind=kind, reason=reason, known_hash=known_hash)
    if drifted:
        reason = "the public file is missing" if etag is None else "another program wrote the public file"
        return replace(action, kind=Action.REPAIR, reason=reason)
    return replace(action, kind=Action.KEEP)


def _dirty(item: LayoutRange, shard: Shard, context: DecisionContext) -> str:
    """Return why the rows must be read again, or "" if they need not be."""
    if context.everything:
        return context.everything
    surveyed = context.surveyed is None or item.carries in context.surveyed
    changed = not item.digest.same_rows(shard.digest) if surveyed else shard.dirty_since is not None
    return CHANGED if changed else _unfit(item, shard, context)


def _unfit(item: LayoutRange, shard: Shard, context: DecisionContext) -> str:
    """Return why the rows must be read again though none changed, or "" if they need not be."""
    if shard.file is not None and shard.file.name in context.rebuild:
        return "rebuild requested"
    if not shard.settled:
        return "unsettled: the digest does not determine which of several rows of one URL is listed"
    if shard.recheck_at is not None and shard.recheck_at <= context.now:
        return "a date that was in the future has passed, or a time window has ended"
    if item.carries in context.bodiless:
        return "its private body is missing"
    return ""


def _may_wait(item: LayoutRange, shard: Shard, context: DecisionContext) -> bool:
    """Return whether changed rows need not be read again before their turn: they list no URL and remove none."""
    assert item.carries is not None
    if context.rewrite_after is None or item.carries in context.drifted or _unfit(item, shard, context):
        return False
    moves = context.reads_early and item.range.upper != shard.range.upper
    return not moves and item.digest.same_urgent(shard.digest)


def _is_due(since: datetime, turn: float, context: DecisionContext) -> bool:
    """Return whether a range that waits since a time is to be written.

    Every range has a turn in each period: ``turn`` is its fraction of the period, so that the turns are spread evenly.
    """
    assert context.rewrite_after is not None
    period = context.rewrite_after.total_seconds()
    to_turn = (turn * period - since.timestamp()) % period
    return context.now >= since + timedelta(seconds=to_turn or period)


BATCH_ROWS: Final = 500_000
"""Default number of rows per batch: a few seconds of work, against Airflow's overhead of half a second per task."""

MAX_BATCHES: Final = 1_000
"""Maximum number of batches: Airflow refuses to map more than ``core.max_map_length`` (by default 1,024) tasks."""


def make_batches(sections: Mapping[str, SectionPlan], batch_rows: int | None = None) -> tuple[Batch, ...]:
    """Group the ranges to write into batches, section by section, in key order.

    A batch is filled to ``batch_rows``, or to more if there would be more than ``MAX_BATCHES`` batches.
    """
    everything = sum(t.digest.rows for plan in sections.values() for t in plan.actions if t.kind.writes)
    room = max(1, MAX_BATCHES - len(sections))
    size = max(batch_rows or BATCH_ROWS, -(-everything // room))
    batches: list[Batch] = []
    for name, plan in sections.items():
        for group in _groups(plan, size):
            rows = sum(plan.actions[position].digest.rows for position in group)
            batches.append(Batch(number=len(batches), section=name, actions=group, rows=rows))
    return tuple(batches)


def make_tasks(
    batches: Sequence[Batch], batch_rows: int | None = None, most: int = MAX_BATCHES
) -> tuple[tuple[Batch, ...], ...]:
    """Group batches in order into at most ``most`` tasks: thirty small sections need one task, not thirty.

    A task, unlike a batch, may hold several sections. It is filled to ``batch_rows``; a larger batch is its own task.
    """
    rows = batch_rows or BATCH_ROWS
    while len(groups := tuple(_filled(batches, rows))) > max(most, 1):
        rows *= 2
    return groups


def _filled(batches: Sequence[Batch], size: int) -> Iterator[tuple[Batch, ...]]:
    group: list[Batch] = []
    rows = 0
    for batch in batches:
        if group and rows + batch.rows > size:
            yield tuple(group)
            group, rows = [], 0
        group.append(batch)
        rows += batch.rows
    if group:
        yield tuple(group)


def _groups(plan: SectionPlan, size: int) -> Iterator[tuple[int, ...]]:
    group: list[int] = []
    rows = 0
    for position, action in enumerate(plan.actions):
        if not action.kind.writes:
            continue
        group.append(position)
        rows += action.digest.rows
        if rows >= size:
            yield tuple(group)
            group, rows = [], 0
    if group:
        yield tuple(group)
