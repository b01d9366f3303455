"""Combine a run that reads everything with the commits of other runs, so that it does not conflict with each of them.

A full run, or a rebuild of some shards, may last for hours, and shorter runs commit during that time. Each shard that
another run changed since the plan stays as that run wrote it; the others are published as this run read them. A row
that the earlier of the two reads missed is found by the next run, which compares all digests with the database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from airflow_sitemaps.shards.key import same_kinds
from airflow_sitemaps.shards.plan import Action, RangeAction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.shards.key import KeyRange
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest, Shard
    from airflow_sitemaps.shards.plan import Plan, SectionPlan
    from airflow_sitemaps.shards.receipt import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebased:
    """A plan and its receipts, fitted to a later manifest, and a warning for each section that others changed."""

    plan: Plan
    receipts: tuple[Receipt, ...]
    warnings: tuple[str, ...] = ()


def stale_sections(plan: Plan, current: Manifest) -> tuple[str, ...]:
    """Return the names of the planned sections that another run changed after the plan was made."""
    return tuple(
        name
        for name, section in plan.sections.items()
        if name in current.sections and current.sections[name].changed_in != section.base
    )


def rebase(plan: Plan, receipts: Sequence[Receipt], base: Manifest, current: Manifest) -> Rebased:
    """Fit a plan to a later manifest. Sections for which this is not possible stay as planned."""
    sections, warnings = dict(plan.sections), []
    moved: dict[str, dict[int, int]] = {}
    for name in stale_sections(plan, current):
        before, now = base.sections.get(name), current.sections[name]
        if before is None or not _is_comparable(plan.sections[name], before, now):
            continue
        sections[name], moved[name] = _section(plan.sections[name], before, now)
        warnings.append(
            f"section {name!r}: run {current.run} published meanwhile; {len(now.shards) - len(moved[name]):,} of "
            f"{len(now.shards):,} ranges stay as other runs wrote them, the others are as this run read them"
        )
    return Rebased(
        plan=replace(plan, sections=sections),
        receipts=tuple(_receipt(receipt, moved.get(receipt.section)) for receipt in receipts),
        warnings=tuple(warnings),
    )


def _is_comparable(plan: SectionPlan, before: SectionManifest, now: SectionManifest) -> bool:
    """Return whether the plan's files and those of the current section are of one configuration."""
    return (
        before.changed_in == plan.base
        and (now.fingerprint, now.digest_kind) == (plan.fingerprint, plan.digest_kind)
        and now.path == before.path
        and same_kinds(now.key_kinds, plan.key_kinds)
    )


def _section(plan: SectionPlan, before: SectionManifest, now: SectionManifest) -> tuple[SectionPlan, dict[int, int]]:
    """Return the plan of a section on its current shards, and the new position of each action that stays."""
    planned = {action.range: position for position, action in enumerate(plan.actions)}
    earlier = {shard.range: position for position, shard in enumerate(before.shards)}
    actions: list[RangeAction] = []
    moved: dict[int, int] = {}
    for position, shard in enumerate(now.shards):
        at = _unchanged_action(plan, planned, before, earlier, shard)
        if at is None:
            actions.append(RangeAction(range=shard.range, kind=Action.KEEP, digest=shard.digest, carries=position))
            continue
        action = plan.actions[at]
        actions.append(replace(action, carries=None if action.carries is None else position))
        moved[at] = position
    rebased = replace(
        plan,
        base=now.changed_in,
        actions=tuple(actions),
        gone=(),
        drifted=(),
        known=None,  # the files are no longer those of one state of the table
        refresh=True,
    )
    return rebased, moved


def _unchanged_action(
    plan: SectionPlan,
    planned: Mapping[KeyRange, int],
    before: SectionManifest,
    earlier: Mapping[KeyRange, int],
    shard: Shard,
) -> int | None:
    """Return the position of the action that continues a shard, or None if another run changed the shard."""
    at, place = planned.get(shard.range), earlier.get(shard.range)
    if at is None or place is None or plan.actions[at].carries not in (None, place):
        return None
    return at if _content(before.shards[place]) == _content(shard) else None


def _content(shard: Shard) -> Shard:
    """Return a shard without the marks of its promotion."""
    if shard.file is None:
        return shard
    return replace(shard, file=replace(shard.file, etag=None, replaces=None))


def _receipt(receipt: Receipt, moved: Mapping[int, int] | None) -> Receipt:
    if moved is None:
        return receipt
    return replace(receipt, pieces={moved[at]: pieces for at, pieces in receipt.pieces.items() if at in moved})
