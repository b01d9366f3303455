"""Decide which ranges to cut and which neighbours to join. Pure functions.

A range is too large if it has more than ``max_urls`` rows. Neighbours are joined if both together fill less than
``merge_below`` of a shard. A cut makes pieces of about half a shard or more, so they are not joined again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.protocol.extensions.languages import MAX_NEWS
from airflow_sitemaps.shards.key import KeyRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.protocol.entry import Limits
    from airflow_sitemaps.shards.digest import Digest
    from airflow_sitemaps.shards.manifest import Shard
    from airflow_sitemaps.shards.policy import ShardPolicy

SPLIT_FILL: Final = 0.75
"""Fraction of a shard that a piece fills after a cut in the middle of a section, so that it can grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRange:
    """A range of a new layout, before its action is decided.

    Attributes:
        range: The key range.
        digest: Digest of its rows.
        olds: Positions of the base generation's shards that hold its entries now, without those that have no rows.
            Default: none.
        carries: Position of the shard whose file name it continues. Default: None.
        fresh: Whether it was cut, so that its entries move to a new file name. Default: False.
        reason: Why it changed. Default: "".
    """

    range: KeyRange
    digest: Digest
    olds: tuple[int, ...] = ()
    carries: int | None = None
    fresh: bool = False
    reason: str = ""


def split_size(rows: int, policy: ShardPolicy) -> int:
    """Return the number of rows per piece for a range in the middle of a section that has too many rows."""
    fill = max(1, int(policy.max_urls * min(policy.fill, SPLIT_FILL)))
    return max(1, -(-rows // max(2, -(-rows // fill))))


def weigh(rows: int, xml_bytes: int, policy: ShardPolicy, limits: Limits) -> float:
    """Return how full a shard is, by the stricter of both limits; 1 is full.

    Args:
        xml_bytes: Uncompressed size, in bytes.
        limits: Limits of a file, in bytes.
    """
    return max(rows / policy.max_urls, xml_bytes / limits.max_byte_size)


def join(
    ranges: Sequence[LayoutRange],
    shards: Sequence[Shard],
    policy: ShardPolicy,
    limits: Limits,
    file_urls: int | None = None,
) -> tuple[LayoutRange, ...]:
    """Join neighbours that together stay under the threshold; an empty range joins its neighbour.

    Args:
        ranges: The ranges in key order.
        shards: The shards of the base generation, to which ``LayoutRange.olds`` and ``carries`` point.
        file_urls: Maximum number of entries per file if it is less than ``policy.max_urls`` (news: 1,000). A range may
            then hold far more rows than entries. Default: ``policy.max_urls``.
    """
    per_row = _bytes_per_row(shards)
    joined: list[LayoutRange] = []
    weights: list[float] = []
    for item in ranges:
        weight = weigh(item.digest.rows, _known_bytes(item, shards, per_row), policy, limits)
        weight = max(weight, sum(shards[old].articles for old in item.olds) / MAX_NEWS)
        if file_urls is not None:
            weight = max(weight, sum(shards[old].urls for old in item.olds) / file_urls)
        if joined and _fits(joined[-1], weights[-1], item, weight, policy):
            joined[-1] = _joined(joined[-1], item)
            weights[-1] += weight
        else:
            joined.append(item)
            weights.append(weight)
    return tuple(joined)


def _fits(left: LayoutRange, left_weight: float, right: LayoutRange, right_weight: float, policy: ShardPolicy) -> bool:
    if left.digest.rows == 0 or right.digest.rows == 0:
        return True
    return left_weight + right_weight < policy.merge_below


def _joined(left: LayoutRange, right: LayoutRange) -> LayoutRange:
    within = KeyRange(left.range.lower, right.range.upper)
    if right.digest.rows == 0 or left.digest.rows == 0:
        full = left if right.digest.rows == 0 else right
        return LayoutRange(
            range=within,
            digest=full.digest,
            olds=full.olds,
            carries=full.carries,
            fresh=full.fresh,
            reason=full.reason,
        )
    return LayoutRange(
        range=within,
        digest=left.digest + right.digest,
        olds=left.olds + right.olds,
        fresh=True,
        reason="neighbours became small",
    )


def _bytes_per_row(shards: Sequence[Shard]) -> float:
    rows = sum(shard.digest.rows for shard in shards)
    return sum(shard.file.xml_byte_size for shard in shards if shard.file is not None) / rows if rows else 0.0


def _known_bytes(item: LayoutRange, shards: Sequence[Shard], per_row: float) -> int:
    """Return the uncompressed bytes: those of the file that it continues, or else the section's average."""
    if item.carries is not None:
        shard = shards[item.carries]
        if shard.file is not None and shard.digest.rows:
            return int(shard.file.xml_byte_size * item.digest.rows / shard.digest.rows)
    return int(per_row * item.digest.rows)
