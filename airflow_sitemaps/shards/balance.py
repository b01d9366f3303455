"""Which ranges are cut, and which neighbours are joined. Pure: what is known is given.

A range is too large when its rows exceed ``max_urls``; neighbours are joined when both together weigh less than
``merge_below`` of a shard. A cut makes pieces of about half a shard or more, so what was cut does not join again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.shards.key import KeyRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.protocol.limits import Limits
    from airflow_sitemaps.shards.digest import Digest
    from airflow_sitemaps.shards.manifest import Shard
    from airflow_sitemaps.shards.policy import ShardPolicy

SPLIT_FILL: Final = 0.75
"""The part of a shard to which a range is cut in the middle of a section, so that its pieces can grow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A range on its way to a target.

    ``olds``: positions of the base generation's shards that hold its entries now (those without rows count not).
    ``carries``: the one among them whose name it continues. ``fresh``: it was cut, and its entries move to a new name.
    """

    range: KeyRange
    digest: Digest
    olds: tuple[int, ...] = ()
    carries: int | None = None
    fresh: bool = False
    reason: str = ""


def split_size(rows: int, policy: ShardPolicy) -> int:
    """Rows a piece, for a range of too many rows in the middle of a section."""
    fill = max(1, int(policy.max_urls * min(policy.fill, SPLIT_FILL)))
    return max(1, -(-rows // max(2, -(-rows // fill))))


def weigh(rows: int, xml_bytes: int, policy: ShardPolicy, limits: Limits) -> float:
    """How full a shard is, by the tighter of both limits: 1 is full."""
    return max(rows / policy.max_urls, xml_bytes / limits.max_byte_size)


def join(ranges: Sequence[Range], shards: Sequence[Shard], policy: ShardPolicy, limits: Limits) -> tuple[Range, ...]:
    """Join neighbours that together stay under the threshold; emptiness joins whatever stands beside it."""
    per_row = _bytes_per_row(shards)
    joined: list[Range] = []
    weights: list[float] = []
    for item in ranges:
        weight = weigh(item.digest.rows, _known_bytes(item, shards, per_row), policy, limits)
        if joined and _fits(joined[-1], weights[-1], item, weight, policy):
            joined[-1] = _joined(joined[-1], item)
            weights[-1] += weight
        else:
            joined.append(item)
            weights.append(weight)
    return tuple(joined)


def _fits(left: Range, left_weight: float, right: Range, right_weight: float, policy: ShardPolicy) -> bool:
    if left.digest.rows == 0 or right.digest.rows == 0:
        return True
    return left_weight + right_weight < policy.merge_below


def _joined(left: Range, right: Range) -> Range:
    within = KeyRange(left.range.lower, right.range.upper)
    if right.digest.rows == 0 or left.digest.rows == 0:
        full = left if right.digest.rows == 0 else right
        return Range(
            range=within,
            digest=full.digest,
            olds=full.olds,
            carries=full.carries,
            fresh=full.fresh,
            reason=full.reason,
        )
    return Range(
        range=within,
        digest=left.digest + right.digest,
        olds=left.olds + right.olds,
        fresh=True,
        reason="neighbours became small",
    )


def _bytes_per_row(shards: Sequence[Shard]) -> float:
    rows = sum(shard.digest.rows for shard in shards)
    return sum(shard.file.xml_byte_size for shard in shards if shard.file is not None) / rows if rows else 0.0


def _known_bytes(item: Range, shards: Sequence[Shard], per_row: float) -> int:
    """Uncompressed bytes: of the file where it continues one, by the section's average otherwise."""
    if item.carries is not None:
        shard = shards[item.carries]
        if shard.file is not None and shard.digest.rows:
            return int(shard.file.xml_byte_size * item.digest.rows / shard.digest.rows)
    return int(per_row * item.digest.rows)
