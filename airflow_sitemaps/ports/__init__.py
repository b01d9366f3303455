"""Protocols that the pipeline depends on: source, store, clock and progress.

Adapters implement these protocols, and tests implement them in memory. This package does no I/O. Each name is
loaded when it is first used: a DAG file that names a store does not pay for the rest.
"""

from __future__ import annotations

from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_sitemaps.ports.object_store import (
        Create,
        Headers,
        ObjectInfo,
        ObjectStore,
        Overwrite,
        PutMode,
        PutOutcomeError,
        StoredObject,
        Update,
    )
    from airflow_sitemaps.ports.source import ChangeReading, Duplicate, Requests, SiblingSurvey, Source, SourceConfig
    from airflow_sitemaps.ports.store import Purge, Store, StoreConfig

__all__ = [
    "ChangeReading",
    "Clock",
    "Create",
    "Duplicate",
    "Headers",
    "ObjectInfo",
    "ObjectStore",
    "Overwrite",
    "Progress",
    "Purge",
    "PutMode",
    "PutOutcomeError",
    "Requests",
    "SiblingSurvey",
    "Source",
    "SourceConfig",
    "Store",
    "StoreConfig",
    "StoredObject",
    "Update",
]


def __getattr__(name: str) -> object:
    for module in ("object_store", "source", "store") if name in __all__ else ():
        home = import_module(f"{__name__}.{module}")
        if hasattr(home, name):
            return getattr(home, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Clock(Protocol):
    """Source of time and of unique tokens, so that tests control both."""

    def now(self) -> datetime:
        """Return the current time in UTC."""

    def token(self) -> str:
        """Return a new unguessable token of 16 hexadecimal digits."""


class Progress(Protocol):
    """Receiver of the progress of a long operation."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage.

        Args:
            stage: Name of the stage.
            total: Number of units in the stage, or None if it is not known.
            unit: Name of a unit, such as ``rows``.
        """

    def advance(self, number: int) -> None:
        """Add ``number`` completed units."""

    def finish(self) -> None:
        """End the stage."""
