"""The commit as a pure reducer: compute the next manifest from the last one, a plan and its receipts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConflictError, IncompleteError, RefusedError, StoreContentError
from airflow_sitemaps.shards.guards import SMALLEST, Permit
from airflow_sitemaps.shards.index_layout import IndexSettings, next_indexes
from airflow_sitemaps.shards.key import is_partition
from airflow_sitemaps.shards.manifest import (
    PAST_CONTENTS,
    PEAK_DAYS,
    Departed,
    GenerationNote,
    IndexRecord,
    Manifest,
    PublicFile,
    SectionManifest,
    Shard,
)
from airflow_sitemaps.shards.plan import Action, Plan, RangeAction, SectionPlan
from airflow_sitemaps.shards.shard_names import Format, fits, shard_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_sitemaps.shards.receipt import Receipt, StagedShard

SAMPLES: Final = 5
"""Maximum number of faulty rows kept per rule."""

LEAST_DECLINE: Final = 50
"""Smallest decline that is recorded, in thousandths."""

DECLINE_DAYS: Final = 400
"""Days for which a decline is recorded: a little more than a year, to cover yearly events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionFacts:
    """The part of a section's configuration that determines its file names and addresses.

    Attributes:
        path: Folder of its files below the sitemap's folder.
        base_url: Address of that folder, ending in ``/``.
        format: Format of its files: ``xml`` or ``text``.
    """

    path: str
    base_url: str
    format: Format


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """The input of the reducer in addition to manifest, plan and receipts.

    Attributes:
        owner: Owner of the sitemap.
        sections: Configuration of the sections by name, in the order of the index.
        index: Settings of the indexes.
        history: Number of generations kept for rollback.
        now: Time of the commit.
        write_id: Identifier of this write of the manifest.
        index_etags: Etags of the objects that now have the names of drifted or unknown index files; None for a name
            without an object. Default: none.
        extras: Names of the configured extra files. Default: none.
        adopted: Public names of another program's sitemap that this run takes over. Default: none.
        state_id: Identifier of the state area. Default: None.
    """

    owner: str
    sections: Mapping[str, SectionFacts]
    index: IndexSettings
    history: int
    now: datetime
    write_id: str
    index_etags: Mapping[str, str | None] = field(default_factory=dict)
    extras: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    state_id: str | None = None


def next_manifest(old: Manifest | None, plan: Plan, receipts: Sequence[Receipt], facts: CommitFacts) -> Manifest:
    """Compute the manifest that results from publishing a plan, without its indexes (see ``complete``).

    Args:
        old: The last manifest, or None before the first commit.
        plan: The plan to publish.
        receipts: One receipt per batch of the plan.
        facts: Configuration, time and identifiers of the commit.

    Raises:
        ConflictError: Another run changed a section of the plan after it was made.
        IncompleteError: A batch has no receipt.
    """
    check_current(old, plan, facts)
    pieces = _gather(plan, receipts)
    generation = (old.generation if old is not None else 0) + 1
    sections = dict(old.sections) if old is not None else {}
    for name in plan.retired:
        sections.pop(name, None)
    for name, section_plan in plan.sections.items():
        made = _next_section(
            sections.get(name), section_plan, pieces.get(name, {}), facts, generation, first_serial(old, name)
        )
        state = _accepted(sections.get(name), made, plan, facts)
        if state is not sections.get(name):
            sections[name] = state
    return Manifest(
        generation=generation,
        write_id=facts.write_id,
        run=plan.run,
        owner=facts.owner,
        base_url=facts.index.base_url,
        committed_at=facts.now,
        sections=_in_order(sections, facts),
        indexes=(),
        state_id=facts.state_id,
    )


def complete(
    old: Manifest | None, manifest: Manifest, facts: CommitFacts, *, action: str, failed: Sequence[str] = ()
) -> Manifest:
    """Add the indexes, the departed files and a history note to a manifest.

    Args:
        old: The last manifest, or None before the first commit.
        manifest: The manifest to complete.
        facts: Configuration, time and identifiers of the commit.
        action: What the run does, such as ``build`` or ``rollback``.
        failed: Sections that the run could not publish. Default: none.

    Raises:
        RefusedError: The sitemap would have no URL.
    """
    if not any(file.listed for file in manifest.files()):
        raise RefusedError(
            "no section would have a single URL, and an index without sitemaps is not valid (siteindex.xsd). Nothing "
            "was published; the sitemap published before stays. Look at the sources, or take the sitemap down by hand."
        )
    indexes = next_indexes(old.indexes if old is not None else (), manifest, facts.index, facts.index_etags)
    manifest = replace(manifest, indexes=indexes)
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
        serials=_serials(old, manifest),
        index_record=_index_record(old, manifest.generation, facts),
        swept_at=old.swept_at if old is not None else manifest.committed_at,
    )


def first_serial(manifest: Manifest | None, section: str) -> int:
    """The next serial of a section, whether it is there now, was taken out, or never was."""
    if manifest is None:
        return 1
    state = manifest.sections.get(section)
    return state.next_serial if state is not None else manifest.serials.get(section, 1)


def _serials(old: Manifest | None, new: Manifest) -> dict[str, int]:
    """Return the next serials of the sections that no longer exist."""
    if old is None:
        return {}
    known = {**old.serials, **{name: state.next_serial for name, state in old.sections.items()}}
    return {name: serial for name, serial in known.items() if name not in new.sections}


def check_current(old: Manifest | None, plan: Plan, facts: CommitFacts) -> None:
    """Refuse a plan if another run changed a section of it, a section it retires, or the indexes.

    Args:
        old: The last manifest, or None before the first commit.
        plan: The plan to publish.
        facts: Configuration, time and identifiers of the commit.

    Raises:
        ConflictError: The plan is stale.
    """
    for name, section_plan in plan.sections.items():
        state = old.sections.get(name) if old is not None else None
        changed_in = state.changed_in if state is not None else 0
        if changed_in != section_plan.base:
            raise _stale(f"section {name!r}", changed_in, section_plan.base, old)
    if old is None:
        return
    for name in plan.retired:
        if name in old.sections and old.sections[name].changed_in > plan.base_generation:
            what = f"section {name!r}, which this run takes out,"
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
    record = IndexRecord(
        name=facts.index.name,
        mode=facts.index.mode,
        limits=facts.index.limits.name,
        extras=facts.extras,
        changed_in=generation,
    )
    before = old.index_record if old is not None else None
    if before is not None and replace(record, changed_in=before.changed_in) == before:
        return before
    return record


def _gather(plan: Plan, receipts: Sequence[Receipt]) -> dict[str, dict[int, tuple[StagedShard, ...]]]:
    """Map each section and each position of a target to its pieces, and check that every batch has a receipt."""
    by_batch = {receipt.batch: receipt for receipt in receipts}
    foreign = sorted({receipt.run for receipt in receipts} - {plan.run})
    if foreign:
        raise IncompleteError(f"receipts of other runs ({', '.join(foreign)}) were given to run {plan.run}")
    missing = [batch.number for batch in plan.batches if batch.number not in by_batch]
    if missing:
        raise IncompleteError(
            f"{len(missing)} of {len(plan.batches)} batches have no receipt (batch {missing[0]} of section "
            f"{plan.batches[missing[0]].section!r} first): clear their tasks. Nothing was published."
        )
    pieces: dict[str, dict[int, tuple[StagedShard, ...]]] = {}
    for batch in plan.batches:
        pieces.setdefault(batch.section, {}).update(by_batch[batch.number].pieces)
    return pieces


def _next_section(
    old: SectionManifest | None,
    plan: SectionPlan,
    pieces: Mapping[int, tuple[StagedShard, ...]],
    facts: CommitFacts,
    generation: int,
    serial: int,
) -> SectionManifest:
    maker = _ShardBuilder(old, plan, facts, generation, serial)
    shards = tuple(
        shard for position, target in enumerate(plan.targets) for shard in maker.shards(target, pieces.get(position))
    )
    if not is_partition([shard.range for shard in shards]):
        raise StoreContentError(f"section {plan.name!r}: the planned ranges do not cover every key once; plan again")
    known = facts.sections[plan.name]
    state = SectionManifest(
        name=plan.name,
        fingerprint=plan.fingerprint,
        digest_kind=plan.digest_kind,
        changed_in=old.changed_in if old is not None else 0,
        next_serial=maker.serial,
        shards=shards,
        base_url=known.base_url,
        path=known.path,
        key_kinds=plan.key_kinds,
        null_keys=plan.null_keys,
        samples=_samples(old, plan, pieces, shards),
        peaks=old.peaks if old is not None else {},
        declines=old.declines if old is not None else {},
    )
    # Key kinds that were not recorded before do not count as a change; the next change records them.
    if old is not None and replace(state, key_kinds=old.key_kinds) == old:
        return old
    return replace(state, changed_in=generation, peaks=_peaks(old, state.urls, facts.now))


@dataclass(slots=True)
class _ShardBuilder:
    """Builder of a section's shards from targets. It allocates serials.

    Attributes:
        old: The section in the last manifest, or None.
        plan: The section's plan.
        facts: Configuration, time and identifiers of the commit.
        generation: Number of the new generation.
        serial: Next serial of a file name.
        _leaving: Files that no target carries, by SHA-256 of their content. A new range with the same entries takes
            over such a file.
    """

    old: SectionManifest | None
    plan: SectionPlan
    facts: CommitFacts
    generation: int
    serial: int
    _leaving: dict[str, PublicFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.old is None:
            return
        carried = {target.carries for target in self.plan.targets}
        known = self.facts.sections[self.plan.name]
        for position, shard in enumerate(self.old.shards):
            file = shard.file
            if position in carried or file is None or not fits(file.name, known.path, self.plan.name, known.format):
                continue
            self._leaving[file.xml_sha256] = file

    def shards(self, target: RangeAction, pieces: tuple[StagedShard, ...] | None) -> Iterator[Shard]:
        """Yield the shards of one target."""
        carried = self._carried(target)
        if target.action is Action.EMPTY:
            yield Shard(range=target.range)
        elif target.action in (Action.KEEP, Action.REPAIR):
            assert carried is not None
            file = carried.file
            if target.action is Action.REPAIR and file is not None:
                file = replace(
                    file,
                    etag=None,
                    replaces=target.found_etag,
                    modified_at=later(self.facts.now, file.modified_at),
                )
            yield replace(carried, range=target.range, file=file)
        else:
            if not pieces:
                raise IncompleteError(f"section {self.plan.name!r}, {target.range}: no receipt tells what was written")
            alone = len(pieces) == 1
            for number, piece in enumerate(pieces):
                keeps_name = number == 0 and (alone or piece.same)
                yield self._written(
                    piece, target, carried.file if carried is not None and keeps_name else None, carried
                )

    def _carried(self, target: RangeAction) -> Shard | None:
        if target.carries is None or self.old is None:
            return None
        if target.carries >= len(self.old.shards):
            raise StoreContentError(
                f"section {self.plan.name!r}: the plan carries on a shard that is not there; plan again"
            )
        return self.old.shards[target.carries]

    def _written(
        self, piece: StagedShard, target: RangeAction, file: PublicFile | None, carried: Shard | None
    ) -> Shard:
        made = self._file(piece, target, file)
        untouched = carried is not None and made == carried.file
        return Shard(
            range=piece.range,
            digest=piece.digest,
            urls=piece.urls,
            file=made,
            last_key=piece.last_key,
            newest_lastmod=piece.newest_lastmod,
            recheck_at=piece.recheck_at,
            settled=piece.settled,
            dropped=piece.dropped,
            expired=piece.expired,
            articles=piece.articles,
            mended=piece.mended,
            sample_level=piece.sample_level,
            sample=piece.sample,
            prefixes=piece.prefixes,
            lastmods=piece.lastmods,
            oldest_lastmod=piece.oldest_lastmod,
            must=piece.must,
            written_in=carried.written_in if carried is not None and untouched else self.generation,
        )

    def _file(self, piece: StagedShard, target: RangeAction, file: PublicFile | None) -> PublicFile | None:
        if piece.same and file is not None:
            if target.drifted:
                return replace(
                    file,
                    etag=None,
                    replaces=target.found_etag,
                    modified_at=later(self.facts.now, file.modified_at),
                )
            return file
        if piece.body is None:
            return None
        if file is None and piece.xml_sha256 in self._leaving:
            return self._leaving.pop(piece.xml_sha256)
        fresh = PublicFile(
            name=file.name if file is not None else self._allocate(),
            body=piece.body,
            xml_sha256=piece.xml_sha256,
            xml_byte_size=piece.xml_byte_size,
            byte_size=piece.byte_size,
            modified_at=self.facts.now,
        )
        if file is None:
            return fresh
        replaces = target.found_etag if target.drifted else file.etag
        return succeed(file, replace(fresh, replaces=replaces))

    def _allocate(self) -> str:
        known = self.facts.sections[self.plan.name]
        while True:
            name = shard_name(known.path, self.plan.name, self.serial, known.format)
            self.serial += 1
            if name not in self.plan.taken:
                return name


def succeed(before: PublicFile, after: PublicFile) -> PublicFile:
    """Return ``after`` as the successor of ``before``, in a variant that the name has not had with this content."""
    past = (*before.past, f"{before.xml_sha256[:16]}:{before.variant}")[-PAST_CONTENTS:]
    seen = [int(entry.partition(":")[2]) for entry in past if entry.startswith(after.xml_sha256[:16] + ":")]
    variant = max(seen) + 1 if seen else 0
    return replace(after, past=past, variant=variant, modified_at=later(after.modified_at, before.modified_at))


def later(now: datetime, before: datetime) -> datetime:
    """Return the time of a change: ``now``, but at least one second after the previous change.

    A crawler reads a file again only if its ``lastmod`` increases, and the index writes ``lastmod`` in whole seconds.
    Clocks of workers differ, and two commits may share a second.

    Args:
        now: Current time.
        before: Time of the previous change.
    """
    return max(now, before + timedelta(seconds=1))


def _samples(
    old: SectionManifest | None,
    plan: SectionPlan,
    pieces: Mapping[int, tuple[StagedShard, ...]],
    shards: Sequence[Shard],
) -> dict[str, tuple[str, ...]]:
    """Collect the new samples, and keep earlier ones of rules without a new sample that still have faulty rows."""
    counted = {rule for shard in shards for rule in (*shard.dropped, *shard.mended, *shard.expired)}
    samples: dict[str, tuple[str, ...]] = {}
    for made in pieces.values():
        for piece in made:
            for rule, texts in piece.samples.items():
                samples[rule] = (*samples.get(rule, ()), *texts)[:SAMPLES]
    for rule, texts in (old.samples if old is not None else {}).items():
        if rule in counted:
            samples.setdefault(rule, texts)
    if plan.null_keys:
        samples["key-null"] = plan.null_key_samples[:SAMPLES]
    return samples


def _peaks(old: SectionManifest | None, urls: int, now: datetime) -> dict[str, int]:
    today = now.date()
    first = (today - timedelta(days=PEAK_DAYS - 1)).isoformat()
    peaks = {day: number for day, number in (old.peaks if old is not None else {}).items() if day >= first}
    peaks[today.isoformat()] = max(urls, peaks.get(today.isoformat(), 0))
    return peaks


def _accepted(old: SectionManifest | None, made: SectionManifest, plan: Plan, facts: CommitFacts) -> SectionManifest:
    """Return the section with its decline recorded.

    After a permitted decline, the new number of URLs replaces the peaks: the greatest number of the week would refuse
    every later run. A permitted decline is not recorded as normal, because a permit is for one run.
    """
    if old is None:
        return made
    today = facts.now.date()
    highest = max(old.urls, old.peak(facts.now))
    permits = [Permit.of(text) for text in plan.allow]
    if any(permit.guard == "shrink" and permit.section in (None, made.name) for permit in permits):
        return replace(made, peaks={today.isoformat(): made.urls}) if highest > made.urls else made
    decline = (highest - made.urls) * 1_000 // highest if highest >= SMALLEST else 0
    if made is old or decline < LEAST_DECLINE:
        return made
    first = (today - timedelta(days=DECLINE_DAYS)).isoformat()
    declines = {day: number for day, number in made.declines.items() if day >= first}
    declines[today.isoformat()] = max(decline, declines.get(today.isoformat(), 0))
    return replace(made, declines=declines)


def _in_order(sections: Mapping[str, SectionManifest], facts: CommitFacts) -> dict[str, SectionManifest]:
    """Order the sections as the code does; sections that the code does not name follow."""
    known = [name for name in facts.sections if name in sections]
    return {name: sections[name] for name in (*known, *(n for n in sections if n not in facts.sections))}


def _departed(old: Manifest | None, new: Manifest, facts: CommitFacts) -> Iterator[Departed]:
    """Yield the files of earlier generations that this one does not name."""
    names = {file.name for file in new.files()} | {index.name for index in new.indexes}
    bodies = new.bodies()
    seen: set[str] = set()
    for item in old.departed if old is not None else ():
        if item.key not in names and item.key not in bodies:
            seen.add(item.key)
            yield item
    for name in facts.adopted:
        if name not in names and name not in seen and name != facts.index.name:
            yield Departed(area="public", key=name, generation=new.generation, at=facts.now)
    if old is None:
        return
    shards = {file.name for section in old.sections.values() for file in section.files()}
    public = {file.name: None if file.name in shards else file.etag for file in old.files()}
    public |= {index.name: index.etag for index in old.indexes}
    for name, etag in public.items():
        if name not in names and name not in seen:
            yield Departed(area="public", key=name, generation=new.generation, at=facts.now, etag=etag)
    for body in sorted(old.bodies() - bodies - seen):
        yield Departed(area="state", key=body, generation=new.generation, at=facts.now)
