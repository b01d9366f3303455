"""Read a few items ahead in a thread, so that reading and rendering run concurrently."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from airflow_sitemaps.pipeline.concurrency import is_inline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

T = TypeVar("T")

AHEAD: Final = 2
"""Maximum number of items that wait between the reader and its consumer; it limits the memory."""

_END: Final = object()


class Prefetch(Generic[T]):
    """An iterator that reads another iterator in a thread, and a context manager that ends the thread.

    If the inner iterator raises an exception, this iterator raises it in the place of the item.
    """

    def __init__(self, items: Iterator[T], ahead: int = AHEAD) -> None:
        self._items = items
        self._queue: queue.Queue[object] = queue.Queue(maxsize=ahead)
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._draw, name="sitemap-reader", daemon=True)

    def __enter__(self) -> Iterator[T]:
        if is_inline():
            return self._items
        self._thread.start()
        return self._take()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if is_inline():
            self._close()
            return
        self._stop.set()
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
        while True:
            item = self._queue.get()
            if item is _END:
                if self._error is not None:
                    raise self._error
                return
            yield item  # type: ignore[misc]
