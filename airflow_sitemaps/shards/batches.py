"""Targets to batches: enough work for a task each, and never more tasks than Airflow maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_sitemaps.shards.plan import Batch, SectionPlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

BATCH_ROWS: Final = 500_000
"""Rows a batch is filled to by default: some seconds of work, against Airflow's own half second a task."""

MAX_BATCHES: Final = 1_000
"""Airflow refuses to map more than ``core.max_map_length`` (1,024) tasks."""


def make_batches(sections: Mapping[str, SectionPlan], batch_rows: int | None = None) -> tuple[Batch, ...]:
    """Group what is to be written, in key order, section by section.

    ``batch_rows``: rows a batch is filled to; larger where there would be more than ``MAX_BATCHES`` otherwise.
    """
    everything = sum(t.digest.rows for plan in sections.values() for t in plan.targets if t.action.writes)
    room = max(1, MAX_BATCHES - len(sections))
    size = max(batch_rows or BATCH_ROWS, -(-everything // room))
    groups = [(plan.name, group) for plan in sections.values() for group in _groups(plan, size)]
    return tuple(
        Batch(
            number=number,
            section=name,
            targets=group,
            rows=sum(sections[name].targets[position].digest.rows for position in group),
        )
        for number, (name, group) in enumerate(groups)
    )


def _groups(plan: SectionPlan, size: int) -> Iterator[tuple[int, ...]]:
    group: list[int] = []
    rows = 0
    for position, target in enumerate(plan.targets):
        if not target.action.writes:
            continue
        group.append(position)
        rows += target.digest.rows
        if rows >= size:
            yield tuple(group)
            group, rows = [], 0
    if group:
        yield tuple(group)
