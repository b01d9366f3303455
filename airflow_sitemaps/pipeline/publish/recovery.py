"""Recover: finish a generation that an earlier run committed but did not promote completely."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConflictError, OwnershipError, StoreContentError
from airflow_sitemaps.pipeline.publish.promotion import SupersededError, promote
from airflow_sitemaps.pipeline.state.repository import ManifestVersion, StateRepository

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Clock, Progress, Store
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

RACES: Final = 8
"""Number of generations of other runs that one run finishes before it gives up."""


def roll_forward(
    sitemap: Sitemap, store: Store, current: ManifestVersion, *, clock: Clock, progress: Progress
) -> ManifestVersion:
    """Finish the promotion of a committed generation that another run left unfinished.

    If another run finishes it first and commits the next generation, that one is finished too. The next commit then
    always follows a generation that is public.

    Returns:
        The current manifest, promoted. It stays unpromoted only if its promotion cannot be finished.

    Raises:
        ConflictError: Another run removed the manifest, or other runs committed ``RACES`` times meanwhile.
        StoreError: The store failed; the next try or run continues.
    """
    for _ in range(RACES):
        manifest = current.manifest
        log.warning(
            "generation %d (run %s) was committed but not completely promoted; finishing its promotion first",
            manifest.generation,
            manifest.run,
        )
        try:
            return promote(store, current, clock=clock, progress=progress)
        except (StoreContentError, OwnershipError) as error:
            # Do not raise, or every later run would fail here: the next commit reads the rows of lost bodies again,
            # and the next plan refuses objects of another pipeline.
            log.warning(
                "the promotion of generation %d cannot be finished; the next run replaces the generation: %s",
                manifest.generation,
                error,
            )
            return current
        except SupersededError:
            now = StateRepository(store.state).current()
        if now is None:
            raise ConflictError(
                "the manifest was removed while this run finished an earlier promotion; run the DAG again"
            )
        if now.manifest.promoted:
            return now
        current = now
    raise ConflictError(
        f"other runs committed {RACES} times while this run finished an earlier promotion; run again when fewer runs publish at once"
    )
