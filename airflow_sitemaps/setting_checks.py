"""Checks of settings when an object is made. A ConfigurationError names the object (``where``), setting and value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import NoReturn

from airflow_sitemaps.errors import ConfigurationError


def _refuse(where: str, name: str, value: object, valid: str) -> NoReturn:
    raise ConfigurationError(f"{where}: {name}={value!r}; give {valid}")


def one_of(where: str, name: str, value: object, choices: Sequence[str | None]) -> None:
    """Refuse a value that is not one of the choices."""
    if value not in choices:
        _refuse(where, name, value, f"one of {', '.join(map(repr, choices))}")


def number(where: str, name: str, value: object, least: float, most: float = math.inf) -> None:
    """Refuse a value that is not a number between ``least`` and ``most``, both included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        limit = f"from {least:g} to {most:g}" if most < math.inf else f"of at least {least:g}"
        _refuse(where, name, value, f"a number {limit}")


def whole_number(where: str, name: str, value: object, least: int) -> None:
    """Refuse a value that is not a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        _refuse(where, name, value, f"a whole number of at least {least}")


def duration(where: str, name: str, value: object, *, positive: bool = False) -> None:
    """Refuse a value that is not a ``timedelta`` of at least zero, or above zero if ``positive`` is set."""
    zero = timedelta(0)
    if not isinstance(value, timedelta) or value < zero or (positive and value == zero):
        limit = "above zero" if positive else "of at least zero"
        _refuse(where, name, value, f"a timedelta {limit}, like timedelta(days=2)")


def texts(where: str, name: str, value: object) -> None:
    """Refuse a value that is not a sequence of texts; a text alone is refused as well."""
    if not hasattr(value, "__iter__"):
        _refuse(where, name, value, "a list of texts")
    if isinstance(value, (str, bytes)) or not all(isinstance(part, str) for part in value):
        _refuse(where, name, value, f"a list of texts, like [{value!r}]")


def flag(where: str, name: str, value: object) -> None:
    """Refuse a value that is neither True nor False."""
    if not isinstance(value, bool):
        _refuse(where, name, value, "True or False")


def instance(where: str, name: str, value: object, kind: type) -> None:
    """Refuse a value of another type."""
    if not isinstance(value, kind):
        _refuse(where, name, value, f"a {kind.__name__}")
