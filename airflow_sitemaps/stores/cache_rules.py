"""Rules for the time that caches may keep public files, so that no crawler sees a new index with an old shard.

A crawler reads a shard again when its ``lastmod`` in the index changes. If a shared cache answers with a copy of the
old shard at that time, the crawler records the new ``lastmod`` and never reads what changed. Equal lifetimes of both
files do not prevent that, because a cache may have fetched the shard after the index. Two settings do:

- Shards are revalidated at each request (the default). A cache asks the origin with the shard's ETag, and an
  unchanged shard costs one short answer.
- Shards are cached, and a purge hook removes the changed ones before the new index is put.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Purge

INDEX_CACHE_CONTROL: Final = "public, max-age=300, must-revalidate"
"""Cache-Control header of indexes and feeds. A copy may be five minutes old."""
SHARD_CACHE_CONTROL: Final = "public, no-cache, max-age=0, must-revalidate"
"""Cache-Control header of shards: cached, and revalidated at each request.

``max-age=0`` is for networks that ignore ``no-cache`` (Fastly).
"""

_LIFETIME: Final = re.compile(r"(?:^|[,\s])(s-maxage|max-age|stale-while-revalidate|stale-if-error)=\"?(\d+)")
_NEVER: Final = re.compile(r"(?:^|[,\s])(no-store|no-cache(?!=)|private)(?:$|[,\s])")


def is_revalidated(cache_control: str) -> bool:
    """Return whether a shared cache asks the origin each time before it uses a copy."""
    header = cache_control.lower()
    lifetimes = {name: int(seconds) for name, seconds in _LIFETIME.findall(header)}
    if any(seconds > 0 for seconds in lifetimes.values()):
        return False
    return bool(lifetimes) or bool(_NEVER.search(header))


def checked_shard_cache_control(cache_control: str, purge: Purge | None, *, where: str) -> str:
    """Return the header of shards, after checking that no crawler can see a new index with an old shard.

    Args:
        purge: The purge hook, or None.

    Raises:
        ConfigurationError: Caches may use old shards, and nothing removes them.
    """
    if purge is None and not is_revalidated(cache_control):
        raise ConfigurationError(
            f"{where}: with shard_cache_control={cache_control!r} a cache may answer with an old shard after the index "
            f"has changed, and crawlers may never see its new URLs. Leave the default {SHARD_CACHE_CONTROL!r}, or "
            "give a purge= hook that removes changed shards from the cache before the index is uploaded"
        )
    return cache_control
