"""The sizes of shards, and when shards are split or merged."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.entry import CURRENT


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPolicy:
    """Sizes of shards, in rows and URLs.

    Attributes:
        max_urls: Maximum number of URLs in a shard, 1 to 50,000 (sitemaps.org). Default: 50,000.
        fill: Fraction of ``max_urls`` to which a newly cut shard is filled, above 0 up to 1. Less than 1 leaves room
            for keys that arrive anywhere. Default: 1.0.
        merge_below: Two neighbours are merged if together they hold less than this fraction of ``max_urls``. It is far
            below ``fill`` / 2, so that a split never makes two shards that merge again. Default: 0.4.
    """

    max_urls: int = CURRENT.max_urls
    fill: float = 1.0
    merge_below: float = 0.4

    def __post_init__(self) -> None:
        setting_checks.whole_number("ShardPolicy", "max_urls", self.max_urls, 1)
        setting_checks.number("ShardPolicy", "fill", self.fill, 0, 1)
        setting_checks.number("ShardPolicy", "merge_below", self.merge_below, 0)
        if not 1 <= self.max_urls <= CURRENT.max_urls:
            raise ConfigurationError(
                f"ShardPolicy(max_urls={self.max_urls:,}): a sitemap holds 1 to {CURRENT.max_urls:,} URLs (sitemaps.org)"
            )
        if not 0 < self.fill <= 1:
            raise ConfigurationError(f"ShardPolicy(fill={self.fill}): give a fraction above 0 and at most 1")
        if not 0 <= self.merge_below < 0.5:
            raise ConfigurationError(
                f"ShardPolicy(merge_below={self.merge_below}): give a fraction from 0 to below 0.5; "
                "a larger one would merge the shards of a split again"
            )

    @property
    def target_urls(self) -> int:
        """Number of URLs that a newly cut shard is filled to: at least 1."""
        return max(1, int(self.max_urls * self.fill))
