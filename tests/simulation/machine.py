"""A Hypothesis state machine over any source.

After any events, incremental runs must list the same entries as a full rebuild.

Derive from ``IncrementalMachine``, and set the table that it changes and reads::

    class Warehouse(IncrementalMachine):
        table = MyTable(...)

    TestWarehouse = Warehouse.TestCase
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_sitemaps import pipeline
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.pipeline.concurrency import inline
from airflow_sitemaps.pipeline.publish.rollback import rollback
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.shards.guards import Guards
from airflow_sitemaps.shards.layout import ShardPolicy
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.sources.columns import Observed
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.ledger.parts import lines
from tests.simulation.faults import Fault, Faults, FaultyStore, SimulatedCrash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.ports import SourceConfig, StoreConfig
    from tests.ledger.parts import Line

BASE: Final = "https://www.example.com/"
START: Final = datetime(2026, 1, 15, 12, tzinfo=timezone.utc)
FREE: Final = Guards.disabled()
GRACE: Final = timedelta(days=2)
HOURS: Final = st.integers(min_value=-400, max_value=60)
KEYS: Final = st.integers(min_value=1, max_value=60)
PRIORITIES: Final = st.sampled_from((0.1, 0.5, 0.9, 7.0, None))


class MachineTable(Protocol):
    """A table that the machine changes, in any database. Every method commits its change before it returns.

    The columns are ``rid`` (a unique integer), ``id`` (the key: an integer or NULL, not unique), ``url``, ``lm`` (a date-time
    in UTC without a zone, or NULL) and ``prio`` (a number or NULL).
    """

    def clear(self) -> None:
        """Delete every row."""
        ...

    def insert(self, rows: Sequence[dict[str, Any]]) -> None:
        """Insert one or more rows."""
        ...

    def update(self, rid: int, **values: Any) -> None:
        """Set one column of a row."""
        ...

    def delete(self, rids: Sequence[int]) -> None:
        """Delete one or more rows."""
        ...

    def source(self, *, priority: bool, lastmod: str | Observed = "lm") -> SourceConfig:
        """Return the table as a source: key ``id``, loc ``url``, and priority ``prio`` on request.

        The table of a machine with ``in_parts`` also has ``part``, an integer or NULL, and takes its value.
        """
        ...


@dataclass(slots=True)
class ListTable:
    """A table in memory."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def clear(self) -> None:
        """Delete every row."""
        self.rows.clear()

    def insert(self, rows: Sequence[dict[str, Any]]) -> None:
        """Insert rows."""
        self.rows.extend(dict(row) for row in rows)

    def update(self, rid: int, **values: Any) -> None:
        """Set columns of a row."""
        next(row for row in self.rows if row["rid"] == rid).update(values)

    def delete(self, rids: Sequence[int]) -> None:
        """Delete rows."""
        self.rows[:] = [row for row in self.rows if row["rid"] not in rids]

    def source(self, *, priority: bool, lastmod: str | Observed = "lm") -> SourceConfig:
        """Return the list as a source."""
        column = "prio" if priority else None
        return MemorySourceConfig(self.rows, key="id", loc="url", lastmod=lastmod, priority=column, clock=lambda: START)


class IncrementalMachine(RuleBasedStateMachine):
    """The state machine.

    Rows are inserted, changed, moved and deleted. Runs succeed, crash, are retried and rolled back. The small shards split
    and merge. If dates are observed, the column ``lm`` makes the page. ``in_parts``: the column ``part`` divides the rows
    into three sections, whose surveys are shared.
    """

    table: MachineTable
    max_urls = 4
    observed = False
    in_parts = False

    def __init__(self) -> None:
        super().__init__()
        self._inline = inline()
        self._inline.__enter__()  # no thread: an example is played some hundred times, and is to be played again
        self.clock = FakeClock(START)
        self.store = MemoryStore(base_url=BASE, now=self.clock.now)
        self.table.clear()
        self.rows: dict[int, dict[str, Any]] = {}
        self.with_priority = True
        self.drop_faulty = False
        self.faults = Faults()
        self.current = False
        """Whether the published entries match the current rows."""
        self._fixed = 3 if self.in_parts else 1
        """The number of rows that are never changed; they are the first."""
        self._number = self._fixed - 1
        self._moved: set[str] = set()
        self._generations: dict[int, tuple[str, dict[str, Line]]] = {}
        """The fingerprint of the section's configuration and the ledger, by generation."""
        self._prints: dict[Any, int | None] = {}

    def teardown(self) -> None:
        """Check that a run without faults repairs everything."""
        try:
            self._run()
            self._compare()
        finally:
            self._inline.__exit__(None, None, None)

    # ------------------------------------------------------------ the source moves

    @initialize(keys=st.lists(KEYS, min_size=1, max_size=20, unique=True))
    def load(self, keys: list[int]) -> None:
        """Insert the first rows. One of each section is never changed, so there is always something to publish."""
        for number in range(self._fixed):
            self._put({"rid": number, "id": 30, "url": f"{BASE}p/{number}", "lm": None, "prio": None})
        for key in keys:
            self._insert(key, -key, None)

    @rule(key=KEYS, hours=HOURS, priority=PRIORITIES)
    def insert(self, key: int, hours: int, priority: float | None) -> None:
        """Insert rows in the middle or at an end, with lastmods in the past or future."""
        self._insert(key, hours, priority)

    @rule(number=st.integers(min_value=1, max_value=9))
    def append(self, number: int) -> None:
        """Insert rows after the last one."""
        top = max(row["id"] for row in self.rows.values() if row["id"] is not None)
        for place in range(number):
            self._insert(top + 1 + place, 0, None)

    @precondition(lambda self: len(self.rows) > self._fixed)
    @rule(data=st.data(), hours=HOURS)
    def update(self, data: st.DataObject, hours: int) -> None:
        """Change a row and set its lastmod, newer or older."""
        self._set(self._drawn(data), lm=_moment(hours))

    @precondition(lambda self: len(self.rows) > self._fixed)
    @rule(data=st.data(), priority=PRIORITIES)
    def update_silently(self, data: st.DataObject, priority: float | None) -> None:
        """Change a row without its lastmod."""
        self._set(self._drawn(data), prio=priority)

    @precondition(lambda self: len(self.rows) > self._fixed)
    @rule(data=st.data(), key=st.one_of(st.none(), KEYS))
    def move(self, data: st.DataObject, key: int | None) -> None:
        """Change the key of a row, perhaps to NULL."""
        row = self._drawn(data)
        if key is None or self._has_room(key):
            self._moved.add(row["url"])
            self._set(row, id=key)

    @precondition(lambda self: self.in_parts and len(self.rows) > self._fixed)
    @rule(data=st.data(), part=st.sampled_from((0, 1, 2, None)))
    def move_to_another_section(self, data: st.DataObject, part: int | None) -> None:
        """Change the part of a row, perhaps to none."""
        self._set(self._drawn(data), part=part)

    @rule(low=KEYS, width=st.integers(min_value=0, max_value=60))
    def delete(self, low: int, width: int) -> None:
        """Delete one row, a range, or the end of the table."""
        self._delete(
            [
                n
                for n, row in self.rows.items()
                if n >= self._fixed and row["id"] is not None and low <= row["id"] <= low + width
            ]
        )

    @rule()
    def load_again(self) -> None:
        """Truncate the table and insert its rows in another order."""
        self.table.clear()
        self.table.insert(list(reversed(self.rows.values())))

    # ------------------------------------------------------------ time, code

    @rule(hours=st.integers(min_value=1, max_value=80))
    def pass_time(self, hours: int) -> None:
        """Advance the clock, so that future lastmods become past and grace periods end."""
        self.clock.advance(timedelta(hours=hours))
        self.current = False

    @rule(what=st.sampled_from(("priority", "rule")))
    def change_mapping(self, what: str) -> None:
        """Change the configuration of the section."""
        if what == "priority":
            self.with_priority = not self.with_priority
        else:
            self.drop_faulty = not self.drop_faulty
        self.current = False

    # ------------------------------------------------------------ runs

    @rule(full=st.booleans())
    def run(self, full: bool) -> None:
        """Build without faults."""
        self._run(full=full)

    @rule(operation=st.integers(min_value=1, max_value=60), fault=st.sampled_from(tuple(Fault)), retry=st.booleans())
    def run_with_a_fault(self, operation: int, fault: Fault, retry: bool) -> None:
        """Build while the n-th operation of the store fails, and perhaps retry at once."""
        self.current = False
        self.faults = Faults().at(operation, fault)
        try:
            build(self._sitemap(FaultyStore(self.store, self.faults)), clock=self.clock)
        except (SimulatedCrash, Exception) as error:  # whatever a fault leads to, the next run repairs it
            if isinstance(error, AssertionError):
                raise
        if retry:
            self._run()

    @rule(key=KEYS)
    def write_twice_while_rows_change(self, key: int) -> None:
        """Write a batch again after the rows changed, and publish the last receipt."""
        planned = stages.plan(self._sitemap(), clock=self.clock)
        for batch in planned.batches:
            stages.write(self._sitemap(), planned.key, batch.number, clock=self.clock)
        self._insert(key, 0, 0.5)
        receipts = [
            stages.write(self._sitemap(), planned.key, batch.number, clock=self.clock).receipt_key
            for batch in planned.batches
        ]
        stages.publish(self._sitemap(), planned.key, receipts, clock=self.clock)
        self.current = False

    @precondition(lambda self: pipeline.status(self._sitemap()).generation > 1)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        """Publish an earlier generation again. The next run returns to the current rows."""
        kept = [note.generation for note in pipeline.status(self._sitemap()).history[:-1]]
        if kept:
            rollback(self._sitemap(), data.draw(st.sampled_from(kept)), clock=self.clock)
            self.current = False

    @rule()
    def land_late(self) -> None:
        """Let delayed requests take effect."""
        self.faults.land()

    @invariant()
    def what_is_published_is_what_a_rebuild_lists(self) -> None:
        """Check that the published entries equal those of a rebuild."""
        if self.current:
            self._compare()

    @invariant()
    def dates_move_only_with_pages(self) -> None:
        """Check the observed dates of a generation that was committed since the last check."""
        manifest = StateRepository(self.store.open().state).manifest() if self.observed else None
        if manifest is None or manifest.generation in self._generations:
            return
        section, action = manifest.sections["pages"].fingerprint, manifest.history[-1].action
        listed = lines(self)  # checks that each part lists the dates of its shard
        self._generations[manifest.generation] = (section, listed)
        if action.startswith("rollback to "):
            assert listed == self._generations[int(action.removeprefix("rollback to "))][1]
        elif manifest.generation - 1 in self._generations:
            before, earlier = self._generations[manifest.generation - 1]
            for url in listed.keys() - self._moved:
                _check_date(url, earlier.get(url), listed[url], has_same_code=section == before)
        elif manifest.generation == 1:
            assert {line.lastmod for line in listed.values()} == {None}

    def _check_prints(self) -> None:
        """Check that each part has the fingerprints of the current pages: equal ones for equal pages only."""
        listed = lines(self) if self.observed else {}
        for row in self.rows.values():
            if row["url"] in listed:
                fingerprint = listed[row["url"]].fingerprint
                assert self._prints.setdefault(row["lm"], fingerprint) == fingerprint
        assert len(set(self._prints.values())) == len(self._prints)

    # ------------------------------------------------------------ inside

    @property
    def config(self) -> MemoryStore:
        """The store, by the name that it has in a ``World``."""
        return self.store

    def _sitemap(self, store: StoreConfig | None = None) -> Sitemap:
        dates: dict[str, Any] = {"lastmod": Observed("lm")} if self.observed else {}
        parts: list[dict[str, Any]] = [{"part": number} for number in range(3)] if self.in_parts else [{}]
        rules = {"priority": "drop_row"} if self.drop_faulty and self.with_priority else {}
        sections = [
            Section(
                f"pages{part.get('part', '')}",
                self.table.source(priority=self.with_priority, **dates, **part),
                rules=rules,
            )
            for part in parts
        ]
        return Sitemap(
            store or self.store, sections, shards=ShardPolicy(max_urls=self.max_urls), guards=FREE, grace=GRACE
        )

    def _run(self, *, full: bool = False) -> None:
        self.dates_move_only_with_pages()
        build(self._sitemap(), full, clock=self.clock, allow=("empty",))
        self._check_prints()
        self.current = True

    def _compare(self) -> None:
        other = MemoryStore(base_url=BASE)
        build(self._sitemap(other), clock=FakeClock(self.clock.now()))
        here: Any = crawl(self.store.open()).entries()
        there: Any = crawl(other.open()).entries()
        if self.observed:  # a rebuild does not know the dates
            here, there = ({loc: own[0][1:] for loc, own in each.items()} for each in (here, there))
        assert here == there, f"lost {there.keys() - here.keys()}, too much {here.keys() - there.keys()}"
        self.current = False

    def _insert(self, key: int, hours: int, priority: float | None) -> None:
        if self._has_room(key):
            self._number += 1
            url = f"{BASE}p/{self._number}"
            moment = _moment(hours) if hours else None
            self._put({"rid": self._number, "id": key, "url": url, "lm": moment, "prio": priority})

    def _has_room(self, key: int) -> bool:
        """Return whether a shard can hold the rows of one key, which always stay together."""
        return [row["id"] for row in self.rows.values()].count(key) < self.max_urls

    def _put(self, row: dict[str, Any]) -> None:
        row |= {"part": row["rid"] % 3} if self.in_parts else {}
        self.rows[row["rid"]] = row
        self.table.insert([row])
        self.current = False

    def _set(self, row: dict[str, Any], **values: Any) -> None:
        row.update(values)
        self.table.update(row["rid"], **values)
        self.current = False

    def _delete(self, numbers: list[int]) -> None:
        for number in numbers:
            del self.rows[number]
        if numbers:
            self.table.delete(numbers)
            self.current = False

    def _drawn(self, data: st.DataObject) -> dict[str, Any]:
        return self.rows[data.draw(st.sampled_from(sorted(self.rows.keys() - set(range(self._fixed)))))]


def _check_date(url: str, before: Line | None, now: Line, *, has_same_code: bool) -> None:
    """Check the date of a URL. Changed code may record other fingerprints, and then keeps the date."""
    if before is None:
        assert now.lastmod is not None, f"{url} is new, and has no date"
    elif now.fingerprint == before.fingerprint or not (has_same_code or now.lastmod != before.lastmod):
        assert now.lastmod == before.lastmod, (
            f"{url}: the page is equal, and its date {before.lastmod} became {now.lastmod}"
        )
    else:
        assert (now.lastmod or "") > (before.lastmod or ""), f"{url}: {before.lastmod} became {now.lastmod}"


def _moment(hours: int) -> datetime:
    """Return the time this many hours after the start, without a zone."""
    return (START + timedelta(hours=hours)).replace(tzinfo=None)
