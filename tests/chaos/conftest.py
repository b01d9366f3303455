"""Servers and workers for the tests of chaos."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.worker import Worker, worker
from tests.support.s3 import S3Server, moto_server

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def moto() -> Iterator[S3Server]:
    with moto_server() as server:
        yield server


@pytest.fixture(scope="session")
def zygote() -> Iterator[Worker]:
    with worker() as found:
        yield found
