"""Lay out a section: which ranges its keys fall into now. Asks the source; the decisions are ``shards.balance``'s."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.shards.balance import Range, join, split_size
from airflow_sitemaps.shards.key import KeyRange, cut, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.ports import Source
    from airflow_sitemaps.protocol.limits import Limits
    from airflow_sitemaps.shards.digest import Digest, Survey
    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.shards.manifest import Shard
    from airflow_sitemaps.shards.policy import ShardPolicy


class Surveyor(Protocol):
    """Gives digests of ranges."""

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        """The digest of each range."""
        ...


def first_layout(source: Source, section: str, policy: ShardPolicy, reason: str) -> tuple[tuple[Range, ...], Survey]:
    """Ranges for a section that has none, or whose ranges no longer hold; every file gets a fresh name."""
    ranges = cut(KeyRange(), source.boundaries(KeyRange(), policy.target_urls))
    survey = source.survey(ranges)
    pieces = []
    for within, digest in zip(ranges, survey.digests, strict=True):
        _check_key(source, section, within, digest, policy)
        pieces.append(Range(range=within, digest=digest, reason=reason))
    return tuple(pieces), survey


def next_layout(
    source: Source,
    section: str,
    shards: Sequence[Shard],
    policy: ShardPolicy,
    limits: Limits,
    surveyor: Surveyor,
) -> tuple[tuple[Range, ...], Survey]:
    """The ranges of the base generation as they hold rows now, cut where too large and joined where small.

    ``surveyor`` gives the digests of the ranges as they were: the source, or what asks it only where needed.
    """
    survey = surveyor.survey([shard.range for shard in shards])
    ranges: list[Range] = []
    for position, (shard, digest) in enumerate(zip(shards, survey.digests, strict=True)):
        if digest.rows > policy.max_urls:
            last = position == len(shards) - 1
            ranges.extend(_cut(source, section, shard, position, digest, policy, appends=last))
        else:
            olds = (position,) if digest.rows else ()
            ranges.append(Range(range=shard.range, digest=digest, olds=olds, carries=position if digest.rows else None))
    return join(ranges, shards, policy, limits), survey


def ordered(source: Source, shards: Sequence[Shard]) -> bool:
    """Whether the boundaries still increase in the database's order (an upgraded collation may reorder text)."""
    boundaries = [shard.range.lower for shard in shards if shard.range.lower is not None]
    if all(len(key) == 1 and isinstance(key[0], int) for key in boundaries):
        return all(left < right for left, right in itertools.pairwise(boundaries))
    ranks = source.rank(boundaries)
    return all(left < right for left, right in itertools.pairwise(ranks))


def _cut(
    source: Source, section: str, shard: Shard, position: int, digest: Digest, policy: ShardPolicy, *, appends: bool
) -> list[Range]:
    """Cut a range that holds too many rows."""
    boundaries: Sequence[Key] = ()
    keeps_first = False
    if appends:
        boundaries = _append_cut(source, shard, policy)
        keeps_first = bool(boundaries)
    if not boundaries:
        boundaries = source.boundaries(shard.range, split_size(digest.rows, policy))
    pieces = cut(shard.range, boundaries)
    digests = source.survey(pieces).digests
    result = []
    for number, (within, part) in enumerate(zip(pieces, digests, strict=True)):
        _check_key(source, section, within, part, policy)
        if number == 0 and (keeps_first or len(pieces) == 1):
            result.append(Range(range=within, digest=part, olds=(position,), carries=position))
        elif keeps_first:
            result.append(Range(range=within, digest=part, reason="rows appended at the end"))
        else:
            reason = f"{digest.rows:,} rows no longer fit into one shard of {policy.max_urls:,}"
            result.append(Range(range=within, digest=part, olds=(position,), fresh=True, reason=reason))
    return result


def _append_cut(source: Source, shard: Shard, policy: ShardPolicy) -> Sequence[Key]:
    """Where to cut the last range so that all its earlier entries stay in its first piece; empty where they cannot."""
    if shard.last_key is None:
        return ()
    boundaries = source.boundaries(shard.range, policy.max_urls)
    if not boundaries:
        return ()
    last, first_cut = source.rank([shard.last_key, boundaries[0]])
    if last >= first_cut:
        return ()
    if policy.target_urls == policy.max_urls:
        return boundaries
    rest = source.boundaries(KeyRange(boundaries[0], shard.range.upper), policy.target_urls)
    return (boundaries[0], *rest)


def _check_key(source: Source, section: str, within: KeyRange, digest: Digest, policy: ShardPolicy) -> None:
    """Refuse a key that has more rows than a shard holds."""
    if digest.rows > policy.max_urls and not source.boundaries(within, policy.max_urls):
        raise RefusedError(
            f"section {section!r}: one key, {show(within.lower)}, has {digest.rows:,} rows, and a shard holds "
            f"{policy.max_urls:,}: rows of one key stay together. Add a column to key= that tells these rows apart "
            "(the primary key, for one). Nothing was published."
        )
