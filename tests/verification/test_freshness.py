"""The age of an index as served: current, behind a stale cache, of another program, and not there."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

import pytest
from msgspec.structs import replace

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import Fetched, FetchError
from airflow_sitemaps.http.page_judge import RobotsCache
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.protocol.robots import read as robots_of
from airflow_sitemaps.verification import ServedIndex, served_faults, served_indexes
from tests.support.environment import BASE, World, row

INDEX = f"{BASE}sitemap.xml"


@dataclass
class Cache:
    """A cache in front of the store: it serves what it last fetched until it is purged."""

    world: World
    kept: dict[str, bytes | Fetched] = field(default_factory=dict)
    error: Exception | None = None
    status: int = 200

    def get(self, url: str) -> Fetched:
        if self.error is not None:
            raise self.error
        if url not in self.kept:
            self.kept[url] = self.world.public()[url.removeprefix(BASE)][0]
        kept = self.kept[url]
        return kept if isinstance(kept, Fetched) else Fetched(status=self.status, body=kept)


def served(world: World, cache: Cache) -> ServedIndex:
    (index,) = served_indexes(world.sitemap().store, cache, world.clock.now())
    assert index.url == INDEX
    return index


def test_a_current_index_is_as_old_as_the_last_successful_run() -> None:
    world = World([row(n) for n in range(12)])
    world.build()
    cache = Cache(world)
    world.clock.advance(timedelta(days=3))
    assert served(world, cache).age_s == pytest.approx(3 * 86_400, abs=60)

    world.build()  # unchanged
    world.clock.advance(timedelta(hours=1))

    index = served(world, cache)
    assert (index.current, index.age_s) == (True, pytest.approx(3_600, abs=60))


def test_an_index_that_a_cache_kept_is_outdated_since_the_commit_that_replaced_it() -> None:
    world = World([row(n) for n in range(12)])
    world.build()
    cache = Cache(world)
    assert served(world, cache).current
    world.clock.advance(timedelta(hours=5))
    world.rows.append(row(50))
    world.build()
    world.clock.advance(timedelta(hours=2))
    world.rows.append(row(51))
    world.build()
    world.clock.advance(timedelta(minutes=30))

    index = served(world, cache)

    assert index.current is False
    assert index.age_s == pytest.approx(2.5 * 3_600, abs=60)
    assert "generation 1, replaced at" in index.message
    cache.kept.clear()
    assert served(world, cache).current


@pytest.mark.parametrize(
    ("name", "days", "age_s", "message"),
    [
        ("pages-00001.xml.gz", -9, 9 * 86_400, "not an index of this sitemap's kept generations"),
        ("pages-00001.xml.gz", 9, None, "not an index of this sitemap's kept generations"),
        ("post-sitemap.xml", 0, None, "not an index of this sitemap: it lists no file of the kept generations"),
    ],
)
def test_an_index_that_is_not_kept(name: str, days: int, age_s: float | None, message: str) -> None:
    world = World([row(1)])
    world.build()
    ns, at = "http://www.sitemaps.org/schemas/sitemap/0.9", (world.clock.now() + timedelta(days=days)).isoformat()
    entry = f"<sitemap><loc>{BASE}{name}</loc><lastmod>{at}</lastmod></sitemap>"
    cache = Cache(world, {INDEX: f'<sitemapindex xmlns="{ns}">{entry}</sitemapindex>'.encode()})

    index = served(world, cache)

    assert index.age_s == (None if age_s is None else pytest.approx(age_s, abs=60))
    assert (index.current, index.message) == (False, message)


def test_an_index_that_is_not_readable_has_no_age() -> None:
    world = World([row(1)])
    world.build()

    assert served(world, Cache(world, status=503)).message == "the status is 503, not 200"
    broken = served(world, Cache(world, error=FetchError("no complete response within 30 s")))
    assert (broken.age_s, broken.message) == (None, "not readable: no complete response within 30 s")
    assert served(world, Cache(world, {INDEX: b"<html>maintenance</html>"})).age_s is None


def test_nothing_published_is_a_configuration_error() -> None:
    world = World([row(1)])

    with pytest.raises(ConfigurationError, match="nothing has been published yet"):
        served_indexes(world.sitemap().store, Cache(world), world.clock.now())


# ------------------------------------------------------------ shards and robots.txt


ROBOTS = f"{BASE}robots.txt"
ALLOWING = f"User-agent: *\nDisallow: /cart\nSitemap: {INDEX}\n".encode()


def faults(world: World, cache: Cache, robots: bytes | Fetched = ALLOWING) -> list[str]:
    cache.kept[ROBOTS] = robots
    store, now = world.sitemap().store, world.clock.now()
    return served_faults(store, cache, now, settled=timedelta(hours=1), draw=Random(7))


def settled_world() -> tuple[World, Cache]:
    world = World([row(n) for n in range(30)])
    world.build()
    world.clock.advance(timedelta(days=1))
    return world, Cache(world)


def test_files_that_are_served_as_published_have_no_fault() -> None:
    world, cache = settled_world()
    assert faults(world, cache) == []
    assert len(cache.kept) == 4  # robots.txt and three shards
    assert faults(world, cache, b"") == []  # no robots.txt disallows nothing, and need not name the index


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Fetched(status=404, body=b""), "the status is 404, not 200"),
        (
            Fetched(status=200, body=b"<html>", headers={"content-type": "text/html; charset=utf-8"}),
            "type is text/html",
        ),
        (Fetched(status=200, body=b"<urlset/>"), "9 bytes that were not published; purge the cache"),
    ],
)
def test_a_shard_that_is_served_otherwise_is_a_fault(answer: Fetched, fault: str) -> None:
    world, cache = settled_world()
    get = cache.get
    cache.get = lambda url: answer if url.endswith(".gz") else get(url)  # type: ignore[method-assign]
    (first, *others) = faults(world, cache)
    assert first.startswith(f"{BASE}pages-")
    assert fault in first
    assert len(others) == 2


def test_a_shard_that_has_just_changed_may_be_served_from_a_cache() -> None:
    world, cache = settled_world()
    faults(world, cache)
    for key in range(30):
        world.rows[key]["lastmod"] = world.clock.now()
    world.build()
    world.clock.advance(timedelta(minutes=30))
    assert faults(world, cache) == []
    world.clock.advance(timedelta(hours=1))
    assert len(faults(world, cache)) == 3


@pytest.mark.parametrize("body", [b"<Error><Code>AccessDenied</Code></Error>", b'{"error": "denied"}', b"Not here"])
def test_an_answer_that_is_no_sitemap_is_a_fault_however_new_the_shard(body: bytes) -> None:
    """A section that changes each day has only shards that a cache may still serve as they were."""
    world, cache = settled_world()
    for key in range(30):
        world.rows[key]["lastmod"] = world.clock.now()
    world.build()
    section = StateRepository(world.sitemap().store.open().state).published().sections["pages"]
    cache.kept |= {BASE + file.name: Fetched(status=200, body=body) for file in section.files()}
    assert len(faults(world, cache)) == 3


def test_a_run_that_publishes_meanwhile_is_no_fault() -> None:
    world, cache = settled_world()
    get = cache.get

    def publish_first(url: str) -> Fetched:
        if len(world.rows) == 30:
            world.rows[:] = [row(n, lastmod=world.clock.now()) for n in range(31)]
            world.build()
        return get(url)

    cache.get = publish_first  # type: ignore[method-assign]
    assert faults(world, cache) == []


def test_a_shard_that_is_not_promoted_yet_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    world, cache = settled_world()
    manifest = StateRepository(world.sitemap().store.open().state).published()
    section = manifest.sections["pages"]
    cache.kept |= {BASE + file.name: Fetched(status=404, body=b"") for file in section.files()}
    shards = [replace(shard, file=replace(shard.file, etag=None)) for shard in section.shards if shard.file is not None]
    later = replace(manifest, sections={"pages": replace(section, shards=tuple(shards))})
    assert len(faults(world, cache)) == 3
    monkeypatch.setattr(StateRepository, "manifest", lambda _: later)
    assert faults(world, cache) == []


@pytest.mark.parametrize(
    ("robots", "fault"),
    [
        ("User-agent: *\nDisallow: /p/\n", "line 2, 'Disallow: /p/'"),
        ("User-agent: Googlebot\nDisallow: *.xml$\n", f"disallows {INDEX}: line 2, 'Disallow: *.xml$'"),
        ("User-agent: *\nAllow: /cart\nDisallow: /\nDisallow: /\n", f"disallows {INDEX}: several lines"),
        (f"Sitemap: {BASE}old.xml", f"it names 1 sitemaps, and not {INDEX}"),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_a_line_of_robots_txt_that_disallows_what_is_listed_is_named(robots: str, fault: str, compressed: bool) -> None:
    world, cache = settled_world()
    headers = {"content-encoding": "gzip"} if compressed else {}
    body = gzip.compress(robots.encode()) if compressed else robots.encode()
    (only,) = faults(world, cache, Fetched(status=200, body=body, headers=headers))
    assert only.startswith(ROBOTS)
    assert fault in only
    cached, page = RobotsCache(cache).robots_of(INDEX), f"{BASE}p/1"
    assert cached.sitemaps == robots_of(robots).sitemaps
    assert cached.allows(page, "Googlebot") == robots_of(robots).allows(page, "Googlebot")


def test_a_robots_txt_that_allows_all_that_is_listed_has_no_fault() -> None:
    """No crawler fetches the folder itself."""
    world, cache = settled_world()
    assert faults(world, cache, b"User-agent: *\nDisallow: /\nAllow: /p/\nAllow: /*.xml\n") == []


def test_a_robots_txt_that_the_server_cannot_give_disallows_everything() -> None:
    world, cache = settled_world()
    (only,) = faults(world, cache, Fetched(status=503, body=b""))
    assert only.startswith(f"{ROBOTS}: the status is 503, so crawlers read nothing of its host")
    assert faults(world, cache, Fetched(status=403, body=b"")) == []


def test_the_robots_txt_of_each_host_of_listed_urls_is_read() -> None:
    world = World(
        [row(n, loc=f"https://shop.example.net/p/{n}") for n in range(30)],
        settings={"cross_submit": ["https://shop.example.net"]},
    )
    world.build()
    cache = Cache(world, {"https://shop.example.net/robots.txt": b"User-agent: *\nDisallow: /p/\nSitemap: /x.xml\n"})
    (only,) = faults(world, cache)
    assert only.startswith("https://shop.example.net/robots.txt disallows https://shop.example.net/p/")
    assert only.endswith("line 2, 'Disallow: /p/'")
