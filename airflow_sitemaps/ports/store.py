"""The protocol of a store: the destination of a sitemap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_sitemaps.ports.object_store import ObjectStore

Purge = Callable[[Sequence[str]], None]
"""Remove URLs from the cache of a content delivery network; raise if that fails or the outcome is unknown."""


class Store(Protocol):
    """Destination of a sitemap: a public area that is served, and a private area for manifests, plans and bodies.

    Attributes:
        public: Objects of the public area.
        state: Objects of the private area.
        base_url: Address of the public area, ending in ``/``.
        index_name: File name of the index.
        cache_control: Cache-Control header of indexes and feeds.
        shard_cache_control: Cache-Control header of files that an index lists.
        purge: Removes changed URLs from caches after the shards are public and before the index is. None: no cache.
        enforces_conditions: Whether the store enforces conditional puts. None: it must be probed.
        copies: Whether objects are copied within the store under conditions that it enforces. None: it must be probed.
    """

    public: ObjectStore
    state: ObjectStore
    base_url: str
    index_name: str
    cache_control: str
    shard_cache_control: str
    purge: Purge | None
    enforces_conditions: bool | None
    copies: bool | None

    @property
    def needs_purge(self) -> bool:
        """Whether caches may answer with an old shard unless it is purged; a failed purge then stops the promotion."""
        ...


class StoreConfig(Protocol):
    """Settings of a store: cheap to create, opened only where files are read or written.

    Attributes:
        base_url: Address of the public area.
        index_name: File name of the index.
        single_writer: Whether only one run at a time writes to the store.
    """

    base_url: str
    index_name: str
    single_writer: bool

    def open(self) -> Store:
        """Connect to the store."""
        ...

    def describe(self) -> str:
        """Describe the store in logs: the public address, never a secret."""
        ...
