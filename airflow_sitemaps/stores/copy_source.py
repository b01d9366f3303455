"""Reads an object for a copy through this process, for stores that cannot copy between their areas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.ports import PutOutcomeError

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectInfo, ObjectStore


def read_source(source: ObjectStore, info: ObjectInfo) -> bytes:
    """Read an object that must not have changed.

    Args:
        info: Info of the object, as it was read before.

    Raises:
        PutOutcomeError: The object does not exist any longer, or has another etag (definite).
        StoreError: The store failed.
    """
    there = source.get(info.key)
    if there is None or there.info.etag != info.etag:
        now = "there is no object" if there is None else f"the object has etag {there.info.etag}"
        raise PutOutcomeError(f"copy of {source.url(info.key)}: {now}; expected was etag {info.etag}", definite=True)
    return there.body
