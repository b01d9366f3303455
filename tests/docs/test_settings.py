"""The page of settings: each argument of a user's classes is in exactly one group, with its docstring's text."""

from __future__ import annotations

import inspect
import runpy
from collections import Counter
from pathlib import Path

import pytest

TABLES = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "tables.py"))


@pytest.mark.parametrize("kind", TABLES["CLASSES"])
def test_every_argument_is_in_exactly_one_group(kind: str) -> None:
    arguments = {*inspect.signature(TABLES["CLASSES"][kind]).parameters} - {"split", "member"}  # set by Section.each
    placed = Counter(name for group in TABLES["SETTINGS"].values() for name in group.get(kind, "").split())

    assert set(placed) == arguments
    assert set(placed.values()) == {1}
    assert {*TABLES["texts_of"](kind)} - {"split", "member"} == arguments
