"""Every file that the pipeline publishes passes the official schemas."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from lxml import etree

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.protocol.gzip import decompress
from airflow_sitemaps.testing import FakeClock, MemorySourceConfig
from tests.support.environment import BASE, FREE, row

XSD = Path(__file__).parents[3] / "shared" / "xsd"

pytestmark = pytest.mark.skipif(not XSD.is_dir(), reason="the official schemas are not beside this checkout")

IMAGES = [{"loc": "https://img.example.com/a.jpg?x=1&y=2", "caption": "Ein „Bild“ & <mehr>", "title": "T"}]
VIDEOS = [
    {
        "thumbnail_loc": "https://img.example.com/t.jpg",
        "title": "Film",
        "description": "Über alles",
        "content_loc": "https://cdn.example.com/v.mp4",
        "duration": 600,
        "tags": ["a", "b"],
        "restriction": {"relationship": "allow", "countries": ["DE", "AT"]},
        "live": "no",
    }
]
ALTERNATES = [{"hreflang": "de", "href": BASE + "de"}, {"hreflang": "x-default", "href": BASE}]


def published() -> dict[str, bytes]:
    """Every kind of section and file, after a build and a change."""
    clock = FakeClock()
    config = MemoryStore(base_url=BASE, now=clock.now)
    news = {"publication": {"name": "The Post", "language": "en"}, "title": "A & B"}
    plain = [row(n, lastmod=f"2026-01-{n % 15 + 1:02d}", priority=0.3, changefreq="daily") for n in range(1, 30)]
    rich = [
        row(
            n,
            loc=f"{BASE}rich/{n}?a=1&b='ü\"",
            lastmod="2026-01-14T10:00:00+02:00",
            images=json.dumps(IMAGES),
            videos=json.dumps(VIDEOS),
            alternates=json.dumps(ALTERNATES),
        )
        for n in range(1, 20)
    ]
    press = [row(n, loc=f"{BASE}n/{n}", news=json.dumps({**news, "publication_date": "2026-01-15"})) for n in (1, 2)]
    extensions = {"images": "images", "videos": "videos", "alternates": "alternates"}
    fields = {"lastmod": "lastmod", "changefreq": "changefreq", "priority": "priority"}
    sitemap = Sitemap(
        config,
        [
            Section("plain", MemorySourceConfig(plain, **fields)),
            Section("rich", MemorySourceConfig(rich, lastmod="lastmod", **extensions), path="rich/"),
            Section("press", MemorySourceConfig(press, news="news"), kind="news"),
        ],
        shards=ShardPolicy(max_urls=10),
        guards=FREE,
        recent=timedelta(days=5),
        index="per_section",
    )
    build(sitemap, clock=clock)
    plain.append(row(500))
    del plain[3:6]
    clock.advance(timedelta(minutes=1))
    build(sitemap, clock=clock)
    return {name: kept.body for name, kept in config.public.objects.items()}


def test_every_published_file_is_valid():
    urlset = etree.XMLSchema(etree.parse(XSD / "all.xsd"))
    index = etree.XMLSchema(etree.parse(XSD / "siteindex.xsd"))
    seen = []
    for name, body in published().items():
        content = decompress(body, max_byte_size=10**8) if name.endswith(".gz") else body
        schema = index if name.startswith("sitemap") else urlset
        schema.assertValid(etree.fromstring(content))
        seen.append(name)
    assert {name.partition("-")[0] for name in seen} == {"plain", "rich/rich", "press", "recent.xml.gz", "sitemap"}
    assert len(seen) == 11
