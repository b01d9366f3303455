"""Observed dates over drawn histories: an oracle knows when each page changed last, and what a crawler has fetched of it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

import pytest

from airflow_sitemaps import Observed
from airflow_sitemaps.pipeline import rollback
from tests.ledger.parts import lines, manifest_of
from tests.support.environment import World, row
from tests.support.repetition import scaled
from tests.support.simulated_source import row_hashes


class History:
    """A section with observed dates, and what search engines may know of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(
            [self.page(key) for key in self.random.sample(range(60), 15)],
            source_settings={"lastmod": Observed("title", "body"), "before": self.before},
        )
        self.changed: dict[str, datetime] = {}
        self.fetched: dict[str, tuple[str, datetime]] = {}
        self.published: dict[str, tuple[str, str | None]] = {}
        self.texts: dict[int, str] = {}
        self.between: list[Any] = []

    def page(self, key: int) -> dict[str, Any]:
        return row(key, title=f"t{self.random.random()}", body="b")

    def before(self, operation: str) -> None:
        if operation == "read" and self.between:
            self.between.pop()()
        for each in self.world.rows:
            print_ = row_hashes([(each["title"], each["body"])])[0]
            self.texts[print_ - (1 << 64) if print_ >> 63 else print_] = each["title"] + each["body"]

    def tick(self) -> None:
        self.world.clock.advance(timedelta(seconds=self.random.choice((0.3, 0.7, 5, 3600))))

    def change(self) -> None:
        each = self.random.choice(self.world.rows)
        each[self.random.choice(("title", "body"))] = f"v{self.random.random()}"
        self.changed[each["loc"]] = self.world.clock.now()

    def other_column(self) -> None:
        self.random.choice(self.world.rows)["priority"] = self.random.choice((0.1, 0.9))

    def insert(self) -> None:
        key = self.random.randrange(60)
        if all(each["id"] != key for each in self.world.rows):
            self.world.rows.append(self.page(key))
            self.changed[self.world.rows[-1]["loc"]] = self.world.clock.now()

    def delete(self) -> None:
        if len(self.world.rows) > 3:
            self.world.rows.remove(self.random.choice(self.world.rows))

    def crawl(self) -> None:
        now = self.world.clock.now()
        self.fetched |= {each["loc"]: (each["title"] + each["body"], now) for each in self.world.rows}

    def roll_back(self) -> None:
        generation = manifest_of(self.world).generation
        if generation > 2:
            rollback(self.world.sitemap(), generation - 1, clock=self.world.clock)
            self.remember()

    def run(self) -> None:
        if self.random.random() < 0.4:
            self.between = [lambda: (self.tick(), self.crawl(), self.tick(), self.change())]
        first = not self.published
        earlier = self.published
        keep = ["pages"] if self.random.random() < 0.1 else []
        self.world.build(full=self.random.random() < 0.2, keep_lastmods=keep)
        self.remember()
        if keep:
            return
        for loc, (text, date) in self.published.items():
            before = earlier.get(loc)
            if before is None:
                assert (date is None) == first, loc
            elif before[0] == text:
                assert date == before[1], (
                    f"{loc}: the page did not change, and its date moved from {before[1]} to {date}"
                )
            else:
                assert (date or "") > (before[1] or ""), f"{loc}: {before[1]} became {date}"
                self.later_than_any_crawl(loc, text, date or "")

    def later_than_any_crawl(self, loc: str, text: str, date: str) -> None:
        known, at = self.fetched.get(loc, (text, None))
        if known != text and at is not None and at < self.changed[loc]:
            moment = datetime.strptime(date, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
            assert moment > at, f"{loc}: dated {date}, and its earlier page was fetched at {at}"

    def remember(self) -> None:
        dates = {loc: entries[0][0] for loc, entries in self.world.crawl().entries().items()}
        told = lines(self.world)
        self.published = {loc: (self.texts[line.fingerprint], dates[loc]) for loc, line in told.items()}


@pytest.mark.parametrize("seed", range(scaled(60, 1_000)))
def test_a_date_moves_only_with_the_page_and_is_later_than_any_crawl_of_the_page_before(seed):
    history = History(seed)
    history.run()
    steps = [history.change] * 4 + [history.tick] * 3 + [history.run] * 4
    steps += [history.crawl, history.insert, history.delete, history.other_column, history.roll_back]
    for _ in range(25):
        history.random.choice(steps)()
    history.run()
