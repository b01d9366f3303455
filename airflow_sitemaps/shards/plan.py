"""The plan of a run: plain data that pure functions create, a dry run explains, and a run executes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from msgspec import field
from msgspec.structs import replace

from airflow_sitemaps.errors import GuardError, IncompleteError, SitemapError
from airflow_sitemaps.shards import BodyKey, Count, Member, Moment, Number, Record, RelativePath, RunName, SectionName
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.manifest import EarlyRecord, LedgerPart, Shard
from airflow_sitemaps.shards.ranges import EMPTY, Digest, KeyRange, Known
from airflow_sitemaps.shards.url_sample import PrefixCount

DUE: Final = 1_000
"""Age, in runs, of a range that the next run surveys."""


class Action(str, Enum):
    """The action of a run for a key range.

    Attributes:
        KEEP: Keep the file. Its range may widen over keys without rows, or narrow behind its last entry.
        REPAIR: Promote the file again from its private body, because another program changed or deleted it.
        CREATE: Write a file for rows that have none.
        REWRITE: Write the file again under its name, because its rows changed.
        SPLIT: Write several files with new names, because the rows no longer fit into one.
        MERGE: Write one file with a new name for neighbours that became small.
        EMPTY: Have no file, because there are no rows.
        WAIT: Keep the file for now, although its rows changed (``ShardPolicy.rewrite_after``).
    """

    KEEP = "keep"
    REPAIR = "repair"
    CREATE = "create"
    REWRITE = "rewrite"
    SPLIT = "split"
    MERGE = "merge"
    EMPTY = "empty"
    WAIT = "wait"

    @property
    def writes(self) -> bool:
        """Whether the action reads and renders rows."""
        return self in (Action.CREATE, Action.REWRITE, Action.SPLIT, Action.MERGE)


class OldShard(Record, frozen=True, kw_only=True):
    """Where an old shard's entries are kept: its ledger part, if it has one, and its body."""

    body: BodyKey
    part: LedgerPart | None = None


class DatePlan(Record, frozen=True, kw_only=True):
    """How the writers of a section date its entries, or compare their dates with the columns that make the page.

    Attributes:
        since: Time of the section's last published run. Default: None, its dates begin with this run.
        keep: Whether changed URLs keep their dates.
        lost: Number of listed URLs whose dates begin again, because only public files have them, and too many to compare
            with. Counting ends soon after the limit. Default: 0, none.
    """

    since: Moment | None = None
    keep: bool = False
    lost: Count = 0


class LedgerPlan(Record, frozen=True, kw_only=True):
    """What the writers of a section with a ledger need.

    Attributes:
        at: Time of the run.
        kind: Name of the expression of its fingerprints. Fingerprints of different kinds are not compared.
        olds: The old shards that every range continues, if the section is laid out from scratch. Default: none, each range
            has its own.
        adopted: Names of this pipeline's own public files that every range continues, if its state was lost. Default: none.
        dates: How to date the entries. Default: None, their dates are those of a column.
        compared: How to compare the dates of a column with the columns that make the page. Default: None, it is not done.
        finds_left: Whether the run looks for URLs whose rows left the source. It does not if code or layout changed.
    """

    at: Moment
    kind: str
    olds: tuple[OldShard, ...] = ()
    adopted: tuple[RelativePath, ...] = ()
    dates: DatePlan | None = None
    compared: DatePlan | None = None
    finds_left: bool = False


class RangeAction(Record, frozen=True, kw_only=True):
    """One range of the new layout.

    Attributes:
        digest: Digest of its rows at the survey.
        carries: Position, in the base generation, of the shard whose file name the range continues. Unless rows are
            read, it continues the file too. Default: None, no shard.
        reason: Why the action is needed, for people.
        drifted: Whether another program changed the carried file.
        found_etag: Etag of the object that now has the file's name. Default: None, there is no object.
        known_hash: BLAKE3 of the carried file's XML; an equal rendering is not stored again.
        olds: The old shards that the range continues, if rows are read and the section has a ledger or a canary.
        dirty_since: Time of the first run that found the changes, if they wait.
    """

    range: KeyRange
    kind: Action
    digest: Digest = field(default_factory=lambda: EMPTY)
    carries: Count | None = None
    reason: str = ""
    drifted: bool = False
    found_etag: str | None = None
    known_hash: str = ""
    olds: tuple[OldShard, ...] = ()
    dirty_since: Moment | None = None


class SectionPlan(Record, frozen=True, kw_only=True):
    """One section's part of a plan.

    Attributes:
        base: Generation that had last changed the section at the time of planning; 0 if none had.
        digest_kind: Name and version of the expression of its digests.
        actions: One action per range, in key order; the ranges partition the key space.
        gone: Positions of shards whose file the new layout no longer names.
        taken: Public names of this section's pattern that belong to other programs.
        drift: Sentences about files that another program changed.
        drifted: Positions of the shards that have these files.
        key_kinds: Name, kind and collation of each key column, as the source describes them.
        null_keys: Number of rows whose key is NULL.
        known: How far the section's table is read once the plan is published; its ages are those of the actions'
            ranges. Default: None, the next run surveys every range.
        state: State of the table that the run reads, stored or as of a time. Default: "", the present.
        scan: The number of bytes that the survey was estimated to scan. Default: None, the database does not say.
        survey_note: Which ranges were surveyed, and why, if not simply all.
        warnings: Sentences for people about its change log.
        refresh: Whether something other than files changed (digests, ranges, configuration) and must be committed.
        ledger: What its writers need for the ledger. Default: None, the section has no ledger.
        moved: Number of its rows that are in new sections of this run, published before or not. Default: 0.
        early: Changed entries of its ranges that wait, which files of recent entries list. Default: None, there are none.
    """

    name: SectionName
    base: Count
    fingerprint: str
    digest_kind: str
    actions: tuple[RangeAction, ...]
    gone: tuple[Count, ...] = ()
    taken: tuple[RelativePath, ...] = ()
    drift: tuple[str, ...] = ()
    drifted: tuple[Count, ...] = ()
    key_kinds: tuple[str, ...] = ()
    null_keys: Count = 0
    null_key_samples: tuple[str, ...] = ()
    known: Known | None = None
    state: str = ""
    scan: Count | None = None
    survey_note: str = ""
    warnings: tuple[str, ...] = ()
    refresh: bool = False
    ledger: LedgerPlan | None = None
    moved: Count = 0
    early: EarlyRecord | None = None

    def known_of(self, shards: Sequence[Shard]) -> Known | None:
        """Return ``known`` with the ages of the published shards; those written in pieces count as just surveyed.

        If a task read other rows than the survey, its replica may lag behind. Then no version stands for them, and the
        next run surveys their range, because a change log names a change once.
        """
        if self.known is None:
            return None
        due = self._read_otherwise(shards)
        if not self.known.ages and not due:
            return self.known
        ages = dict(zip((action.range.lower for action in self.actions), self.known.ages, strict=False))
        listed = (DUE if at in due else ages.get(shard.range.lower, 0) for at, shard in enumerate(shards))
        return replace(self.known, version="" if due else self.known.version, ages=tuple(listed))

    def _read_otherwise(self, shards: Sequence[Shard]) -> set[int]:
        starts = {action.range.lower: place for place, action in enumerate(self.actions)}
        read = [EMPTY] * len(self.actions)
        places: list[int] = []
        for shard in shards:
            places.append(starts.get(shard.range.lower, places[-1] if places else 0))
            read[places[-1]] += shard.digest
        written = (place for place, action in enumerate(self.actions) if action.kind.writes)
        other = {place for place in written if not read[place].same_rows(self.actions[place].digest)}
        return {at for at, place in enumerate(places) if place in other}

    @property
    def olds_continued_once(self) -> frozenset[BodyKey]:
        """The bodies of the old shards that one range alone continues."""
        bodies = Counter(old.body for action in self.actions for old in action.olds)
        return frozenset(body for body, ranges in bodies.items() if ranges == 1)

    def count(self) -> dict[str, int]:
        """Count the actions by action."""
        return dict(Counter(action.kind.value for action in self.actions))

    @property
    def rows(self) -> int:
        """Number of rows surveyed, without those whose key is NULL."""
        return sum(action.digest.rows for action in self.actions)

    @property
    def changes(self) -> bool:
        """Whether publishing this plan changes anything."""
        acts = any(t.kind.writes or t.kind is Action.REPAIR for t in self.actions)
        return acts or bool(self.gone) or self.refresh


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionFailure:
    """Why a section stays as published: the class name of the error, and what the guards refused, if they did."""

    section: str
    error: str
    message: str
    refusals: tuple[Refusal, ...] = ()

    def __str__(self) -> str:
        return f"section {self.section}: {self.error}: {self.message}"


def failure_of(section: str, error: SitemapError) -> SectionFailure:
    """Describe why a section is not published."""
    return SectionFailure(section=section, error=type(error).__name__, message=str(error))


def failures_of(refusals: Sequence[Refusal]) -> tuple[SectionFailure, ...]:
    """Return one failure for each section that a guard refused."""
    of_section: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        of_section.setdefault(refusal.section, []).append(refusal)
    return tuple(
        SectionFailure(
            section=name, error=GuardError.__name__, message=" ".join(map(str, members)), refusals=tuple(members)
        )
        for name, members in of_section.items()
    )


class Batch(Record, frozen=True, kw_only=True):
    """The work of one write task; the actions are positions in the section's plan, in key order."""

    number: Count
    section: str
    actions: tuple[Count, ...]
    rows: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCheck:
    """The ``effect`` of one rule on the checked rows: ``left out``, ``past its age`` or ``listed``.

    ``setting`` says what to change if that is not wanted.
    """

    rule: str
    verdict: str
    effect: str
    rows: Count
    samples: tuple[str, ...]
    setting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionCheck:
    """The first rows of a section, rendered as a build would render them.

    ``rules`` are those that these rows break, the most frequent first; ``unbroken`` names the others.
    """

    section: str
    rows: Count
    all_rows: Count
    urls: Count
    xml_byte_size: Count
    rules: tuple[RuleCheck, ...]
    unbroken: tuple[str, ...]


class Repair(Record, frozen=True, kw_only=True):
    """A public file, with a whole private body, that another program replaced by ``found_etag`` or deleted (None)."""

    section: SectionName
    name: RelativePath
    base: Count
    found_etag: str | None = None


def plan_key(run: str) -> str:
    """Return the key of a run's plan."""
    return f"plans/{run}.json.gz"


class Plan(Record, frozen=True, kw_only=True):
    """The plan of a run.

    Attributes:
        base_generation: Generation that the plan is based on; 0 before the first commit.
        retired: Names of the sections that the run removes.
        index_drift: Names of index files that another program changed or deleted.
        adopted: Public names of another program's sitemap that this run takes over. They stay for the grace period and
            are then swept.
        extras_due: Whether extra files or indexes change even if no shard does.
        seconds: Duration of planning, in seconds.
        failures: Sections that could not be planned or that a guard refused; the others are published.
        rebases: Whether the run keeps the changes that other runs publish before its commit. Only runs that read more
            than changed rows (``full`` or ``rebuild``) may do so.
        prefixes: Estimated numbers of published URLs by scheme, host and first folder, the greatest first.
        notes: Further sentences for people, such as where the first rows of a dry run lead.
        refused: Plans of the sections that a guard refused, which the run does not carry out.
        checks: What the rules do to the first rows of each section, if a dry run was to check them.
        staged: Whether it is the staged change of a refused section, which is published while its question is open.
        repairs: Files to put again, of whatever section. Those of a planned section are in its actions too; those of
            another section need no source.
        finished: Generation whose promotion the run finished before it planned. Default: None.
        members: The sections that the run makes of ``Section.each``, without those of all other values.
        tied: Groups of sections between which rows move: all of a group are published, or none.
    """

    run: RunName
    created_at: Moment
    base_generation: Count
    sections: Mapping[str, SectionPlan]
    batches: tuple[Batch, ...] = ()
    retired: tuple[str, ...] = ()
    index_drift: tuple[str, ...] = ()
    adopted: tuple[RelativePath, ...] = ()
    extras_due: bool = False
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    seconds: Number = 0.0
    failures: tuple[SectionFailure, ...] = ()
    rebases: bool = False
    prefixes: tuple[PrefixCount, ...] = ()
    notes: tuple[str, ...] = ()
    refused: Mapping[str, SectionPlan] = {}
    checks: tuple[SectionCheck, ...] = ()
    repairs: tuple[Repair, ...] = ()
    origin: str = ""
    asked_by: str = ""
    staged: bool = False
    finished: Count | None = None
    members: Mapping[SectionName, Member] = {}
    tied: tuple[tuple[SectionName, ...], ...] = ()

    @property
    def key(self) -> str:
        """Where the plan is stored, in the state area."""
        return plan_key(self.run)

    def without(self, names: Collection[str]) -> Plan:
        """Return the plan without some sections, which stay as published. Batches keep their numbers.

        No section is removed if one of them was never published: it may replace a retired one under another name. A section
        that is tied to one of them is left out too, as a failure of its own.
        """
        others = [
            SectionFailure(
                section=name,
                error=IncompleteError.__name__,
                message=f"not published: rows move between it and section {', '.join(causes)}, which is not published",
            )
            for group in self.tied
            if (causes := sorted({*names} & {*group} & {*self.sections}))
            for name in group
            if name in self.sections and name not in names
        ]
        names = {*names, *(each.section for each in others)}
        sections = {name: section for name, section in self.sections.items() if name not in names}
        batches = tuple(batch for batch in self.batches if batch.section not in names)
        retired = tuple(name for name in self.retired if name not in names)
        new = [name for name, section in self.sections.items() if name in names and not section.base]
        failures = (*self.failures, *others)
        plan = replace(self, sections=sections, batches=batches, retired=retired, failures=failures)
        return plan.without_removals(new)

    def without_removals(self, new: Sequence[str]) -> Plan:
        """Return the plan without removals of retired sections, with a warning for each, if a new section is omitted.

        ``new`` are the omitted sections that were never published.
        """
        if not new:
            return self
        stays = (
            f"section {name!r} is retired, but stays as published: section {new[0]!r}, which may replace it, is not published"
            for name in self.retired
        )
        return replace(self, retired=(), warnings=(*self.warnings, *stays))

    def fails_all(self, policy: str) -> bool:
        """Return whether a section that fails stops the others: by the sitemap's ``on_section_failure``, or in an adoption.

        After an adoption without a state, the index lists only what the run writes, so a failed section would leave it.
        """
        return policy == "fail_all" or bool(self.adopted and not self.base_generation)

    @property
    def changes(self) -> bool:
        """Whether there is anything to publish."""
        return bool(self.retired or self.index_drift or self.extras_due or self.repairs_elsewhere) or any(
            s.changes for s in self.sections.values()
        )

    @property
    def repairs_elsewhere(self) -> tuple[Repair, ...]:
        """The files to put again of sections that the run neither plans nor removes."""
        return tuple(r for r in self.repairs if r.section not in self.sections and r.section not in self.retired)
