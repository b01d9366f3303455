"""Probe whether a store enforces conditional writes, once per endpoint and process, before the first publication.

A store that ignores conditions answers 200 to every put: two runs would overwrite each other's manifest without any
error. The probe therefore tries conditional puts on keys of its own, and deletes them afterwards. If the store refused
that, or the process died, the next probe uses the key again and deletes it, so that such objects do not become more.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal
from uuid import uuid4

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.ports import Create, ObjectInfo, ObjectStore, Overwrite, PutMode, PutOutcomeError, Store, Update

log = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""Number of tries of the probe, each on a new key, if answers are lost."""

PREFIX: Final = "probe-"
KEY: Final = re.compile(PREFIX + "[0-9a-f]{32}")

WORTH_ASKING: Final = 8
"""Minimum number of files to copy for which the probe of copies costs less than it saves."""

Outcome = Literal["done", "refused", "lost"]

NO_VERSION: Final = "0" * 32
"""An etag that no object has."""
CREATE: Final = "create an object"
REPLACE: Final = "replace the present version"
OVERWRITTEN: Final = "two concurrent runs could overwrite each other's files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a store answered to one question of the probe.

    ``effect`` follows from another answer, after which nothing is published if the answer ``is_needed``. ``detail`` is what
    the store said, unless it did what was tried.
    """

    question: str
    wanted: Outcome
    outcome: Outcome
    effect: str
    is_needed: bool = True
    seconds: float = 0.0
    etag: str = ""
    detail: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it is the answer that publishing relies on."""
        return self.outcome == self.wanted


_results: Final[dict[str, str]] = {}
"""Results of probes by place: the question answered wrongly, or ""."""

_probing: Final = threading.Lock()
"""Held while a place is probed, so that concurrent threads probe it once."""


def _result(place: str, ask: Callable[[], str]) -> str:
    """Return the result for a place, and probe it first if it is not known."""
    with _probing:
        if place not in _results:
            _results[place] = ask()
        return _results[place]


def probe(store: Store) -> bool:
    """Return whether a store enforces conditional puts in its two areas. A store that does not say it is probed.

    Results are cached in this process by endpoint: an area's ``place``, or else its address. Raises ConfigurationError if the
    store rejects the credentials, has no such bucket, or refuses conditions that hold.
    """
    if store.enforces_conditions is not None:
        return store.enforces_conditions
    return not _accepted(store)


def ensure_conditions(store: Store, single_writer: bool) -> None:
    """Refuse a store that ignores conditional puts, unless only one run at a time writes to it."""
    place = store.state.url("")
    if single_writer:
        log.info(
            "%s: single_writer=True: concurrent runs are not protected against each other; no other process may publish here",
            place,
        )
        return
    if not probe(store):
        accepted = "" if store.enforces_conditions is not None else f" It accepted: {_accepted(store)}."
        raise ConfigurationError(
            f"the store at {place} ignores conditional writes (If-None-Match, If-Match): two concurrent runs could "
            f"overwrite each other's files.{accepted} Use a store that enforces them (AWS S3, GCSStore for Google's buckets, "
            "AzureBlobStore, MinIO of 2025-09 or newer, Ceph without versioning), or, if no other process will ever publish here, set "
            "single_writer=True"
        )


def copies(store: Store, files: int) -> bool:
    """Return whether to promote a number of files by copies within the store.

    A store that may support it is probed once per process, and only if there are enough files to make it worthwhile.
    With copies, bodies pass through this process once instead of three times. AWS enforces ``If-Match`` and
    ``If-None-Match`` on CopyObject. If a store does not enforce them, or refuses to copy, this process puts each file.
    """
    if store.copies is not None:
        return store.copies
    places = f"{_place(store.state)} copied to {_place(store.public)}"
    return files >= WORTH_ASKING and not _result(places, lambda: _ask_copies(store))


def forget() -> None:
    """Clear the cached results, so that the next probe runs again. For tests."""
    with _probing:
        _results.clear()


def examine(area: ObjectStore) -> Iterator[Reply]:
    """Ask an area every question, for people. Nothing is left there."""
    key, target = _new_key(), _new_key()
    try:
        for reply in _replies(area, key, Create()):
            yield reply
            if not reply.is_right and reply.question == CREATE:
                return
        area.get(key)  # raises where one may write and not read, as with a key of KMS that may only encrypt
        spared = partial(_spared, area, key)
        effect = "a sweep could delete a file that another program has just replaced"
        yield _reply("delete another version of it", "refused", effect, spared, is_needed=False)
        copied = partial(_copied, area, key, target)
        effect = "promotions read and upload each file instead of copying it within the store"
        yield _reply("copy it, under conditions on both objects", "done", effect, copied, is_needed=False)
    finally:
        for left in (key, target):
            with suppress(StoreError, ConfigurationError):
                area.delete(left)


def _reply(
    question: str, wanted: Outcome, effect: str, ask: Callable[[], tuple[Outcome, str]], *, is_needed: bool = True
) -> Reply:
    """Ask, and return the reply. ``ask`` returns the etag of what it put, or what the store said instead."""
    started = time.perf_counter()
    outcome, said = ask()
    return Reply(
        question=question,
        wanted=wanted,
        outcome=outcome,
        effect=effect,
        is_needed=is_needed,
        seconds=time.perf_counter() - started,
        etag=said if outcome == "done" else "",
        detail=said if outcome != "done" else "",
    )


def _spared(area: ObjectStore, key: str) -> tuple[Outcome, str]:
    area.delete(key, etag=NO_VERSION)
    return ("done" if area.head(key) is None else "refused"), ""


def _copied(area: ObjectStore, key: str, target: str) -> tuple[Outcome, str]:
    try:
        return ("done" if _copies_by_condition(area, area, key, target, Create()) else "refused"), ""
    except (StoreError, ConfigurationError, PutOutcomeError) as e:
        return ("refused" if isinstance(e, ConfigurationError) else "lost"), str(e)


def _accepted(store: Store) -> str:
    """Return the question that an area of the store answered wrongly, or "" if both enforce conditional puts."""
    areas = (store.state, store.public)
    return next(filter(None, (_result(_place(area), partial(_ask, area)) for area in areas)), "")


def _ask_copies(store: Store) -> str:
    """Probe copies, and return "" if the store supports them. One that refuses them or fails does not."""
    source, target = _new_key(), _new_key()
    try:
        left = _left_behind(store.state), _left_behind(store.public)
        source, target = (info.key if info is not None else _new_key() for info in left)
        return "" if _copies_by_condition(store.state, store.public, source, target, _over(left[1])) else "copy"
    except (StoreError, ConfigurationError, PutOutcomeError) as e:
        log.info("%s; this process reads and uploads each file to promote it", e)
        return "copy"
    finally:
        for area, key in ((store.state, source), (store.public, target)):
            with suppress(StoreError, ConfigurationError):
                area.delete(key)


def _copies_by_condition(state: ObjectStore, public: ObjectStore, source: str, target: str, first: PutMode) -> bool:
    """Return whether copies enforce the conditions on destination and source, and take the new headers."""
    state.put(source, b"1", mode=Overwrite(), metadata={"probe": "source"}, content_type="text/plain")
    info = state.head(source)
    if info is None:
        return False

    def copy(found: ObjectInfo, mode: PutMode) -> str:
        """Return the etag of a copy, or "" if the store refused. An unclear answer is raised."""
        try:
            return public.copy(state, found, target, mode=mode, metadata={"probe": "copy"}, content_type="text/plain")
        except PutOutcomeError as e:
            if not e.definite:
                raise
            return ""

    etag = copy(info, first)
    if not etag:
        return False
    for source_info, mode in (
        (info, Create()),
        (info, Update(NO_VERSION)),
        (replace(info, etag=NO_VERSION), Update(etag)),
    ):
        if copy(source_info, mode):
            return False
    there = public.head(target) if copy(info, Update(etag)) else None
    return there is not None and there.byte_size == 1 and there.metadata.get("probe") == "copy"


def _place(area: ObjectStore) -> str:
    return str(getattr(area, "place", "") or area.url(""))


def _new_key() -> str:
    return f"{PREFIX}{uuid4().hex}"


def _left_behind(area: ObjectStore) -> ObjectInfo | None:
    """Return an object that an earlier probe could not delete, or None."""
    return next((info for info in area.list(PREFIX) if KEY.fullmatch(info.key)), None)


def _over(left: ObjectInfo | None) -> PutMode:
    return Create() if left is None else Update(left.etag)


def _ask(area: ObjectStore) -> str:
    """Return the question that an area answers wrongly, or "". Start again if an answer is lost."""
    causes: list[str] = []
    left = _left_behind(area)
    for _ in range(ATTEMPTS):
        key = _new_key() if left is None else left.key
        try:
            accepted = _verdict(area, key, _over(left), causes)
        finally:
            with suppress(StoreError, ConfigurationError):
                area.delete(key)
        if accepted is not None and (not accepted or left is None):
            return accepted
        left = None  # the probe of another process may use the same object, and may have deleted it
    cause = f"{causes[-1].rstrip('. ')}. " if causes else ""
    raise StoreError(
        f"{cause}{ATTEMPTS} attempts got no clear answer, so this run cannot determine whether {area.url('')} enforces "
        "conditional writes. Check the network and the store's health, then run again"
    )


def _verdict(area: ObjectStore, key: str, mode: PutMode, causes: list[str]) -> str | None:
    """Return the question that an area answers wrongly, or "". None: unknown; ``causes`` gets a lost answer's cause."""
    etag = ""
    for reply in _replies(area, key, mode):
        if reply.outcome == "lost":
            causes.append(reply.detail)
            return None
        if reply.question == CREATE:
            etag = reply.etag
        if reply.is_right:
            continue
        if reply.question == REPLACE and (now := area.head(key)) is not None and now.etag == etag:
            raise ConfigurationError(
                f"the store at {area.url('')} refuses a conditional write (If-Match) although its condition holds: "
                "no object could be replaced there. Use a store that implements conditional writes, or, if no other "
                "process will ever publish here, set single_writer=True"
            )
        return None if reply.wanted == "done" else reply.question
    return ""


def _replies(area: ObjectStore, key: str, first: PutMode) -> Iterator[Reply]:
    """Ask one area five questions by puts. If the first put is not done, there are no further ones."""
    created = _reply(CREATE, "done", "nothing can be written", partial(_try, area, key, b"1", first))
    yield created
    if created.outcome != "done":
        return
    again = partial(_try, area, key, b"2", Create())
    yield _reply("create it once more", "refused", OVERWRITTEN, again)
    other = partial(_try, area, key, b"3", Update(NO_VERSION))
    yield _reply("replace another version of it", "refused", OVERWRITTEN, other)
    absent = _new_key()
    missing = partial(_try, area, absent, b"5", Update(NO_VERSION))
    lost = "a run could put a manifest that another run has deleted, and so undo its protection"
    reply = _reply("replace an object that does not exist", "refused", lost, missing)
    if reply.outcome != "refused":
        with suppress(StoreError, ConfigurationError):
            area.delete(absent)
    yield reply
    present = partial(_try, area, key, b"4", Update(created.etag))
    yield _reply(REPLACE, "done", "no object could be replaced", present)


def _try(area: ObjectStore, key: str, body: bytes, mode: PutMode) -> tuple[Outcome, str]:
    """Put an object; return the outcome with its etag, or with what the store said."""
    try:
        return "done", area.put(key, body, mode=mode, metadata={"probe": "conditions"}, content_type="text/plain")
    except PutOutcomeError as e:
        return ("refused" if e.definite else "lost"), str(e)
