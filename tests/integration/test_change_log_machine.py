"""By a change log, too, incremental equals full after any sequence of changes: in memory, on PostgreSQL and DuckDB."""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule, run_state_machine_as_test

from tests.simulation.machine import BASE, START, IncrementalMachine
from tests.support.outbox_tables import NEVER, RecordedTable, TriggeredTable
from tests.support.simulated_source import SimulatedSourceConfig
from tests.support.source_sessions import connected

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

TIMES = int(os.environ.get("MACHINE_TIMES", "1"))
DOCS = Path(__file__).parents[2] / "docs" / "change-logs.md"
HELD_KEYS = 1_000


class RecordedList:
    """Rows in a list, and their changes in another."""

    is_behind = False

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.change_log: list[tuple[int, Any]] = [(0, (0,))]

    def _record(self, *keys: Any) -> None:
        for key in keys:
            self.change_log.append((self.change_log[-1][0] + 1, None if key is None else (key,)))

    def clear(self) -> None:
        self._record(*(row["id"] for row in self.rows))
        self.rows.clear()

    def insert(self, rows: Sequence[dict[str, Any]]) -> None:
        self._record(*(row["id"] for row in rows))
        self.rows.extend(dict(row) for row in rows)

    def update(self, rid: int, **values: Any) -> None:
        row = next(row for row in self.rows if row["rid"] == rid)
        self._record(row["id"])
        row.update(values)
        self._record(row["id"])

    def delete(self, rids: Sequence[int]) -> None:
        self._record(*(row["id"] for row in self.rows if row["rid"] in rids))
        self.rows[:] = [row for row in self.rows if row["rid"] not in rids]

    def hold(self, row: dict[str, Any]) -> None:
        """A list has no transactions."""

    def release(self) -> None:
        """A list has no transactions."""

    def trim(self) -> None:
        del self.change_log[:-1]

    def source(self, *, priority: bool) -> SimulatedSourceConfig:
        column = "prio" if priority else None
        return SimulatedSourceConfig(
            self.rows, key="id", loc="url", lastmod="lm", priority=column, clock=lambda: START, change_log=self.change_log,
            change_log_interval=NEVER,
        )  # fmt: skip


class ChangeLogMachine(IncrementalMachine):
    """The machine, with transactions that commit late and a change log that is trimmed."""

    table: Any

    @rule()
    def commit_later(self) -> None:
        """Begin a transaction that inserts a row with a key of its own."""
        self._number += 1
        self.table.hold(
            {"rid": HELD_KEYS + self._number, "id": HELD_KEYS + self._number, "url": f"{BASE}h/{self._number}"}
        )

    @rule()
    def commit_now(self) -> None:
        """Commit it, perhaps after runs and after later changes."""
        self.table.release()
        self.current = False

    @rule()
    def trim(self) -> None:
        """Delete changes, whether or not a run has read them."""
        self.table.trim()
        self.current = False

    def _run(self, *, full: bool = False) -> None:
        super()._run(full=full)
        self.current = not self.table.is_behind

    def teardown(self) -> None:
        self.table.release()
        super().teardown()


def run(table: Any, examples: int, steps: int) -> None:
    machine = type("Machine", (ChangeLogMachine,), {"table": table})
    limits = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck),
        derandomize=False,
    )  # fmt: skip
    run_state_machine_as_test(machine, settings=limits)


def test_in_memory() -> None:
    run(RecordedList(), examples=10 * TIMES, steps=30)


def documented() -> tuple[list[str], str]:
    """The statements of the example in the docs, and its query of the changes."""
    text = DOCS.read_text()
    (script,) = re.findall(r"```postgresql\n(CREATE TABLE product_changes.*?)```", text, re.DOTALL)
    (query,) = re.findall(r'query="""(\s*SELECT id, changed_in .*?)"""', text, re.DOTALL)
    return re.split(r";\n(?=CREATE)", script.strip().removesuffix(";")), query


def test_on_postgresql_by_the_triggers_of_the_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    table = TriggeredTable(connected("postgresql", "machine", monkeypatch), *documented())
    run(table, examples=4 * TIMES, steps=25)


def test_on_duckdb_with_an_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    run(RecordedTable(connected("duckdb", "machine", monkeypatch)), examples=4 * TIMES, steps=25)


def test_the_interval_is_out_of_reach() -> None:
    assert timedelta(days=365) < NEVER
