"""Work side by side in threads, or, where somebody asks for it, one after another in this thread.

A simulation or a debugger wants every operation in one order that it decides; ``inline`` gives it that, without any
stage having to know. It holds for the context (``contextvars``) in which it was entered.
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
"""Requests to a store that are under way at once."""

_inline: ContextVar[bool] = ContextVar("airflow_sitemaps_inline", default=False)


@contextmanager
def inline() -> Iterator[None]:
    """Let everything within run in this thread alone."""
    token = _inline.set(True)
    try:
        yield
    finally:
        _inline.reset(token)


def is_inline() -> bool:
    """Whether no thread may be started here."""
    return _inline.get()


def mapped(work: Callable[[T], R], items: Iterable[T], name: str) -> Iterator[R]:
    """The results in the items' order; ``name`` is the threads'. Raises what the first failing item raised."""
    if is_inline():
        yield from map(work, items)
        return
    with ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix=name) as pool:
        yield from pool.map(work, items)
