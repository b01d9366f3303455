"""Work in threads, in bounded memory: calls over a list, reading ahead, and uploads. A test may let all run inline."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

THREADS: Final = 8
"""Maximum number of concurrent requests to a store."""

UPLOADS: Final = 4
"""Maximum number of concurrent uploads of bodies."""

WAITING: Final = 6
"""Maximum number of bodies that wait for their upload or are being uploaded."""

AHEAD: Final = 2
"""Maximum number of items that wait between the reader and its consumer; it limits the memory."""

_END: Final = object()
_inline: ContextVar[bool] = ContextVar("airflow_sitemaps_inline", default=False)


@contextmanager
def inline() -> Iterator[None]:
    """Run all work within the context in the calling thread."""
    token = _inline.set(True)
    try:
        yield
    finally:
        _inline.reset(token)


def mapped(work: Callable[[T], R], items: Iterable[T], name: str) -> Iterator[R]:
    """Apply a function to items concurrently; yield in their order. Raises the exception of the first that fails."""
    if _inline.get():
        yield from map(work, items)
        return
    with ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix=name) as pool:
        yield from pool.map(work, items)


class Prefetch(Generic[T]):
    """An iterator that reads another in a thread, with its exceptions in their places, and ends the thread."""

    def __init__(self, items: Iterator[T], ahead: int = AHEAD) -> None:
        self._items = items
        self._queue: queue.Queue[object] = queue.Queue(maxsize=ahead)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._draw, name="sitemap-reader", daemon=True)

    def __enter__(self) -> Iterator[T]:
        if _inline.get():
            return self._items
        self._thread.start()
        return self._take()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if _inline.get():
            self._close()
            return
        self._stop.set()
        if kind is not None and not issubclass(kind, Exception):
            return  # a time limit or a signal ends the task, and the thread may wait for the database
        while self._thread.is_alive():
            try:
                self._queue.get(timeout=0.05)
            except queue.Empty:
                continue
        self._thread.join()

    def _draw(self) -> None:
        try:
            for item in self._items:
                self._queue.put(item)
                if self._stop.is_set():
                    break
        except BaseException as error:
            self._error = error
        finally:
            self._close()
            self._queue.put(_END)

    def _close(self) -> None:
        close = getattr(self._items, "close", None)
        if close is not None:
            close()

    def _take(self) -> Iterator[T]:
        while (item := self._queue.get()) is not _END:
            yield item  # type: ignore[misc]
        if self._error is not None:
            raise self._error


class UploadPool:
    """A small thread pool for uploads. A later ``submit``, or ``wait``, raises the first failure."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=UPLOADS, thread_name_prefix="sitemap-upload")
        self._pending: deque[Future[object]] = deque()

    def __enter__(self) -> UploadPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)

    def submit(self, upload: Callable[[], object]) -> None:
        """Run an upload when there is room. Raises the exception of an earlier upload."""
        if _inline.get():
            upload()
            return
        while self._pending and (self._pending[0].done() or len(self._pending) >= WAITING):
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(upload))

    def wait(self) -> None:
        """Wait for all uploads. Raises the exception of a failed upload."""
        for future in self._pending:
            future.result()
