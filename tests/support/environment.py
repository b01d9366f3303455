"""A small world for pipeline tests: rows, a store, a clock, and how to compare with a rebuild from nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing import Crawl, FakeClock, crawl
from tests.support.simulated_source import SimulatedSourceConfig

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report

BASE = "https://www.example.com/"
FREE = Guards.disabled()


def row(key: Any, **fields: Any) -> dict[str, Any]:
    return {"id": key, "loc": f"{BASE}p/{key}", "lastmod": None, "changefreq": None, "priority": None, **fields}


@dataclass
class World:
    """One section over a list of rows."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    max_urls: int = 5
    policy: ShardPolicy | None = None
    guards: Guards = FREE
    settings: dict[str, Any] = field(default_factory=dict)
    section_settings: dict[str, Any] = field(default_factory=dict)
    source_settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = FakeClock()
        self.config = MemoryStore(base_url=BASE, now=self.clock.now)
        self.store = self.config.open()

    def sitemap(self, config: MemoryStore | None = None) -> Sitemap:
        mapping = {"lastmod": "lastmod", "changefreq": "changefreq", "priority": "priority", **self.source_settings}
        source = SimulatedSourceConfig(self.rows, key="id", clock=self.clock.now, **mapping)
        policy = self.policy or ShardPolicy(max_urls=self.max_urls)
        section = Section("pages", source, **self.section_settings)
        return Sitemap(config or self.config, [section], shards=policy, guards=self.guards, **self.settings)

    def build(self, **kwargs: Any) -> Report:
        return build(self.sitemap(), clock=self.clock, **kwargs)

    def crawl(self) -> Crawl:
        return crawl(self.store)

    def rebuilt(self) -> Crawl:
        """What a build from nothing, elsewhere, of the same rows and at the same moment lists."""
        config = MemoryStore(base_url=BASE)
        build(self.sitemap(config), clock=FakeClock(self.clock.now()))
        return crawl(config.open())

    def public(self) -> dict[str, tuple[bytes, Any]]:
        """Every public object: its bytes and when it was written."""
        return {name: (o.body, o.info.modified_at) for name, o in self.config.public.objects.items()}

    def shards(self) -> dict[str, tuple[bytes, Any]]:
        return {name: kept for name, kept in self.public().items() if name != "sitemap.xml"}
