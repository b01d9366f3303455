"""The private area of a sitemap's store, read from the API server: in threads, with time-outs, cached by etag.

API servers often lack the workers' access to the store. Whatever goes wrong here is a sentence for the page, and never
holds up the server: a store that hangs keeps at most ``THREADS`` threads, and further questions are answered "busy".
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_sitemaps.ports import ObjectStore

T = TypeVar("T")

THREADS: Final = 4
WAIT_S: Final = 10.0
"""Seconds that one answer waits for the store."""
FRESH_S: Final = 5.0
"""Seconds for which the store is not asked again whether a file changed."""
KEPT: Final = 8
"""Files whose contents are kept in memory."""


class StoreTroubleError(Exception):
    """The store could not be read. The message is for the page: what, where, what to do."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """One file of the private area, by what the event says: where it lies and with which connection."""

    kind: str
    state_url: str
    conn_id: str | None
    public_url: str
    key: str

    @property
    def where(self) -> str:
        """The address for people."""
        return f"{self.state_url.rstrip('/')}/{self.key}"

    @classmethod
    def of(cls, store: Mapping[str, str | None], key: str) -> StateFile:
        """From the event's ``store``. Raises StoreTroubleError when that names no store that can be read here."""
        kind, state_url = store.get("kind"), store.get("state_url")
        if kind not in ("s3", "local") or not state_url:
            raise StoreTroubleError(
                "The last run did not say where the manifest lies, or it lies in a store that only the workers have."
            )
        return cls(kind, state_url, store.get("conn_id"), store.get("public_url") or "", key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Generic[T]):
    """A file's contents, its etag, and when the store was last asked (monotonic seconds)."""

    etag: str
    value: T
    asked_at: float


class StateReader:
    """Reads files with a reader each, shares reads that are under way, and remembers what was read."""

    def __init__(self, *, wait_s: float = WAIT_S, fresh_s: float = FRESH_S, opened: Callable[[StateFile], ObjectStore]):
        self._wait_s = wait_s
        self._fresh_s = fresh_s
        self._opened = opened
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sitemaps-state")
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[StateFile, str], Kept[Any]] = OrderedDict()
        self._under_way: dict[tuple[StateFile, str], Future[Any]] = {}

    async def read(
        self,
        file: StateFile,
        form: str,
        reader: Callable[[bytes, str], T],
        *,
        is_old: Callable[[T], bool] = lambda _: False,
    ) -> tuple[str, T]:
        """The file's etag and what ``reader`` makes of its bytes (given them and its address).

        ``form`` names what the reader makes, for the cache. ``is_old``: whether what is remembered is known to be out
        of date, so that the store is asked at once. Raises StoreTroubleError.
        """
        future = self._begin(file, form, reader, is_old)
        try:
            kept: Kept[T] = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), self._wait_s)
        except asyncio.TimeoutError as e:
            raise StoreTroubleError(
                f"{file.where} did not arrive within {self._wait_s:g} seconds; it is still being read: try again soon."
            ) from e
        return kept.etag, kept.value

    def _begin(
        self, file: StateFile, form: str, reader: Callable[[bytes, str], T], is_old: Callable[[T], bool]
    ) -> Future[Any]:
        with self._lock:
            future = self._under_way.get((file, form))
            if future is None:
                if len(self._under_way) >= THREADS * 4:
                    raise StoreTroubleError("The API server is busy reading other stores: try again soon.")
                future = self._threads.submit(self._load, file, form, reader, is_old)
                self._under_way[file, form] = future
                future.add_done_callback(lambda _: self._ended(file, form))
            return future

    def _ended(self, file: StateFile, form: str) -> None:
        with self._lock:
            self._under_way.pop((file, form), None)

    def _load(
        self, file: StateFile, form: str, reader: Callable[[bytes, str], T], is_old: Callable[[T], bool]
    ) -> Kept[T]:
        with self._lock:
            kept: Kept[T] | None = self._kept.get((file, form))
        if kept is not None and time.monotonic() - kept.asked_at < self._fresh_s and not is_old(kept.value):
            return kept
        try:
            kept = self._fresh(file, reader, kept)
        except StoreTroubleError:
            raise
        except Exception as e:  # whatever a cloud's client raises is one sentence on the page
            raise StoreTroubleError(_explained(file, e)) from e
        with self._lock:
            self._kept[file, form] = kept
            self._kept.move_to_end((file, form))
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return kept

    def _fresh(self, file: StateFile, reader: Callable[[bytes, str], T], kept: Kept[T] | None) -> Kept[T]:
        objects = self._opened(file)
        now = time.monotonic()
        if kept is not None:
            info = objects.head(file.key)
            if info is not None and info.etag == kept.etag:
                return Kept(etag=kept.etag, value=kept.value, asked_at=now)
        found = objects.get(file.key)
        if found is None:
            raise StoreTroubleError(f"There is no {file.where}: it was swept, or never written.")
        return Kept(etag=found.info.etag, value=reader(found.body, file.where), asked_at=now)


def open_state(file: StateFile) -> ObjectStore:
    """The private area itself. Makes nothing: a folder that is not on this machine is said to be missing."""
    if file.kind == "local":
        from airflow_sitemaps.stores.local import BOOKS
        from airflow_sitemaps.stores.local_objects import LocalObjects

        root = Path(file.state_url.removeprefix("file://"))
        if not root.is_dir():
            raise StoreTroubleError(
                f"The folder {root} is not on the API server's machine: a LocalStore is seen only where its disk is."
            )
        return LocalObjects(area="state", root=root, books=root / BOOKS)
    from airflow_sitemaps.stores.s3 import S3Address
    from airflow_sitemaps.stores.s3_client import connection_of
    from airflow_sitemaps.stores.s3_objects import S3Objects, S3Settings

    address = S3Address.parse(file.state_url, where="the state area")
    return S3Objects(connection=connection_of(file.conn_id), address=address, settings=S3Settings())


def _explained(file: StateFile, error: Exception) -> str:
    """Why a store could not be read, without a traceback, and what to do."""
    said = " ".join(str(error).split())[:300] or type(error).__name__
    with_what = f"the connection {file.conn_id!r}" if file.conn_id else "the API server's own credentials"
    if file.kind == "local":
        with_what = "the API server's own user"
    return (
        f"The API server could not read {file.where} with {with_what}: {said} "
        "Everything but the shard map comes from Airflow's own database. To see the map, let the API server read the "
        "state area."
    )
