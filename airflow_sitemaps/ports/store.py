"""Stores: the destination of a sitemap, opened, and its settings.

Rules for the time that caches may keep public files ensure that no crawler sees a new index with an old shard.
A crawler reads a shard again when its ``lastmod`` in the index changes. If a shared cache answers with a copy of the
old shard at that time, the crawler records the new ``lastmod`` and never reads what changed. Equal lifetimes of both
files do not prevent that, because a cache may have fetched the shard after the index. Two settings do:

- Shards are revalidated at each request (the default). An unchanged shard costs one short answer.
- Shards are cached, and a purge hook removes the changed ones before the new index is put.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from airflow_sitemaps.ports.object_store import ObjectStore

Purge = Callable[[Sequence[str]], None]
"""Remove URLs from the cache of a content delivery network; raise if that fails or the outcome is unknown."""

INDEX_CACHE_CONTROL: Final = "public, max-age=300, must-revalidate"
"""Cache-Control header of indexes and feeds. A copy may be five minutes old."""
SHARD_CACHE_CONTROL: Final = "public, no-cache, max-age=0, must-revalidate"
"""Cache-Control header of shards: cached, and revalidated at each request.

``max-age=0`` is for networks that ignore ``no-cache`` (Fastly).
"""
_LIFETIME: Final = re.compile(r"(?:^|[,\s])(s-maxage|max-age|stale-while-revalidate|stale-if-error)=\"?(\d+)")
_NEVER: Final = re.compile(r"(?:^|[,\s])(no-store|no-cache(?!=)|private)(?:$|[,\s])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Destination of a sitemap: a public area that is served, and a state area for manifests, plans and bodies.

    Attributes:
        public: The public area.
        state: The state area.
        base_url: Address of the public area, ending in ``/``.
        index_name: File name of the index.
        cache_control: Cache-Control header of indexes and feeds.
        shard_cache_control: Cache-Control header of files that an index lists.
        purge: Removes changed addresses from caches after the shards and before the index.
        enforces_conditions: Whether conditional puts are enforced. None: it must be probed.
        copies: Whether objects are copied within the store. None: it must be probed.
        records_etags: Whether ``head`` and ``list`` may return an etag that was recorded, without reading the object.
        dataset_url: Address of the public area by OpenLineage's rules. Default: empty, the address of the area.
    """

    public: ObjectStore
    state: ObjectStore
    base_url: str
    index_name: str
    cache_control: str
    shard_cache_control: str = SHARD_CACHE_CONTROL
    purge: Purge | None = None
    enforces_conditions: bool | None = None
    copies: bool | None = False
    records_etags: bool = False
    dataset_url: str = ""

    @property
    def needs_purge(self) -> bool:
        """Whether caches may answer with an old shard unless it is purged. A failed purge then stops the promotion."""
        return self.purge is not None and not is_revalidated(self.shard_cache_control)


def is_revalidated(cache_control: str) -> bool:
    """Return whether a shared cache asks the origin each time before it uses a copy."""
    header = cache_control.lower()
    lifetimes = {name: int(seconds) for name, seconds in _LIFETIME.findall(header)}
    if any(seconds > 0 for seconds in lifetimes.values()):
        return False
    return bool(lifetimes) or bool(_NEVER.search(header))


class StoreConfig(Protocol):
    """Settings of a store: cheap to create, opened only where files are read or written.

    Attributes:
        base_url: Address of the public area.
        index_name: File name of the index.
        single_writer: Whether the user promises that no other process publishes to the store.
    """

    base_url: str
    index_name: str
    single_writer: bool

    @property
    def uri(self) -> str:
        """Address of the public area in the store, such as ``s3://bucket/prefix``, without a slash at its end."""

    def open(self) -> Store:
        """Connect to the store."""

    def console_url(self) -> str:
        """Return the page of the public area in the web console of the store; empty if there is none."""

    def describe(self) -> str:
        """Describe the store in logs: the public address, never a secret."""
