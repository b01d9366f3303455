"""A month of inspections in which no server has to refuse a request, whatever happens to the tasks.

Two sitemaps share two properties. Tasks are repeated, cleared, killed between requests, slow, and run at the same time;
their clocks differ from the server's; and they run at the end of the quota's day, over a change of the daylight time too.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from airflow_sitemaps import MemoryStore, Section, Sitemap
from airflow_sitemaps.http import FetchError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.concurrency import inline
from airflow_sitemaps.search_engines import inspection, quota
from airflow_sitemaps.search_engines.bing_webmaster import BingInspector
from airflow_sitemaps.search_engines.index_status import history
from airflow_sitemaps.search_engines.searchconsole import GoogleInspector
from airflow_sitemaps.testing import MemorySourceConfig
from airflow_sitemaps.web_services import NotAcceptedError
from tests.support.bing import KEY, Bing, bing_date
from tests.support.website import Page, respond

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_sitemaps.http import HttpClient
    from airflow_sitemaps.search_engines.inspection import Inspector
    from tests.support.website import Site

URL = "https://shop.example/"
PROPERTIES = ("sc-domain:shop.example", f"{URL}a/")
DAILY = 90
A_MINUTE = 60
PACE_S = 1.1
PACIFIC = ZoneInfo("America/Los_Angeles")
START = datetime(2026, 2, 20, tzinfo=timezone.utc)
DAYS = 30
SKEW_S = 100
"""Largest difference of a worker's clock to the server's. The quota allows two minutes."""


class KilledError(BaseException):
    """The process of a task ended: nothing more of it is sent or stored."""


@dataclass
class World:
    """The true time, which sleeping moves on, and what the server counts of it: requests by account and day, and a minute."""

    zone: Any
    draw: random.Random
    at: datetime = START
    days: Counter[tuple[str, date]] = field(default_factory=Counter)
    recent: dict[str, list[datetime]] = field(default_factory=dict)
    excess: list[str] = field(default_factory=list)
    skew: timedelta = timedelta()
    tokens: int = 0

    def now(self) -> datetime:
        """The time by the worker's clock."""
        return self.at + self.skew

    def token(self) -> str:
        self.tokens += 1
        return f"{self.tokens:016x}"

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def monotonic(self) -> float:
        return (self.at - START).total_seconds()

    def count(self, account: str) -> None:
        """Count a request, and remember if it is one too many."""
        day = self.at.astimezone(self.zone).date()
        self.days[account, day] += 1
        minute = [each for each in self.recent.get(account, ()) if self.at - each < timedelta(minutes=1)]
        self.recent[account] = [*minute, self.at]
        if self.days[account, day] > DAILY:
            self.excess.append(f"{account}: request {self.days[account, day]} of {day}, at {self.at}")
        if len(self.recent[account]) > A_MINUTE:
            self.excess.append(f"{account}: {len(self.recent[account])} requests in a minute, at {self.at}")


@dataclass
class Client:
    """Sends requests of a task. Some are slow, some get no response, and in some the task is killed."""

    to: HttpClient
    world: World
    kills: float = 0.0
    during: Callable[[], None] | None = None
    is_killed: bool = False

    def send(self, method: str, url: str, **request: Any) -> Any:
        if self.during is not None:
            during, self.during = self.during, None
            during()
        luck = self.world.draw.random()
        if luck < self.kills:
            self.is_killed = True
            raise KilledError
        response = self.to.send(method, url, **request)
        if luck > 0.97:
            self.world.sleep(self.world.draw.choice((2, 40)))
        if luck > 0.99:
            raise FetchError("the connection is lost after the request")
        return response


def google_server(engine: Site, world: World) -> None:
    def write(handler: Any) -> None:
        asked = json.loads(handler.body)
        world.count(asked["siteUrl"])
        if world.draw.random() < 0.05:
            respond(handler, b"", world.draw.choice((500, 503)))
            return
        status = {"verdict": "PASS", "coverageState": "Indexed"}
        respond(handler, json.dumps({"inspectionResult": {"indexStatusResult": status}}).encode())

    engine.pages["/urlInspection/index:inspect"] = Page(write=write)


def bing_server(engine: Site, world: World) -> Bing:
    def answer(method: str, query: dict[str, str]) -> tuple[int, bytes] | None:
        world.count(query["siteUrl"])
        return (503, b"") if world.draw.random() < 0.05 else None

    known = {"LastCrawledDate": bing_date(START), "DiscoveryDate": bing_date(START), "HttpStatus": 200}
    return Bing(engine, known=lambda url: known, answer=answer)


def published(store: MemoryStore, **sizes: int) -> Sitemap:
    sections = [
        Section(name, MemorySourceConfig([{"id": n, "loc": f"{URL}{name}/{n}"} for n in range(size)]))
        for name, size in sizes.items()
    ]
    sitemap = Sitemap(store, sections)
    build(sitemap)
    return sitemap


@pytest.mark.parametrize("which", ["google", "bing"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_no_server_has_to_refuse_in_a_month(
    engine: Site, loopback: HttpClient, monkeypatch: pytest.MonkeyPatch, which: str, seed: int
) -> None:
    world = World(zone=PACIFIC if which == "google" else timezone.utc, draw=random.Random(seed))
    first = published(MemoryStore(base_url=URL), a=300, b=300)
    second = published(MemoryStore(base_url=URL), a=200, c=400)
    client = Client(loopback, world)
    inspector: Inspector
    if which == "google":
        google_server(engine, world)
        inspector = GoogleInspector(
            properties=PROPERTIES,
            token=lambda: "token",
            api=engine.base,
            http=client,
            sleep=world.sleep,
            pause_s=PACE_S,
        )  # type: ignore[arg-type]
    else:
        api = bing_server(engine, world).api
        inspector = BingInspector(site=URL, key=KEY, api=api, http=client, sleep=world.sleep, pause_s=PACE_S)  # type: ignore[arg-type]

    settle, put = quota.DayQuota.settle, inspection._Run.put
    killed: list[Client] = []
    monkeypatch.setattr(quota.DayQuota, "settle", lambda self: None if client_of(self).is_killed else settle(self))
    monkeypatch.setattr(inspection._Run, "put", lambda self: None if client_of(self.quota).is_killed else put(self))
    clients: dict[int, Client] = {}

    def client_of(spending: quota.DayQuota) -> Client:
        return clients.get(id(spending), client)

    outcomes: Counter[str] = Counter()

    def task(sitemap: Sitemap, sender: Client) -> None:
        """One try of a task, in a process of its own, whose clock is that of its worker."""
        before, world.skew = world.skew, timedelta(seconds=world.draw.uniform(-SKEW_S, SKEW_S))
        begin = inspection.DayQuota

        def spending(*args: Any, **settings: Any) -> Any:
            made = begin(*args, **settings)
            clients[id(made)] = sender
            kept.append(made)  # so that no other one gets its id
            return made

        monkeypatch.setattr(inspection, "DayQuota", spending)
        try:
            inspection.inspect(
                sitemap, replace(inspector, http=sender), daily=DAILY, quota_store=first.store, clock=world,
                sleep=world.sleep, monotonic=world.monotonic,
            )  # type: ignore[type-var]  # fmt: skip
            outcomes["done"] += 1
        except KilledError:
            killed.append(sender)
            outcomes["killed"] += 1
        except (NotAcceptedError, FetchError):
            outcomes["failed"] += 1
        finally:
            world.skew = before
            monkeypatch.setattr(inspection, "DayQuota", begin)

    kept: list[Any] = []
    with inline():
        for day in range(DAYS):
            border = (START + timedelta(days=day)).astimezone(world.zone).replace(
                hour=0, minute=0, second=0
            ) + timedelta(days=1)
            # Every other day all tasks run at its end, when no earlier one has used up the quota.
            earlier = (-1_200, world.draw.randrange(-900, -300)) if day % 2 else ()
            for minutes in (*earlier, world.draw.choice((-3.6, -2.6, -1.2, -0.8)), 3):
                world.at = max(world.at, border.astimezone(timezone.utc) + timedelta(minutes=minutes))
                for sitemap, other in ((first, second), (second, first)):
                    at_once = world.draw.random() < 0.2
                    second_client = Client(loopback, world, kills=0.01)
                    during = (lambda other=other, each=second_client: task(other, each)) if at_once else None
                    task(sitemap, Client(loopback, world, kills=world.draw.choice((0, 0.03, 0.1)), during=during))
                    if world.draw.random() < 0.3:
                        task(sitemap, Client(loopback, world))  # a retry, or a cleared run

    assert world.excess == []
    assert outcomes["killed"] >= 3, outcomes
    assert outcomes["done"] >= 100
    full = [number for number in world.days.values() if number == DAILY]
    assert len(full) >= DAYS / 3, "the quota is used, not only kept"
    observed = history(first.store.open().state, which)
    assert len(observed) >= DAYS - 1
