"""Copies of objects by way of this process, where the store itself cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.ports import PutOutcomeError

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectInfo, ObjectStore


def copied(source: ObjectStore, found: ObjectInfo) -> bytes:
    """The bytes of an object that still has the etag it was found with. Raises PutOutcomeError, StoreError."""
    there = source.get(found.key)
    if there is None or there.info.etag != found.etag:
        now = "nothing is there" if there is None else f"the object has etag {there.info.etag}"
        raise PutOutcomeError(f"copy of {source.url(found.key)}: {now}, not {found.etag}", definite=True)
    return there.body
