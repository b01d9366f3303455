"""Protocols that the pipeline depends on: source, store, clock and progress.

Adapters implement these protocols, and tests implement them in memory. This package does no I/O.
"""

from airflow_sitemaps.ports.object_store import (
    Create,
    ObjectInfo,
    ObjectStore,
    Overwrite,
    PutMode,
    PutOutcomeError,
    StoredObject,
    Update,
)
from airflow_sitemaps.ports.run import Clock, Progress
from airflow_sitemaps.ports.source import ChangeReading, Duplicate, Source, SourceConfig
from airflow_sitemaps.ports.store import Purge, Store, StoreConfig

__all__ = [
    "ChangeReading",
    "Clock",
    "Create",
    "Duplicate",
    "ObjectInfo",
    "ObjectStore",
    "Overwrite",
    "Progress",
    "Purge",
    "PutMode",
    "PutOutcomeError",
    "Source",
    "SourceConfig",
    "Store",
    "StoreConfig",
    "StoredObject",
    "Update",
]
