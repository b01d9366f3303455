"""Inspection: ask an engine about a random sample of listed URLs, within its quota, and go on where the last day ended.

Each section and age has its URLs in a fixed random order, by a hash. A cursor remembers how far it was inspected, and each
day continues there, so no URL is inspected twice before all were. The cursors and the requests of the day are one object,
which is put before the requests are sent: a task that is killed may waste requests, but never exceeds the quota.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import FetchError
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.inventory import inventory
from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK
from airflow_sitemaps.pipeline.state.repository import StateRepository, put_verified
from airflow_sitemaps.ports import Clock, Create, ObjectStore, StoreConfig, Update
from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.search_engines.index_status import (
    AREA,
    FORMAT,
    WINDOW_DAYS,
    Observation,
    PageState,
    Stratum,
    history,
    keep,
    tally,
)
from airflow_sitemaps.search_engines.quota import DayQuota, Inspector, Metered, UsedUpError
from airflow_sitemaps.shards import Decoder
from airflow_sitemaps.web_services import NotAcceptedError, Sender

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

CHUNK: Final = 100
"""URLs that are inspected between two puts of the record."""

SITE_REQUESTS: Final = 2

RECENT_DAYS: Final = 30
"""Days in which a lastmod must be for its URL to count in the recrawl lag."""

AGES: Final = ("new", "changed", "other")

Inspect = Callable[[str, str, "Sender"], PageState]
"""Inspects a URL in a property by a sender. Raises the errors of ``Service.call``."""


class Rotation(msgspec.Struct, kw_only=True):
    """How far each section and age was inspected (``cursors``), and what was seen today."""

    format: Literal[1] = FORMAT
    today: Observation
    cursors: dict[str, dict[str, int]] = {}


_ROTATION: Final = Decoder(Rotation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A listed URL that is to be inspected; ``rank`` is its place in the order, from the cursor on."""

    section: str
    age: str
    rank: int
    loc: str
    first_listed: datetime | None
    lastmod: str | None


def inspect(
    sitemap: Sitemap,
    inspector: Inspector,
    *,
    daily: int,
    quota_store: StoreConfig | None = None,
    clock: Clock = SYSTEM_CLOCK,
    **timing: Any,
) -> list[Observation]:
    """Inspect as many URLs as today's quota allows, and return the observations, oldest first.

    ``quota_store`` keeps the requests of the day, by default the sitemap's store. ``timing`` replaces ``sleep`` and ``monotonic`` of the quota. Raises ConfigurationError if nothing is published, no listed URL
    is in a property or a permission is missing, NotAcceptedError or FetchError if the engine answers none of a full chunk's requests, and
    RefusedPutError if another task inspects the same sitemap at the same time.
    """
    objects = sitemap.store.open().state
    counting = objects if quota_store is None else quota_store.open().state
    key = f"{AREA}quota/{inspector.engine}.json"
    quota = DayQuota(counting, key, inspector, daily=daily, clock=clock, **timing)
    run = _Run(objects, inspector, quota, clock)
    run.read_site()
    run.draw(sitemap)
    run.put()
    queue, done, started = iter(run.queue), 0, time.monotonic()
    while (chunk := run.next_chunk(queue)) and quota.reserve(Counter(site for _, site in chunk)):
        try:
            run.ask(chunk)
        finally:
            quota.settle()
            run.put()
        done += len(chunk)
        rate = done / max(time.monotonic() - started, 0.001)
        log.info("inspected %d of %d URLs (%.1f per second)", done, len(run.queue), rate)
    keep(run.objects, run.rotation.today)
    return history(run.objects, inspector.engine)


class _Run:
    """One day's inspection, or a part of it."""

    def __init__(self, objects: ObjectStore, inspector: Inspector, quota: DayQuota, clock: Clock) -> None:
        """Read the record, and begin a new day in it if the engine's has changed."""
        self.objects, self.inspector, self.quota, self.clock = objects, inspector, quota, clock
        self.manifest = StateRepository(objects).published()
        self.queue: list[Candidate] = []
        self.stopped: set[tuple[str, str]] = set()
        stored = objects.get(f"{AREA}{inspector.engine}.json")
        self.etag = None if stored is None else stored.info.etag
        today = Observation(engine=inspector.engine, day=quota.today, stages=inspector.stages)
        rotation = Rotation(today=today) if stored is None else _ROTATION.decode_or_none(stored.body)
        if rotation is None:
            log.warning("the record of inspections cannot be read: the sample begins again")
            rotation = Rotation(today=today)
        if rotation.today.day != quota.today:
            if rotation.today.sections:
                keep(objects, rotation.today)
            rotation = Rotation(today=today, cursors=rotation.cursors)
        self.rotation = rotation

    def put(self) -> None:
        """Store the record."""
        key = f"{AREA}{self.inspector.engine}.json"
        mode = Create() if self.etag is None else Update(self.etag)
        body, write_id = msgspec.json.encode(self.rotation), self.clock.token()
        self.etag = put_verified(self.objects, key, body, mode=mode, write_id=write_id)

    def read_site(self) -> None:
        """Keep what the engine says of the whole site; without a response, what it said before."""
        account, read = self.inspector.properties[0], self.inspector.site_state
        if read is None or not self.quota.left(account) or not self.quota.reserve({account: SITE_REQUESTS}):
            return
        try:
            self.rotation.today.site = read(
                Metered(self.inspector.sender(), self.quota, account), self.manifest.index_urls
            )
        except (NotAcceptedError, FetchError) as error:
            log.warning("the engine's statistics of the site are not read: %s", error)
        finally:
            self.quota.settle()

    def draw(self, sitemap: Sitemap) -> None:
        """Count the listed URLs by section and age, and draw those to inspect, all strata at the same pace."""
        limit = sum(map(self.quota.left, self.inspector.properties))
        now, today = self.clock.now(), self.rotation.today
        today.generation, today.at = self.manifest.generation, now.isoformat()
        today.properties = list(self.inspector.properties)
        drawn: dict[tuple[str, str], list[Candidate]] = {}
        counted: dict[str, dict[str, int]] = {}
        for rows in inventory(sitemap):
            for age, part in _by_age(rows, now):
                section = part["section"][0].as_py()
                cursor = self.rotation.cursors.get(section, {}).get(age, 0)
                inside = [(n, loc) for n, loc in enumerate(part["loc"].to_pylist()) if self.inspector.homes(loc)]
                ages = counted.setdefault(section, {})
                ages[age] = ages.get(age, 0) + len(inside)
                # No later section gives this one more than it would get now.
                sizes = {name: sum(each.values()) for name, each in counted.items()}
                most = shares(limit, {**sizes, section: limit})[section]
                ranks = nsmallest(most, (((order_of(loc) - cursor - 1) % (1 << 63), n) for n, loc in inside))
                best = [*drawn.get((section, age), ()), *_candidates(part, age, ranks)]
                drawn[section, age] = nsmallest(most, best, key=lambda candidate: candidate.rank)
        wanted = shares(limit, {section: sum(ages.values()) for section, ages in counted.items()})
        before = today.sections
        today.sections = {
            section: {age: before.get(section, {}).get(age, Stratum()) for age in AGES if ages.get(age)}
            for section, ages in counted.items()
        }
        if counted and not any(today.sections.values()):
            places = " or ".join(self.inspector.properties)
            raise ConfigurationError(
                f"no listed URL, such as {part['loc'][0].as_py()}, is in {places}; give the property that it is in"
            )
        paced: list[tuple[float, Candidate]] = []
        for section, strata in today.sections.items():
            for age, stratum in strata.items():
                stratum.urls = counted[section][age]
            left = {age: max(0, each.urls - each.inspected - each.failed) for age, each in strata.items()}
            split = shares(wanted[section], {age: min(len(drawn[section, age]), left[age]) for age in strata})
            for age in strata:
                paced += [(n / split[age], each) for n, each in enumerate(drawn[section, age][: split[age]], 1)]
        self.queue = [candidate for _, candidate in sorted(paced, key=lambda pair: pair[0])]

    def next_chunk(self, queue: Iterator[Candidate]) -> list[tuple[Candidate, str]]:
        """Return the next URLs with the property to ask in. A stratum ends at the first URL that finds no quota.

        What was inspected of it is then still the beginning of a random order, whatever properties are left.
        """
        chunk: list[tuple[Candidate, str]] = []
        left = {site: self.quota.left(site) for site in self.inspector.properties}
        for candidate in queue:
            stratum = candidate.section, candidate.age
            site = next((home for home in self.inspector.homes(candidate.loc) if left[home]), None)
            if site is None or stratum in self.stopped:
                self.stopped.add(stratum)
                continue
            left[site] -= 1
            chunk.append((candidate, site))
            if len(chunk) == CHUNK:
                break
        return chunk

    def ask(self, chunk: Sequence[tuple[Candidate, str]]) -> None:
        """Inspect URLs, and count them. Raise the first error if no URL is inspected and the quota is not the cause.

        In the last and smaller chunk of a day these may be single URLs that the engine refuses.
        """
        answer = partial(_answer, self.inspector.session(), self.inspector.sender(), self.quota)
        states = list(mapped(answer, chunk, "sitemap-inspect"))
        for at, (state, (_, site)) in enumerate(zip(states, chunk, strict=True)):  # refused before another said why
            if isinstance(state, NotAcceptedError) and state.status == 429 and site in self.quota.used_up:
                states[at] = UsedUpError(str(state))
        answers = list(zip((each for each, _ in chunk), states, strict=True))
        errors = [error for _, error in answers if isinstance(error, Exception) and not isinstance(error, UsedUpError)]
        inspected = any(each.inspected for ages in self.rotation.today.sections.values() for each in ages.values())
        is_rest = inspected and len(chunk) < CHUNK
        if errors and not is_rest and not any(isinstance(state, PageState) for _, state in answers):
            raise errors[0]
        if errors:
            log.warning("%d of %d URLs could not be inspected; the first: %s", len(errors), len(chunk), errors[0])
        if (early := next((error for _, error in answers if isinstance(error, UsedUpError)), None)) is not None:
            log.warning("not all of these %d URLs were inspected: %s", len(chunk), early)
        now, ended = self.clock.now(), set[tuple[str, str]]()
        for candidate, state in answers:
            if isinstance(state, UsedUpError) or (candidate.section, candidate.age) in ended:
                ended.add((candidate.section, candidate.age))
                continue
            ages = self.rotation.cursors.setdefault(candidate.section, {})
            ages[candidate.age] = order_of(candidate.loc)
            stratum = self.rotation.today.sections[candidate.section][candidate.age]
            if isinstance(state, PageState):
                _count(stratum, candidate, state, now)
            else:
                stratum.failed += 1
        self.stopped |= ended


def _answer(
    inspect_url: Inspect, sender: Sender, quota: DayQuota, asked: tuple[Candidate, str]
) -> PageState | UsedUpError | NotAcceptedError | FetchError:
    candidate, site = asked
    try:
        return inspect_url(site, candidate.loc, Metered(sender, quota, site))
    except (NotAcceptedError, FetchError) as error:
        return error


def _count(stratum: Stratum, candidate: Candidate, state: PageState, now: datetime) -> None:
    stratum.inspected += 1
    stratum.discovered += state.is_discovered
    stratum.crawled += state.crawled_at is not None
    stratum.indexed += state.is_indexed
    stratum.other_canonical += bool(state.canonical)
    tally(stratum.reasons, state.reason[:100] or "no reason given")
    if candidate.age == "new" and candidate.first_listed is not None:
        days = "" if state.crawled_at is None else str(max(0, (state.crawled_at - candidate.first_listed).days))
        tally(stratum.first_crawl, days)
    value = lastmod.parse_or_none(candidate.lastmod)
    changed = None if value is None else lastmod.begins(value)
    if changed is not None and now - timedelta(days=RECENT_DAYS) <= changed <= now:
        is_later = state.crawled_at is not None and state.crawled_at >= changed
        tally(stratum.recrawl, str((state.crawled_at - changed).days) if is_later and state.crawled_at else "")


def shares(total: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Divide a number in equal shares, none above its size. What small ones leave, the larger ones get."""
    divided, left = {}, total
    for place, (name, size) in enumerate(sorted(sizes.items(), key=lambda each: each[1])):
        divided[name] = min(size, left // (len(sizes) - place))
        left -= divided[name]
    return divided


def order_of(loc: str) -> int:
    """Return the place of a URL in the random order: 63 bits, which every JSON reader takes."""
    return int.from_bytes(blake2b(loc.encode(errors="replace"), digest_size=8).digest(), "big") >> 1


def _candidates(rows: pa.Table, age: str, ranks: Iterable[tuple[int, int]]) -> Iterator[Candidate]:
    section = rows["section"][0].as_py()
    for rank, place in ranks:
        loc, first_listed, modified = (rows[name][place].as_py() for name in ("loc", "first_listed", "lastmod"))
        yield Candidate(section=section, age=age, rank=rank, loc=loc, first_listed=first_listed, lastmod=modified)


def _by_age(rows: pa.Table, now: datetime) -> Iterable[tuple[str, pa.Table]]:
    """Return the rows by age, those ages only that have rows. Without a ledger all rows are ``other``."""
    import pyarrow.compute as pc  # noqa: PLC0415 - pyarrow is loaded where work is done

    since = now - timedelta(days=WINDOW_DAYS)
    listed, changed = (
        pc.fill_null(pc.greater_equal(rows[name], since), fill_value=False) for name in ("first_listed", "changed_at")
    )
    masks = (listed, pc.and_(pc.invert(listed), changed), pc.invert(pc.or_(listed, changed)))
    parts = zip(AGES, map(rows.filter, masks), strict=True)
    return [(age, part) for age, part in parts if part.num_rows]
