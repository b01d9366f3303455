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

from tests.pipeline.mutated import VARIABLE
from tests.support.mutants import MUTANTS
from tests.support.repetition import LONG, scaled

pytestmark = pytest.mark.long

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
QUICK = {
    "unconditional manifest": 2,
    "no roll-forward": 8,
    "no roll-forward, no look for drift": 8,
    "index before shards": 1,
    "promotion before commit": 1,
    "sweep without grace": 7,
    "sweep of what a kept generation needs": 1,
    "no look through the runs' folders": 24,
    "digest without checksum": 2,
    "planned digest instead of the rows read": 68,
    "public names written before their commit": 1,
    "stale plans published": 5,
    "no guard at the commit": 38,
    "code changed between tasks": 4,
    "no look for drift": 5,
    "serials of retired sections forgotten": 37,
    "no check of rows read against planned": 53,
    "watermark that asks for no lastmod": 2,
    "watermark without slices": 5,
    "rival's section forgotten in a rebase": 5,
    "run of some sections retires others": 18,
    "objects of another pipeline replaced": 7,
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
    "unconditional copies within the store": (
        "test_safeguards.py::test_a_stalled_copy_within_the_store_does_not_bring_back_an_older_file"
    ),
    "no read-back": "test_safeguards.py::test_a_put_whose_answer_is_lost_is_read_back",
    "sweep after a lost fence": "test_safeguards.py::test_a_sweep_that_lost_its_fence_removes_nothing",
    "half the grace": "test_safeguards.py::test_a_file_that_left_the_index_stays_for_the_whole_grace",
    "checksum compared on 32 bits": "test_safeguards.py::test_digests_that_differ_in_one_bit_differ",
    "body size unchecked at the commit": "test_safeguards.py::test_a_body_that_was_cut_short_stops_the_commit",
    "earlier generation kept after the commit": (
        "test_safeguards.py::test_a_crash_right_after_the_commit_leaves_the_earlier_generation_to_roll_back_to"
    ),
    "full run undoes what others published": (
        "test_full.py::test_a_full_run_does_not_lose_to_the_runs_that_publish_meanwhile"
    ),
    "table version kept by a rebase": (
        "test_full.py::test_the_next_run_surveys_a_table_whose_version_a_full_run_read_beside_another_run"
    ),
    "position in a change log kept by a rebase": (
        "test_feed_survey.py::test_a_shard_kept_from_a_run_that_read_earlier_is_surveyed_the_next_time"
    ),
    "stamp unchecked before a shard is replaced": (
        "test_safeguards.py::test_a_shard_that_another_pipeline_put_since_the_commit_is_not_replaced"
    ),
    "promoted file recognised by its stamp alone": (
        "test_forged_files.py::test_a_file_that_was_cut_short_is_no_promoted_file"
    ),
    "promoted file recognised by stamp and size": (
        "test_forged_files.py::test_a_forged_file_is_no_promoted_file_for_the_run_that_finishes_a_promotion"
    ),
    "probe without its If-Match question": (
        "test_capability_probe.py::test_a_store_that_ignores_one_condition_is_found_out"
    ),
    "churn discounted twice by the shrink": (
        "test_guards.py::test_the_shrink_of_a_section_is_no_replacement_of_its_urls"
    ),
    "total without the week": "test_guards.py::test_the_total_is_measured_by_the_greatest_of_the_week",
    "guards without the week": "test_guards.py::test_growth_of_one_week_adds_up",
    "permits that hold again": "test_permits.py::test_a_permit_holds_once_however_often_its_run_is_cleared",
    "any deployment publishes": "test_permits.py::test_a_second_deployment_that_writes_to_the_same_state_is_refused",
    "commits by any clock": ("test_public_ownership.py::test_a_worker_three_days_fast_writes_no_lastmod_of_the_future"),
    "adopted files that cannot be counted": (
        "test_adoption.py::test_an_adoption_is_refused_while_urls_cannot_be_counted"
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
    assert (ran.returncode, " failed" in ran.stdout) == (1, True), ran.stdout + ran.stderr
