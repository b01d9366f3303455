"""Checks of settings when an object is made. Each error names the setting, its value and the valid values."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence


def one_of(where: str, name: str, value: object, choices: Sequence[str | None]) -> None:
    """Refuse a value that is not one of the choices.

    Args:
        where: The object that is made, for the message: ``Sitemap``.

    Raises:
        ConfigurationError: The value is invalid.
    """
    if value not in choices:
        raise ConfigurationError(f"{where}: {name}={value!r}; give one of {', '.join(map(repr, choices))}")


def number(where: str, name: str, value: object, least: float, most: float = math.inf) -> None:
    """Refuse a value that is not a number between ``least`` and ``most``, both included.

    Raises:
        ConfigurationError: The value is invalid.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        limit = f"from {least:g} to {most:g}" if most < math.inf else f"of at least {least:g}"
        raise ConfigurationError(f"{where}: {name}={value!r}; give a number {limit}")


def whole_number(where: str, name: str, value: object, least: int) -> None:
    """Refuse a value that is not a whole number of at least ``least``.

    Raises:
        ConfigurationError: The value is invalid.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"{where}: {name}={value!r}; give a whole number of at least {least}")


def duration(where: str, name: str, value: object, *, positive: bool = False) -> None:
    """Refuse a value that is not a ``timedelta`` of at least zero, or above zero if ``positive`` is set.

    Raises:
        ConfigurationError: The value is invalid.
    """
    zero = timedelta(0)
    if not isinstance(value, timedelta) or value < zero or (positive and value == zero):
        limit = "above zero" if positive else "of at least zero"
        raise ConfigurationError(f"{where}: {name}={value!r}; give a timedelta {limit}, like timedelta(days=2)")


def texts(where: str, name: str, value: object) -> None:
    """Refuse a value that is not a sequence of texts; a text alone is refused as well.

    Raises:
        ConfigurationError: The value is invalid.
    """
    if isinstance(value, (str, bytes)) or not all(isinstance(part, str) for part in _parts(where, name, value)):
        raise ConfigurationError(f"{where}: {name}={value!r}; give a list of texts, like [{value!r}]")


def flag(where: str, name: str, value: object) -> None:
    """Refuse a value that is neither True nor False.

    Raises:
        ConfigurationError: The value is invalid.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"{where}: {name}={value!r}; give True or False")


def instance(where: str, name: str, value: object, kind: type) -> None:
    """Refuse a value of another type.

    Raises:
        ConfigurationError: It is of another type.
    """
    if not isinstance(value, kind):
        raise ConfigurationError(f"{where}: {name}={value!r}; give a {kind.__name__}")


def _parts(where: str, name: str, value: object) -> list[object]:
    if not hasattr(value, "__iter__"):
        raise ConfigurationError(f"{where}: {name}={value!r}; give a list of texts")
    return list(value)
