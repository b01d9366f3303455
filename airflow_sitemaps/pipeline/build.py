"""The whole run in one process: for notebooks, tests and the shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.pipeline.clock import QUIET, SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.ports import Clock, Progress
    from airflow_sitemaps.sitemap import Sitemap


def build(
    sitemap: Sitemap,
    full: bool = False,
    *,
    sections: Sequence[str] = (),
    rebuild: Sequence[str] = (),
    allow: Sequence[str] = (),
    adopt: bool = False,
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = QUIET,
) -> Report:
    """Plan, write every batch, publish; by the same stages that Airflow runs as tasks.

    ``full`` reads and renders everything; equal files are still not written again. ``sections``: only these.
    ``rebuild``: names of shards to write again. ``allow``: guards to let pass, like ``shrink:products``. ``adopt``:
    take over a sitemap that something else wrote.

    Raises:
        SitemapError: see ``airflow_sitemaps.errors``; what was published before stays as it was.
    """
    request = stages.RunRequest(
        sections=tuple(sections), full=full, rebuild=tuple(rebuild), allow=tuple(allow), adopt=adopt
    )
    planned = stages.plan(sitemap, request, clock=clock, progress=progress)
    assert planned.key is not None
    receipts = [
        stages.write(sitemap, planned.key, batch.number, clock=clock, progress=progress).receipt_key
        for batch in planned.plan.batches
    ]
    return stages.publish(sitemap, planned.key, receipts, clock=clock, progress=progress)
