"""What the sitemap should list, worked out from the code and the tables alone, never from the manifest.

For each section the oracle remembers the run that last won, the code of its DAG file, and the time in which it read. A
row that did not change in that time must be listed; a URL that no row had in that time must not. Only the order of
commits is taken from the product: which run, and whether it is a rollback.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from airflow_sitemaps.testing.simulation.dagfile import DagFile
    from airflow_sitemaps.testing.simulation.warehouse import Table

FAULTY_PRIORITIES: Final = (7, 9)
"""Priorities that the tables contain and no rule accepts (sitemaps.org: 0.0 to 1.0)."""


class WrongListingError(Exception):
    """The public area lists something else than the last winning run should have published."""


@dataclass(frozen=True, slots=True)
class Intention:
    """What a run set out to do.

    Attributes:
        code: The DAG file at the time of its plan.
        sections: The sections that it publishes. A section that failed at the plan stays as it was and is not among them.
        started: The turn at which its plan began.
        planned: The turn at which its plan ended. In between it read the manifest.
        whole: Whether it publishes every section, so that it takes out those that the code retires.
    """

    code: DagFile
    sections: tuple[str, ...]
    started: int
    planned: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one section must and may list.

    Attributes:
        must: URLs of valid rows that did not change while the winning run read.
        may: URLs of all rows that existed in that time. None: not checked (a watermark may miss a deletion for some runs).
        won: The turn of the commit.
    """

    must: frozenset[str]
    may: frozenset[str] | None
    won: int


@dataclass(slots=True)
class Oracle:
    """Follows the tables turn by turn, and the commits.

    Attributes:
        tables: The tables, by section.
        expected: What each published section must and may list now. There are alternatives where a guard may have kept
            a section as it was.
        intentions: What each run set out to do, by the name of the run.
        snapshots: The expectations after each generation, for rollbacks.
        commits: The turns at which generations were committed.
    """

    tables: Mapping[str, Table]
    expected: dict[str, tuple[Expectation, ...]] = field(default_factory=dict)
    intentions: dict[str, Intention] = field(default_factory=dict)
    snapshots: dict[int, dict[str, tuple[Expectation, ...]]] = field(default_factory=dict)
    commits: list[int] = field(default_factory=list)
    _since: dict[str, tuple[tuple[Any, ...], int]] = field(default_factory=dict)
    _ended: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)

    def observe(self, turn: int) -> None:
        """Note which rows came, changed and went since the last turn."""
        for name, table in self.tables.items():
            if self._seen.get(name) == table.changes:
                continue
            self._seen[name] = table.changes
            current = {str(row["loc"]): _version(row) for row in table.rows}
            for loc in [loc for loc in self._since if table.owns(loc) and loc not in current]:
                del self._since[loc]
                self._ended[loc] = turn
            for loc, version in current.items():
                if loc not in self._since or self._since[loc][0] != version:
                    self._since[loc] = (version, turn)

    def planned(self, run: str, intention: Intention) -> None:
        """Note what a run set out to do."""
        self.intentions[run] = intention

    def committed(self, turn: int, generation: int, run: str, restored: int | None) -> None:
        """Work out what should be listed once a generation is public.

        Args:
            turn: The turn of the commit.
            generation: The number of the new generation.
            run: The run that committed it.
            restored: The generation that a rollback restores, None for any other run.
        """
        self.commits.append(turn)
        if restored is not None:
            self.expected = dict(self.snapshots[restored])
        else:
            self._won(turn, self.intentions[run])
        self.snapshots[generation] = dict(self.expected)

    def _won(self, turn: int, intention: Intention) -> None:
        if intention.whole:
            for name in self.expected.keys() - set(intention.code.sections):
                won = self.expected[name][0].won
                if won > intention.planned:
                    continue  # the run did not know of it, and leaves it as it is
                if won > intention.started:
                    self.expected[name] = (Expectation(frozenset(), None, won),)  # it may or may not have known
                else:
                    del self.expected[name]
        for name in intention.sections:
            earlier = self.expected.get(name, ()) if intention.code.is_guarded else ()
            self.expected[name] = (self._expectation(name, intention, turn), *earlier)

    def unchanged(self, turn: int, run: str, listed: Collection[str]) -> None:
        """Check a run that found nothing to do, unless another run committed since its plan.

        Raises:
            WrongListingError: There was something to do.
        """
        intention = self.intentions[run]
        if any(commit >= intention.started for commit in self.commits):
            return
        for name in intention.sections:
            self._compare(name, self._expectation(name, intention, turn), listed, "a run that found nothing to do")

    def check(self, listed: Collection[str]) -> None:
        """Compare what crawlers find with what is expected.

        Raises:
            WrongListingError: A URL is missing, or is listed without a reason.
        """
        for name in self.tables:
            if name in self.expected:
                self.expected[name] = self._matching(name, listed)
            elif own := self._own(name, listed):
                raise WrongListingError(f"{name} is listed ({len(own)} URLs), and no run that published it is in force")

    def _matching(self, name: str, listed: Collection[str]) -> tuple[Expectation, ...]:
        """The alternatives that the listing meets. Raises WrongListingError where it meets none."""
        matching, problem = [], None
        for expectation in self.expected[name]:
            try:
                self._compare(name, expectation, listed, "the last winning run")
                matching.append(expectation)
            except WrongListingError as error:
                problem = problem or error
        if problem is not None and not matching:
            raise problem
        return tuple(matching)

    def _own(self, name: str, listed: Collection[str]) -> set[str]:
        return {loc for loc in listed if self.tables[name].owns(loc)}

    def _compare(self, name: str, expectation: Expectation, listed: Collection[str], whose: str) -> None:
        own = self._own(name, listed)
        lost = sorted(expectation.must - own)
        if lost:
            raise WrongListingError(f"{name}: {lost[:3]} were in the table while {whose} read, and are not listed")
        alien = sorted(own - expectation.may) if expectation.may is not None else []
        if alien:
            raise WrongListingError(f"{name}: {alien[:3]} were in no row while {whose} read, and are listed")

    def _expectation(self, name: str, intention: Intention, turn: int) -> Expectation:
        table, code = self.tables[name], intention.code
        if code.detection == "watermark":
            return Expectation(frozenset(), None, turn)
        stable = frozenset(
            loc
            for loc, (version, since) in self._since.items()
            if table.owns(loc) and since <= intention.started and _is_valid(version, code)
        )
        return Expectation(stable, frozenset(self._existed(table, intention.started)), turn)

    def _existed(self, table: Table, start: int) -> Iterator[str]:
        yield from (loc for loc in self._since if table.owns(loc))
        yield from (loc for loc, ended in self._ended.items() if table.owns(loc) and ended >= start)


def _version(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["id"], row["priority"])


def _is_valid(version: tuple[Any, ...], code: DagFile) -> bool:
    key, priority = version
    return key is not None and not (code.drop_faulty and priority in FAULTY_PRIORITIES)
