"""Does a store keep its conditional puts? Asked once per place and process, before anything is published.

A store that ignores conditions answers 200 to everything: two runs would overwrite each other's manifest, and nobody
would notice. Therefore the question is put to the store itself, on a key of its own that is deleted again.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal
from uuid import uuid4

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.ports import Create, PutMode, PutOutcomeError, Update

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectInfo, ObjectStore, Store

log = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""How often the probe begins anew, on a fresh key, when an answer is lost on the way."""

WORTH_ASKING: Final = 8
"""Files to be copied at once, from which on the questions cost less than they spare."""

_known: dict[str, bool] = {}
_lock = threading.Lock()


def probe(store: Store) -> bool:
    """Whether conditional puts are enforced where a store keeps its two areas.

    Asks the store unless it knows (``enforces_conditions``) or was asked before in this process; the answer is
    remembered by place (an area's ``place``, else its address) and written into ``store.enforces_conditions``.

    Raises:
        StoreError: the store could not be asked.
        ConfigurationError: it refuses our credentials, has no such bucket, or refuses conditions that hold.
    """
    if store.enforces_conditions is None:
        store.enforces_conditions = _enforced(store.state) and _enforced(store.public)
    return store.enforces_conditions


def ensure_conditions(store: Store, single_writer: bool) -> None:
    """Refuse a store that ignores conditional puts, unless the user promised to be its only writer.

    Raises:
        ConfigurationError: conditions are ignored and ``single_writer`` is False.
        StoreError: the store could not be asked.
    """
    place = store.state.url("")
    if single_writer:
        log.info("%s: single_writer=True, so conditional writes are not relied upon; nothing else may publish", place)
        return
    if not probe(store):
        raise ConfigurationError(
            f"the store at {place} ignores conditional writes (If-None-Match, If-Match): two runs at once could "
            "publish over each other. Use a store that enforces them (AWS S3, MinIO, Ceph without versioning), or, "
            "if no other process will ever publish here, set single_writer=True"
        )


def copies(store: Store, files: int) -> bool:
    """Whether this many files are promoted by copies within the store.

    A store that may be able to is asked once per process, and only when that many are to be copied that it pays.
    Bodies then pass through this process once instead of three times. AWS enforces ``If-Match`` and ``If-None-Match``
    on CopyObject; a store that does not, or refuses to copy, gets each file from here.
    """
    if store.copies is None and files >= WORTH_ASKING:
        store.copies = _copies(store)
    return bool(store.copies)


def forget() -> None:
    """Forget every answer, so that the next probe asks anew. For tests."""
    with _lock:
        _known.clear()


def _enforced(area: ObjectStore) -> bool:
    """The answer for one area, remembered by its place. Asked under a lock: once, though threads ask at once."""
    place = _place(area)
    with _lock:
        if place not in _known:
            _known[place] = _ask(area)
        return _known[place]


def _copies(store: Store) -> bool:
    """The answer for both areas, remembered by their places."""
    place = f"{_place(store.state)} copied to {_place(store.public)}"
    with _lock:
        if place not in _known:
            key = f"probe-{uuid4().hex}"
            try:
                _known[place] = _copies_by_condition(store, key)
            except (StoreError, ConfigurationError, PutOutcomeError) as e:
                log.info("%s; files are promoted by way of this process", e)
                _known[place] = False
            finally:
                for area in (store.state, store.public):
                    with suppress(StoreError, ConfigurationError):
                        area.delete(key)
        return _known[place]


def _copies_by_condition(store: Store, key: str) -> bool:
    """Whether each condition is kept, of the destination and of the source, and headers are those of the copy."""
    store.state.put(key, b"1", mode=Create(), metadata={"probe": "source"}, content_type="text/plain")
    found = store.state.head(key)
    if found is None:
        return False
    etag = _copy(store, found, key, Create())
    if not etag:
        return False
    for source, mode in (
        (found, Create()),
        (found, Update("0" * 32)),
        (replace(found, etag="0" * 32), Update(etag)),
    ):
        if _copy(store, source, key, mode):
            return False
    there = store.public.head(key) if _copy(store, found, key, Update(etag)) else None
    return there is not None and there.byte_size == 1 and there.metadata.get("probe") == "copy"


def _copy(store: Store, found: ObjectInfo, key: str, mode: PutMode) -> str:
    """The etag of a copy; empty where it was refused. Raises PutOutcomeError where the answer is unclear."""
    try:
        return store.public.copy(
            store.state, found, key, mode=mode, metadata={"probe": "copy"}, content_type="text/plain"
        )
    except PutOutcomeError as e:
        if not e.definite:
            raise
        return ""


def _place(area: ObjectStore) -> str:
    return str(getattr(area, "place", "") or area.url(""))


def _ask(area: ObjectStore) -> bool:
    """Put the four questions on a fresh key, beginning anew when an answer is lost."""
    for _ in range(ATTEMPTS):
        key = f"probe-{uuid4().hex}"
        try:
            verdict = _questions(area, key)
        finally:
            with suppress(StoreError, ConfigurationError):
                area.delete(key)
        if verdict is not None:
            return verdict
    raise StoreError(
        f"cannot find out whether {area.url('')} enforces conditional writes: {ATTEMPTS} attempts lost their answers. "
        "Look at the network and the store's health, then run again"
    )


def _questions(area: ObjectStore, key: str) -> bool | None:
    """True or False, or None when an answer was lost and nothing can be concluded."""
    first, etag = _try(area, key, b"1", Create())
    if first != "done":
        return None
    for body, mode in ((b"2", Create()), (b"3", Update("0" * 32))):
        outcome, _ = _try(area, key, body, mode)
        if outcome != "refused":
            return None if outcome == "lost" else False
    outcome, _ = _try(area, key, b"4", Update(etag))
    if outcome == "refused" and (now := area.head(key)) is not None and now.etag == etag:
        raise ConfigurationError(
            f"the store at {area.url('')} refuses a conditional write (If-Match) although its condition holds: "
            "nothing could ever be replaced there. Use a store that implements conditional writes, or, if no other "
            "process will ever publish here, set single_writer=True"
        )
    return True if outcome == "done" else None


def _try(area: ObjectStore, key: str, body: bytes, mode: PutMode) -> tuple[Literal["done", "refused", "lost"], str]:
    """What came of a put, and its etag."""
    try:
        return "done", area.put(key, body, mode=mode, metadata={"probe": "conditions"}, content_type="text/plain")
    except PutOutcomeError as e:
        return ("refused" if e.definite else "lost"), ""
