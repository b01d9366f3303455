"""Incremental equals full, and unchanged stays unchanged byte for byte, for every kind of output."""

from __future__ import annotations

import json
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.protocol.reader import read
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig, crawl
from tests.support.environment import BASE, FREE, World, row

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 12


def plain(rng: random.Random, key: int, clock: FakeClock) -> dict[str, Any]:
    return row(key, lastmod=stamp(rng, clock), priority=rng.choice([None, 0.1, 0.9]))


def images(rng: random.Random, key: int, clock: FakeClock) -> dict[str, Any]:
    found = [{"loc": f"https://img.example.com/{key}-{n}.jpg", "title": "ä & <b>"} for n in range(rng.randint(0, 3))]
    return row(key, lastmod=stamp(rng, clock), images=json.dumps(found) if found else None)


def videos(rng: random.Random, key: int, clock: FakeClock) -> dict[str, Any]:
    video = {"thumbnail_loc": "https://img.example.com/t.jpg", "title": f"T{key}", "description": "D"}
    video |= {"content_loc": f"https://cdn.example.com/{key}.mp4", "duration": rng.choice([30, 600, 99_999])}
    return row(key, lastmod=stamp(rng, clock), videos=json.dumps([video]) if rng.random() < 0.6 else None)


def alternates(rng: random.Random, key: int, clock: FakeClock) -> dict[str, Any]:
    found = [{"hreflang": language, "href": f"{BASE}{language}/{key}"} for language in rng.sample(["de", "fr", "x"], 2)]
    return row(key, lastmod=stamp(rng, clock), alternates=json.dumps(found))


def news(rng: random.Random, key: int, clock: FakeClock) -> dict[str, Any]:
    moment = (clock.now() - timedelta(hours=rng.randint(1, 60))).isoformat()
    record = {"publication": {"name": "P", "language": "en"}, "title": f"N{key}", "publication_date": moment}
    return row(key, news=json.dumps(record))


def stamp(rng: random.Random, clock: FakeClock) -> str | None:
    return rng.choice([None, (clock.now() - timedelta(hours=rng.randint(-30, 200))).isoformat()])


FIELDS = {"lastmod": "lastmod", "priority": "priority"}
KINDS: dict[str, tuple[Callable[..., dict[str, Any]], dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "plain": (plain, FIELDS, {}, {}),
    "text": (plain, FIELDS, {"format": "text"}, {}),
    "images": (images, {"lastmod": "lastmod", "images": "images"}, {}, {}),
    "videos": (videos, {"lastmod": "lastmod", "videos": "videos"}, {}, {}),
    "alternates": (alternates, {"lastmod": "lastmod", "alternates": "alternates"}, {}, {}),
    "news": (news, {"news": "news"}, {"kind": "news"}, {}),
    "original limits": (plain, FIELDS, {"limits": "original"}, {}),
    "recent and feeds": (plain, FIELDS, {}, {"recent": timedelta(days=2), "feeds": ("atom", "rss", "mrss")}),
    "stylesheet": (plain, FIELDS, {}, {"stylesheet": True, "index": "per_section"}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_incremental_equals_full_and_unchanged_is_untouched(kind: str, seed: int) -> None:
    make, mapping, section_settings, settings = KINDS[kind]
    rng, clock = random.Random(seed), FakeClock()
    rows = [make(rng, key, clock) for key in rng.sample(range(200), 30)]
    config = MemoryStore(base_url=BASE, now=clock.now)
    section = Section("pages", MemorySourceConfig(rows, key="id", clock=clock.now, **mapping), **section_settings)

    def sitemap(store: MemoryStore) -> Sitemap:
        return Sitemap(store, [section], shards=ShardPolicy(max_urls=5), guards=FREE, **settings)

    for _ in range(ROUNDS):
        change(rng, rows, make, clock)
        rows.append(make(rng, 1_000 + len(rows), clock))
        elsewhere = MemoryStore(base_url=BASE)
        build(sitemap(elsewhere), clock=FakeClock(clock.now()), allow=["empty"])
        build(sitemap(config), clock=clock, allow=["empty"])
        assert listed(config, settings) == listed(elsewhere, settings)
        before = dict(config.public.objects)
        assert build(sitemap(config), clock=clock).result == "unchanged"
        assert config.public.objects == before
        clock.advance(timedelta(hours=rng.randint(1, 20)))


def change(
    rng: random.Random, rows: list[dict[str, Any]], make: Callable[..., dict[str, Any]], clock: FakeClock
) -> None:
    for _ in range(rng.randint(0, 4)):
        at = rng.randrange(len(rows))
        if rng.random() < 0.3 and len(rows) > 5:
            del rows[at]
        elif rng.random() < 0.5:
            rows[at] = make(rng, rows[at]["id"], clock)
        else:
            rows.append(make(rng, rng.randrange(200), clock))


def listed(config: MemoryStore, settings: dict[str, Any]) -> dict[str, Any]:
    index = "sitemap-pages.xml" if settings.get("index") == "per_section" else None
    found: dict[str, Any] = {}
    twice: dict[str, Any] = {}
    for name, entries in crawl(config.open(), index).files.items():
        facts = [(e.loc, e.lastmod, e.changefreq, e.priority, repr(e.extensions)) for e in entries]
        if name.startswith("recent"):
            found["recent"] = facts
        else:
            for fact in facts:
                twice.setdefault(fact[0], []).append(fact)
    # Rows that share a URL: which one a shard keeps depends on whether it holds both.
    found["entries"] = {loc: facts for loc, facts in twice.items() if len(facts) == 1}
    for name in ("recent.atom", "recent.rss", "recent-media.rss"):
        if name in config.public.objects:
            found[name] = [e.loc for e in read(config.public.objects[name].body).entries]
    return found


def test_the_first_build_of_a_text_file_names_what_it_leaves_out() -> None:
    columns = {"images": "images", "description": "images"}
    world = World([row(1, images=None)], section_settings={"format": "text"}, source_settings=columns)

    first, second = world.build(), world.build(full=True)

    said = "section 'pages': format='text' lists URLs alone, so its files leave out what its source names by "
    assert f"{said}lastmod=, changefreq=, priority=, images=, description=" in first.warnings
    assert not any("format='text'" in warning for warning in second.warnings)
