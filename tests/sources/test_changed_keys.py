"""A key whose columns, type or collation change in the database: the next run lists every URL once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing.clock import FakeClock
from airflow_sitemaps.testing.crawler import crawl
from tests.support.source_sessions import connected, create

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.databases import Database

BASE = "https://shop.example/"
NUMBER = 700


class Shop:
    """A sitemap over a table whose key changes between runs."""

    def __init__(self, base: Database) -> None:
        self.base = base
        self.clock = FakeClock()
        self.store = MemoryStore(base_url=BASE, now=self.clock.now)

    def table(self, kind: str, *, collation: str = "") -> None:
        """Fill the table again, with the ids as ``kind``."""
        create(self.base, "changed_keys", {"id": kind, "shop": "integer", "slug": "text"})
        rows = [
            {"id": str(n) if kind == "text" else n, "shop": n % 3, "slug": f"{'Ab'[n % 2]}{'_-'[n % 2]}{n}"}
            for n in range(1, NUMBER + 1)
        ]
        self.base.insert("changed_keys", rows)
        if collation:
            self.base.run(f"ALTER TABLE changed_keys ALTER COLUMN slug TYPE text COLLATE {collation}")

    def build(self, key: str | Sequence[str]) -> Any:
        source = SqlSource("changed", table="changed_keys", key=key, loc=BASE + "p/{slug}")
        sitemap = Sitemap(self.store, [Section("pages", source)], shards=ShardPolicy(max_urls=50), guards=Guards())
        return build(sitemap, clock=self.clock)

    def check(self, key: str | Sequence[str]) -> None:
        """Check that each URL is listed once after a run, and that the next run finds nothing to do."""
        assert self.build(key).result == "published"
        listed = sorted(entry.loc for entries in crawl(self.store.open()).files.values() for entry in entries)
        assert listed == sorted(BASE + "p/" + slug for (slug,) in self.base.rows("SELECT slug FROM changed_keys"))
        assert self.build(key).result == "unchanged"


@pytest.fixture
def shop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(connected(request.param, "changed", monkeypatch))


EVERYWHERE = pytest.mark.parametrize("shop", ["sqlite", "duckdb", "postgresql", "mariadb"], indirect=True)


@EVERYWHERE
@pytest.mark.parametrize("kinds", [("integer", "text"), ("text", "integer")], ids="-to-".join)
def test_a_key_column_of_another_type(shop: Shop, kinds: tuple[str, str]) -> None:
    for kind in kinds:
        shop.table(kind)
        if kind == kinds[0]:
            shop.build("id")
    report = shop.build("id")
    assert any("the section's key changed" in reason for reason in report.sections["pages"].reasons)
    shop.table(kinds[0])
    shop.check("id")


@EVERYWHERE
@pytest.mark.parametrize(
    ("before", "after"), [("id", ("shop", "id")), (("shop", "id"), "id"), ("id", "slug"), ("slug", ("shop", "id"))]
)
def test_other_key_columns(shop: Shop, before: str | Sequence[str], after: str | Sequence[str]) -> None:
    shop.table("integer")
    shop.build(before)
    shop.check(after)


@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_another_collation(shop: Shop) -> None:
    shop.table("integer", collation='"C"')
    shop.build("slug")
    shop.table("integer", collation='"en-x-icu"')
    shop.check("slug")
