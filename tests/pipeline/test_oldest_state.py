"""Today's code reads what commit 4daf12b wrote, and goes on from it.

``data/state-4daf12b.json.gz`` holds both areas of a memory store after three generations, with a retired section, a
NULL key, dropped and expired rows, a watermark, a feed, a stylesheet, and a run that was planned and written only.
"""

from __future__ import annotations

import base64
import gzip
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.pipeline import build, rollback, stages
from airflow_sitemaps.pipeline.plan import watermark
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import ObjectInfo
from airflow_sitemaps.shards import codec
from airflow_sitemaps.stores.memory import MemoryObject
from airflow_sitemaps.testing.clock import FakeClock
from airflow_sitemaps.testing.crawler import crawl
from airflow_sitemaps.testing.source import MemorySourceConfig
from tests.support.environment import BASE, FREE, row

FILE = Path(__file__).parent / "data" / "state-4daf12b.json.gz"


class Earlier:
    """The store and the sitemap as the earlier code left them."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
        self.clock = FakeClock(datetime.fromisoformat(self.kept["now"]))
        self.config = MemoryStore(base_url=BASE, now=self.clock.now)
        self.rows: dict[str, list[dict[str, Any]]] = self.kept["rows"]
        for area in ("public", "state"):
            objects = getattr(self.config, area).objects
            for key, kept in self.kept[area].items():
                body = base64.b64decode(kept["body"])
                info = ObjectInfo(key=key, etag=kept["etag"], byte_size=len(body), metadata=kept["metadata"])
                objects[key] = MemoryObject(body=body, info=info, content_type="application/gzip", cache_control=None)
        self.state = StateRepository(self.config.open().state)

    def sitemap(self) -> Sitemap:
        def source(name: str, **mapping: str) -> MemorySourceConfig:
            return MemorySourceConfig(self.rows[name], key="id", clock=self.clock.now, **mapping)  # type: ignore[arg-type]

        sections = [
            Section("pages", source("pages", lastmod="lastmod"), change_detection="watermark"),
            Section("texts", source("texts")),
            Section("news", source("news", news="news"), kind="news"),
        ]
        settings: dict[str, Any] = {"recent": timedelta(days=1), "feeds": ("atom",), "stylesheet": True}
        policy = ShardPolicy(max_urls=5)
        return Sitemap(self.config, sections, shards=policy, guards=FREE, retired=["gone"], **settings)


@pytest.fixture
def earlier() -> Earlier:
    return Earlier()


def test_manifests_plans_receipts_and_reports_are_read(earlier: Earlier) -> None:
    root = earlier.state.root()
    assert root is not None
    assert (root.manifest.generation, root.manifest.promoted, len(root.manifest.history)) == (3, True, 3)
    assert root.manifest.index_record is None
    assert root.manifest.sections["texts"].null_keys == 1
    assert root.manifest.sections["news"].expired_rows == 3
    for number in (1, 2):
        generation = earlier.state.generation(number)
        assert generation is not None
        assert generation.generation == number
    plans = [key for key in earlier.kept["state"] if key.startswith("plans/")]
    assert {type(earlier.state.read_plan(key).sections).__name__ for key in plans} == {"dict"}
    receipts = [key for key in earlier.kept["state"] if "/receipts/" in key]
    assert sum(earlier.state.read_receipt(key).rows for key in receipts) > 20
    reports = [key.removeprefix("reports/").removesuffix(".json") for key in earlier.kept["state"] if "reports/" in key]
    assert {(earlier.state.read_report(run) or {})["result"] for run in reports} == {"published", "unchanged"}
    mark = watermark.remembered(earlier.state, root.manifest.sections["pages"])
    assert mark is not None
    assert mark.moment == earlier.clock.now()


def test_bytes_of_an_earlier_manifest_are_unchanged(earlier: Earlier) -> None:
    for key, kept in earlier.kept["state"].items():
        if "generations/" in key or key == "manifest.json.gz":
            body = base64.b64decode(kept["body"])
            assert gzip.decompress(codec.encode_manifest(codec.decode_manifest(body))) == gzip.decompress(body)


def test_the_next_run_goes_on(earlier: Earlier) -> None:
    before = {name: kept.info.etag for name, kept in earlier.config.public.objects.items()}
    earlier.rows["pages"].append(row(60, lastmod=earlier.clock.now().isoformat()))
    report = build(earlier.sitemap(), clock=earlier.clock)
    assert (report.result, report.generation) == ("published", 4)
    now = {name: kept.info.etag for name, kept in earlier.config.public.objects.items()}
    assert {name for name in before if name not in now} == set()
    assert now["pages-00001.xml.gz"] == before["pages-00001.xml.gz"]
    locs = crawl(earlier.config.open()).locs()
    assert {r["loc"] for r in earlier.rows["pages"]} <= set(locs)
    assert f"{BASE}p/k99" in locs
    assert build(earlier.sitemap(), clock=earlier.clock).result == "unchanged"


def test_earlier_generations_can_be_rolled_back_to(earlier: Earlier) -> None:
    report = rollback(earlier.sitemap(), 2, clock=earlier.clock)
    assert (report.result, report.generation) == ("published", 4)
    assert f"{BASE}p/50" not in crawl(earlier.config.open()).locs()
    assert stages.status(earlier.sitemap()).generation == 4
