"""Probe whether a store enforces conditional writes, once per endpoint and process, before the first publication.

A store that ignores conditions answers 200 to every put: two runs would overwrite each other's manifest without any
error. The probe therefore tries conditional puts on a key of its own, and deletes the key afterwards. If the store refused
that, or the process died, the next probe uses the key again and deletes it, so that such objects do not become more.
"""

from __future__ import annotations

import logging
import re
import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal
from uuid import uuid4

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.ports import Create, Overwrite, PutMode, PutOutcomeError, Update

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_sitemaps.ports import ObjectInfo, ObjectStore, Store

log = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""Number of tries of the probe, each on a new key, if answers are lost."""

PREFIX: Final = "probe-"
KEY: Final = re.compile(PREFIX + "[0-9a-f]{32}")

WORTH_ASKING: Final = 8
"""Minimum number of files to copy for which the probe of copies costs less than it saves."""


class _ResultCache:
    """Results of probes by place. A lock ensures that concurrent threads probe a place once."""

    def __init__(self) -> None:
        self._results: dict[str, bool] = {}
        self._lock = threading.Lock()

    def result(self, place: str, ask: Callable[[], bool]) -> bool:
        """Return the result for a place, and probe it first if it is not known."""
        with self._lock:
            if place not in self._results:
                self._results[place] = ask()
            return self._results[place]

    def clear(self) -> None:
        """Remove all results."""
        with self._lock:
            self._results.clear()


_cache: Final = _ResultCache()


def probe(store: Store) -> bool:
    """Return whether a store enforces conditional puts in its two areas.

    The probe runs only if ``store.enforces_conditions`` is None and if no result is cached in this process. Results are
    cached by endpoint: an area's ``place``, or else its address.

    Raises:
        StoreError: The probe failed.
        ConfigurationError: The store rejects the credentials, has no such bucket, or refuses conditions that hold.
    """
    if store.enforces_conditions is not None:
        return store.enforces_conditions
    return _enforced(store.state) and _enforced(store.public)


def ensure_conditions(store: Store, single_writer: bool) -> None:
    """Refuse a store that ignores conditional puts, unless only one run at a time writes to it.

    Raises:
        ConfigurationError: The store ignores conditions and ``single_writer`` is False.
        StoreError: The probe failed.
    """
    place = store.state.url("")
    if single_writer:
        log.info(
            "%s: single_writer=True: concurrent runs are not protected against each other; no other process may publish here",
            place,
        )
        return
    if not probe(store):
        raise ConfigurationError(
            f"the store at {place} ignores conditional writes (If-None-Match, If-Match): two concurrent runs could "
            "overwrite each other's files. Use a store that enforces them (AWS S3, MinIO, Ceph without versioning), or, "
            "if no other process will ever publish here, set single_writer=True"
        )


def copies(store: Store, files: int) -> bool:
    """Return whether to promote a number of files by copies within the store.

    A store that may support it is probed once per process, and only if there are enough files to make it worthwhile.
    With copies, bodies pass through this process once instead of three times. AWS enforces ``If-Match`` and
    ``If-None-Match`` on CopyObject. If a store does not enforce them, or refuses to copy, this process puts each file.
    """
    if store.copies is None:
        return files >= WORTH_ASKING and _copies(store)
    return store.copies


def forget() -> None:
    """Clear the cached results, so that the next probe runs again. For tests."""
    _cache.clear()


def _enforced(area: ObjectStore) -> bool:
    """Return whether one area enforces conditional puts, cached by its endpoint."""
    return _cache.result(_place(area), lambda: _ask(area))


def _copies(store: Store) -> bool:
    """Return whether the store copies from its private to its public area, cached by their endpoints."""
    return _cache.result(f"{_place(store.state)} copied to {_place(store.public)}", lambda: _ask_copies(store))


def _ask_copies(store: Store) -> bool:
    """Probe copies. A store that refuses them or fails does not support them."""
    source, target = _new_key(), _new_key()
    try:
        left = _left_behind(store.state), _left_behind(store.public)
        source, target = (info.key if info is not None else _new_key() for info in left)
        return _copies_by_condition(store, source, target, _over(left[1]))
    except (StoreError, ConfigurationError, PutOutcomeError) as e:
        log.info("%s; this process reads and uploads each file to promote it", e)
        return False
    finally:
        for area, key in ((store.state, source), (store.public, target)):
            with suppress(StoreError, ConfigurationError):
                area.delete(key)


def _copies_by_condition(store: Store, source: str, target: str, first: PutMode) -> bool:
    """Return whether copies enforce the conditions on destination and source, and take the new headers."""
    store.state.put(source, b"1", mode=Overwrite(), metadata={"probe": "source"}, content_type="text/plain")
    info = store.state.head(source)
    if info is None:
        return False
    etag = _copy(store, info, target, first)
    if not etag:
        return False
    for source_info, mode in (
        (info, Create()),
        (info, Update("0" * 32)),
        (replace(info, etag="0" * 32), Update(etag)),
    ):
        if _copy(store, source_info, target, mode):
            return False
    there = store.public.head(target) if _copy(store, info, target, Update(etag)) else None
    return there is not None and there.byte_size == 1 and there.metadata.get("probe") == "copy"


def _copy(store: Store, found: ObjectInfo, key: str, mode: PutMode) -> str:
    """Copy an object; return the etag of the copy, or "" if the store refused.

    Raises:
        PutOutcomeError: The answer is unclear.
    """
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


def _new_key() -> str:
    return f"{PREFIX}{uuid4().hex}"


def _left_behind(area: ObjectStore) -> ObjectInfo | None:
    """Return an object that an earlier probe could not delete, or None."""
    return next((info for info in area.list(PREFIX) if KEY.fullmatch(info.key)), None)


def _over(left: ObjectInfo | None) -> PutMode:
    """Return the condition of a probe's first put."""
    return Create() if left is None else Update(left.etag)


def _ask(area: ObjectStore) -> bool:
    """Probe one area with four puts on one key, and start again if an answer is lost."""
    causes: list[str] = []
    left = _left_behind(area)
    for _ in range(ATTEMPTS):
        key = _new_key() if left is None else left.key
        try:
            verdict = _questions(area, key, _over(left), causes)
        finally:
            with suppress(StoreError, ConfigurationError):
                area.delete(key)
        if verdict is not None and (verdict or left is None):
            return verdict
        left = None  # the probe of another process may use the same object, and may have deleted it
    cause = f"{causes[-1].rstrip('. ')}. " if causes else ""
    raise StoreError(
        f"{cause}{ATTEMPTS} attempts got no clear answer, so this run cannot determine whether {area.url('')} enforces "
        "conditional writes. Check the network and the store's health, then run again"
    )


def _questions(area: ObjectStore, key: str, mode: PutMode, causes: list[str]) -> bool | None:
    """Return whether conditions are enforced, or None if a lost answer leaves this unknown.

    The cause is added to ``causes``.
    """
    first, etag = _try(area, key, b"1", mode, causes)
    if first != "done":
        return None
    for body, refused in ((b"2", Create()), (b"3", Update("0" * 32))):
        outcome, _ = _try(area, key, body, refused, causes)
        if outcome != "refused":
            return None if outcome == "lost" else False
    outcome, _ = _try(area, key, b"4", Update(etag), causes)
    if outcome == "refused" and (now := area.head(key)) is not None and now.etag == etag:
        raise ConfigurationError(
            f"the store at {area.url('')} refuses a conditional write (If-Match) although its condition holds: "
            "no object could be replaced there. Use a store that implements conditional writes, or, if no other "
            "process will ever publish here, set single_writer=True"
        )
    return True if outcome == "done" else None


def _try(
    area: ObjectStore, key: str, body: bytes, mode: PutMode, causes: list[str]
) -> tuple[Literal["done", "refused", "lost"], str]:
    """Put an object; return the outcome and the etag. The cause of a lost answer is added to ``causes``."""
    try:
        return "done", area.put(key, body, mode=mode, metadata={"probe": "conditions"}, content_type="text/plain")
    except PutOutcomeError as e:
        if not e.definite:
            causes.append(str(e))
        return ("refused" if e.definite else "lost"), ""
