"""The use case of an adoption: make ours in private, compare, and publish it only when told to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline import adoption
from airflow_sitemaps.pipeline.clock import QUIET, SYSTEM_CLOCK
from airflow_sitemaps.pipeline.stages import RunRequest, plan, publish, write
from airflow_sitemaps.pipeline.state import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.pipeline.adoption import Adoption
    from airflow_sitemaps.ports import Clock, Progress
    from airflow_sitemaps.sitemap import Sitemap


def adopt(
    sitemap: Sitemap,
    *,
    yes: bool = False,
    allow: Sequence[str] = (),
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = QUIET,
) -> Adoption:
    """Compare a sitemap that something else wrote with ours; with ``yes`` publish ours in its place.

    Without ``yes`` nothing public changes: our files are made in private, their URLs compared, and left to be swept.
    Old children stay readable through the grace.

    Raises:
        ConfigurationError: there is nothing to adopt.
    """
    store = sitemap.store.open()
    if State(store.state).root() is not None or store.public.head(store.index_name) is None:
        raise ConfigurationError(
            f"{sitemap.store.describe()}: there is no foreign index {store.index_name!r} to adopt; use build"
        )
    planned = plan(sitemap, RunRequest(adopt=True, allow=tuple(allow)), clock=clock, progress=progress)
    assert planned.key is not None
    receipts = [
        write(sitemap, planned.key, batch.number, clock=clock, progress=progress).receipt_key
        for batch in planned.plan.batches
    ]
    found = adoption.compare(store, State(store.state), receipts)
    if not yes:
        return found
    return replace(found, report=publish(sitemap, planned.key, receipts, clock=clock, progress=progress))
