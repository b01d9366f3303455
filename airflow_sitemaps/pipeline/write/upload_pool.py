"""Uploads that run concurrently with the rendering, in bounded memory."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.concurrency import is_inline

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

THREADS: Final = 4
WAITING: Final = 6
"""Maximum number of bodies that wait for their upload or are being uploaded."""


class UploadPool:
    """A small thread pool for uploads. The next ``submit`` or ``wait`` raises the first failure."""

    def __init__(self, threads: int = THREADS, waiting: int = WAITING) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="sitemap-upload")
        self._room = threading.BoundedSemaphore(waiting)
        self._pending: list[Future[None]] = []

    def __enter__(self) -> UploadPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)

    def submit(self, upload: Callable[[], None]) -> None:
        """Run an upload when there is room. Raises the exception of an earlier upload."""
        if is_inline():
            upload()
            return
        self._collect()
        self._room.acquire()

        def run() -> None:
            try:
                upload()
            finally:
                self._room.release()

        self._pending.append(self._pool.submit(run))

    def wait(self) -> None:
        """Wait for all uploads. Raises the exception of a failed upload."""
        for future in self._pending:
            future.result()
        self._pending.clear()

    def _collect(self) -> None:
        done = [future for future in self._pending if future.done()]
        self._pending = [future for future in self._pending if not future.done()]
        for future in done:
            future.result()
