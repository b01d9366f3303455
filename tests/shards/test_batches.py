"""How batches are grouped into the tasks that Airflow maps over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps.shards.plan import Batch
from airflow_sitemaps.shards.range_actions import BATCH_ROWS, MAX_BATCHES, make_tasks


def batches(*rows: int) -> list[Batch]:
    return [Batch(number=n, section=f"s{n:02d}", actions=(0,), rows=each) for n, each in enumerate(rows)]


def test_thirty_small_sections_are_one_task() -> None:
    (task,) = make_tasks(batches(*[10_000] * 30))

    assert [batch.number for batch in task] == list(range(30))


def test_a_full_batch_is_a_task_of_its_own() -> None:
    tasks = make_tasks(batches(BATCH_ROWS, 10, BATCH_ROWS, 20, 30))

    assert [[batch.rows for batch in task] for task in tasks] == [[BATCH_ROWS], [10], [BATCH_ROWS], [20, 30]]


@given(st.lists(st.integers(1, 3 * BATCH_ROWS), max_size=50), st.none() | st.integers(1, BATCH_ROWS))
def test_every_batch_is_in_one_task_in_order_and_no_task_overflows(rows: list[int], size: int | None) -> None:
    tasks = make_tasks(batches(*rows), size)

    assert [batch.number for task in tasks for batch in task] == list(range(len(rows)))
    for task in tasks:
        assert len(task) == 1 or sum(batch.rows for batch in task) <= (size or BATCH_ROWS)


@pytest.mark.parametrize("most", [0, 1, 7, MAX_BATCHES])
def test_there_are_never_more_tasks_than_airflow_maps(most: int) -> None:
    tasks = make_tasks(batches(*[5] * 3_000), 1, most)

    assert len(tasks) <= max(most, 1)
    assert sum(map(len, tasks)) == 3_000
