"""The quota of an engine: how many requests each account, such as a property, got today, for all tasks that share it.

The requests of a day are one object, which is put before they are sent: a task that is killed may waste requests, but
never exceeds the quota. One task at a time holds the lease that allows requests, so that two tasks keep the pace of one.
No lease begins within ``BORDER`` of the end of a day, because the clocks of the worker and of the engine differ.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import inf
from typing import TYPE_CHECKING, Final, Literal, Union

import msgspec

from airflow_sitemaps.http import Fetched
from airflow_sitemaps.pipeline.state.repository import RefusedPutError, put_verified
from airflow_sitemaps.ports import Clock, Create, ObjectStore, Update
from airflow_sitemaps.shards import Decoder
from airflow_sitemaps.web_services import ATTEMPTS, NotAcceptedError, Sender

if TYPE_CHECKING:
    from airflow_sitemaps.search_engines.bing_webmaster import BingInspector
    from airflow_sitemaps.search_engines.searchconsole import GoogleInspector

log = logging.getLogger(__name__)

Inspector = Union["GoogleInspector", "BingInspector"]

LEASE: Final = timedelta(minutes=5)
"""Longest time in which the requests of a lease are sent. After a kill, the next task waits until it ends."""

BORDER: Final = timedelta(minutes=2)
"""Largest difference between the clocks of a worker and of the engine."""

POLL_S: Final = 5.0
POLLS: Final = 240
"""Number of looks at a lease of others, or at the clock, before the task fails and its retry waits on."""

REFUSALS: Final = 8 * ATTEMPTS
"""Refusals in a row by status 429 after which the quota of the day counts as used up: a response may not say which one is."""


class UsedUpError(NotAcceptedError):
    """An account gets no further request today. ``wait_s`` is endless, so the request is not repeated."""

    def __init__(self, message: str) -> None:
        super().__init__(message, wait_s=inf)


class Spent(msgspec.Struct, kw_only=True):
    """The requests of a ``day`` by account. ``leased`` are those of them that a lease allows until a time."""

    format: Literal[1] = 1
    day: date
    spent: dict[str, int] = {}
    leased: dict[str, int] = {}
    until: datetime | None = None
    lease: str = ""


_SPENT: Final = Decoder(Spent)


class DayQuota:
    """At most ``daily`` requests a day to an engine for each account, by all tasks whose record has this key. Thread-safe.

    ``used_up`` are the accounts of which the engine said that it accepts no further request today. Raises NotAcceptedError
    if the clock does not pass the end of a day.
    """

    def __init__(
        self,
        objects: ObjectStore,
        key: str,
        engine: Inspector,
        *,
        daily: int,
        clock: Clock,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects, self._key, self._engine, self._daily = objects, key, engine, daily
        self._clock, self._sleep, self._monotonic = clock, sleep, monotonic
        self._held = Spent(day=date.min)
        self._sent: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self._end_s = self._next_s = 0.0
        self._lock = threading.Lock()
        self.used_up: set[str] = set()
        self._wait(lambda now: engine.day(now - BORDER) == engine.day(now + BORDER), "the new day of the quota")
        self.today = engine.day(clock.now())
        self._spent = self._read()[0].spent

    def left(self, account: str) -> int:
        """Return how many requests an account may still get today, as far as this task knows."""
        return max(0, self._daily - self._spent.get(account, 0))

    def reserve(self, urls: Mapping[str, int]) -> bool:
        """Reserve the requests for numbers of URLs by account, each of which may be repeated. False: the day has ended.

        It waits while another task holds the lease. Raises NotAcceptedError if that does not end.
        """
        granted = [False]

        def has_ended(now: datetime) -> bool:
            granted[0] = not self._is_over(now) and self._lease(urls, now)
            return granted[0] or self._is_over(now)

        self._wait(has_ended, f"another task that uses {self._key}")
        return granted[0]

    def settle(self) -> None:
        """Return the requests that were not sent, and the lease. What another task did since is kept."""
        for _ in range(POLLS):
            now = self._clock.now()
            record, etag = self._read()
            if record.lease != self._held.lease:
                return
            for account, number in self._held.leased.items():
                sent = self._sent.get(account, 0)
                record.spent[account] = record.spent.get(account, 0) - number + sent
                record.leased[account] = sent
                if account in self.used_up:
                    record.spent[account] = max(self._daily, record.spent[account])
            # Near the end of the day, the engine may have counted them for the next one.
            record.leased = record.leased if self._is_over(now) else {}
            record.until, record.lease = now, ""
            if self._put(record, etag):
                return

    def spend(self, account: str) -> None:
        """Count a request, and wait until it may be sent. Raise UsedUpError if none is left, or the lease has ended."""
        with self._lock:
            now = self._monotonic()
            start = max(now, self._next_s)
            if account in self.used_up or self._sent.get(account, 0) >= self._held.leased.get(account, 0):
                raise UsedUpError(f"{account}: its requests of today are used up")
            if start > self._end_s:
                raise UsedUpError(f"{account}: the service is too slow for the requests that were reserved")
            self._sent[account] = self._sent.get(account, 0) + 1
            self._next_s = start + self._engine.pause_s
        if start > now:
            self._sleep(start - now)

    def learn(self, account: str, response: Fetched) -> None:
        """Send no further request today if a response says so, or after ``REFUSALS``. Raise UsedUpError then."""
        is_used_up = self._engine.is_used_up(response)
        with self._lock:
            self._refused[account] = self._refused.get(account, 0) + 1 if response.status == 429 else 0
            if not is_used_up and self._refused[account] < REFUSALS:
                return
            self.used_up.add(account)
        raise UsedUpError(f"{account}: the service accepts no further request today")

    def _is_over(self, now: datetime) -> bool:
        return self._engine.day(now + BORDER) != self.today

    def _lease(self, urls: Mapping[str, int], now: datetime) -> bool:
        record, etag = self._read()
        if record.lease and record.until is not None and now < record.until:
            return False
        self._spent = record.spent
        record.leased = {each: min(number * ATTEMPTS, self.left(each)) for each, number in urls.items()}
        record.spent = {each: self._spent.get(each, 0) + record.leased.get(each, 0) for each in {*self._spent, *urls}}
        record.until, record.lease = now + LEASE, self._clock.token()
        if not self._put(record, etag):
            return False
        with self._lock:
            self._held, self._sent, self._end_s = record, {}, self._monotonic() + LEASE.total_seconds()
        return True

    def _wait(self, is_done: Callable[[datetime], bool], what: str) -> None:
        for number in range(POLLS):
            if is_done(self._clock.now()):
                return
            if not number:
                log.info("waiting for %s", what)
            self._sleep(POLL_S)
        raise NotAcceptedError(f"waited {POLLS * POLL_S / 60:.0f} minutes for {what}. Try again later")

    def _read(self) -> tuple[Spent, str | None]:
        """Return the record of today, with its etag. A new day begins with what the last one sent, or may send, in it."""
        stored = self._objects.get(self._key)
        if stored is None:
            return Spent(day=self.today), None
        record = _SPENT.decode_or_none(stored.body)
        if record is None:
            log.warning("%s cannot be read: inspections begin again tomorrow", self._key)
            full = Spent(day=self.today, spent=dict.fromkeys(self._engine.properties, self._daily))
            self._put(full, stored.info.etag)
            return self._read()
        if record.day < self.today:
            is_late = record.until is not None and self._engine.day(record.until + BORDER) >= self.today
            record.day, record.spent = self.today, dict(record.leased) if is_late else {}
        return record, stored.info.etag

    def _put(self, record: Spent, etag: str | None) -> bool:
        mode = Create() if etag is None else Update(etag)
        try:
            put_verified(self._objects, self._key, msgspec.json.encode(record), mode=mode, write_id=self._clock.token())
        except RefusedPutError:
            return False
        self._spent = record.spent
        return True


@dataclass(frozen=True, slots=True)
class Metered:
    """A sender that counts every request of an account, repeated ones included."""

    to: Sender
    quota: DayQuota
    account: str

    def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        """Send a request. Raise UsedUpError if the quota does not allow it."""
        self.quota.spend(self.account)
        response = self.to.send(method, url, body=body, headers=headers)
        self.quota.learn(self.account, response)
        return response
