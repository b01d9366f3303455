"""A safeguard that is taken out is noticed: by a test of its own, or by the simulator.

The simulator is used only for safeguards without which many histories fail. No other depends on the luck of a seed: a test
fails without it, always. One safeguard is needless (``docs/guarantees.md``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.mutated import VARIABLE
from tests.support.mutants import MUTANTS

pytestmark = pytest.mark.long

BY_NAME = {mutant.name: mutant for mutant in MUTANTS}
SIMULATED = {
    "unconditional manifest": range(60),
    "index before shards": range(10),
    "promotion before commit": range(10),
    "public names written before their commit": range(10),
    "sweep of what a kept generation needs": range(1, 21),
    "watermark without slices": range(4, 44),
}
"""Seeds of which several notice the lack of a safeguard; the first one did when this was last measured."""

DIRECTED = {
    "gone URLs without the word of other sections": (
        "../ledger/test_gone.py::test_a_partial_run_waits_for_the_other_sections"
    ),
    "gone URLs that another section lists": (
        "../ledger/test_gone.py::test_a_url_that_returns_leaves_the_file_in_whatever_section_it_returns"
    ),
    "lost words about gone URLs taken for none": (
        "../ledger/test_gone.py::"
        "test_a_lost_record_ends_the_file_and_no_url_is_named_until_every_section_has_taken_part"
    ),
    "gone URLs listed for ever": (
        "../ledger/test_gone.py::"
        "test_a_row_that_left_is_listed_with_the_time_of_its_removal_and_leaves_the_file_after_its_time"
    ),
    "words about gone URLs forgotten": (
        "../ledger/test_gone.py::test_a_full_run_names_nothing_of_the_ranges_that_a_rival_wrote"
    ),
    "answers to closed questions": "test_questions.py::test_a_late_answer_publishes_nothing",
    "questions left open by unchanged runs": (
        "test_questions.py::test_rows_that_came_back_close_the_question_though_nothing_changed"
    ),
    "turns that never come": (
        "test_waiting.py::test_scattered_changes_are_published_a_part_of_the_shards_at_a_time_and_none_later_than_said"
    ),
    "urgent changes that wait": (
        "test_waiting.py::test_what_lists_or_removes_a_url_is_written_at_once_with_all_changes_of_its_shard"
    ),
    "early entries whose shards wait no more": "test_early_entries.py::test_a_removed_row_leaves_at_once",
    "waiting ranges that were not surveyed taken for clean": (
        "test_waiting.py::test_a_survey_of_other_ranges_does_not_make_a_waiting_one_look_clean"
    ),
    "ledger of a joined neighbour forgotten": (
        "../shards/test_balance.py::test_joined_ranges_still_cover_every_key_and_hold_every_row"
    ),
    "fingerprints of different kinds compared": ("../ledger/test_join.py::test_the_join_equals_a_look_up_of_each_url"),
    "no time after the reading": (
        "../ledger/test_model_histories.py"
        "::test_d2_a_page_that_changes_between_plan_and_reading_is_dated_after_a_fetch_before_the_change"
    ),
    "time of the run rounded down": (
        "../ledger/test_model_histories.py"
        "::test_d2_a_fetch_in_the_second_of_the_change_and_the_run_is_earlier_than_the_date"
    ),
    "date not later than the one before": (
        "../ledger/test_dates.py::test_a_date_is_later_than_the_one_before_when_the_clock_goes_back"
    ),
    "dates of a lost part forgotten": "../ledger/test_dates.py::test_a_lost_part_keeps_the_dates",
    "any number of dates moves": "../ledger/test_dates.py::test_the_guard_redated_and_what_it_permits",
    "no roll-forward": ("test_recover.py::test_recover_finishes_the_promotion_once"),
    "no roll-forward, no look for drift": ("test_recover.py::test_a_build_recovers_first"),
    "sweep without grace": ("test_safeguards.py::test_a_file_that_left_the_index_stays_for_the_whole_grace"),
    "no look through the runs' folders": (
        "test_sweeping.py::test_bodies_that_a_zombie_stores_after_its_run_was_swept_are_found"
    ),
    "digest without checksum": ("test_build.py::test_a_silent_update_is_found"),
    "planned digest instead of the rows read": (
        "test_safeguards.py::test_a_row_that_changes_after_the_plan_and_then_changes_back_is_found"
    ),
    "no check of rows read against planned": (
        "test_safeguards.py::test_rows_that_are_gone_when_they_are_read_stop_the_run"
    ),
    "no guard at the commit": ("test_build.py::test_too_many_dropped_rows_are_refused_after_rendering"),
    "serials of retired sections forgotten": (
        "test_stale_plans.py::test_a_section_that_returns_uses_no_file_name_twice"
    ),
    "run of some sections retires others": ("test_stale_plans.py::test_a_run_of_some_sections_leaves_the_others"),
    "rival's section forgotten in a rebase": (
        "test_stale_plans.py::test_a_section_that_a_rival_publishes_for_the_first_time_stays"
    ),
    "stale plans published": ("test_stale_plans.py::test_a_stale_plan_does_not_take_out_a_section_that_came_back"),
    "code changed between tasks": (
        "test_stale_plans.py::test_code_that_has_a_retired_section_again_does_not_publish_the_earlier_plan"
    ),
    "no look for drift": ("test_build.py::test_drift_is_repaired_and_said"),
    "watermark that asks for no lastmod": ("test_watermark.py::test_only_ranges_whose_lastmod_moved_are_surveyed"),
    "objects of another pipeline replaced": (
        "test_public_ownership.py::test_the_second_pipeline_at_an_address_is_refused_and_the_first_keeps_its_index"
    ),
    "unconditional promotion": (
        "test_safeguards.py::test_a_stalled_copy_within_the_store_does_not_bring_back_an_older_file"
    ),
    "no look at the manifest before promotion puts": (
        "test_safeguards.py::test_a_stalled_copy_within_the_store_does_not_bring_back_an_older_file"
    ),
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
        "test_change_log.py::test_a_shard_kept_from_a_run_that_read_earlier_is_surveyed_the_next_time"
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
    assert sorted(BY_NAME) == sorted([*SIMULATED, *DIRECTED, *NEEDLESS])


@pytest.mark.parametrize("name", SIMULATED)
def test_the_simulator_notices_the_lack_of_a_safeguard(name):
    seeds = SIMULATED[name]
    assert BY_NAME[name].caught(seeds) is not None, (
        f"{name}: no history of {seeds} notices it any more, since the histories have changed. Record seeds of which "
        "several notice it; if these are hard to find, write a test that fails without the safeguard, and name it in DIRECTED."
    )


@pytest.mark.parametrize("name", DIRECTED)
def test_a_test_fails_without_the_safeguard(name):
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
