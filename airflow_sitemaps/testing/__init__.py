"""What a test of a sitemap needs: rows and a store in memory, a clock, and a reader of what is published.

::

    rows = [{"id": 1, "loc": "https://www.example.com/about"}]
    store = MemoryStore(base_url="https://www.example.com/")
    build(Sitemap(store, [Section("pages", MemorySourceConfig(rows))]))
    assert crawl(store.open()).locs() == {"https://www.example.com/about"}
"""

from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.testing.clock import FakeClock
from airflow_sitemaps.testing.crawler import BrokenSitemapError, Crawl, crawl
from airflow_sitemaps.testing.source import MemorySource, MemorySourceConfig

__all__ = ["BrokenSitemapError", "Crawl", "FakeClock", "MemorySource", "MemorySourceConfig", "MemoryStore", "crawl"]
