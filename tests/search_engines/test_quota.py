"""The quota that tasks share: one at a time, what a killed one may have sent, and the end of a day."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import MemoryStore
from airflow_sitemaps.search_engines import quota
from airflow_sitemaps.search_engines.quota import DayQuota, UsedUpError
from airflow_sitemaps.testing import FakeClock
from airflow_sitemaps.web_services import NotAcceptedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_sitemaps.ports import ObjectStore

SITE = "https://shop.example/"
KEY = "inspections/quota/google.json"
MIDNIGHT = datetime(2026, 1, 16, tzinfo=timezone.utc)


def day_of(now: datetime) -> date:
    return now.date()


class Task:
    """A task with a clock of its own. ``waits`` is called at each poll, after the clock went on."""

    def __init__(self, objects: ObjectStore, clock: FakeClock, waits: Callable[[], None] = lambda: None) -> None:
        def sleep(seconds: float) -> None:
            clock.advance(timedelta(seconds=seconds))
            waits()

        engine: Any = SimpleNamespace(properties=(SITE,), day=day_of, pause_s=0.0, is_used_up=lambda _: False)
        monotonic = lambda: clock.now().timestamp()  # noqa: E731
        self.quota = DayQuota(objects, KEY, engine, daily=100, clock=clock, sleep=sleep, monotonic=monotonic)

    def send(self, number: int) -> None:
        for _ in range(number):
            self.quota.spend(SITE)


@pytest.fixture
def objects() -> ObjectStore:
    return MemoryStore(base_url=SITE).open().state


def at(before_midnight: timedelta) -> FakeClock:
    return FakeClock(MIDNIGHT - before_midnight)


def test_a_task_waits_while_another_one_holds_the_lease(objects: ObjectStore) -> None:
    clock, polls = at(timedelta(hours=9)), []
    first = Task(objects, clock)
    assert first.quota.reserve({SITE: 5})
    first.send(7)

    def waits() -> None:
        polls.append(1)
        if len(polls) == 3:
            first.quota.settle()

    second = Task(objects, clock, waits)
    assert second.quota.left(SITE) == 80, "what may still be sent is reserved"
    assert second.quota.reserve({SITE: 2})

    assert len(polls) == 3
    second.send(8)
    with pytest.raises(UsedUpError, match="used up"):
        second.send(1)
    second.quota.settle()
    assert Task(objects, clock).quota.left(SITE) == 100 - 7 - 8


def test_a_task_that_was_killed_is_awaited_and_sends_nothing_after_its_lease(objects: ObjectStore) -> None:
    clock = at(timedelta(hours=9))
    stopped = Task(objects, clock)
    assert stopped.quota.reserve({SITE: 5})
    began = clock.now()

    assert Task(objects, clock).quota.reserve({SITE: 5})

    assert clock.now() - began >= quota.LEASE
    clock.advance(timedelta(seconds=1))
    with pytest.raises(UsedUpError, match="too slow"):
        stopped.send(1)
    stopped.quota.settle()
    assert Task(objects, clock).quota.left(SITE) == 100 - 20 - 20, "a lease of others is not returned"


def test_a_lease_that_is_renewed_for_long_fails_the_task_so_that_its_retry_waits(objects: ObjectStore) -> None:
    clock, first = at(timedelta(hours=9)), []

    def renew() -> None:
        first[0].quota.settle()
        first[0].quota.reserve({SITE: 1})

    first.append(Task(objects, clock))
    first[0].quota.reserve({SITE: 1})
    with pytest.raises(NotAcceptedError, match="waited 20 minutes for another task"):
        Task(objects, clock, renew).quota.reserve({SITE: 1})


def test_requests_near_the_end_of_the_day_count_for_both_days(objects: ObjectStore) -> None:
    clock = at(timedelta(minutes=3))
    task = Task(objects, clock)
    assert task.quota.reserve({SITE: 5})
    task.send(9)
    clock.advance(timedelta(minutes=1, seconds=30))
    task.quota.settle()

    assert not task.quota.reserve({SITE: 1}), "the day ends"
    tomorrow = Task(objects, clock)

    assert clock.now() >= MIDNIGHT + quota.BORDER
    assert tomorrow.quota.today == MIDNIGHT.date()
    assert tomorrow.quota.left(SITE) == 100 - 9


@pytest.mark.parametrize(("before", "left"), [(timedelta(minutes=4), 80), (timedelta(hours=3), 100)])
def test_a_lease_of_a_killed_task_counts_tomorrow_only_if_it_reached_the_new_day(
    objects: ObjectStore, before: timedelta, left: int
) -> None:
    assert Task(objects, at(before)).quota.reserve({SITE: 5})

    assert Task(objects, at(-timedelta(hours=3))).quota.left(SITE) == left


def test_an_account_that_the_service_closes_stays_closed_for_other_tasks(objects: ObjectStore) -> None:
    clock = at(timedelta(hours=9))
    task = Task(objects, clock)
    task.quota.reserve({SITE: 5})
    task.send(1)
    task.quota.used_up.add(SITE)
    task.quota.settle()

    assert Task(objects, clock).quota.left(SITE) == 0
