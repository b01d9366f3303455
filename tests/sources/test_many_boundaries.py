"""Fifty thousand boundaries: as many shards as one index can hold. What is quadratic would end by the suite's timeout."""

from __future__ import annotations

import pytest

from airflow_sitemaps.shards.ranges import KeyRange, cut, total
from tests.support.source_sessions import create, live, session

pytestmark = pytest.mark.long

ROWS = 60_000
BOUNDARIES = 50_000

FILL = {
    "sqlite": "WITH RECURSIVE r(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i < 59999) SELECT i, 'key/' || i, 'p' || i FROM r",
    "postgresql": "SELECT i, 'key/' || i, 'p' || i FROM generate_series(0, 59999) r(i)",
    "duckdb": "SELECT i, 'key/' || i, 'p' || i FROM range(60000) r(i)",
    "mariadb": "SELECT seq, concat('key/', seq), concat('p', seq) FROM seq_0_to_59999",
}


@pytest.fixture(scope="module", params=FILL)
def base(request: pytest.FixtureRequest):
    found = live(request.param)
    create(found, "many", {"id": "integer", "word": "text", "slug": "text"})
    found.run(
        f"INSERT INTO many {FILL[request.param]}",
        "CREATE INDEX many_id ON many (id)",
        "CREATE INDEX many_word ON many (word)",
    )
    return found


@pytest.mark.parametrize("key", ["id", ("word", "id")], ids=str)
def test_fifty_thousand_boundaries(base, key) -> None:
    with session(base, table="many", key=key, loc="slug") as source:
        every_row = [(row[0], row[1]) for row in base.rows("SELECT id, word FROM many")]
        names = ("id", "word")
        wanted = (key,) if isinstance(key, str) else key
        keys = [tuple(row[names.index(name)] for name in wanted) for row in every_row]
        ranks = source.rank(keys)
        ordered = [key for _rank, key in sorted(zip(ranks, keys, strict=True))]
        boundaries = [ordered[1 + number * (ROWS - 2) // BOUNDARIES] for number in range(BOUNDARIES)]
        ranges = cut(KeyRange(None, None), boundaries)
        digests = source.survey(ranges).digests
        whole = source.survey([KeyRange(None, None)]).digests[0]
    assert len(digests) == BOUNDARIES + 1
    assert total(digests) == whole
    assert whole.rows == ROWS
    assert {digest.rows for digest in digests} <= {1, 2, 3}
