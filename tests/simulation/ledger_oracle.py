"""The laws of the ledger, checked after every commit, by a record of when each URL was listed first and changed last.

The record says what a part must say: of a URL that the plan's generation listed, what was recorded then; of any other, the
time of the run. A URL whose row's key changed may be in either case, for it moves between ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_sitemaps import ledger as codec
from airflow_sitemaps.pipeline.state.repository import run_directory
from airflow_sitemaps.protocol.reader import read
from airflow_sitemaps.shards import checksum_of
from airflow_sitemaps.shards.codec import decode_plan
from airflow_sitemaps.shards.plan import plan_key
from tests.simulation.date_oracle import Reading, WrongDateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.shards.guards import Guards
    from airflow_sitemaps.shards.manifest import Manifest, Shard
    from airflow_sitemaps.shards.plan import LedgerPlan
    from tests.simulation.date_oracle import DateOracle
    from tests.simulation.oracle import Intention


class BrokenLawError(Exception):
    """A part does not say what it must."""


@dataclass(frozen=True, slots=True)
class Line:
    """What is known of one URL; ``part`` is the key of its part, and None stands for no part. The body has the lastmod.

    Of a lost part only the key is known: a late request may bring it back.
    """

    part: str | None = None
    kind: str = ""
    fingerprint: int | None = None
    first_listed: Any = None
    changed_at: Any = None
    lastmod: str | None = None
    is_observed: bool = False


Lines = dict[tuple[str, str], Line]
"""The lines of a generation by section and URL."""


@dataclass(slots=True)
class LedgerOracle:
    """Follows the commits of a store.

    Attributes:
        objects: The objects of the state area.
        moved: URLs of rows whose key changed.
        intentions: What each run reads, by its name.
        dates: Knows which dates runs may give. None: dates are those of a column.
        lost: Keys of parts that were removed or damaged.
        judged: Number of lines checked.
    """

    objects: Any
    moved: set[str]
    intentions: Mapping[str, Intention] = field(default_factory=dict)
    dates: DateOracle | None = None
    lost: set[str] = field(default_factory=set)
    judged: int = 0
    _lines: dict[int, Lines] = field(default_factory=dict)

    def state_lost(self, public: Manifest | None) -> None:
        """Keep only the dates of a generation's public files after the state area was lost."""
        lines = self._lines.get(public.generation, {}) if public is not None else {}
        self._lines = {0: {place: Line(lastmod=line.lastmod, is_observed=True) for place, line in lines.items()}}

    def committed(self, new: Manifest, restored: Manifest | None, guards: Guards | None = None) -> None:
        """Check a new generation. ``restored`` is the generation that a rollback publishes again, ``guards`` judged the commit.

        Raises:
            BrokenLawError: A law is broken.
        """
        if restored is not None and new.parts() != restored.parts():
            raise BrokenLawError("a rollback does not bring the ledger of its generation back")
        stored = self.objects.get(plan_key(new.run))
        plan = decode_plan(stored.body) if stored is not None and restored is None else None
        base = self._lines.get(plan.base_generation, {}) if plan is not None else {}
        lines: Lines = {}
        for name, section in new.sections.items():
            planned = plan.sections.get(name) if plan is not None else None
            ledger = planned.ledger if planned is not None else None
            known: dict[str, Line] = {}
            written: dict[str, Line] = {}
            for shard in section.shards:
                own = self._shard(shard, new.run if planned is not None else None, ledger)
                known |= own
                if shard.part is not None and shard.part.body.startswith(run_directory(new.run)):
                    written |= own
            lines |= {(name, loc): line for loc, line in known.items()}
            if ledger is not None and plan is not None:
                before = {loc: line for (own, loc), line in base.items() if own == name}
                self._written(written, before, ledger)
                self._dated(new.run, written, before, ledger)
                if guards is not None and not any(permit.startswith("redated") for permit in plan.allow):
                    self._guarded(written, known, before, ledger, guards)
        self._lines[new.generation] = lines

    def _shard(self, shard: Shard, run: str | None, ledger: LedgerPlan | None) -> dict[str, Line]:
        """Return the lines of a shard, after a check that its part lists its URLs with their lastmods (law 1).

        ``run`` is None for a section that the run did not plan. An answer may have published the run's own files before.
        """
        if shard.file is None:
            if shard.part is not None:
                raise BrokenLawError("a range without a file has a part")
            return {}
        is_own = run is not None and shard.file.body.startswith(run_directory(run))
        if is_own and (shard.part is None) != (ledger is None):
            raise BrokenLawError(
                f"{shard.file.body} was written by a run with ledger={ledger}, its part is {shard.part}"
            )
        body = self.objects.get(shard.file.body)
        entries = [(entry.loc, entry.lastmod) for entry in read(body.body).entries]
        if shard.part is None or shard.part.body in self.lost:
            lost = None if shard.part is None else shard.part.body
            is_observed = shard.part is not None and shard.part.observed
            return {loc: Line(part=lost, lastmod=lastmod, is_observed=is_observed) for loc, lastmod in entries}
        stored = self.objects.get(shard.part.body)
        if stored is None or checksum_of(stored.body) != shard.part.checksum:
            raise BrokenLawError(f"the part {shard.part} of {shard.file.name} is not there, or is another")
        rows = codec.decode(stored.body)
        listed = [(row["loc"], row["lastmod"]) for row in rows.to_pylist()]
        if listed != entries:
            raise BrokenLawError(f"{shard.file.name} lists {entries}, and its part {listed}")
        kind, key = codec.kind_of(rows), shard.part.body
        return {
            row["loc"]: Line(
                key,
                kind,
                row["fingerprint"],
                row["first_listed"],
                row["changed_at"],
                row["lastmod"],
                shard.part.observed,
            )
            for row in rows.to_pylist()
        }

    def _written(self, lines: Mapping[str, Line], base: Mapping[str, Line], ledger: LedgerPlan) -> None:
        for loc, line in lines.items():
            before = base.get(loc)
            self.judged += 1
            if loc in self.moved or self._is_lost(line, before):
                continue
            if before is None:
                wanted: tuple[Any, Any] = (ledger.at, None)
            else:
                known = before.fingerprint is not None and before.kind == line.kind
                changed = known and before.fingerprint != line.fingerprint
                wanted = (before.first_listed, ledger.at if changed else before.changed_at)
            if (line.first_listed, line.changed_at) != wanted:
                raise BrokenLawError(f"{loc}: {line}; before: {before}; wanted: {wanted}")

    def _is_lost(self, line: Line, before: Line | None) -> bool:
        return line.part is None or line.part in self.lost or (before is not None and before.part in self.lost)

    def _dated(self, run: str, lines: Mapping[str, Line], base: Mapping[str, Line], ledger: LedgerPlan) -> None:
        """Check the dates of URLs that a run wrote. A lost part keeps them, also if it is lost after the run read it."""
        if self.dates is None or ledger.dates is None:
            return
        intention, is_first = self.intentions[run], ledger.dates.since is None
        if is_first and any(line.is_observed for line in base.values()):
            raise BrokenLawError(f"observed dates begin again, in {run}")
        reading = Reading(intention.code.observed, intention.started, ledger.at, ledger.dates, is_first)
        for loc, line in lines.items():
            before = base.get(loc)
            is_kept = before is not None and before.part in self.lost and before.lastmod == line.lastmod
            if line.part is None or line.part in self.lost or loc in self.moved or is_kept:
                continue
            try:
                self.dates.check(loc, line, before, reading)
            except WrongDateError as error:
                raise BrokenLawError(str(error)) from error

    def _guarded(
        self,
        lines: Mapping[str, Line],
        known: Mapping[str, Line],
        base: Mapping[str, Line],
        ledger: LedgerPlan,
        guards: Guards,
    ) -> None:
        """Check that a commit moves no more dates than the guard ``redated`` lets it move."""
        doubtful = any(loc in self.moved or self._is_lost(line, base.get(loc)) for loc, line in lines.items())
        if ledger.dates is None or ledger.dates.keep or doubtful:
            return
        pairs = [(base[loc], line) for loc, line in lines.items() if loc in base and base[loc].kind == line.kind]
        changed = sum(before.fingerprint != line.fingerprint for before, line in pairs)
        compared = len(pairs) + sum(line.is_observed for loc, line in known.items() if loc not in lines)
        if compared >= guards.min_rows and changed > compared * guards.max_redated:
            raise BrokenLawError(f"{changed} of {compared} dates moved, and nothing permitted it")

    def equal(self, here: Manifest, there: Manifest, elsewhere: Any) -> None:
        """Check that each part records the fingerprints that a rebuild elsewhere records.

        Raises:
            BrokenLawError: A fingerprint differs.
        """
        mine, rebuilt = self._prints(here, self.objects), self._prints(there, elsewhere)
        wrong = [loc for loc in mine if loc in rebuilt and mine[loc] != rebuilt[loc]]
        if wrong:
            raise BrokenLawError(f"{wrong[:3]}: recorded {mine[wrong[0]]}, a full read records {rebuilt[wrong[0]]}")

    def _prints(self, manifest: Manifest, objects: Any) -> dict[str, tuple[str, int]]:
        found = {}
        for key in manifest.parts().keys() - self.lost:
            rows = codec.decode(objects[key].body)
            pairs = zip(rows["loc"].to_pylist(), rows["fingerprint"].to_pylist(), strict=True)
            found.update({loc: (codec.kind_of(rows), fingerprint) for loc, fingerprint in pairs})
        return found
