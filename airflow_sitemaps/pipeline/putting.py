"""Conditional puts whose answer is always made out: done, refused, or raised.

After any put that did not answer "done" the object is read back and its write id compared: a lost answer would
otherwise become a conflict with oneself, and a refusal after the client's own retry as well.
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
"""Metadata key that tells one write from any other."""

ATTEMPTS: Final = 4


class RefusedPutError(Exception):
    """The condition did not hold, and what lies there is not ours."""


def put_surely(
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
    """Put, and return the etag of what now surely lies there.

    Trying again is safe: every try carries the same condition, bytes and write id.

    Raises:
        RefusedPutError: somebody else's object is there, or the one to be replaced is not.
        StoreError: the answers stayed unclear.
    """
    told = {**(metadata or {}), WRITE_ID: write_id}

    def put() -> str:
        return objects.put(key, body, mode=mode, metadata=told, content_type=content_type, cache_control=cache_control)

    return _made_out(objects, key, write_id, put)


def copy_surely(
    objects: ObjectStore,
    key: str,
    source: ObjectStore,
    found: ObjectInfo,
    *,
    mode: PutMode,
    write_id: str,
    content_type: str,
    cache_control: str | None = None,
) -> str:
    """Copy what was found in ``source`` within the store, and return the etag of what now surely lies there.

    Raises as ``put_surely`` does; RefusedPutError also where the source is no longer what was found.
    """

    def copy() -> str:
        return objects.copy(
            source,
            found,
            key,
            mode=mode,
            metadata={WRITE_ID: write_id},
            content_type=content_type,
            cache_control=cache_control,
        )

    return _made_out(objects, key, write_id, copy)


def _made_out(objects: ObjectStore, key: str, write_id: str, put: Callable[[], str]) -> str:
    """The etag of a put, told by reading back where its answer was not clear."""
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
