"""What every source owes the pipeline, for every way to read and every kind of key."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from msgspec.structs import replace

from airflow_sitemaps.shards.ranges import EMPTY, KeyRange, cut, total
from tests.support.source_sessions import CASES, ROWS, World, read, world

WHOLE = KeyRange(None, None)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}, {case[1]}")
def here(request: pytest.FixtureRequest):
    with world(*request.param) as found:
        yield found


@pytest.mark.parametrize("every", [7, 100, ROWS, ROWS + 1])
def test_boundaries_cut_into_pieces_that_fit(here: World, every: int) -> None:
    boundaries = here.source.boundaries(WHOLE, every)
    ranks = here.source.rank(boundaries)
    assert all(low < high for low, high in pairwise(ranks))
    digests = here.source.survey(cut(WHOLE, boundaries)).digests
    assert sum(digest.rows for digest in digests) == ROWS
    assert min(digest.rows for digest in digests) > 0
    assert max(digest.rows for digest in digests) <= every or (not here.key.unique and _largest(here) > every)
    if here.key.unique:
        assert [digest.rows for digest in digests[:-1]] == [every] * (len(digests) - 1)


def _largest(here: World) -> int:
    _counts, _sums, order = read(here.source, [WHOLE])
    ranks = here.source.rank([key for _place, key, _loc in order])
    return max(Counter(ranks).values())


def test_a_key_with_too_many_rows_makes_one_piece(here: World) -> None:
    boundaries = here.source.boundaries(WHOLE, 1)
    digests = here.source.survey(cut(WHOLE, boundaries)).digests
    _counts, _sums, order = read(here.source, [WHOLE])
    groups = Counter(here.source.rank([key for _place, key, _loc in order]))
    assert [digest.rows for digest in digests] == [groups[place] for place in sorted(groups)]


def test_the_largest_key_is_counted(here: World) -> None:
    key, rows = here.source.largest_key(WHOLE)
    assert rows == _largest(here)
    _counts, _sums, order = read(here.source, [WHOLE])
    ranks = here.source.rank([key, *(key for _place, key, _loc in order)])
    assert ranks.count(ranks[0]) == rows + 1
    first = here.source.boundaries(WHOLE, 50)[0]
    assert here.source.largest_key(KeyRange(first, first)) is None


def test_boundaries_inside_a_range_stay_inside(here: World) -> None:
    low, high = (here.source.boundaries(WHOLE, 50) or [None, None])[:2]
    inner = here.source.boundaries(KeyRange(low, high), 40)
    ranks = here.source.rank([low, *inner, high])
    assert ranks == sorted(set(ranks))
    digests = here.source.survey(cut(KeyRange(low, high), inner)).digests
    assert total(digests) == here.source.survey([KeyRange(low, high)]).digests[0]
    assert all(digest.rows > 0 for digest in digests)


def test_the_survey_of_parts_adds_up_to_the_whole(here: World) -> None:
    whole = here.source.survey([WHOLE]).digests[0]
    assert whole.rows == ROWS
    assert whole.newest == _newest(here)
    for every in (1, 13, 90):
        ranges = cut(WHOLE, here.source.boundaries(WHOLE, every))
        assert total(here.source.survey(ranges).digests) == whole


def _newest(here: World) -> str:
    newest = max(row["lm"] for row in here.rows if row["lm"]).isoformat()
    return newest + "+00:00" if here.backend in ("memory", "clickhouse", "clickhouse-cursor") else newest


@pytest.mark.parametrize("every", [1, 13])
def test_the_urgent_checksum_adds_up_and_changes_nothing_else(here: World, every: int) -> None:
    ranges = cut(WHOLE, here.source.boundaries(WHOLE, every))
    digests = here.source.survey(ranges, urgent=True).digests
    assert total(digests) == here.source.survey([WHOLE], urgent=True).digests[0]
    assert all(digest.urgent not in (None, digest.checksum) for digest in digests)
    assert tuple(replace(digest, urgent=None) for digest in digests) == here.source.survey(ranges).digests


def test_what_is_read_is_what_was_surveyed(here: World) -> None:
    ranges = cut(WHOLE, here.source.boundaries(WHOLE, 37))
    digests = here.source.survey(ranges).digests
    counts, sums, order = read(here.source, ranges)
    assert [(counts[place], sums[place]) for place in range(len(ranges))] == [(d.rows, d.checksum) for d in digests]
    assert sorted(loc for _place, _key, loc in order) == sorted(row["slug"] for row in here.rows)


def test_rows_come_in_the_order_of_the_database(here: World) -> None:
    ranges = cut(WHOLE, here.source.boundaries(WHOLE, 37))
    _counts, _sums, order = read(here.source, ranges)
    places = [place for place, _key, _loc in order]
    assert places == sorted(places)
    ranks = here.source.rank([key for _place, key, _loc in order])
    assert ranks == sorted(ranks)
    locs = [loc.encode() for _place, _key, loc in order]
    ties = [(low, high) for (one, low), (other, high) in pairwise(zip(ranks, locs, strict=True)) if one == other]
    assert all(low <= high for low, high in ties)


def test_every_row_lies_in_its_range(here: World) -> None:
    boundaries = here.source.boundaries(WHOLE, 37)
    _counts, _sums, order = read(here.source, cut(WHOLE, boundaries))
    ranks = here.source.rank([*boundaries, *(key for _place, key, _loc in order)])
    cuts, found = ranks[: len(boundaries)], ranks[len(boundaries) :]
    assert [sum(low <= rank for low in cuts) for rank in found] == [place for place, _key, _loc in order]


def test_ranges_apart_are_read_and_surveyed_alike(here: World) -> None:
    ranges = cut(WHOLE, here.source.boundaries(WHOLE, 21))
    digests = here.source.survey(ranges).digests
    some = [place for place in range(len(ranges)) if place % 3 == 1]
    assert here.source.survey([ranges[place] for place in some]).digests == tuple(digests[place] for place in some)
    few = [place for place in some if place < 9] or [0]
    counts, sums, _order = read(here.source, [ranges[place] for place in few])
    assert [(counts[n], sums[n]) for n in range(len(few))] == [
        (digests[place].rows, digests[place].checksum) for place in few
    ]


def test_an_empty_range_has_an_empty_digest(here: World) -> None:
    first = here.source.boundaries(WHOLE, 50)[0]
    assert here.source.survey([KeyRange(first, first)]).digests == (EMPTY,)
    assert list(here.source.read([KeyRange(first, first)])) == []
    assert list(here.source.boundaries(KeyRange(first, first), 10)) == []
    assert here.source.survey([]).digests == ()
    assert here.source.rank([]) == []


def test_equal_keys_share_a_rank(here: World) -> None:
    first, second = here.source.boundaries(WHOLE, 50)[:2]
    assert here.source.rank([second, first, second, first]) == [1, 0, 1, 0]


def test_the_clock_is_in_utc(here: World) -> None:
    assert here.source.now().utcoffset().total_seconds() == 0
