"""Changes that a database's own hash or comparison cannot see move the digest, and are published.

``tests.support.hash_collisions`` found the pairs of values.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards.ranges import KeyRange, cut
from airflow_sitemaps.testing import crawl
from tests.support.databases import HAS_CLICKHOUSE
from tests.support.source_sessions import connected, create, live, session

BASE = "https://www.example.com/"
FOUND: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "hash_collisions.jsonl").read_text().splitlines()
]
CASES = [
    pytest.param(name, kind, [pair["values"] for pair in pairs], id=f"{name}-{kind}")
    for (name, kind), pairs in groupby(FOUND, lambda pair: (pair["database"], pair["type"]))
    if name != "clickhouse" or HAS_CLICKHOUSE
]


@pytest.mark.parametrize(("name", "kind", "pairs"), CASES)
def test_each_change_moves_the_digest_and_is_published(
    name: str, kind: str, pairs: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = connected(name, "alike", monkeypatch)
    create(base, "alike", {"id": "integer", "v": f"={kind}"})
    old, new = (", ".join(f"({n}, {values[at]})" for n, values in enumerate(pairs)) for at in (0, 1))
    base.run(f"INSERT INTO alike VALUES {old}")
    source: dict[str, Any] = {"table": "alike", "key": "id", "loc": BASE + "{v}"}
    sitemap = Sitemap(
        MemoryStore(base_url=BASE), [Section("pages", SqlSource("alike", **source))], shards=ShardPolicy(max_urls=1),
        guards=Guards.disabled(), rules={"loc-duplicate": "keep"},
    )  # fmt: skip
    ranges = cut(KeyRange(None, None), [(n,) for n in range(1, len(pairs))])
    build(sitemap)
    before = crawl(sitemap.store.open()).locs()
    with session(base, **source) as opened:
        digests = opened.survey(ranges).digests
    # DuckDB's UPDATE leaves out a change to a value that it takes for the same.
    base.run("DELETE FROM alike WHERE id >= 0", f"INSERT INTO alike VALUES {new}")
    with session(base, **source) as opened:
        moved = opened.survey(ranges).digests
    assert [one.checksum == other.checksum for one, other in zip(digests, moved, strict=True)] == [False] * len(pairs)
    report = build(sitemap)
    assert report.shards.rewritten == len(pairs)
    elsewhere = MemoryStore(base_url=BASE)
    build(Sitemap(elsewhere, sitemap.sections, guards=Guards.disabled(), rules={"loc-duplicate": "keep"}))
    published = crawl(sitemap.store.open()).locs()
    assert published == crawl(elsewhere.open()).locs() != before


def test_digits_that_are_only_read_move_the_digest() -> None:
    """The text of a FLOAT has six digits in MariaDB, but a priority is read with all of them."""
    base = live("mariadb")
    create(base, "rounded", {"id": "integer", "weight": "=FLOAT"})
    base.run("INSERT INTO rounded VALUES (1, 1)")
    with session(base, table="rounded", key="id", loc=BASE + "{id}", priority="weight") as source:
        before = source.survey([KeyRange(None, None)]).digests
        base.run("UPDATE rounded SET weight = 1.0000001")
        assert source.survey([KeyRange(None, None)]).digests != before


def test_a_null_in_any_of_seventy_columns_moves_the_digest() -> None:
    base = live("postgresql")
    names = [f"c{n}" for n in range(70)]
    create(base, "wide", {"id": "integer", **dict.fromkeys(names, "text")})
    base.run(f"INSERT INTO wide VALUES (1{', NULL' * 70})")
    seen = set()
    with session(base, table="wide", key="id", loc=BASE + "".join(f"{{{name}}}" for name in names)) as source:
        for name in names:
            base.run(f"UPDATE wide SET {name} = ''")
            seen.add(source.survey([KeyRange(None, None)]).digests[0].checksum)
    assert len(seen) == 70


def test_a_function_of_the_users_does_not_stand_in_for_the_databases_own() -> None:
    base = live("postgresql")
    base.run(
        "CREATE SCHEMA IF NOT EXISTS shadows",
        "CREATE OR REPLACE FUNCTION shadows.hashtextextended(text, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 7::bigint'",
    )
    create(base, "shadowed", {"id": "integer", "slug": "text"})
    base.run("INSERT INTO shadowed VALUES (1, 'a')")
    path = ["SET search_path = shadows, public, pg_catalog"]
    with session(base, table="public.shadowed", key="id", loc="slug", session=path) as source:
        before = source.survey([KeyRange(None, None)]).digests
        base.run("UPDATE shadowed SET slug = 'b'")
        assert source.survey([KeyRange(None, None)]).digests != before
