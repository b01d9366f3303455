"""The commit as a reducer: the last manifest, a plan and its receipts to the next manifest. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import ConflictError, IncompleteError, RefusedError, StoreContentError
from airflow_sitemaps.shards.index import IndexSettings, next_indexes
from airflow_sitemaps.shards.key import is_partition
from airflow_sitemaps.shards.manifest import (
    PAST_CONTENTS,
    PEAK_DAYS,
    Departed,
    GenerationNote,
    Manifest,
    PublicFile,
    SectionState,
    Shard,
)
from airflow_sitemaps.shards.naming import Format, fits, shard_name
from airflow_sitemaps.shards.plan import Action, Plan, SectionPlan, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_sitemaps.shards.receipt import Piece, Receipt

SAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionFacts:
    """What of a section's configuration stands in its names and addresses."""

    path: str
    base_url: str
    format: Format


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """What the reducer needs beside manifest, plan and receipts.

    ``index_etags``: of what lies now at the names of drifted or unknown index files (None: nothing).
    """

    owner: str
    sections: Mapping[str, SectionFacts]
    index: IndexSettings
    history: int
    now: datetime
    write_id: str
    index_etags: Mapping[str, str | None] = field(default_factory=dict)
    adopted: tuple[str, ...] = ()


def next_manifest(old: Manifest | None, plan: Plan, receipts: Sequence[Receipt], facts: CommitFacts) -> Manifest:
    """The manifest that publishing a plan leads to, without its indexes (see ``complete``).

    Raises:
        ConflictError: a section of the plan was changed by another run since.
        IncompleteError: a batch has no receipt.
    """
    check_current(old, plan)
    pieces = _gather(plan, receipts)
    generation = (old.generation if old is not None else 0) + 1
    sections = dict(old.sections) if old is not None else {}
    for name in plan.retired:
        sections.pop(name, None)
    for name, section_plan in plan.sections.items():
        made = _next_section(
            sections.get(name), section_plan, pieces.get(name, {}), facts, generation, first_serial(old, name)
        )
        state = _accepted(made, plan, facts)
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
    )


def complete(old: Manifest | None, manifest: Manifest, facts: CommitFacts, *, action: str) -> Manifest:
    """A manifest with its indexes, what departs with it, and its line of the history.

    Raises:
        RefusedError: no URL at all would be left.
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
    )
    earlier = old.history if old is not None else ()
    return replace(
        manifest,
        history=(*earlier, note)[-max(1, facts.history) :],
        departed=tuple(_departed(old, manifest, facts)),
        serials=_serials(old, manifest),
        swept_at=old.swept_at if old is not None else manifest.committed_at,
    )


def first_serial(manifest: Manifest | None, section: str) -> int:
    """The next serial of a section, whether it is there now, was taken out, or never was."""
    if manifest is None:
        return 1
    state = manifest.sections.get(section)
    return state.next_serial if state is not None else manifest.serials.get(section, 1)


def _serials(old: Manifest | None, new: Manifest) -> dict[str, int]:
    """The next serials of sections that are not there any more."""
    if old is None:
        return {}
    known = {**old.serials, **{name: state.next_serial for name, state in old.sections.items()}}
    return {name: serial for name, serial in known.items() if name not in new.sections}


def check_current(old: Manifest | None, plan: Plan) -> None:
    """Raise ConflictError when another run changed a section of the plan since it was made."""
    for name, section_plan in plan.sections.items():
        state = old.sections.get(name) if old is not None else None
        changed_in = state.changed_in if state is not None else 0
        if changed_in != section_plan.base:
            winner = old.run if old is not None else "nobody"
            raise ConflictError(
                f"section {name!r} was changed by generation {changed_in} since this run planned on generation "
                f"{section_plan.base}; the last commit is run {winner}'s. Nothing of this run was published and "
                "nothing is lost: run the DAG again, it will plan anew.",
                winner=winner,
            )


def _gather(plan: Plan, receipts: Sequence[Receipt]) -> dict[str, dict[int, tuple[Piece, ...]]]:
    """Section → position of the target → its pieces; every batch exactly once."""
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
    pieces: dict[str, dict[int, tuple[Piece, ...]]] = {}
    for batch in plan.batches:
        pieces.setdefault(batch.section, {}).update(by_batch[batch.number].pieces)
    return pieces


def _next_section(
    old: SectionState | None,
    plan: SectionPlan,
    pieces: Mapping[int, tuple[Piece, ...]],
    facts: CommitFacts,
    generation: int,
    serial: int,
) -> SectionState:
    maker = _Maker(old, plan, facts, generation, serial)
    shards = tuple(
        shard for position, target in enumerate(plan.targets) for shard in maker.shards(target, pieces.get(position))
    )
    if not is_partition([shard.range for shard in shards]):
        raise StoreContentError(f"section {plan.name!r}: the planned ranges do not cover every key once; plan again")
    known = facts.sections[plan.name]
    state = SectionState(
        name=plan.name,
        fingerprint=plan.fingerprint,
        digest_kind=plan.digest_kind,
        changed_in=old.changed_in if old is not None else 0,
        next_serial=maker.serial,
        shards=shards,
        base_url=known.base_url,
        path=known.path,
        null_keys=plan.null_keys,
        samples=_samples(old, plan, pieces, shards),
        peaks=old.peaks if old is not None else {},
    )
    if old is not None and state == old:
        return old
    return replace(state, changed_in=generation, peaks=_peaks(old, state.urls, facts.now))


@dataclass(slots=True)
class _Maker:
    """Makes a section's shards from targets, and allocates serials."""

    old: SectionState | None
    plan: SectionPlan
    facts: CommitFacts
    generation: int
    serial: int
    _leaving: dict[str, PublicFile] = field(default_factory=dict)
    """Files that no target carries, by content: a new range that holds just the same entries takes one over."""

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

    def shards(self, target: Target, pieces: tuple[Piece, ...] | None) -> Iterator[Shard]:
        """The shards of one target."""
        carried = self._carried(target)
        if target.action is Action.EMPTY:
            yield Shard(range=target.range)
        elif target.action in (Action.KEEP, Action.REPAIR):
            assert carried is not None
            file = carried.file
            if target.action is Action.REPAIR and file is not None:
                file = replace(file, etag=None, replaces=target.found_etag, modified_at=self.facts.now)
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

    def _carried(self, target: Target) -> Shard | None:
        if target.carries is None or self.old is None:
            return None
        if target.carries >= len(self.old.shards):
            raise StoreContentError(
                f"section {self.plan.name!r}: the plan carries on a shard that is not there; plan again"
            )
        return self.old.shards[target.carries]

    def _written(self, piece: Piece, target: Target, file: PublicFile | None, carried: Shard | None) -> Shard:
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
            mended=piece.mended,
            written_in=carried.written_in if carried is not None and untouched else self.generation,
        )

    def _file(self, piece: Piece, target: Target, file: PublicFile | None) -> PublicFile | None:
        if piece.same and file is not None:
            if target.drifted:
                return replace(file, etag=None, replaces=target.found_etag, modified_at=self.facts.now)
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
    """``after`` under the name of ``before``, in a variant that this name never had with this content."""
    past = (*before.past, f"{before.xml_sha256[:16]}:{before.variant}")[-PAST_CONTENTS:]
    seen = [int(entry.partition(":")[2]) for entry in past if entry.startswith(after.xml_sha256[:16] + ":")]
    return replace(after, past=past, variant=max(seen) + 1 if seen else 0)


def _samples(
    old: SectionState | None,
    plan: SectionPlan,
    pieces: Mapping[int, tuple[Piece, ...]],
    shards: Sequence[Shard],
) -> dict[str, tuple[str, ...]]:
    """New samples first, earlier ones for rules that still count something."""
    counted = {rule for shard in shards for rule in (*shard.dropped, *shard.mended)}
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


def _peaks(old: SectionState | None, urls: int, now: datetime) -> dict[str, int]:
    today = now.date()
    first = (today - timedelta(days=PEAK_DAYS - 1)).isoformat()
    peaks = {day: number for day, number in (old.peaks if old is not None else {}).items() if day >= first}
    peaks[today.isoformat()] = max(urls, peaks.get(today.isoformat(), 0))
    return peaks


def _accepted(made: SectionState, plan: Plan, facts: CommitFacts) -> SectionState:
    """An allowed shrinking is the new measure: else the greatest of the week would refuse every run after it."""
    allowed = {"shrink", f"shrink:{made.name}"} & set(plan.allow)
    if not allowed or max(made.peaks.values(), default=0) <= made.urls:
        return made
    return replace(made, peaks={facts.now.date().isoformat(): made.urls})


def _in_order(sections: Mapping[str, SectionState], facts: CommitFacts) -> dict[str, SectionState]:
    """Sections in the order of the code, then those this code does not name."""
    known = [name for name in facts.sections if name in sections]
    return {name: sections[name] for name in (*known, *(n for n in sections if n not in facts.sections))}


def _departed(old: Manifest | None, new: Manifest, facts: CommitFacts) -> Iterator[Departed]:
    """What earlier generations left behind and this one does not name."""
    names = {file.name for file in new.files()} | {index.name for index in new.indexes}
    bodies = new.bodies()
    seen: set[str] = set()
    for item in old.departed if old is not None else ():
        if item.key not in names and item.key not in bodies:
            seen.add(item.key)
            yield item
    for name in facts.adopted:
        if name not in names and name not in seen:
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
