"""Checks of settings when an object is made. A ConfigurationError names the object (``where``), setting and value."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from datetime import timedelta
from importlib.metadata import EntryPoint
from re import Pattern
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError

LONGEST = timedelta(days=36_500)
"""A hundred years: longer durations lead to times that a ``datetime`` cannot hold."""

NO_OBJECT: Final = 'its extra is not a JSON object. Write it like {"name": "value"}, or leave it empty'
"""What is wrong with the extra of a connection. It may hold secrets, so no message shows it."""


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


def whole_number(where: str, name: str, value: object, least: int, most: float = math.inf) -> None:
    """Refuse a value that is not a whole number between ``least`` and ``most``, both included."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        limit = f"from {least} to {most:,}" if most < math.inf else f"of at least {least}"
        _refuse(where, name, value, f"a whole number {limit}")


def duration(where: str, name: str, value: object, *, positive: bool = False) -> None:
    """Refuse a value that is not a ``timedelta`` from zero, or above zero if ``positive`` is set, to a hundred years."""
    zero = timedelta(0)
    if not isinstance(value, timedelta) or not zero <= value <= LONGEST or (positive and value == zero):
        limit = "above zero" if positive else "of at least zero"
        _refuse(where, name, value, f"a timedelta {limit} and at most {LONGEST.days:,} days, like timedelta(days=2)")


def loaded(entry: EntryPoint) -> Any:
    """Load what an entry point names. Refuse one that cannot be imported, and name its distribution."""
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        owner = "" if entry.dist is None else f" of the distribution {entry.dist.name!r}"
        raise ConfigurationError(
            f"the entry point {entry.name!r} of {entry.group!r}{owner} cannot be loaded from {entry.value!r}: "
            f"{type(error).__name__}: {error}. Install another release of that distribution, or what it needs"
        ) from error


def texts(where: str, name: str, value: object) -> None:
    """Refuse a value that is not a list of texts. A text alone is refused as well, and so is what can be read only once."""
    if isinstance(value, (str, bytes)):
        _refuse(where, name, value, f"a list of texts, like [{value!r}]")
    instances(where, name, value, str, "texts")


def text(where: str, name: str, value: object, pattern: Pattern[str], valid: str) -> None:
    """Refuse a value that is not a text of this pattern, which the message calls ``valid``."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        _refuse(where, name, value, valid)


def flag(where: str, name: str, value: object) -> None:
    """Refuse a value that is neither True nor False."""
    if not isinstance(value, bool):
        _refuse(where, name, value, "True or False")


def instances(where: str, name: str, value: object, kind: type, what: str) -> None:
    """Refuse a value that is not a list, tuple or set of objects of a type, which the message calls ``what``."""
    if not isinstance(value, Collection) or not all(isinstance(part, kind) for part in value):
        _refuse(where, name, value, f"a list of {what}")


def instance(where: str, name: str, value: object, kind: type) -> None:
    """Refuse a value of another type."""
    if not isinstance(value, kind):
        _refuse(where, name, value, f"a {kind.__name__}")


def site_of(url: str) -> str:
    """Return scheme and host of an absolute URL; empty if it is not an absolute URL."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return ""
    plain = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
    return f"{parts.scheme}://{parts.netloc.lower()}" if plain else ""


def prefix_of(site: str) -> str:
    """Return the URL prefix of a site with its host in small letters; empty if it is none, or does not end in ``/``."""
    origin = site_of(str(site))
    return origin + site[len(origin) :] if origin and site.endswith("/") and "?" not in site else ""
