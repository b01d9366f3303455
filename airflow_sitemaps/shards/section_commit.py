"""The next state of one section, computed from its last state, its plan and its staged shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.errors import StoreContentError
from airflow_sitemaps.shards.file_succession import restore
from airflow_sitemaps.shards.guards import Permit, week
from airflow_sitemaps.shards.key import is_partition
from airflow_sitemaps.shards.manifest import SectionManifest
from airflow_sitemaps.shards.shard_builder import ShardBuilder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.shards.commit_facts import CommitFacts
    from airflow_sitemaps.shards.manifest import Shard
    from airflow_sitemaps.shards.plan import Plan, SectionPlan
    from airflow_sitemaps.shards.receipt import StagedShard

SAMPLES: Final = 5
"""Maximum number of faulty rows kept per rule."""


def next_section(
    old: SectionManifest | None,
    plan: SectionPlan,
    staged: Mapping[int, tuple[StagedShard, ...]],
    facts: CommitFacts,
    generation: int,
    serial: int,
) -> SectionManifest:
    """Compute the state of a section that results from publishing its plan.

    Args:
        staged: The staged shards of each range that was written, by the range's position in the plan.

    Returns:
        The new state, or ``old`` if nothing changed.

    Raises:
        IncompleteError: A range was to be written and has no staged shard.
        StoreContentError: The planned ranges do not cover every key exactly once.
    """
    builder = ShardBuilder(old, plan, facts, generation, serial)
    shards = tuple(
        shard for position, action in enumerate(plan.actions) for shard in builder.shards(action, staged.get(position))
    )
    if not is_partition([shard.range for shard in shards]):
        raise StoreContentError(
            f"section {plan.name!r}: the planned ranges do not cover every key exactly once; plan again"
        )
    configured = facts.sections[plan.name]
    state = SectionManifest(
        name=plan.name,
        fingerprint=plan.fingerprint,
        digest_kind=plan.digest_kind,
        changed_in=old.changed_in if old is not None else 0,
        next_serial=builder.serial,
        shards=shards,
        base_url=configured.base_url,
        path=configured.path,
        key_kinds=plan.key_kinds,
        null_keys=plan.null_keys,
        samples=_samples(old, plan, staged, shards),
        days=old.days if old is not None else {},
        known=plan.known_of(shards),
        permitted_by=old.permitted_by if old is not None else "",
    )
    # Key kinds that were not recorded before do not count as a change; the next change records them. How far the
    # table was read does not count either; see ``next_manifest``.
    if old is not None and replace(state, key_kinds=old.key_kinds, known=old.known) == old:
        return old
    return week.with_today(old, replace(state, changed_in=generation), facts.now)


def repaired(old: SectionManifest, plan: Plan, facts: CommitFacts, generation: int) -> SectionManifest:
    """Return a section that the run does not plan, with its changed or deleted files to be put again.

    If another run has changed the section since the plan, it stays as it is; the next plan looks at its files again.
    """
    etags = {
        repair.name: repair.found_etag
        for repair in plan.repairs_elsewhere
        if (repair.section, repair.base) == (old.name, old.changed_in)
    }
    shards = tuple(
        replace(shard, file=restore(shard.file, etags[shard.file.name], facts.now))
        if shard.file is not None and shard.file.name in etags
        else shard
        for shard in old.shards
    )
    return old if shards == old.shards else replace(old, shards=shards, changed_in=generation)


def _samples(
    old: SectionManifest | None,
    plan: SectionPlan,
    staged: Mapping[int, tuple[StagedShard, ...]],
    shards: Sequence[Shard],
) -> dict[str, tuple[str, ...]]:
    """Collect the new samples, and keep earlier ones of rules without a new sample that still have faulty rows."""
    counted = {rule for shard in shards for rule in (*shard.dropped, *shard.mended, *shard.expired)}
    samples: dict[str, tuple[str, ...]] = {}
    for pieces in staged.values():
        for piece in pieces:
            for rule, texts in piece.samples.items():
                samples[rule] = (*samples.get(rule, ()), *texts)[:SAMPLES]
    for rule, texts in (old.samples if old is not None else {}).items():
        if rule in counted:
            samples.setdefault(rule, texts)
    if plan.null_keys:
        samples["key-null"] = plan.null_key_samples[:SAMPLES]
    return samples


def with_permits(old: SectionManifest | None, new: SectionManifest, plan: Plan, facts: CommitFacts) -> SectionManifest:
    """Return a section after the run's permits: a permitted change does not count against later runs.

    The request of the permits is recorded, because they hold for one publication.
    """
    guards = {permit.guard for permit in map(Permit.of, plan.allow) if permit.section in (None, new.name)}
    if new is old:
        guards -= {"growth", "churn"}  # nothing was added or replaced
    if old is None or not guards:
        return new
    after = week.permitted(new, guards, facts.now)
    return after if after is old else replace(after, permitted_by=plan.asked_by)
