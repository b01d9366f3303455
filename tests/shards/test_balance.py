"""What is cut and joined: laws of sizes, and that nothing flaps."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps.protocol import CURRENT
from airflow_sitemaps.shards.guards import Guards, permitted
from airflow_sitemaps.shards.guards.judgement import check_dropped, check_size
from airflow_sitemaps.shards.layout import ShardPolicy
from airflow_sitemaps.shards.manifest import PublicFile, Shard
from airflow_sitemaps.shards.plan import Action, RangeAction, SectionPlan
from airflow_sitemaps.shards.range_actions import MAX_BATCHES, LayoutRange, join, make_batches, split_size
from airflow_sitemaps.shards.ranges import Digest, KeyRange, cut, is_partition

policies = st.builds(ShardPolicy, max_urls=st.integers(2, 50_000), fill=st.floats(0.1, 1.0))


def edges(number: int) -> tuple[KeyRange, ...]:
    return cut(KeyRange(None, None), [(10 * n,) for n in range(1, number)])


def layout(rows: list[int]) -> list[LayoutRange]:
    return [
        LayoutRange(
            range=within, digest=Digest.of(n, None, n), olds=(at,) if n else (), before=(at,), carries=at if n else None
        )
        for at, (within, n) in enumerate(zip(edges(len(rows)), rows, strict=True))
    ]


def shards(rows: list[int]) -> list[Shard]:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    file = PublicFile(name="n", body="b", xml_hash="s", xml_byte_size=1, byte_size=1, modified_at=at)
    return [
        Shard(range=w, digest=Digest.of(n, None, 0), file=file if n else None)
        for w, n in zip(edges(len(rows)), rows, strict=True)
    ]


@given(policies, st.lists(st.integers(0, 60_000), min_size=1, max_size=30))
def test_joined_ranges_still_cover_every_key_and_hold_every_row(policy, rows):
    joined = join(layout(rows), shards(rows), policy, CURRENT)
    assert is_partition([item.range for item in joined])
    assert sum(item.digest.rows for item in joined) == sum(rows)
    assert [at for item in joined for at in item.before] == list(range(len(rows)))  # the ledger knows every old shard


@given(policies, st.lists(st.integers(0, 60_000), min_size=1, max_size=30))
def test_joining_twice_joins_no_more(policy, rows):
    once = join(layout(rows), shards(rows), policy, CURRENT)
    again = [item.digest.rows for item in once]
    assert [i.digest.rows for i in join(layout(again), shards(again), policy, CURRENT)] == again


@given(policies, st.integers(1, 10**7))
def test_what_was_cut_fits_and_does_not_join_again(policy, extra):
    rows = policy.max_urls + extra
    size = split_size(rows, policy)
    assert 1 <= size <= policy.max_urls
    pieces = [size] * (rows // size) + ([rows % size] if rows % size else [])
    if policy.fill >= 0.5 and policy.max_urls >= 20 and len(pieces) < 50:
        joined = join(layout(pieces), shards(pieces), policy, CURRENT)
        assert all(len(item.olds) == 1 for item in joined)


def test_a_neighbour_that_absorbs_emptiness_keeps_its_name_and_is_not_touched():
    joined = join(layout([0, 5, 0, 0, 5, 0]), shards([0, 5, 0, 0, 5, 0]), ShardPolicy(max_urls=5), CURRENT)
    assert [(item.carries, item.fresh) for item in joined] == [(1, False), (4, False)]


def test_fat_shards_are_weighed_by_bytes():
    rows = [9_000, 9_000]
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    file = PublicFile(name="n", body="b", xml_hash="s", xml_byte_size=50_000_000, byte_size=1, modified_at=at)
    fat = [Shard(range=w, digest=Digest.of(n, None, 0), file=file) for w, n in zip(edges(2), rows, strict=True)]
    assert len(join(layout(rows), fat, ShardPolicy(), CURRENT)) == 2
    assert len(join(layout(rows), shards(rows), ShardPolicy(), CURRENT)) == 1


@given(st.lists(st.integers(1, 50_000), max_size=300), st.none() | st.integers(1, 10**6))
def test_batches_hold_every_action_once_in_order_and_are_never_too_many(rows, size):
    actions = tuple(
        RangeAction(range=within, kind=Action.CREATE, digest=Digest.of(n, None, 0))
        for within, n in zip(edges(len(rows)), rows, strict=True)
    ) if rows else ()  # fmt: skip
    plan = SectionPlan(name="a", base=0, fingerprint="", digest_kind="", actions=actions)
    batches = make_batches({"a": plan}, size)
    assert [at for batch in batches for at in batch.actions] == list(range(len(rows)))
    assert [batch.number for batch in batches] == list(range(len(batches)))
    assert len(batches) <= MAX_BATCHES


def test_fifty_thousand_shards_are_at_most_a_thousand_batches():
    actions = tuple(RangeAction(range=w, kind=Action.CREATE, digest=Digest.of(50_000, None, 0)) for w in edges(50_000))
    plan = SectionPlan(name="a", base=0, fingerprint="", digest_kind="", actions=actions)
    assert 500 < len(make_batches({"a": plan})) <= MAX_BATCHES


@pytest.mark.parametrize(
    ("before", "peak", "now", "refused"),
    [
        (None, 0, 5, []),
        (None, 0, 0, ["empty"]),
        (10_000, 10_000, 0, ["empty"]),
        (0, 0, 0, []),
        (10_000, 10_000, 8_500, []),
        (10_000, 10_000, 8_499, ["shrink"]),
        (8_600, 10_000, 8_400, ["shrink"]),
        (10_000, 10_000, 20_000, []),
        (10_000, 10_000, 20_001, ["growth"]),
        (900, 900, 1, ["shrink"]),
        (900, 900, 750, []),
        (900, 900, 749, ["shrink"]),
        (300, 300, 150, []),
        (40, 40, 19, ["shrink"]),
        (19, 19, 1, []),
        (1_100, 1_100, 2_250, []),
        (4_000, 4_000, 9_001, ["growth"]),
        (999, 999, 50_000, []),
    ],
)
def test_guards_of_size(before, peak, now, refused):
    found = check_size(Guards(), "a", now=now, before=before, peak=peak, what="rows")
    assert [refusal.guard for refusal in found] == refused


def test_guards_of_dropped_rows_and_what_lets_them_pass():
    assert check_dropped(Guards(), "a", rows=10_000, dropped=100) == ()
    (refusal,) = check_dropped(Guards(), "a", rows=10_000, dropped=101)
    assert "101 of 10,000 rows were dropped by rules (1.0%" in refusal.message
    assert permitted([refusal], ["dropped:a"]) == ((), (refusal,))
    assert permitted([refusal], ["dropped"]) == ((), (refusal,))
    assert permitted([refusal], ["dropped:b", "shrink:a"]) == ((refusal,), ())
