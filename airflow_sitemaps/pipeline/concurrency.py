"""Run work concurrently in threads, or on request sequentially in the calling thread.

A simulation or a debugger must control the order of all operations. ``inline`` provides this without any change to the
stages. It applies to the context (``contextvars``) in which it was entered.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")

THREADS: Final = 8
"""Maximum number of concurrent requests to a store."""

_inline: ContextVar[bool] = ContextVar("airflow_sitemaps_inline", default=False)


@contextmanager
def inline() -> Iterator[None]:
    """Run all work within the context in the calling thread."""
    token = _inline.set(True)
    try:
        yield
    finally:
        _inline.reset(token)


def is_inline() -> bool:
    """Return whether work must run in the calling thread."""
    return _inline.get()


def mapped(work: Callable[[T], R], items: Iterable[T], name: str) -> Iterator[R]:
    """Apply a function to items concurrently. Raises the exception of the first item that fails.

    Yields:
        The results in the order of the items.
    """
    if is_inline():
        yield from map(work, items)
        return
    with ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix=name) as pool:
        yield from pool.map(work, items)
