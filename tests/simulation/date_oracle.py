"""When each page changed and was fetched, and the dates that a run may give it (law 6 of the ledger).

A crawler fetches the pages of listed URLs. If a run finds that a page changed, its date is later than each fetch of the page
before the change. Pages are known from the tables, turn by turn, never from a part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.protocol.lastmod import next_second
from airflow_sitemaps.sources.memory_source import text_of
from tests.simulation.dagfile import OBSERVED
from tests.support.simulated_source import row_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from random import Random

    from airflow_sitemaps.shards.plan import DatePlan
    from airflow_sitemaps.testing import FakeClock
    from tests.simulation.ledger_oracle import Line
    from tests.simulation.scheduler import Scheduler
    from tests.simulation.warehouse import Table

STEPS_S: Final = (0.3, 0.7, 1.5, 40.0)
FORM: Final = "%Y-%m-%dT%H:%M:%SZ"
START: Final = datetime.min.replace(tzinfo=timezone.utc)


class WrongDateError(Exception):
    """A run gave a date that it may not give."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a run reads the pages of a section.

    Attributes:
        columns: The observed columns.
        started: Turn at which its plan began.
        at: Time of the run.
        dates: What its plan says about dates.
        is_first: Whether no URL of the section had an observed date before.
    """

    columns: tuple[str, ...]
    started: int
    at: datetime
    dates: DatePlan
    is_first: bool


@dataclass(slots=True)
class DateOracle:
    """Follows the tables and the fetches of a crawler.

    Attributes:
        random: Decides what the crawler does.
        scheduler: Selects the next actor.
        clock: The accurate time, which is the database's.
        tables: The tables by section.
        listed: Returns the URLs that are public.
        judged: Number of dates checked.
    """

    random: Random
    scheduler: Scheduler
    clock: FakeClock
    tables: Mapping[str, Table]
    listed: Callable[[], Iterable[str]]
    judged: int = 0
    _pages: dict[str, list[tuple[int, dict[tuple[str, ...], int], str]]] = field(default_factory=dict)
    """By URL, the turn from which on it had a page, the page's fingerprint by observed columns, and its first date."""
    _fetches: dict[str, list[tuple[int, datetime]]] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _last: datetime = START
    _latest: datetime = START

    def observe(self) -> None:
        """Record the pages that changed since the last turn."""
        now = self.clock.now()
        if now < self._last:
            self._fetches.clear()  # the law holds as far as the database's clock is right
        self._last, self._latest = now, max(now, self._latest)
        for name, table in self.tables.items():
            if self._seen.get(name) == table.changes:
                continue
            self._seen[name] = table.changes
            for row in table.rows:
                pages = self._pages.setdefault(row["loc"], [])
                prints = {columns: fingerprint(row, columns) for columns in OBSERVED}
                if not pages or pages[-1][1] != prints:
                    pages.append((self.scheduler.turn, prints, f"{row['published']:{FORM}}"))

    def crawl(self) -> None:
        """Fetch all listed pages now and then, while time passes and pages change."""
        for _ in range(self.random.randint(10, 100)):
            for _ in range(self.random.choice((1, 1, 3, 15))):
                self.scheduler.pause()
            if self.random.random() < 0.5:
                self.scheduler.record(self.random.choice(list(self.tables.values())).rewrite(self.random))
                continue
            self._fetch()

    def before_a_read(self) -> None:
        """Now and then, fetch all listed pages and change one between plan and reading."""
        if self.random.random() < 0.3:
            self._fetch()
            self.scheduler.pause()
            self.scheduler.record(self.random.choice(list(self.tables.values())).rewrite(self.random))

    def _fetch(self) -> None:
        self.clock.advance(timedelta(seconds=self.random.choice(STEPS_S)))
        moment = (self.scheduler.turn, self.clock.now())
        for loc in self.listed():
            self._fetches.setdefault(loc, []).append(moment)

    def check(self, loc: str, line: Line, before: Line | None, reading: Reading) -> None:
        """Check the date of a URL that a run wrote, and that the fingerprint is of a page that the run could read.

        Raises:
            WrongDateError: A date or a fingerprint is wrong.
        """
        self.judged += 1
        date, since = line.lastmod, self._shown_since(loc, line.fingerprint, reading)
        if since is None:
            raise WrongDateError(f"{loc}: fingerprint {line.fingerprint} is of no page since turn {reading.started}")
        if date is not None and _moment(date) > next_second(self._latest) + timedelta(minutes=1):
            raise WrongDateError(f"{loc}: {date} is in the future, at {self._latest}")
        if before is None or not before.is_observed:
            self._check_first(loc, date, since, reading)
        elif before.kind != line.kind or before.fingerprint is None or before.fingerprint == line.fingerprint:
            if date != before.lastmod:
                raise WrongDateError(f"{loc}: no change is known, and its date {before.lastmod} became {date}")
        elif reading.dates.keep:
            if date != before.lastmod:
                raise WrongDateError(f"{loc}: keep_lastmods, and its date {before.lastmod} became {date}")
        elif date is None or (before.lastmod is not None and _moment(date) <= _moment(before.lastmod)):
            raise WrongDateError(f"{loc}: the page changed, and its date {before.lastmod} became {date}")
        else:
            self._check_later(loc, date, since, reading)

    def _check_first(self, loc: str, date: str | None, since: int, reading: Reading) -> None:
        initial = {pages[2] for pages in self._pages[loc]}
        if date is None and not reading.is_first:
            raise WrongDateError(f"{loc} is new, and has no date")
        if date is not None and date not in initial and (reading.is_first or _moment(date) < reading.at):
            raise WrongDateError(f"{loc} is new since {reading.at}, and dated {date}; its first dates are {initial}")
        if date is not None and not reading.is_first:
            self._check_later(loc, date, since, reading)

    def _check_later(self, loc: str, date: str, since: int, reading: Reading) -> None:
        """Check that a date is later than each fetch of an earlier page (law 6)."""
        for turn, moment in self._fetches.get(loc, ()):
            if turn < since and _moment(date) <= moment:
                raise WrongDateError(
                    f"{loc}: dated {date} by the run of {reading.at}; its earlier page was fetched at {moment}"
                )

    def _shown_since(self, loc: str, fingerprint: int | None, reading: Reading) -> int | None:
        """Return the first turn since which a row showed the page that the run read, or None if none did."""
        since, shown = 0, None
        for turn, prints, _ in self._pages.get(loc, ()):
            if shown != prints[reading.columns]:
                if shown == fingerprint and turn >= reading.started:
                    return since
                since, shown = turn, prints[reading.columns]
        return since if shown == fingerprint else None


def fingerprint(row: Mapping[str, Any], columns: tuple[str, ...]) -> int:
    """Return the fingerprint of a row, as a part records it."""
    number = row_hashes([tuple(text_of(row[name]) for name in columns)])[0]
    return number - (1 << 64) if number >> 63 else number


def _moment(date: str) -> datetime:
    return datetime.strptime(date, FORM).replace(tzinfo=timezone.utc)
