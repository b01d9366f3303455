"""The laws of the ledger, checked after every commit, by a record of when each URL was listed first and changed last.

The record says what a part must say: of a URL that the plan's generation listed, what was recorded then; of any other, the
time of the run. A URL whose row's key changed may be in either case, for it moves between ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.ledger import part as codec
from airflow_sitemaps.pipeline.state.repository import plan_key, run_directory
from airflow_sitemaps.protocol.reader import read
from airflow_sitemaps.shards.codec import decode_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.shards.manifest import Manifest, Shard
    from airflow_sitemaps.shards.plan import LedgerPlan


class BrokenLawError(Exception):
    """A part does not say what it must."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a part says of one URL; ``part`` is its key, and None stands for no part."""

    part: str | None = None
    kind: str = ""
    fingerprint: int | None = None
    first_listed: Any = None
    changed_at: Any = None


Lines = dict[tuple[str, str], Line]
"""The lines of a generation by section and URL."""


@dataclass(slots=True)
class LedgerOracle:
    """Follows the commits of a store.

    Attributes:
        objects: The objects of the private area.
        moved: URLs of rows whose key changed.
        lost: Keys of parts that were removed or damaged.
        judged: Number of lines checked.
    """

    objects: Any
    moved: set[str]
    lost: set[str] = field(default_factory=set)
    judged: int = 0
    _lines: dict[int, Lines] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget everything after the state area was lost."""
        self._lines.clear()

    def committed(self, new: Manifest, restored: Manifest | None) -> None:
        """Check a new generation. ``restored`` is the generation that a rollback publishes again.

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
            for shard in section.shards:
                own = self._shard(shard, new.run, ledger)
                if shard.part is not None and shard.part.body.startswith(run_directory(new.run)) and ledger is not None:
                    self._written(name, own, base, ledger)
                lines |= {(name, loc): line for loc, line in own.items()}
        self._lines[new.generation] = lines

    def _shard(self, shard: Shard, run: str, ledger: LedgerPlan | None) -> dict[str, Line]:
        """Return the lines of a shard, after a check that its part lists its URLs with their lastmods (law 1)."""
        if shard.file is None:
            if shard.part is not None:
                raise BrokenLawError("a range without a file has a part")
            return {}
        if shard.file.body.startswith(run_directory(run)) and (shard.part is None) != (ledger is None):
            raise BrokenLawError(
                f"{shard.file.body} was written by a run with ledger={ledger}, its part is {shard.part}"
            )
        body = self.objects.get(shard.file.body)
        entries = [(entry.loc, entry.lastmod) for entry in read(body.body).entries]
        if shard.part is None or shard.part.body in self.lost:
            return {loc: Line() for loc, _ in entries}
        stored = self.objects.get(shard.part.body)
        if stored is None or codec.checksum_of(stored.body) != shard.part.checksum:
            raise BrokenLawError(f"the part {shard.part} of {shard.file.name} is not there, or is another")
        rows = codec.decode(stored.body)
        listed = [(row["loc"], row["lastmod"]) for row in rows.to_pylist()]
        if listed != entries:
            raise BrokenLawError(f"{shard.file.name} lists {entries}, and its part {listed}")
        kind, key = codec.kind_of(rows), shard.part.body
        return {
            row["loc"]: Line(key, kind, row["fingerprint"], row["first_listed"], row["changed_at"])
            for row in rows.to_pylist()
        }

    def _written(self, section: str, lines: Mapping[str, Line], base: Lines, ledger: LedgerPlan) -> None:
        for loc, line in lines.items():
            before = base.get((section, loc))
            self.judged += 1
            is_lost = line.part is None or (before is not None and before.part in self.lost)
            if loc in self.moved or is_lost:
                continue
            if before is None:
                wanted: tuple[Any, Any] = (ledger.at, None)
            else:
                known = before.fingerprint is not None and before.kind == line.kind
                changed = known and before.fingerprint != line.fingerprint
                wanted = (before.first_listed, ledger.at if changed else before.changed_at)
            if (line.first_listed, line.changed_at) != wanted:
                raise BrokenLawError(f"{loc}: {line}; before: {before}; wanted: {wanted}")

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
