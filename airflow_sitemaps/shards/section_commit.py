"""The next state of one section: its plan and staged shards, on its last state. File names are allocated here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.errors import ConfigurationError, IncompleteError, StoreContentError
from airflow_sitemaps.protocol.lastmod import LastmodTrust
from airflow_sitemaps.shards import Member
from airflow_sitemaps.shards.guards import Permit
from airflow_sitemaps.shards.guards.judgement import day_of, least_of, recent_days, size_of
from airflow_sitemaps.shards.layout import Format, fits, shard_name
from airflow_sitemaps.shards.manifest import IndexRecord, PublicFile, SectionManifest, Shard, restore, succeed
from airflow_sitemaps.shards.plan import Action, Plan, RangeAction, SectionPlan
from airflow_sitemaps.shards.ranges import Digest, is_partition

if TYPE_CHECKING:
    from airflow_sitemaps.shards.codec import StagedShard

SAMPLES: Final = 5
"""Maximum number of faulty rows kept per rule."""

REQUESTS: Final = 20
"""Maximum number of requests of which a section records that their permits are used."""


def next_section(
    old: SectionManifest | None,
    plan: SectionPlan,
    staged: Mapping[int, tuple[StagedShard, ...]],
    facts: CommitFacts,
    generation: int,
    serial: int,
) -> SectionManifest:
    """Compute the state of a section after its plan, or return ``old`` if nothing changed.

    ``staged`` has the shards of each written range, by the range's position in the plan. Raises IncompleteError if a range
    has none, StoreContentError if the planned ranges do not cover every key exactly once, ConfigurationError if the code has
    another folder than at the plan.
    """
    builder = ShardBuilder(old, plan, facts, generation, serial)
    shards = tuple(
        shard for position, action in enumerate(plan.actions) for shard in builder.shards(action, staged.get(position))
    )
    if not is_partition([shard.range for shard in shards]):
        raise StoreContentError(
            f"section {plan.name!r}: the planned ranges do not cover every key exactly once; plan again"
        )
    configured, ledger = facts.sections[plan.name], plan.ledger
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
        permitted_requests=old.permitted_requests if old is not None else (),
        question=old.question if old is not None else None,
        member=configured.member,
        early=plan.early,
        dated_at=max(ledger.at, (old and old.dated_at) or ledger.at)
        if ledger and (ledger.dates or ledger.compared)
        else None,
    )
    # Key kinds that were not recorded before do not count as a change; the next change records them. How far the
    # table was read does not count either (see ``next_manifest``), nor does the time of a run that changed nothing.
    if old is not None and replace(state, key_kinds=old.key_kinds, known=old.known, dated_at=old.dated_at) == old:
        return old
    pieces = [piece for own in staged.values() for piece in own]
    changed = None if plan.ledger is None else sum(piece.changed for piece in pieces)
    trust = LastmodTrust.total(piece.trust for piece in pieces)
    return _with_today(old, replace(state, changed_in=generation), facts.now, changed, trust)


def _with_today(
    old: SectionManifest | None, new: SectionManifest, now: datetime, changed: int | None, trust: LastmodTrust | None
) -> SectionManifest:
    """Return a changed section with its number of URLs recorded, and what its ledger saw in this run."""
    days = recent_days(old, now) if old is not None else {}
    today = now.date().isoformat()
    day = days[today] if today in days else day_of(old or new)
    least = min(filter(None, (day.least, least_of(new))), default=0)
    changed = day.changed if changed is None else (day.changed or 0) + changed
    trust = LastmodTrust.total([trust, day.trust])
    most = max(day.most, size_of(new))
    days[today] = replace(day, most=most, least=least, changed=changed, trust=trust)
    return replace(new, days=days)


def repaired(old: SectionManifest, plan: Plan, facts: CommitFacts, generation: int) -> SectionManifest:
    """Return a section that the run does not plan, with its changed or deleted files to be put again.

    If another run has changed the section since the plan, it stays as it is; the next plan looks at its files again. An
    open question is closed, because an answer could not commit on the repaired section; the next refused run asks again.
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
    if shards == old.shards:
        return old
    question = None if old.question is not None and old.question.is_open(facts.now) else old.question
    return replace(old, shards=shards, changed_in=generation, question=question)


def _samples(
    old: SectionManifest | None,
    plan: SectionPlan,
    staged: Mapping[int, tuple[StagedShard, ...]],
    shards: Sequence[Shard],
) -> dict[str, tuple[str, ...]]:
    """Collect the new samples, and keep earlier ones of rules without a new sample that still have faulty rows."""
    counted = {rule for shard in shards for rule in (*shard.dropped, *shard.fixed, *shard.expired)}
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
    """Return a section after the run's permits, which it records: later runs do not count a permitted change."""
    guards = {permit.guard for permit in map(Permit.of, plan.allow) if permit.section in (None, new.name)}
    if new is old:
        guards -= {"growth", "churn"}  # nothing was added or replaced
    if not guards:
        return new
    after = after_permits(new, guards, facts.now)
    if after is old or not plan.asked_by:
        return after
    earlier = [request for request in after.permitted_requests if request != plan.asked_by]
    return replace(after, permitted_requests=(*earlier, plan.asked_by)[-REQUESTS:])


def after_permits(section: SectionManifest, guards: Collection[str], now: datetime) -> SectionManifest:
    """Return a section after a change that guards permitted: later runs are compared with what it lists now."""
    days, new = recent_days(section, now), day_of(section)
    if {"shrink", "total"} & set(guards) or ("empty" in guards and not section.urls):
        days = {date: replace(day, most=min(day.most, new.most)) for date, day in days.items()}
    if "growth" in guards:
        days = {date: replace(day, least=max(day.least, new.least)) for date, day in days.items()}
    if "churn" in guards:
        days = {date: replace(day, urls=new.urls, sample=new.sample) for date, day in days.items()}
    return section if days == recent_days(section, now) else replace(section, days=days)


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionFacts:
    """What determines a section's file names and addresses; ``base_url``, of its folder, ends in ``/``."""

    path: str
    base_url: str
    format: Format
    member: Member | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """The input of the reducer in addition to manifest, plan and receipts.

    The sections are in the order of the index. ``index_etags`` are those of the objects that now have the names of drifted or
    unknown index files, and in a rollback of drifted shards; None for a name without an object.
    """

    owner: str
    sections: Mapping[str, SectionFacts]
    base_url: str
    index: IndexRecord
    history: int
    now: datetime
    write_id: str
    index_etags: Mapping[str, str | None] = field(default_factory=dict)
    adopted: tuple[str, ...] = ()
    state_id: str = ""


@dataclass(slots=True)
class ShardBuilder:
    """Builder of a section's shards from actions. It allocates serials.

    A new range with the entries of a file that no action carries (``_leaving``, by the hash of their content) takes over
    the file, unless another program changed or deleted it.
    """

    old: SectionManifest | None
    plan: SectionPlan
    facts: CommitFacts
    generation: int
    serial: int
    _leaving: dict[str, PublicFile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        stay = {*(action.carries for action in self.plan.actions), *self.plan.drifted}
        configured = self.facts.sections[self.plan.name]
        for position, shard in enumerate(self.old.shards if self.old is not None else ()):
            file = shard.file
            if file is None or position in stay:
                continue
            if fits(file.name, configured.path, self.plan.name, configured.format):
                self._leaving[file.xml_hash] = file

    def shards(self, action: RangeAction, pieces: tuple[StagedShard, ...] | None) -> Iterator[Shard]:
        """Yield the shards of one action."""
        carried = self._carried(action)
        if action.kind is Action.EMPTY:
            yield Shard(range=action.range)
        elif action.kind in (Action.KEEP, Action.REPAIR, Action.WAIT):
            assert carried is not None
            file, digest = carried.file, carried.digest
            if action.kind is Action.REPAIR and file is not None:
                file = restore(file, action.found_etag, self.facts.now)
            if action.kind is not Action.WAIT:
                digest = _with_urgent(digest, action.digest)
            since = action.dirty_since and min(action.dirty_since, self.facts.now)  # a clock may be fast
            yield replace(carried, range=action.range, file=file, digest=digest, dirty_since=since)
        else:
            if not pieces:
                raise IncompleteError(
                    f"section {self.plan.name!r}, {action.range}: the receipt is missing; clear the task of its batch to write it again"
                )
            alone = len(pieces) == 1
            for number, piece in enumerate(pieces):
                keeps_name = number == 0 and (alone or piece.same)
                yield self._written(piece, action, carried, keeps_name=keeps_name)

    def _carried(self, action: RangeAction) -> Shard | None:
        if action.carries is None or self.old is None:
            return None
        if action.carries >= len(self.old.shards):
            raise StoreContentError(
                f"section {self.plan.name!r}: the plan keeps shard {action.carries}, but the manifest has only "
                f"{len(self.old.shards)} shards; plan again"
            )
        shard = self.old.shards[action.carries]
        folder = shard.file and shard.file.name[: shard.file.name.rfind("/") + 1]
        if folder is not None and folder != self.facts.sections[self.plan.name].path:
            raise ConfigurationError(
                f"section {self.plan.name!r} has another path= than when this run was planned: the DAG was changed between two tasks "
                "of the run. Nothing of it was published and nothing is lost: run the DAG again."
            )
        return shard

    def _written(self, piece: StagedShard, action: RangeAction, carried: Shard | None, *, keeps_name: bool) -> Shard:
        file = self._file(piece, action, carried.file if carried is not None and keeps_name else None)
        unchanged = carried is not None and file == carried.file
        written_in = carried.written_in if carried is not None and unchanged else self.generation
        facts = piece.facts() | {"digest": _with_urgent(piece.digest, action.digest)}
        return Shard(range=piece.range, file=file, written_in=written_in, **facts)

    def _file(self, piece: StagedShard, action: RangeAction, file: PublicFile | None) -> PublicFile | None:
        if piece.same and file is not None:
            return restore(file, action.found_etag, self.facts.now) if action.drifted else file
        if piece.body is None:
            return None
        if file is None and piece.xml_hash in self._leaving:
            return self._leaving.pop(piece.xml_hash)
        ledger = self.plan.ledger  # whose time is the database's, and may be later
        fresh = PublicFile(
            name=file.name if file is not None else self._allocate(),
            body=piece.body,
            xml_hash=piece.xml_hash,
            xml_byte_size=piece.xml_byte_size,
            byte_size=piece.byte_size,
            modified_at=max(self.facts.now, ledger.at) if ledger is not None and ledger.dates else self.facts.now,
        )
        if file is None:
            return fresh
        replaces = action.found_etag if action.drifted else file.etag
        return succeed(file, replace(fresh, replaces=replaces))

    def _allocate(self) -> str:
        configured = self.facts.sections[self.plan.name]
        while True:
            name = shard_name(configured.path, self.plan.name, self.serial, configured.format)
            self.serial += 1
            if name not in self.plan.taken:
                return name


def _with_urgent(digest: Digest, surveyed: Digest) -> Digest:
    """Return the digest of a file with the urgent checksum of a survey of the same rows."""
    same = surveyed.urgent is not None and digest.same_rows(surveyed)
    return replace(digest, urgent=surveyed.urgent) if same else digest
