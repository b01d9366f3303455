"""A plugin of pytest that takes one safeguard out for the whole run: ``-p tests.pipeline.mutated``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.mutants import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLE = "SITEMAPS_MUTANT"
"""The environment variable that names the safeguard."""


@pytest.fixture(autouse=True)
def _mutant() -> Iterator[None]:
    with next(mutant for mutant in MUTANTS if mutant.name == os.environ[VARIABLE]).on():
        yield
