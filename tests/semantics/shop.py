"""A shop for these tests: two tables in SQLite, read through an Airflow connection, published to a store."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG

from airflow_sitemaps import Guards, LocalStore, Section, ShardPolicy, Sitemap, SitemapTaskGroup, SqlSource
from airflow_sitemaps.pipeline import build, status
from tests.simulation.faults import Faults, FaultyStore

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://shop.example/"
CONN_ID = "shop"


@dataclass
class Shop:
    """``folder`` holds the database and what is published."""

    folder: Path
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.sql("CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT, updated_at TEXT)")
        self.sql("CREATE TABLE pages (id INTEGER PRIMARY KEY, slug TEXT, updated_at TEXT)")
        self.add("products", *range(25))
        self.add("pages", *range(1, 10))  # too many to share a mapped task with the last products

    @property
    def connection(self) -> str:
        """For ``AIRFLOW_CONN_SHOP``."""
        extra = {"sqlalchemy_url": f"sqlite:///{self.folder / 'shop.db'}"}
        return json.dumps({"conn_type": "generic", "extra": extra})

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / "shop.db")) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def add(self, table: str, *ids: int) -> None:
        for number in ids:
            self.sql(f"INSERT INTO {table} VALUES (?, ?, '2026-01-01 00:00:00')", number, f"{table}-{number}")

    def source(self, table: str, **settings: Any) -> SqlSource:
        mapping = {"key": "id", "loc": URL + "{slug}", "lastmod": "updated_at"}
        return SqlSource(CONN_ID, table=table, **{**mapping, **settings})

    def sitemap(
        self, *sections: Section, site: str = "site", index_name: str = "sitemap.xml", **settings: Any
    ) -> Sitemap:
        """Both tables as sections, unless other sections are given."""
        default = (Section("products", self.source("products")), Section("pages", self.source("pages")))
        store = FaultyStore(LocalStore(self.folder / site, base_url=URL, index_name=index_name), self.faults)
        settings = {"shards": ShardPolicy(max_urls=10), "guards": Guards(min_rows=10), **settings}
        return Sitemap(store, sections or default, **settings)

    def published(self, site: str = "site") -> dict[str, list[str]]:
        """What a crawler finds: URLs by file, as the index lists them. Fails where a listed file is missing."""
        folder = self.folder / site
        if not (folder / "sitemap.xml").exists():
            return {}
        names = [loc.removeprefix(URL) for loc in re.findall("<loc>(.*?)</loc>", (folder / "sitemap.xml").read_text())]
        bodies = {name: gzip.decompress((folder / name).read_bytes()).decode() for name in names}
        return {name: re.findall("<loc>(.*?)</loc>", body) for name, body in bodies.items()}

    def urls(self, site: str = "site") -> list[str]:
        """Every URL a crawler finds, sorted; one that two files list is here twice."""
        return sorted(url for urls in self.published(site).values() for url in urls)

    def expected(self) -> list[str]:
        """What the tables hold now."""
        return sorted(URL + slug for (slug,) in self.sql("SELECT slug FROM products UNION ALL SELECT slug FROM pages"))

    def generation(self) -> int:
        return status(self.sitemap()).generation

    def heal(self, sitemap: Sitemap | None = None) -> None:
        """The next run makes everything as a rebuild from nothing would (I5), and the one after changes nothing."""
        sitemap = sitemap or self.sitemap()
        build(sitemap)
        assert build(sitemap).result == "unchanged"
        assert self.urls() == self.expected()


def dag_of(sitemap: Sitemap, dag_id: str, params: dict[str, Any] | None = None, **settings: Any) -> DAG:
    """The group in a DAG; one task for each shard, so that there are several mapped tasks."""
    with DAG(dag_id, schedule=None, max_active_runs=1, default_args={"retries": 0}, params=params) as dag:
        SitemapTaskGroup("sitemap", sitemap, batch_size=1, **settings)
    return dag
