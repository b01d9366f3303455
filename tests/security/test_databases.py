"""Names, values and statements that try to break out of the SQL: they come back as data, and do nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from airflow_sitemaps import Guards, LocalStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import SitemapError, SourceConfigurationError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.testing import crawl
from tests.support.databases import NAMES, Database
from tests.support.source_sessions import BACKENDS, SQL_BACKENDS, create, live, read, session

if TYPE_CHECKING:
    from pathlib import Path

BASE = "https://shop.example/"
HOSTILE_NAMES = (
    'a"b', "a'b", "a`b", "a;DROP TABLE victim;--", "a:b", "a::b", "a\\:b", "100%", "%s", "%(x)s", "$1", "{x}", "a--b",
    "ÜMLAUT", "select", "at", "a.b", "a b", "?", ":sitemap_0", "/* x */", "]", "[x]",
    # everything that ends or escapes an identifier somewhere
    "pro\"duc`ts'; DROP TABLE victim; -- ]%s :x",
)  # fmt: skip
HOSTILE = (
    *HOSTILE_NAMES,
    "'; DROP TABLE victim; --",
    '"; DROP TABLE victim; --',
    "`; DROP TABLE victim; --",
    "') OR ('1'='1",
    "*/ DROP TABLE victim /*",
    "-- \n; DROP TABLE victim",
    "\\'; DROP TABLE victim; --",
    "\\",
    "\\'",
    "''",
    "'||'",
    "%s %(x)s %%",
    ":x :sitemap_0 \\:y",
    "\\:x",
    "{{ 7 * 7 }} {% raw %} {slug}",
    "${jndi:ldap://x} $(id) `id`",
    "<script>alert(1)</script> & ]]>",
    "../../../etc/passwd",
    "x' UNION SELECT 1,2,3 --",
    "ａ＇；\u2028\u202e",
    "日本\U0001f600",
    "\t",
    "line\nbreak",
    "\x01\x1f",
)


@pytest.fixture(params=NAMES)
def base(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Database:
    found = live(request.param)
    with_victim(found)
    extra = {"sqlalchemy_url": found.url}
    monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps({"conn_type": "generic", "extra": extra}))
    return found


def with_victim(base: Database) -> None:
    base.run("DROP TABLE IF EXISTS victim", "CREATE TABLE victim (id INTEGER)", "INSERT INTO victim VALUES (1)")


def is_unharmed(base: Database) -> bool:
    return base.rows("SELECT id FROM victim") == [(1,)]


def published(source: SqlSource, folder: Path) -> set[str]:
    store = LocalStore(folder / "site", base_url=BASE)
    free = Guards(max_dropped=1.0, min_rows=1_000)
    sitemap = Sitemap(store, [Section("rows", source)], shards=ShardPolicy(max_urls=10), guards=free)
    build(sitemap)
    assert build(sitemap).result == "unchanged"
    return crawl(store.open()).locs()


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names(base: Database, name: str) -> None:
    # A brace would make a template of loc, and a template names columns without braces.
    column = name if "{" not in name else "plain"
    create(base, name, {"id": "integer", column: "text", f"{name} at": "timestamp"})
    base.insert(name, [{"id": n, column: f"v{n}", f"{name} at": None} for n in range(5)])
    quoted = '"' + name.replace('"', '""') + '"'
    with session(base, table=quoted, key=column, loc=column, lastmod=f"{name} at", changefreq=column) as source:
        boundaries = source.boundaries(KeyRange(None, None), 2)
        ranges = cut(KeyRange(None, None), boundaries)
        digests = source.survey(ranges).digests
        counts, sums, order = read(source, ranges)
    assert [loc for _place, _key, loc in order] == [f"v{n}" for n in range(5)]
    assert [(counts[n], sums[n]) for n in range(3)] == [(d.rows, d.checksum) for d in digests]
    base.run(f"DROP TABLE {base.quote(name)}")
    assert is_unharmed(base)


def test_hostile_values_are_published_as_values(base: Database, tmp_path: Path) -> None:
    """As keys they are boundaries of shards: bound into the next run's survey, and compared in the database."""
    create(base, "hostile", {"word": "text", "slug": "text"})
    base.insert("hostile", [{"word": word, "slug": word} for word in HOSTILE])

    found = published(SqlSource("hostile", table="hostile", key="word", loc=BASE + "{slug}"), tmp_path)

    survivors = [word for word in HOSTILE if BASE + quote(word, safe="") in found]
    # A control character, though encoded, is no part of an address.
    assert set(HOSTILE) - set(survivors) <= {"\x01\x1f", "\t", "line\nbreak", "-- \n; DROP TABLE victim"}
    assert len(found) == len(survivors)
    assert is_unharmed(base)


@pytest.mark.parametrize("backend", SQL_BACKENDS)
def test_hostile_values_are_read_and_surveyed_alike(backend: str) -> None:
    name, reader = BACKENDS[backend]
    base = live(name)
    with_victim(base)
    create(base, "hostile", {"k": "text", "slug": "text"})
    base.insert("hostile", [{"k": value, "slug": value} for value in HOSTILE])
    with session(base, table="hostile", key="k", loc="slug", reader=reader) as source:
        boundaries = source.boundaries(KeyRange(None, None), 1)
        ranges = cut(KeyRange(None, None), boundaries)
        digests = source.survey(ranges).digests
        counts, sums, order = read(source, ranges)
        assert source.rank([key for _place, key, _loc in order]) == sorted(
            source.rank([key for _place, key, _loc in order])
        )
    assert sorted(loc for _place, _key, loc in order) == sorted(HOSTILE)
    assert all(key == (loc,) for _place, key, loc in order)
    assert [(counts[n], sums[n]) for n in range(len(ranges))] == [(d.rows, d.checksum) for d in digests]
    assert is_unharmed(base)


@pytest.mark.parametrize("backend", SQL_BACKENDS)
def test_a_query_with_parameters(backend: str) -> None:
    name, reader = BACKENDS[backend]
    base = live(name)
    with_victim(base)
    create(base, "hostile", {"k": "integer", "slug": "text"})
    base.insert("hostile", [{"k": n, "slug": value} for n, value in enumerate(HOSTILE)])
    for value in HOSTILE:
        with session(
            base, query="SELECT k, slug, ':x' AS colon, '%s' AS percent FROM hostile WHERE slug = :value -- all;",
            where="colon = ':x' AND k >= :low", parameters={"value": value, "low": 0, "unused": "x"},
            key="k", loc="slug", changefreq="colon", reader=reader,
        ) as source:  # fmt: skip
            assert source.survey([KeyRange(None, None)]).digests[0].rows == 1
            rows = [row for batch in source.read([KeyRange((0,), (99,))]) for row in batch.to_pylist()]
        assert [(row["loc"], row["changefreq"]) for row in rows] == [(value, ":x")]
    assert is_unharmed(base)


@pytest.mark.parametrize(
    "where",
    [
        "1=1); DELETE FROM victim; --",
        "1=1)) src; DELETE FROM victim; SELECT * FROM ((SELECT 1",
        "id IN (DELETE FROM victim)",
    ],
)
def test_a_condition_cannot_write(base: Database, where: str, tmp_path: Path) -> None:
    """``where`` and ``query`` are the DAG author's SQL, yet a slip in them must not change the warehouse."""
    with pytest.raises(SitemapError):
        published(SqlSource("hostile", table="victim", key="id", loc=BASE + "{id}", where=where), tmp_path)

    assert is_unharmed(base)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM victim; DELETE FROM victim",
        "DELETE FROM victim RETURNING id",
        "SELECT id FROM victim) src; DELETE FROM victim; --",
    ],
)
def test_a_query_cannot_write(base: Database, query: str, tmp_path: Path) -> None:
    with pytest.raises(SitemapError):
        published(SqlSource("hostile", query=query, key="id", loc=BASE + "{id}"), tmp_path)

    assert is_unharmed(base)


def test_a_session_cannot_write(base: Database) -> None:
    """Its transaction only reads; DuckDB has none such, and takes no statement but one that reads."""
    if base.name == "duckdb":
        with (
            pytest.raises(SourceConfigurationError),
            session(base, query="DELETE FROM victim RETURNING *", key="id", loc="id"),
        ):
            pass
    else:
        with (
            pytest.raises(Exception, match=r"(?i)read.?only"),
            session(base, table="victim", key="id", loc="id") as source,
            source.transaction("writing") as connection,
        ):
            connection.exec_driver_sql("DELETE FROM victim")
    assert is_unharmed(base)
