"""The commit as a pure reducer: compute the next manifest from the last one, a plan and its receipts.

A full run, or a rebuild of some shards, may last for hours, and shorter runs commit during that time. ``rebase`` fits such
a plan to their commits. Each shard that another run changed since the plan stays as that run wrote it; the others are
published as this run read them. A row that the earlier of the two reads missed is found by the next run, which compares
all digests with the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from airflow_sitemaps.errors import ConflictError, IncompleteError, RefusedError
from airflow_sitemaps.shards.manifest import Departed, GenerationNote, IndexRecord, Manifest, SectionManifest, Shard
from airflow_sitemaps.shards.plan import Action, Plan, RangeAction, SectionPlan
from airflow_sitemaps.shards.ranges import KeyRange, same_kinds
from airflow_sitemaps.shards.section_commit import CommitFacts, after_permits, next_section, repaired, with_permits

if TYPE_CHECKING:
    from airflow_sitemaps.shards.codec import Receipt, StagedShard


def next_manifest(old: Manifest | None, plan: Plan, receipts: Sequence[Receipt], facts: CommitFacts) -> Manifest:
    """Compute the manifest that results from publishing a plan, without its extra files and indexes.

    Raises ConflictError if another run changed a section of the plan after it was made, IncompleteError without a receipt.
    """
    check_current(old, plan, facts)
    staged = _gather(plan, receipts)
    generation = (old.generation if old is not None else 0) + 1
    sections = dict(old.sections) if old is not None else {}
    for name in plan.retired:
        sections.pop(name, None)
    for name, section_plan in plan.sections.items():
        before = sections.get(name)
        after = next_section(before, section_plan, staged.get(name, {}), facts, generation, first_serial(old, name))
        after = with_permits(before, after, plan, facts)
        if section_plan.moved:
            after = after_permits(after, ("shrink", "churn"), facts.now)
        if after is before:
            after = replace(after, known=section_plan.known_of(after.shards))
        sections[name] = after if after.question is None else replace(after, question=None)
    for name in dict.fromkeys(repair.section for repair in plan.repairs_elsewhere):
        if name in sections:
            sections[name] = repaired(sections[name], plan, facts, generation)
    return Manifest(
        generation=generation,
        write_id=facts.write_id,
        run=plan.run,
        owner=facts.owner,
        base_url=facts.base_url,
        committed_at=facts.now,
        # Sections that the code does not name follow the others.
        sections={name: sections[name] for name in (*facts.sections, *sections) if name in sections},
        state_id=facts.state_id,
        origin=plan.origin or (old.origin if old is not None else ""),
    )


def complete(
    old: Manifest | None,
    manifest: Manifest,
    facts: CommitFacts,
    *,
    action: str,
    failed: Sequence[str] = (),
    losses: Sequence[str] = (),
) -> Manifest:
    """Add the departed files and a history note to a manifest with extra files and indexes.

    ``action`` is what the run does, such as ``build`` or ``rollback``. Raises RefusedError if the sitemap would have no URL,
    with the ``losses``: why rows of the sections are not listed.
    """
    if not any(True for section in manifest.sections.values() for _ in section.files()):
        raise RefusedError(
            "no section would have any URL, and an index without sitemaps is not valid (siteindex.xsd). Nothing "
            "was published; the sitemap published before stays. Check the sources, or delete the sitemap yourself."
            + "".join(f"\n  - {loss}" for loss in losses)
        )
    serials = {**old.serials, **{n: state.next_serial for n, state in old.sections.items()}} if old is not None else {}
    note = GenerationNote(
        generation=manifest.generation,
        committed_at=manifest.committed_at,
        run=manifest.run,
        urls=manifest.urls,
        shards=sum(1 for section in manifest.sections.values() for _ in section.files()),
        byte_size=sum(file.byte_size for file in manifest.files()),
        action=action,
        touched=sum(file.etag is None for file in manifest.files()),
        dropped=sum(n for s in manifest.sections.values() for shard in s.shards for n in shard.dropped.values()),
        failed=tuple(failed),
    )
    earlier = old.history if old is not None else ()
    return replace(
        manifest,
        history=(*earlier, note)[-max(1, facts.history) :],
        departed=tuple(_departed(old, manifest, facts)),
        serials={name: serial for name, serial in serials.items() if name not in manifest.sections},
        index_record=_index_record(old, manifest.generation, facts),
        swept_at=old.swept_at if old is not None else manifest.committed_at,
    )


def first_serial(manifest: Manifest | None, section: str) -> int:
    """Return the next serial of a section, also of one that was removed or never existed."""
    if manifest is None:
        return 1
    state = manifest.sections.get(section)
    return state.next_serial if state is not None else manifest.serials.get(section, 1)


def check_current(old: Manifest | None, plan: Plan, facts: CommitFacts) -> None:
    """Refuse a plan if another run changed a section of it, a section it retires, or the indexes."""
    for name, section_plan in plan.sections.items():
        state = old.sections.get(name) if old is not None else None
        changed_in = state.changed_in if state is not None else 0
        if changed_in != section_plan.base:
            raise _stale(f"section {name!r}", changed_in, section_plan.base, old)
    if old is None:
        return
    for name in plan.retired:
        if name in old.sections and old.sections[name].changed_in > plan.base_generation:
            what = f"section {name!r}, which this run removes,"
            raise _stale(what, old.sections[name].changed_in, plan.base_generation, old)
    record = old.index_record
    if record is None or record.changed_in <= plan.base_generation:
        return
    if _index_record(old, old.generation, facts) != record:
        raise _stale("the layout of the indexes", record.changed_in, plan.base_generation, old)


def _stale(what: str, changed_in: int, base: int, old: Manifest | None) -> ConflictError:
    winner = old.run if old is not None else ""
    return ConflictError(
        f"{what} was changed by generation {changed_in} after this run planned on generation {base}; the last commit "
        f"is of run {winner or 'unknown'}. Nothing of this run was published and nothing is lost: run the DAG again.",
        winner=winner,
    )


def _index_record(old: Manifest | None, generation: int, facts: CommitFacts) -> IndexRecord:
    """Return the index settings of this commit, or the last record if the settings are the same."""
    record = replace(facts.index, changed_in=generation)
    before = old.index_record if old is not None else None
    if before is not None and replace(record, changed_in=before.changed_in) == before:
        return before
    return record


def _gather(plan: Plan, receipts: Sequence[Receipt]) -> dict[str, dict[int, tuple[StagedShard, ...]]]:
    """Map each section and each position in its plan to the staged shards, and check that every batch has a receipt."""
    by_batch = {receipt.batch: receipt for receipt in receipts}
    foreign = sorted({receipt.run for receipt in receipts} - {plan.run})
    if foreign:
        raise IncompleteError(f"receipts of other runs ({', '.join(foreign)}) were given to run {plan.run}")
    missing = [batch for batch in plan.batches if batch.number not in by_batch]
    if missing:
        raise IncompleteError(
            f"{len(missing)} of {len(plan.batches)} batches have no receipt; the first is batch {missing[0].number} of "
            f"section {missing[0].section!r}. Nothing was published. Clear the tasks of these batches."
        )
    staged: dict[str, dict[int, tuple[StagedShard, ...]]] = {}
    for batch in plan.batches:
        staged.setdefault(batch.section, {}).update(by_batch[batch.number].pieces)
    return staged


def _departed(old: Manifest | None, new: Manifest, facts: CommitFacts) -> Iterator[Departed]:
    """Yield the files of earlier generations that this one does not name."""
    names = {file.name for file in new.public_files()}
    bodies = new.bodies()
    seen: set[str] = set()
    for item in old.departed if old is not None else ():
        if item.key not in names and item.key not in bodies:
            seen.add(item.key)
            # The public index lists files that departed in an unfinished generation, until this one is promoted.
            listed = old is not None and not old.promoted and item.generation == old.generation
            yield replace(item, generation=new.generation) if listed and item.area == "public" else item
    for name in facts.adopted:
        if name not in names and name not in seen:
            etag = facts.index_etags.get(name)
            yield Departed(area="public", key=name, generation=new.generation, at=facts.now, etag=etag)
    if old is None:
        return
    public = {file.name: file.etag for file in old.public_files()}
    # A fast clock may have written a file, and a name that returns gets a later ``lastmod`` than any before.
    at = {file.name: max(facts.now, file.modified_at) for file in old.public_files()}
    for name, etag in public.items():
        if name not in names and name not in seen:
            yield Departed(area="public", key=name, generation=new.generation, at=at[name], etag=etag)
    for body in sorted(old.bodies() - bodies - seen):
        yield Departed(area="state", key=body, generation=new.generation, at=facts.now)


def stale_sections(plan: Plan, current: Manifest) -> tuple[str, ...]:
    """Return the names of the planned sections that another run changed after the plan was made."""
    return tuple(
        name
        for name, section in plan.sections.items()
        if name in current.sections and current.sections[name].changed_in != section.base
    )


def rebase(
    plan: Plan, receipts: Sequence[Receipt], base: Manifest | None, current: Manifest
) -> tuple[Plan, tuple[Receipt, ...]]:
    """Fit a plan and its receipts to a later manifest, with a warning for each section that others changed.

    A section that another run published first is left to it. Sections for which this is not possible stay as planned.
    """
    sections, warnings = dict(plan.sections), []
    moved: dict[str, dict[int, int]] = {}
    for name in stale_sections(plan, current):
        before, now = base.sections.get(name) if base is not None else None, current.sections[name]
        if before is None:
            del sections[name]
            warnings.append(f"section {name!r}: another run published it first, and it stays as that run wrote it")
            continue
        if not _is_comparable(plan.sections[name], before, now):
            continue
        sections[name], moved[name] = _section(plan.sections[name], before, now)
        warnings.append(
            f"section {name!r}: run {current.run} published meanwhile; {len(now.shards) - len(moved[name]):,} of "
            f"{len(now.shards):,} ranges stay as other runs wrote them, which the next run compares; the others are as this run read them"
        )
    batches = tuple(batch for batch in plan.batches if batch.section in sections)
    fitted = replace(plan, sections=sections, batches=batches, warnings=(*plan.warnings, *warnings))
    kept = []
    for receipt in (each for each in receipts if each.section in sections):
        places = moved.get(receipt.section, {})
        pieces = {places[at]: pieces for at, pieces in receipt.pieces.items() if at in places}
        kept.append(replace(receipt, pieces=pieces) if receipt.section in moved else receipt)
    return fitted, tuple(kept)


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
            kept = RangeAction(range=shard.range, kind=Action.KEEP, digest=shard.digest, carries=position)
            actions.append(replace(kept, dirty_since=shard.dirty_since))
            continue
        action = plan.actions[at]
        actions.append(replace(action, carries=None if action.carries is None else position))
        moved[at] = position
    # The files are no longer those of one state of the table.
    same = replace(plan, base=now.changed_in, gone=(), drifted=(), known=None, refresh=True)
    rebased = replace(same, actions=tuple(actions), early=now.early)
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
    """Return a shard without the marks of its promotion and of surveys."""
    file = None if shard.file is None else replace(shard.file, etag=None, replaces=None)
    return replace(shard, file=file, digest=replace(shard.digest, urgent=None), dirty_since=None)
