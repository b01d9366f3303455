"""A time limit or a signal ends a writing task whose reader waits for the database."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from airflow_sitemaps.pipeline.concurrency import Prefetch


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_task_that_is_to_end_does_not_wait_for_the_database(error: type[BaseException]) -> None:
    answered = threading.Event()

    def rows() -> Iterator[int]:
        yield 1
        answered.wait(60)
        yield 2

    def task() -> None:
        with Prefetch(rows()) as items:
            assert next(items) == 1
            raise error

    with pytest.raises(error):
        task()
    assert not answered.is_set()
    readers = [thread for thread in threading.enumerate() if thread.name == "sitemap-reader"]
    assert len(readers) == 1
    answered.set()
    readers[0].join()
