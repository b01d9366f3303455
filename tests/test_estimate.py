"""The cost estimate: its laws, its limits, and the rates it takes from the measurements."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps.cli.estimate import MAX_TASKS, Load, Rates, estimate
from airflow_sitemaps.cli.main import main
from airflow_sitemaps.errors import ConfigurationError

ROWS = st.integers(1, 3_000_000_000)
SHARES = st.floats(0, 1)
LOADS = st.builds(Load, rows=ROWS, changed=SHARES, scattered=st.booleans(), shard_urls=st.integers(1_000, 50_000))


@given(LOADS)
def test_a_later_run_never_costs_more_than_a_first_build(load: Load) -> None:
    first, later = estimate(load, 1)
    assert later.shards_written <= first.shards_written == load.shards
    for name in ("wall_s", "worker_cpu_s", "warehouse_cpu_s", "bytes_written", "puts", "requests_usd"):
        assert getattr(later, name) <= getattr(first, name)


@given(LOADS, st.integers(1, 128))
def test_more_workers_never_take_longer_and_never_cost_less_cpu(load: Load, workers: int) -> None:
    for few, many in zip(estimate(load, workers), estimate(load, workers * 2), strict=True):
        assert many.wall_s <= few.wall_s
        assert many.worker_cpu_s == few.worker_cpu_s
        assert many.tasks == few.tasks <= MAX_TASKS


@given(LOADS)
def test_scattered_changes_touch_at_least_as_many_files_as_neighbours(load: Load) -> None:
    together, apart = replace(load, scattered=False), replace(load, scattered=True)
    assert apart.dirty_shards >= min(together.dirty_shards, apart.shards) - 2


def test_scattered_changes_touch_what_the_documentation_says() -> None:
    """0.01 % of the rows at random: 99 % of shards of 50,000, 39 % of shards of 5,000."""
    large = Load(rows=100_000_000, changed=0.0001, scattered=True)
    small = replace(large, shard_urls=5_000)
    assert large.dirty_shards / large.shards == pytest.approx(0.99, abs=0.01)
    assert small.dirty_shards / small.shards == pytest.approx(0.39, abs=0.01)


def test_nothing_changed_writes_nothing() -> None:
    _, later = estimate(Load(rows=10_000_000, changed=0.0), 4)
    assert (later.shards_written, later.tasks, later.bytes_written) == (0, 0, 0)
    assert later.warehouse_cpu_s > 0


def test_the_rates_are_those_of_the_published_measurements() -> None:
    page = (Path(__file__).parents[1] / "docs" / "performance.md").read_text()
    rates = Rates()
    for label, rate in (("whole, to S3", rates.write_cpu_s), ("survey: PostgreSQL's own CPU", rates.survey_cpu_s)):
        measured = re.search(rf"\| {re.escape(label)} +\| +([\d.]+) \|", page)
        assert measured is not None, label
        assert float(measured[1]) == pytest.approx(rate, rel=0.25)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"rows": 1, "changed": 1.5}, "changed is 1.5"),
        ({"rows": 1, "shard_urls": 50_001}, "shard_urls is 50,001; it must be between 1 and 50,000"),
    ],
)
def test_impossible_numbers_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        Load(**settings)  # type: ignore[arg-type]


def test_less_than_one_worker_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="workers is 0"):
        estimate(Load(rows=1), 0)


def test_the_shell_prints_a_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--rows", "1000000000", "--workers", "4,64", "--scattered"]) == 0
    text = capsys.readouterr().out
    assert text.count("first build") == text.count("later run") == 2
    assert main(["estimate", "--rows", "1000000000", "--workers", "4,64", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [cost["workers"] for cost in document["costs"]] == [4, 4, 64, 64]
    assert document["costs"][0]["shards"] == 20_000
    assert main(["estimate", "--rows", "0"]) == 2


def test_the_table_in_the_documentation_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[1] / "docs" / "scale.md").read_text()
    command = re.search(r"^\$ airflow-sitemaps (estimate .*)$", page, re.MULTILINE)
    assert command is not None
    assert main(command[1].split()) == 0
    assert f"```text\n{capsys.readouterr().out.strip()}\n```" in page
