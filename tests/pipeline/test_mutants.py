"""The simulator notices when a safeguard is taken out.

The number beside each is how many seeds it took when this was last measured; ``None``: no seed noticed, and the
safeguard is held by a test of its own, named there.
"""

from __future__ import annotations

import pytest

from airflow_sitemaps.testing.simulation.mutants import MUTANTS
from tests.chaos.scale import LONG, scaled

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
QUICK = {
    "unconditional manifest": 2,
    "no read-back": 1,
    "no roll-forward": 8,
    "no roll-forward, no look for drift": 8,
    "index before shards": 1,
    "promotion before commit": 1,
    "sweep without grace": 22,
    "sweep of what a kept generation needs": 1,
    "no look through the runs' folders": 29,
    "digest without checksum": 5,
    "planned digest instead of the rows read": 37,
    "public names written before their commit": 1,
    "stale plans published": 31,
    "no guard at the commit": 35,
    "code changed between tasks": 4,
    "no look for drift": 5,
    "serials of retired sections forgotten": 21,
    "no check of rows read against planned": 1,
    "watermark that asks for no lastmod": 2,
    "watermark without slices": 5,
}
RARE = {
    "unconditional promotion": 186,
    "no look at the manifest before promotion puts": 48,
}
UNSEEN = {
    "commit without finishing the earlier promotion": "needless",
    "no variant for content that returns": "tests/pipeline/test_zombies.py",
    "no check of bodies": "tests/pipeline/test_zombies.py",
    "grace from the commit, not the promotion": "tests/pipeline/test_zombies.py",
    "sweep without a fence, old runs published": "tests/pipeline/test_sweeping.py",
    "names that return deleted unconditionally": "tests/pipeline/test_sweeping.py",
    "watermark of another generation": "tests/pipeline/test_watermark.py",
}


def test_every_mutant_is_accounted_for():
    assert set(BY_NAME) == {*QUICK, *RARE, *UNSEEN}


@pytest.mark.parametrize("name", QUICK)
def test_the_lack_of_a_safeguard_is_noticed(name):
    caught = BY_NAME[name].caught(range(scaled(150, 1_000)))
    assert caught is not None, f"{name}: nothing noticed"


@pytest.mark.skipif(not LONG, reason="hundreds of seeds: make chaos")
@pytest.mark.parametrize("name", RARE)
def test_the_lack_of_a_rarer_safeguard_is_noticed(name):
    caught = BY_NAME[name].caught(range(1_500))
    assert caught is not None, f"{name}: nothing noticed"
