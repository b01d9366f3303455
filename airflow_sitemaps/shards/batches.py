"""Group ranges into batches, and batches into tasks: enough work per task, and no more tasks than Airflow maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_sitemaps.shards.plan import Batch, SectionPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BATCH_ROWS: Final = 500_000
"""Default number of rows per batch: a few seconds of work, against Airflow's overhead of half a second per task."""

MAX_BATCHES: Final = 1_000
"""Maximum number of batches: Airflow refuses to map more than ``core.max_map_length`` (1,024) tasks."""


def make_batches(sections: Mapping[str, SectionPlan], batch_rows: int | None = None) -> tuple[Batch, ...]:
    """Group the ranges to write into batches, section by section, in key order.

    Args:
        batch_rows: Number of rows to which a batch is filled. It is increased if there would be more than
            ``MAX_BATCHES`` batches. Default: ``BATCH_ROWS``.
    """
    everything = sum(t.digest.rows for plan in sections.values() for t in plan.actions if t.kind.writes)
    room = max(1, MAX_BATCHES - len(sections))
    size = max(batch_rows or BATCH_ROWS, -(-everything // room))
    groups = [(plan.name, group) for plan in sections.values() for group in _groups(plan, size)]
    return tuple(
        Batch(
            number=number,
            section=name,
            actions=group,
            rows=sum(sections[name].actions[position].digest.rows for position in group),
        )
        for number, (name, group) in enumerate(groups)
    )


def make_tasks(batches: Sequence[Batch], batch_rows: int | None = None) -> tuple[tuple[Batch, ...], ...]:
    """Group batches into tasks, in order, across sections: thirty small sections need one task, not thirty.

    Args:
        batches: The batches of a plan. A batch holds ranges of one section only.
        batch_rows: Number of rows to which a task is filled. A larger batch is a task of its own. Default:
            ``BATCH_ROWS``.

    Returns:
        At most ``MAX_BATCHES`` groups of consecutive batches.
    """
    rows = batch_rows or BATCH_ROWS
    while len(groups := tuple(_filled(batches, rows))) > MAX_BATCHES:
        rows *= 2
    return groups


def _filled(batches: Sequence[Batch], size: int) -> Iterator[tuple[Batch, ...]]:
    group: list[Batch] = []
    rows = 0
    for batch in batches:
        if group and rows + batch.rows > size:
            yield tuple(group)
            group, rows = [], 0
        group.append(batch)
        rows += batch.rows
    if group:
        yield tuple(group)


def _groups(plan: SectionPlan, size: int) -> Iterator[tuple[int, ...]]:
    group: list[int] = []
    rows = 0
    for position, action in enumerate(plan.actions):
        if not action.kind.writes:
            continue
        group.append(position)
        rows += action.digest.rows
        if rows >= size:
            yield tuple(group)
            group, rows = [], 0
    if group:
        yield tuple(group)
