"""A server on the loopback, and clients that may reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.http import AccessRules, HttpClient
from tests.support.website import Site, serving

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def engine() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def loopback() -> HttpClient:
    return HttpClient(rules=AccessRules(allow_http=True, allow_private=True), wait_s=10.0)
