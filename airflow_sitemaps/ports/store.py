"""The protocol of a store: the destination of a sitemap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from airflow_sitemaps.ports.object_store import ObjectStore

Purge = Callable[[Sequence[str]], None]
"""Remove URLs from the cache of a content delivery network; raise if that fails or the outcome is unknown."""


class Store(Protocol):
    """Destination of a sitemap: a public area that is served, and a private area for manifests, plans and bodies."""

    @property
    def public(self) -> ObjectStore:
        """Objects of the public area."""
        ...

    @property
    def state(self) -> ObjectStore:
        """Objects of the private area."""
        ...

    @property
    def base_url(self) -> str:
        """Address of the public area, ending in ``/``."""
        ...

    @property
    def index_name(self) -> str:
        """File name of the index."""
        ...

    @property
    def cache_control(self) -> str:
        """Cache-Control header of indexes and feeds."""
        ...

    @property
    def shard_cache_control(self) -> str:
        """Cache-Control header of files that an index lists."""
        ...

    @property
    def purge(self) -> Purge | None:
        """Function that removes changed URLs from caches, after the shards and before the index; None: no cache."""
        ...

    @property
    def enforces_conditions(self) -> bool | None:
        """Whether the store enforces conditional puts; None: it must be probed."""
        ...

    @property
    def copies(self) -> bool | None:
        """Whether objects are copied within the store under conditions that it enforces; None: it must be probed."""
        ...

    @property
    def records_etags(self) -> bool:
        """Whether ``head`` and ``list`` may return an etag that was recorded, without reading the object."""
        ...

    @property
    def needs_purge(self) -> bool:
        """Whether caches may answer with an old shard unless it is purged. A failed purge then stops the promotion."""
        ...


class StoreConfig(Protocol):
    """Settings of a store: cheap to create, opened only where files are read or written.

    Attributes:
        base_url: Address of the public area.
        index_name: File name of the index.
        single_writer: Whether the user promises that no other process publishes to the store. A store that does not
            enforce conditional writes is accepted only then.
    """

    base_url: str
    index_name: str
    single_writer: bool

    @property
    def uri(self) -> str:
        """Address of the public area in the store, such as ``s3://bucket/prefix``, without a slash at its end."""
        ...

    def open(self) -> Store:
        """Connect to the store."""
        ...

    def console_url(self) -> str:
        """Return the page of the public area in the web console of the store; empty if there is none."""
        ...

    def describe(self) -> str:
        """Describe the store in logs: the public address, never a secret."""
        ...
