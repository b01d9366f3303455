"""How large shards are, and when they split and merge."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.limits import CURRENT


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPolicy:
    """Sizes of shards, in rows and URLs.

    ``max_urls``: the most a shard may hold (1 to 50,000, sitemaps.org). ``fill``: the part of it that a newly cut
    shard is filled to, above 0 up to 1; less than 1 leaves room for keys that arrive anywhere. ``merge_below``: the
    part of ``max_urls`` that two neighbours together must stay under to be merged; far below ``fill`` / 2, so that a
    split never makes two shards that merge again.
    """

    max_urls: int = CURRENT.max_urls
    fill: float = 1.0
    merge_below: float = 0.4

    def __post_init__(self) -> None:
        if not 1 <= self.max_urls <= CURRENT.max_urls:
            raise ConfigurationError(
                f"ShardPolicy(max_urls={self.max_urls:,}): a sitemap holds 1 to {CURRENT.max_urls:,} URLs (sitemaps.org)"
            )
        if not 0 < self.fill <= 1:
            raise ConfigurationError(f"ShardPolicy(fill={self.fill}): give a part above 0, up to 1")
        if not 0 <= self.merge_below < 0.5:
            raise ConfigurationError(
                f"ShardPolicy(merge_below={self.merge_below}): give a part from 0 up to 0.5, "
                "or a split would make shards that merge again"
            )

    @property
    def target_urls(self) -> int:
        """URLs that a newly cut shard is filled to, at least 1."""
        return max(1, int(self.max_urls * self.fill))
