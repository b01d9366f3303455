"""What runs ask of each database, as counts that the documentation shows: more statements or rows are noticed here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.warehouse_costs import FEW_ROWS, RUNS, SHARDS, measure
from tests.support.databases import NAMES, NotAvailable

DOCUMENTED = Path(__file__).parents[2] / "docs" / "database-costs.md"
TITLES = {
    "PostgreSQL": "postgresql",
    "SQLite": "sqlite",
    "DuckDB": "duckdb",
    "MariaDB": "mariadb",
    "ClickHouse": "clickhouse",
    "Snowflake": "snowflake",
    "BigQuery": "bigquery",
    "Redshift": "redshift",
    "Databricks": "databricks",
    "Trino": "trino",
}
ROW = re.compile(
    r"^\| (\w+)(, by the table's version)? \| (\d+) \+ (\d+) \| (\d+) \+ (\d+) \| (\d+) \+ (\d+) \|", re.MULTILINE
)
COSTS = {
    (TITLES[title], bool(by_version)): tuple(map(int, numbers))
    for title, by_version, *numbers in ROW.findall(DOCUMENTED.read_text())
}
"""By database, and whether the table's version is used: the statements on the table and the others, of each run."""


def test_each_database_of_the_tests_is_documented() -> None:
    assert {name for name, _by_version in COSTS} == set(TITLES.values())


@pytest.mark.parametrize(("name", "by_version"), COSTS, ids=str)
def test_the_documented_counts_are_exact(name: str, by_version: bool) -> None:
    if name not in NAMES:
        pytest.skip(f"{name} is not here: `make test-warehouses`")
    try:
        costs = measure(name, FEW_ROWS, versions=by_version)
    except NotAvailable as lacking:
        pytest.skip(str(lacking))
    assert tuple(number for run in RUNS for number in costs[run].counts[:2]) == COSTS[name, by_version]
    digested_and_read = [costs[run].counts[2:] for run in RUNS]
    assert digested_and_read == [
        (SHARDS, FEW_ROWS),
        (0 if by_version else SHARDS, 0),
        (SHARDS, FEW_ROWS // SHARDS),
    ]
