"""Arrow's memory while a batch is written."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def returned() -> Iterator[None]:
    """Let Arrow take memory from the system's own allocator, which gives it back.

    Arrow's default, mimalloc, keeps what one thread frees for another: 40 MB more at the peak, for no speed. Batches
    come from the reader's thread and are freed in the writer's. Arrays that live on keep the pool they came from.
    """
    import pyarrow as pa  # noqa: PLC0415 - heavy; loaded where work is done

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)
