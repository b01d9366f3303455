"""Plan, commit, promotion and index over many shards: their work is linear in what changed, with a small constant a shard.

The rows are generated (``benchmarks/generated.py``) and everything else is the product's own. Calls, requests and bytes are
counted; times are measured by ``make bench-billion``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from benchmarks.billion import Sitemaps
from tests.support.calls import calls_of

FEW, MANY = 400, 1_600
ROWS_PER_SHARD = 100
SLACK = 1.05
"""What depends on the number of digits in a name, and on a set that doubles its table."""
MAX_CALLS_PER_KEPT_SHARD = 1_200
"""Function calls of a whole run for each shard that did not change: about 0.25 ms."""
STEPS = ("first plan", "first publication", "unchanged plan", "unchanged publication", "plan", "publication")


@cache
def counted(shards: int) -> dict[str, Any]:
    """Function calls, requests and bytes of a first build, an unchanged run and a run after one shard changed."""
    one = Sitemaps(shards * ROWS_PER_SHARD, ROWS_PER_SHARD)
    found: dict[str, Any] = {}

    def step(name: str, work: Any) -> Any:
        results: list[Any] = []
        found[name] = {"calls": calls_of(lambda: results.append(work()))}
        taken = results[0][1] if isinstance(results[0], tuple) else results[0]
        found[name] |= taken
        return results[0]

    for prefix in ("first ", "unchanged ", ""):
        if not prefix:
            one.touch(1)
        planned, _ = step(f"{prefix}plan", one.plan)
        receipts = one.write(planned)
        found[f"{prefix}batches"] = len(planned.batches)
        step(f"{prefix}publication", lambda planned=planned, receipts=receipts: one.publish(planned, receipts))
    return {**found, **one.sizes()}


@pytest.fixture(autouse=True, scope="module")
def _warm() -> None:
    counted(10)


@pytest.mark.parametrize("name", STEPS)
def test_the_calls_of_a_stage_are_linear_in_the_shards(name: str) -> None:
    few, many = counted(FEW)[name], counted(MANY)[name]
    assert many["calls"] <= MANY / FEW * SLACK * few["calls"]


@pytest.mark.parametrize("name", STEPS[2:])
def test_the_requests_of_a_later_run_do_not_depend_on_the_kept_shards(name: str) -> None:
    few, many = counted(FEW)[name]["verbs"], counted(MANY)[name]["verbs"]
    # A listing of the public files returns 1,000 of them, as on S3.
    assert {**few, "list": 0} == {**many, "list": 0}
    assert many["list"] <= few["list"] + 1 + MANY // 1_000
    assert sum(many.values()) <= 19, "what one shard and the index need, whatever the sitemap has"


def test_the_requests_of_a_first_build_are_two_for_each_shard() -> None:
    found = counted(MANY)["first publication"]["verbs"]
    assert found["copy"] == MANY + 1, "each shard, and the index, from its private body"
    assert sum(found.values()) <= 2 * MANY + counted(MANY)["first batches"] + 20


def test_a_kept_shard_costs_few_calls() -> None:
    found = counted(MANY)
    assert found["plan"]["calls"] + found["publication"]["calls"] <= MAX_CALLS_PER_KEPT_SHARD * MANY


@pytest.mark.parametrize("name", ["manifest_bytes", "index_bytes"])
def test_what_each_run_reads_and_writes_is_linear_in_the_shards(name: str) -> None:
    assert counted(MANY)[name] <= MANY / FEW * SLACK * counted(FEW)[name]


@pytest.mark.parametrize("name", ["first plan", "plan"])
@pytest.mark.parametrize("what", ["plan_bytes", "xcom_bytes"])
def test_what_a_plan_leaves_is_linear_in_the_shards(name: str, what: str) -> None:
    assert counted(MANY)[name][what] <= MANY / FEW * SLACK * counted(FEW)[name][what]


def test_the_xcom_of_a_later_run_does_not_depend_on_the_kept_shards() -> None:
    assert counted(MANY)["plan"]["xcom_bytes"] <= counted(FEW)["plan"]["xcom_bytes"] + 20


@pytest.mark.parametrize("name", STEPS)
def test_every_stage_was_run(name: str) -> None:
    assert counted(MANY)[name]["calls"] > MANY
