"""Ranges to targets: what is to be done with each, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_sitemaps.shards.plan import Action, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_sitemaps.shards.balance import Range
    from airflow_sitemaps.shards.manifest import Shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """What is known when a section's targets are decided.

    ``everything``: why all rows are to be read again ("" if they are not). ``rebuild``: names of files to be written
    again. ``drifted``: position of a shard whose public file is not ours any more → etag of what lies there (None:
    nothing). ``bodiless``: positions of those whose private body is gone as well.
    """

    now: datetime
    everything: str = ""
    rebuild: frozenset[str] = frozenset()
    drifted: Mapping[int, str | None] = field(default_factory=dict)
    bodiless: frozenset[int] = frozenset()


def decide(ranges: Sequence[Range], shards: Sequence[Shard], inquiry: Inquiry) -> tuple[Target, ...]:
    """One target a range."""
    return tuple(_decide(item, shards, inquiry) for item in ranges)


def _decide(item: Range, shards: Sequence[Shard], inquiry: Inquiry) -> Target:
    target = Target(range=item.range, digest=item.digest, action=Action.EMPTY, reason=item.reason)
    if item.digest.rows == 0:
        return target
    if item.fresh:
        return replace(target, action=Action.MERGE if len(item.olds) > 1 else Action.SPLIT)
    if item.carries is None:
        return replace(target, action=Action.CREATE, reason=item.reason or "new rows")
    shard = shards[item.carries]
    drifted = item.carries in inquiry.drifted
    found = inquiry.drifted.get(item.carries)
    target = replace(target, carries=item.carries, drifted=drifted, found_etag=found)
    reason = _dirty(item, shard, inquiry)
    if reason:
        known = "" if shard.file is None or item.carries in inquiry.bodiless else shard.file.xml_sha256
        action = Action.CREATE if shard.file is None else Action.REWRITE
        return replace(target, action=action, reason=reason, known_sha256=known)
    if drifted:
        reason = "the public file is gone" if found is None else "somebody else wrote the public file"
        return replace(target, action=Action.REPAIR, reason=reason)
    return replace(target, action=Action.KEEP)


def _dirty(item: Range, shard: Shard, inquiry: Inquiry) -> str:
    """Why the rows have to be read again; "" if they do not."""
    if inquiry.everything:
        return inquiry.everything
    if not item.digest.same_rows(shard.digest):
        return "rows changed"
    if shard.file is not None and shard.file.name in inquiry.rebuild:
        return "asked to rebuild"
    if not shard.settled:
        return "unsettled: the last digest was not surely that of the rows read"
    if shard.recheck_at is not None and shard.recheck_at <= inquiry.now:
        return "its time has come: a future date arrived, or a window closed"
    if item.carries in inquiry.bodiless:
        return "its private body is gone"
    return ""
