"""Conditional puts with a definite outcome: done, refused, or an error.

After a put that did not report success, the object is read back and its write id compared. Without this check, a run
would conflict with its own write after a lost answer, or after a refusal that the client's own retry caused.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.ports import PutOutcomeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_sitemaps.ports import ObjectInfo, ObjectStore, PutMode

log = logging.getLogger(__name__)

WRITE_ID: Final = "write-id"
"""Metadata key that identifies one write."""

ATTEMPTS: Final = 4


class RefusedPutError(StoreError):
    """The store refused the condition, and the present object is from another write.

    It is a ``StoreError``, because a store may refuse a condition that holds. A caller that expects no concurrent
    writer does not catch it, and the task is retried.
    """


def put_verified(
    objects: ObjectStore,
    key: str,
    body: bytes,
    *,
    mode: PutMode,
    write_id: str,
    content_type: str,
    cache_control: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> str:
    """Put an object and verify the outcome. Trying again is safe: every try has the same condition, bytes and write id.

    Args:
        objects: The area.
        key: Where to write.
        body: The bytes.
        mode: Condition of the write.
        write_id: Identifier of this write.
        content_type: Content-Type header.
        cache_control: Cache-Control header. Default: none.
        metadata: Further metadata. Default: none.

    Returns:
        The etag of the written object.

    Raises:
        RefusedPutError: Another write's object has the key, or the object to replace is missing.
        StoreError: The answers stayed unclear.
    """
    headers = {**(metadata or {}), WRITE_ID: write_id}

    def put() -> str:
        return objects.put(
            key, body, mode=mode, metadata=headers, content_type=content_type, cache_control=cache_control
        )

    return _resolve_outcome(objects, key, write_id, put)


def copy_verified(
    objects: ObjectStore,
    key: str,
    source: ObjectStore,
    found: ObjectInfo,
    *,
    mode: PutMode,
    write_id: str,
    content_type: str,
    cache_control: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> str:
    """Copy an object within the store and verify the outcome.

    Args:
        objects: The area of the copy.
        key: Where to write.
        source: The area of the object to copy.
        found: The object to copy, as it was read.
        mode: Condition of the write.
        write_id: Identifier of this write.
        content_type: Content-Type header of the copy.
        cache_control: Cache-Control header of the copy. Default: none.
        metadata: Further metadata of the copy. Default: none.

    Returns:
        The etag of the copy.

    Raises:
        RefusedPutError: Another write's object has the key, the object to replace is missing, or the source object
            changed.
        StoreError: The answers stayed unclear.
    """

    def copy() -> str:
        return objects.copy(
            source,
            found,
            key,
            mode=mode,
            metadata={**(metadata or {}), WRITE_ID: write_id},
            content_type=content_type,
            cache_control=cache_control,
        )

    return _resolve_outcome(objects, key, write_id, copy)


def _resolve_outcome(objects: ObjectStore, key: str, write_id: str, put: Callable[[], str]) -> str:
    """Put and return the etag; if the answer is unclear, read the object back to determine the outcome."""
    problem: PutOutcomeError | None = None
    for _ in range(ATTEMPTS):
        try:
            return put()
        except PutOutcomeError as error:
            problem = error
        found = objects.head(key)
        if found is not None and found.metadata.get(WRITE_ID) == write_id:
            log.info("%s: the answer of a put was lost or unclear (%s); it had landed", objects.url(key), problem)
            return found.etag
        if problem.definite:
            raise RefusedPutError(f"{objects.url(key)}: {problem}") from problem
    raise StoreError(
        f"{objects.url(key)}: {ATTEMPTS} puts had no clear answer, and reading back does not find them ({problem}). "
        "Nothing is assumed; run this task again when the store answers."
    ) from problem
