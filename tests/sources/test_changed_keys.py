"""A key whose columns, type or collation change in the database: the next run lists every URL once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing import FakeClock, crawl
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

    def to_type(self, column: str, kind: str) -> str:
        """Write the statement that gives a column another type."""
        if self.base.name == "mariadb":
            return f"ALTER TABLE changed_keys MODIFY {column} {kind}"
        return f"ALTER TABLE changed_keys ALTER COLUMN {column} TYPE {kind} USING CAST({column} AS {kind})"

    def enum(self, values: Sequence[str]) -> None:
        """Fill the table again, with an id of an enum of some values, each in forty rows."""
        kind = f"enum({', '.join(map(repr, values))})"
        self.base.run("DROP TABLE IF EXISTS changed_keys")
        if self.base.name != "mariadb":
            self.base.run("DROP TYPE IF EXISTS changed_ids", f"CREATE TYPE changed_ids AS {kind}")
            kind = "changed_ids"
        self.base.run(f"CREATE TABLE changed_keys (id {kind}, slug varchar(20))")
        rows = [{"id": value, "slug": f"{value}-{n}"} for value in values for n in range(40)]
        self.base.insert("changed_keys", rows)

    def build(self, key: str | Sequence[str], *, full: bool = False) -> Any:
        source = SqlSource("changed", table="changed_keys", key=key, loc=BASE + "p/{slug}")
        sitemap = Sitemap(self.store, [Section("pages", source)], shards=ShardPolicy(max_urls=50), guards=Guards())
        return build(sitemap, full, clock=self.clock)

    def check(self, key: str | Sequence[str], *, full: bool = False) -> None:
        """Check that each URL is listed once after a run, and that the next run finds nothing to do."""
        assert self.build(key, full=full).result == "published"
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


@pytest.mark.parametrize("full", [False, True], ids=["changes", "full"])
@pytest.mark.parametrize("shop", ["duckdb", "postgresql", "mariadb"], indirect=True)
def test_a_number_that_no_longer_fits_the_key(shop: Shop, full: bool) -> None:
    shop.table("integer")
    shop.base.run("UPDATE changed_keys SET id = id + 5000000000")
    shop.build("id")
    shop.base.run("UPDATE changed_keys SET id = id - 5000000000", shop.to_type("id", "INTEGER"))
    shop.check("id", full=full)


@pytest.mark.parametrize("full", [False, True], ids=["changes", "full"])
@pytest.mark.parametrize("shop", ["duckdb", "postgresql", "mariadb"], indirect=True)
def test_a_boundary_that_the_enum_no_longer_has(shop: Shop, full: bool) -> None:
    """The last case drops the value of a boundary."""
    for values in (("a", "b", "c", "d"), ("a", "c", "d", "z")):
        shop.enum(values)
        shop.check("id", full=full)


@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_a_boundary_that_the_domain_no_longer_accepts(shop: Shop) -> None:
    shop.table("integer")
    shop.base.run(
        "DROP DOMAIN IF EXISTS ids CASCADE",
        "CREATE DOMAIN ids AS integer",
        "ALTER TABLE changed_keys ALTER COLUMN id TYPE ids",
    )
    shop.build("id")
    shop.base.run("UPDATE changed_keys SET id = id + 700", "ALTER DOMAIN ids ADD CHECK (VALUE > 700)")
    shop.check("id")


@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_another_collation(shop: Shop) -> None:
    shop.table("integer", collation='"C"')
    shop.build("slug")
    shop.table("integer", collation='"en-x-icu"')
    shop.check("slug")
