"""Conditional puts with a definite outcome: done, refused, or an error.

After a put that did not report success, the object is read back and its write id compared. Without this check, a run
would conflict with its own write after a lost answer, or after a refusal that the client's own retry caused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.ports import PutOutcomeError
from airflow_sitemaps.waits import repeated

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from airflow_sitemaps.ports import Headers, ObjectInfo, ObjectStore, PutMode

log = logging.getLogger(__name__)

WRITE_ID: Final = "write-id"
"""Metadata key that identifies one write."""

JSON: Final = "application/json"
NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})

ATTEMPTS: Final = 4
"""Maximum number of puts of one object, the first included."""

# No pause: the client of the store has paused between its own attempts.
_put_repeatedly: Final = repeated(PutOutcomeError, attempts=ATTEMPTS, pause_s=0, longest_pause_s=0, log=log)


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
    content_type: str = JSON,
    cache_control: str | None = None,
    metadata: Mapping[str, str] = NO_METADATA,
) -> str:
    """Put an object, verify the outcome, and return the etag. The write id is added to the metadata.

    Trying again is safe: every try has the same condition, bytes and write id. Raises ``RefusedPutError`` if another
    write's object has the key, or the object to replace is missing.
    """
    metadata = {**metadata, WRITE_ID: write_id}
    put = partial(
        objects.put, key, body, mode=mode, metadata=metadata, content_type=content_type, cache_control=cache_control
    )
    return _resolve_outcome(objects, key, write_id, put)


def copy_verified(
    objects: ObjectStore,
    key: str,
    source: ObjectStore,
    info: ObjectInfo,
    *,
    mode: PutMode,
    write_id: str,
    **headers: Unpack[Headers],
) -> str:
    """Copy an object within the store like ``put_verified``. It is also refused if the source object changed."""
    headers["metadata"] = {**headers["metadata"], WRITE_ID: write_id}
    return _resolve_outcome(objects, key, write_id, lambda: objects.copy(source, info, key, mode=mode, **headers))


def _resolve_outcome(objects: ObjectStore, key: str, write_id: str, put: Callable[[], str]) -> str:
    """Put and return the etag; if the answer is unclear, read the object back to determine the outcome."""

    def put_once() -> str:
        try:
            return put()
        except PutOutcomeError as problem:
            present = objects.head(key)
            if present is not None and present.metadata.get(WRITE_ID) == write_id:
                log.info(
                    "%s: the response to a put was lost or unclear, but the object was written (%s)",
                    objects.url(key),
                    problem,
                )
                return present.etag
            if problem.definite:
                raise RefusedPutError(f"{objects.url(key)}: {problem}") from problem
            raise

    try:
        return _put_repeatedly(put_once)
    except PutOutcomeError as problem:
        raise StoreError(
            f"{objects.url(key)}: outcome unknown after {ATTEMPTS} puts, and the object read back is not from this "
            f"write ({problem}). Run this task again when the store responds."
        ) from problem
