"""Decide what to do with each range, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from airflow_sitemaps.shards.plan import Action, RangeAction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_sitemaps.shards.balance import LayoutRange
    from airflow_sitemaps.shards.manifest import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionContext:
    """The input of the decision on a section's ranges, in addition to its shards.

    Attributes:
        now: Time of planning.
        everything: Why the run reads all rows. Default: "", it does not.
        rebuild: Names of files to write again. Default: none.
        drifted: Etag of the object that now has the file's name (None: no object), by position of each shard whose
            public file another program changed or deleted. Default: none.
        bodiless: Positions of those shards whose private body is missing too. Default: none.
    """

    now: datetime
    everything: str = ""
    rebuild: frozenset[str] = frozenset()
    drifted: Mapping[int, str | None] = field(default_factory=dict)
    bodiless: frozenset[int] = frozenset()


def decide(ranges: Sequence[LayoutRange], shards: Sequence[Shard], context: DecisionContext) -> tuple[RangeAction, ...]:
    """Decide the action of each range.

    Args:
        ranges: The new ranges, in key order.
    """
    return tuple(_decide(item, shards, context) for item in ranges)


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
    if reason:
        sha256 = "" if shard.file is None or item.carries in context.bodiless else shard.file.xml_sha256
        kind = Action.CREATE if shard.file is None else Action.REWRITE
        return replace(action, kind=kind, reason=reason, known_sha256=sha256)
    if drifted:
        reason = "the public file is missing" if etag is None else "another program wrote the public file"
        return replace(action, kind=Action.REPAIR, reason=reason)
    return replace(action, kind=Action.KEEP)


def _dirty(item: LayoutRange, shard: Shard, context: DecisionContext) -> str:
    """Return why the rows must be read again, or "" if they need not be."""
    if context.everything:
        return context.everything
    if not item.digest.same_rows(shard.digest):
        return "rows changed"
    if shard.file is not None and shard.file.name in context.rebuild:
        return "rebuild requested"
    if not shard.settled:
        return "unsettled: the digest does not determine which of several rows of one URL is listed"
    if shard.recheck_at is not None and shard.recheck_at <= context.now:
        return "a date that was in the future has passed, or a time window has ended"
    if item.carries in context.bodiless:
        return "its private body is missing"
    return ""
