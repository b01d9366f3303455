"""An opened store: two areas of objects and their properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.stores.cache_rules import SHARD_CACHE_CONTROL, is_revalidated

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore, Purge


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedStore:
    """The store that ``open()`` of every store returns. It implements ``ports.Store``.

    Attributes:
        public: The public area.
        state: The private area.
        base_url: Address of the public area, ending in ``/``.
        index_name: File name of the index.
        cache_control: Cache-Control header of indexes and feeds.
        shard_cache_control: Cache-Control header of files that an index lists.
        purge: Removes changed addresses from caches after the shards and before the index.
        enforces_conditions: Whether conditional puts are enforced. None: it must be probed.
        copies: Whether objects are copied within the store. None: it must be probed.
        records_etags: Whether ``head`` and ``list`` may return an etag that was recorded, without reading the object.
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

    @property
    def needs_purge(self) -> bool:
        """Whether caches may answer with an old shard unless it is purged."""
        return self.purge is not None and not is_revalidated(self.shard_cache_control)
