"""The simulator notices when a safeguard is taken out.

The number beside each is how many seeds it took when this was last measured. What no seed noticed is held by a test of
its own, which is seen to fail without that safeguard; one safeguard is needless (``docs/guarantees.md``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_sitemaps.testing.simulation.mutants import MUTANTS
from tests.chaos.scale import LONG, scaled
from tests.pipeline.mutated import VARIABLE

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
QUICK = {
    "unconditional manifest": 2,
    "no read-back": 1,
    "no roll-forward": 8,
    "no roll-forward, no look for drift": 8,
    "index before shards": 1,
    "promotion before commit": 1,
    "sweep without grace": 91,
    "sweep of what a kept generation needs": 1,
    "no look through the runs' folders": 28,
    "digest without checksum": 2,
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
    "unconditional promotion": 117,
    "no look at the manifest before promotion puts": 132,
}
DIRECTED = {
    "no variant for content that returns": (
        "test_zombies.py::test_a_late_put_of_a_content_that_came_back_does_not_replace_the_newer_one"
    ),
    "no check of bodies": "test_zombies.py::test_a_body_that_is_gone_at_the_commit_stops_it",
    "grace from the commit, not the promotion": (
        "test_zombies.py::test_the_grace_of_what_departed_begins_when_its_generation_is_promoted"
    ),
    "sweep without a fence, old runs published": (
        "test_sweeping.py::test_a_publisher_that_sleeps_at_its_commit_cannot_name_what_was_swept_meanwhile"
    ),
    "names that return deleted unconditionally": (
        "test_sweeping.py::test_a_stalled_sweep_spares_a_name_that_a_rival_brought_back"
    ),
    "watermark of another generation": "test_watermark.py::test_after_a_rollback_everything_is_surveyed",
}
NEEDLESS = {"commit without finishing the earlier promotion"}


def test_every_mutant_is_accounted_for():
    assert set(BY_NAME) == {*QUICK, *RARE, *DIRECTED, *NEEDLESS}


@pytest.mark.parametrize("name", QUICK)
def test_the_lack_of_a_safeguard_is_noticed(name):
    caught = BY_NAME[name].caught(range(scaled(150, 1_000)))
    assert caught is not None, f"{name}: nothing noticed"


@pytest.mark.skipif(not LONG, reason="hundreds of seeds: make chaos")
@pytest.mark.parametrize("name", RARE)
def test_the_lack_of_a_rarer_safeguard_is_noticed(name):
    caught = BY_NAME[name].caught(range(1_500))
    assert caught is not None, f"{name}: nothing noticed"


@pytest.mark.parametrize("name", DIRECTED)
def test_what_no_history_notices_a_test_of_its_own_does(name):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.pipeline.mutated", "-p", "no:cacheprovider"]
    root = Path(__file__).parents[2]
    ran = subprocess.run(  # this Python, with a test's name from above
        [*command, f"tests/pipeline/{DIRECTED[name]}"],
        cwd=root,
        env={**os.environ, VARIABLE: name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, "1 failed" in ran.stdout) == (1, True), ran.stdout + ran.stderr
