"""The URLs that the sitemap must list, computed from the code and the tables, never from the manifest.

For each section the oracle records the last run that published it, the DAG file of that run, and the time in which it
read. A row that did not change in that time must be listed. A URL that no row had in that time must not be listed. The
oracle takes only the order of commits from the pipeline: the run, and whether it is a rollback.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.protocol.extensions.languages import NEWS_WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from tests.simulation.dagfile import DagFile
    from tests.simulation.warehouse import Table

MARGIN: Final = timedelta(hours=6)
"""Longer than clocks differ or are set back: so near to its end an article may be listed or not."""

FAULTY_PRIORITIES: Final = (7, 9)
"""Priorities in the tables that no rule accepts (sitemaps.org: 0.0 to 1.0)."""


class WrongListingError(Exception):
    """The listed URLs are not those that the last publishing run should have listed."""


@dataclass(frozen=True, slots=True)
class Intention:
    """The intended changes of a run.

    Attributes:
        code: The DAG file at the time of its plan.
        sections: The sections that it publishes. A section that failed at the plan is not among them and stays unchanged.
        started: Turn at which its plan began.
        planned: Turn at which its plan ended. In between it read the manifest.
        whole: Whether the run publishes every section, and therefore removes retired sections.
        rebases: Whether the run keeps files that other runs publish while it works.
        moment: The accurate time at which its plan began.
        base: The generation that its plan knew. An outdated read gives it an older one than the newest.
    """

    code: DagFile
    sections: tuple[str, ...]
    started: int
    planned: int
    whole: bool
    rebases: bool = False
    moment: datetime | None = None
    base: int = 0


@dataclass(frozen=True, slots=True)
class Expectation:
    """The URLs that one section must or may list.

    Attributes:
        must: URLs of valid rows that did not change while the publishing run read.
        may: URLs of all rows that existed in that time. None: not checked, because a watermark may miss a deletion for
            some runs.
        won: Turn of the commit.
    """

    must: frozenset[str]
    may: frozenset[str] | None
    won: int


@dataclass(slots=True)
class Oracle:
    """Follows the tables turn by turn, and the commits.

    Attributes:
        tables: The tables by section.
        now: Returns the accurate time.
        expected: The expectations for each published section. There are alternatives if a guard may have kept the section
            unchanged.
        intentions: The intention of each run, by its name.
        whole: The first intention of each run that could not write every batch, by its name.
        snapshots: The expectations after each generation, for rollbacks.
        commits: Turns at which generations were committed, their numbers, and the intentions of their runs (None: a
            rollback).
    """

    tables: Mapping[str, Table]
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    expected: dict[str, tuple[Expectation, ...]] = field(default_factory=dict)
    intentions: dict[str, Intention] = field(default_factory=dict)
    whole: dict[str, Intention] = field(default_factory=dict)
    snapshots: dict[int, dict[str, tuple[Expectation, ...]]] = field(default_factory=dict)
    commits: list[tuple[int, int, Intention | None]] = field(default_factory=list)
    _since: dict[str, tuple[tuple[Any, ...], int]] = field(default_factory=dict)
    _ended: dict[str, int] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _published: dict[tuple[str, bool], list[datetime]] = field(default_factory=dict)
    """By section and whether faulty rows are dropped, the times of the valid rows, in order."""
    _without_urls: dict[tuple[str, bool, bool], int] = field(default_factory=dict)
    """By section, whether faulty rows are dropped and whether it holds news, the last turn at which no row was to be listed.

    The guard against empty sections cannot be turned off.
    """

    def observe(self, turn: int) -> None:
        """Record the rows that appeared, changed or disappeared since the last turn."""
        now = self.now()
        for name, table in self.tables.items():
            changed = self._seen.get(name) != table.changes
            for drop_faulty in (False, True):
                if changed:
                    versions = map(_version, table.rows)
                    valid = [version for version in versions if _is_valid(version, drop_faulty=drop_faulty)]
                    self._published[name, drop_faulty] = sorted(version[2] for version in valid)
                published = self._published[name, drop_faulty]
                if not published:
                    self._without_urls[name, drop_faulty, False] = turn
                oldest = bisect_left(published, now + MARGIN - NEWS_WINDOW)
                if oldest == len(published) or published[oldest] > now - MARGIN:
                    self._without_urls[name, drop_faulty, True] = turn
            if not changed:
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
        """Record the intention of a run."""
        self.intentions[run] = intention

    def left_out(self, run: str, sections: Collection[str]) -> None:
        """Record the sections whose batches a run could not all write. They stay as published."""
        intention = self.whole.setdefault(run, self.intentions[run])
        kept = tuple(name for name in intention.sections if name not in sections)
        self.intentions[run] = replace(intention, sections=kept)

    def committed(self, turn: int, generation: int, run: str, restored: int | None) -> None:
        """Compute the expectations after a generation is public.

        Args:
            turn: Turn of the commit.
            generation: Number of the new generation.
            run: The run that committed it.
            restored: The generation that a rollback restores. None: the run is not a rollback.
        """
        if restored is not None:
            self.expected = dict(self.snapshots[restored])
        else:
            self._won(turn, self.intentions[run])
        self.commits.append((turn, generation, None if restored is not None else self.intentions[run]))
        self.snapshots[generation] = dict(self.expected)

    def _won(self, turn: int, intention: Intention) -> None:
        if intention.whole:
            self._retired(turn, intention)
        for name in intention.sections:
            earlier = self.expected.get(name, ()) if self._is_refusable(name, intention) else ()
            self.expected[name] = (self._expectation(name, self._with_rivals(name, intention), turn), *earlier)

    def _retired(self, turn: int, intention: Intention) -> None:
        """Remove the sections that the code no longer has, unless one that may replace them is not published."""
        new = [name for name in intention.code.sections if name not in self.expected]
        if any(name not in intention.sections for name in new):
            return
        may_stay = any(self._is_refusable(name, intention) for name in new)
        for name in self.expected.keys() - set(intention.code.sections):
            won = self.expected[name][0].won
            if won > intention.planned:
                continue  # the run did not know of it, and leaves it as it is
            if won > intention.started:
                self.expected[name] = (Expectation(frozenset(), None, won),)  # it may or may not have known
            elif may_stay:
                self.expected[name] = (*self.expected[name], Expectation(frozenset(), frozenset(), turn))
            else:
                del self.expected[name]

    def _is_refusable(self, name: str, intention: Intention) -> bool:
        """Return whether a guard may refuse a section at the commit."""
        is_news = intention.code.kind_of(name) == "news"
        without_urls = self._without_urls.get((name, intention.code.drop_faulty, is_news), -1)
        return intention.code.is_guarded or without_urls >= intention.started

    def _with_rivals(self, name: str, intention: Intention) -> Intention:
        """Return an intention that starts with the earliest of the other runs whose files the run keeps."""
        rivals = [won for won in self._since_plan(intention) if won and name in won.sections]
        if not intention.rebases or not rivals:
            return intention
        return replace(intention, started=min(intention.started, *(rival.started for rival in rivals)))

    def _since_plan(self, intention: Intention) -> list[Intention | None]:
        """Return the intentions of the commits that a run's plan did not know, or may not have known."""
        return [won for turn, number, won in self.commits if turn >= intention.started or number > intention.base]

    def started(self, name: str, intention: Intention) -> int:
        """Return the first turn whose rows a section of a run's generation may show."""
        return self._with_rivals(name, intention).started

    def was_there(self, loc: str, start: int) -> bool:
        """Return whether the row of a URL was in its table, unchanged and with a key, since a turn."""
        version, since = self._since.get(loc, ((None,), start))
        return version[0] is not None and since <= start

    def was_absent(self, loc: str, key: int, start: int) -> bool:
        """Return whether no row had a URL since a turn, and surely none had its key: its URL may have changed."""
        others = {other for other in self._existed(self.tables[loc.split("/")[-2]], start) if other != loc}
        if any(other not in self._since or self._since[other][0][0] == key for other in others):
            return False
        if loc in self._since:
            version, since = self._since[loc]
            return version[0] is None and since <= start
        return self._ended.get(loc, start) < start

    def unchanged(self, turn: int, run: str, listed: Collection[str]) -> None:
        """Check a run that found nothing to change, unless another run committed since its plan.

        Raises:
            WrongListingError: There was something to change.
        """
        intention = self.intentions[run]
        if self._since_plan(intention):
            return
        for name in intention.sections:
            self._compare(name, self._expectation(name, intention, turn), listed, "a run that found nothing to do")

    def check(self, listed: Collection[str]) -> None:
        """Compare the listed URLs with the expectations.

        Raises:
            WrongListingError: A URL is missing, or is listed without a reason.
        """
        for name in self.tables:
            if name in self.expected:
                self.expected[name] = self._matching(name, listed)
            elif own := self._own(name, listed):
                raise WrongListingError(f"{name} is listed ({len(own)} URLs), but should not be listed at all")

    def _matching(self, name: str, listed: Collection[str]) -> tuple[Expectation, ...]:
        """Return the alternatives that the listed URLs meet.

        Raises:
            WrongListingError: They meet none.
        """
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
            raise WrongListingError(f"{name}: {lost[:3]} are not listed, but were in the table while {whose} read it")
        alien = sorted(own - expectation.may) if expectation.may is not None else []
        if alien:
            raise WrongListingError(f"{name}: {alien[:3]} are listed, but were not in the table while {whose} read it")

    def _expectation(self, name: str, intention: Intention, turn: int) -> Expectation:
        table, code = self.tables[name], intention.code
        if code.detection == "watermark":
            return Expectation(frozenset(), None, turn)
        is_news, moments = code.kind_of(name) == "news", (intention.moment or self.now(), self.now())
        stable = frozenset(
            loc
            for loc, (version, since) in self._since.items()
            if table.owns(loc)
            and since <= intention.started
            and _is_valid(version, drop_faulty=code.drop_faulty)
            and (not is_news or _is_fresh(version, moments))
        )
        return Expectation(stable, frozenset(self._existed(table, intention.started)), turn)

    def _existed(self, table: Table, start: int) -> Iterator[str]:
        yield from (loc for loc in self._since if table.owns(loc))
        yield from (loc for loc, ended in self._ended.items() if table.owns(loc) and ended >= start)


def _version(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["id"], row["priority"], row["published"])


def _is_valid(version: tuple[Any, ...], *, drop_faulty: bool) -> bool:
    key, priority, _ = version
    return key is not None and not (drop_faulty and priority in FAULTY_PRIORITIES)


def _is_fresh(version: tuple[Any, ...], moments: Sequence[datetime]) -> bool:
    """Return whether an article is at most two days old at each of these times, whatever a worker's clock shows."""
    published: datetime = version[2]
    return published + MARGIN <= min(moments) and max(moments) + MARGIN <= published + NEWS_WINDOW
