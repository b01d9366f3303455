"""The shop of a test, and its connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.semantics.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    made = Shop(tmp_path)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", made.connection)
    return made
