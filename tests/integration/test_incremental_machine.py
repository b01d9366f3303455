"""Incremental equals full after any sequence of changes: in memory and on four live databases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from airflow_sitemaps import Observed, SqlSource
from tests.simulation.machine import IncrementalMachine, ListTable
from tests.support.databases import NAMES, Database
from tests.support.source_sessions import connected

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMES = int(os.environ.get("MACHINE_TIMES", "1"))
"""How many times the usual number of examples: `make chaos` asks for more."""


class SqlTable:
    """A table in a live database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        types = database.types
        self.name = "machine"
        database.run(
            f"DROP TABLE IF EXISTS {self.name}",
            f"CREATE TABLE {self.name} (rid INTEGER PRIMARY KEY, id {types['integer']}, url VARCHAR(200), "
            f"lm {types['timestamp']}, prio {types['float']}, part INTEGER)",
        )

    def clear(self) -> None:
        self.database.run(f"DELETE FROM {self.name} WHERE 1 = 1")

    def insert(self, rows: Sequence[dict[str, Any]]) -> None:
        self.database.insert(self.name, list(rows))

    def update(self, rid: int, **values: Any) -> None:
        ((column, value),) = values.items()
        literal = "NULL" if value is None else f"'{value}'" if not isinstance(value, (int, float)) else repr(value)
        self.database.run(self.database.update_of(self.name, f"{column} = {literal}", f"rid = {rid}"))

    def delete(self, rids: Sequence[int]) -> None:
        self.database.run(f"DELETE FROM {self.name} WHERE rid IN ({', '.join(map(str, rids))})")

    def source(self, *, priority: bool, lastmod: str | Observed = "lm", part: int | None = None) -> SqlSource:
        column, where = "prio" if priority else None, None if part is None else f"part = {part}"
        return SqlSource("machine", table=self.name, key="id", loc="url", lastmod=lastmod, priority=column, where=where)


def run(table: Any, examples: int, steps: int, **settings_of_machine: bool) -> None:
    machine = type("Machine", (IncrementalMachine,), {"table": table, **settings_of_machine})
    limits = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=False,
    )
    run_state_machine_as_test(machine, settings=limits)


def test_in_memory() -> None:
    run(ListTable(), examples=15 * TIMES, steps=30)


# What a way adds is the same on each database, so the quick suite plays them on one.
LIVE = [(name, way) for name in NAMES for way in ("", "observed", "in_parts")]


@pytest.mark.parametrize(
    ("name", "way"),
    [pytest.param(name, way, marks=[pytest.mark.long] if way and name != "postgresql" else []) for name, way in LIVE],
)
def test_on_a_live_database(name: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = connected(name, "machine", monkeypatch)
    run(SqlTable(found), examples=4 * TIMES, steps=25, **({way: True} if way else {}))
