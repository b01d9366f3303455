"""The time by which a run acts: the worker's, unless its clock is ahead of the store's."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.state.conditional_put import ObjectHeaders, put_verified
from airflow_sitemaps.ports import Overwrite

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_sitemaps.ports import Clock, ObjectInfo, ObjectStore

log = logging.getLogger(__name__)

CLOCK_TOLERANCE: Final = timedelta(minutes=5)
"""Difference between clocks that is accepted; far less than any grace."""

TIME_MARK: Final = "time.json"
"""Key of the private object that is put to read the store's time."""


def bounded_time(objects: ObjectStore, clock: Clock, recent: ObjectInfo | None = None) -> datetime:
    """Return the worker's time, or the store's time if the worker's clock is ahead of it, with a warning.

    Args:
        recent: An object that was stored a short time ago. If the worker's time is close to it, no further request is sent.
            Default: None.

    Raises:
        StoreError: The store failed.
    """
    now = clock.now()
    if recent is not None and recent.modified_at is not None and now <= recent.modified_at + CLOCK_TOLERANCE:
        return now
    headers = ObjectHeaders(content_type="application/json")
    put_verified(objects, TIME_MARK, b"{}", mode=Overwrite(), write_id=clock.token(), headers=headers)
    mark = objects.head(TIME_MARK)
    if mark is None or mark.modified_at is None or now <= mark.modified_at + CLOCK_TOLERANCE:
        return now
    log.warning("this worker's clock is %s ahead of the store's clock; using the store's clock", now - mark.modified_at)
    return mark.modified_at
