"""Compute the layout of a section: the ranges of its keys. This module queries the source; ``shards.balance`` decides."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Protocol

from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.shards.balance import LayoutRange, join, split_size
from airflow_sitemaps.shards.key import INTEGER, UNKNOWN, KeyRange, cut, fits_kinds, same_kinds, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.ports import Source
    from airflow_sitemaps.protocol.entry import Limits
    from airflow_sitemaps.shards.digest import Digest, Survey
    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.shards.manifest import SectionManifest, Shard
    from airflow_sitemaps.shards.policy import ShardPolicy


class Surveyor(Protocol):
    """Provider of digests of ranges."""

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        """Return the digest of each range."""
        ...


def first_layout(
    source: Source, section: str, policy: ShardPolicy, reason: str
) -> tuple[tuple[LayoutRange, ...], Survey]:
    """Compute the ranges of a section that has none, or whose ranges are no longer valid. Every file gets a new name.

    Returns:
        The ranges and their survey.
    """
    ranges = cut(KeyRange(None, None), source.boundaries(KeyRange(None, None), policy.target_urls))
    survey = source.survey(ranges)
    pieces = []
    for within, digest in zip(ranges, survey.digests, strict=True):
        _check_key(source, section, within, digest, policy)
        pieces.append(LayoutRange(range=within, digest=digest, reason=reason))
    return tuple(pieces), survey


def next_layout(
    source: Source,
    section: str,
    shards: Sequence[Shard],
    policy: ShardPolicy,
    limits: Limits,
    surveyor: Surveyor,
    file_urls: int | None = None,
) -> tuple[tuple[LayoutRange, ...], Survey]:
    """Adapt the ranges of the base generation to their present rows: cut those that are too large, join small ones.

    Args:
        surveyor: Provider of the digests of the earlier ranges: the source, or an object that queries it only as needed.
        file_urls: Maximum number of entries per file. Default: the policy's.

    Returns:
        The ranges and their survey.
    """
    survey = surveyor.survey([shard.range for shard in shards])
    ranges: list[LayoutRange] = []
    for position, (shard, digest) in enumerate(zip(shards, survey.digests, strict=True)):
        if digest.rows > policy.max_urls:
            last = position == len(shards) - 1
            ranges.extend(_cut(source, section, shard, position, digest, policy, appends=last))
        else:
            olds = (position,) if digest.rows else ()
            ranges.append(
                LayoutRange(range=shard.range, digest=digest, olds=olds, carries=position if digest.rows else None)
            )
    return join(ranges, shards, policy, limits, file_urls), survey


def boundary_fault(source: Source, shards: Sequence[Shard]) -> str:
    """Return why the boundaries no longer order the rows, or "" if they still do.

    An upgraded collation may reorder text. A narrower type, an enum or a domain may no longer accept a boundary. Integers
    keep their order, so the least and the greatest are enough if the key column is known to hold integers.
    """
    boundaries = [shard.range.lower for shard in shards if shard.range.lower is not None]
    integers = all(len(key) == 1 and isinstance(key[0], int) for key in boundaries)
    if integers and all(kind.endswith((INTEGER, UNKNOWN)) for kind in source.key_kinds):
        boundaries = boundaries[:: max(1, len(boundaries) - 1)]
    ranks = source.rank(boundaries)
    if ranks is None:
        return "the key's type no longer accepts a boundary of the ranges"
    if all(left < right for left, right in itertools.pairwise(ranks)):
        return ""
    return "the database orders the keys differently than before (its collation changed?)"


def key_change(source: Source, section: SectionManifest) -> str:
    """Return why a section's boundaries are no longer valid keys of its source, or "" if they are valid."""
    now = tuple(source.key_kinds)
    if section.key_kinds:
        if same_kinds(section.key_kinds, now):
            return ""
        return f"the section's key changed: {', '.join(section.key_kinds)} before, {', '.join(now)} now"
    boundaries = (shard.range.lower for shard in section.shards if shard.range.lower is not None)
    return "" if fits_kinds(boundaries, now) else f"the section's key changed: it is {', '.join(now)} now"


def _cut(
    source: Source, section: str, shard: Shard, position: int, digest: Digest, policy: ShardPolicy, *, appends: bool
) -> list[LayoutRange]:
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
            result.append(LayoutRange(range=within, digest=part, olds=(position,), carries=position))
        elif keeps_first:
            result.append(LayoutRange(range=within, digest=part, reason="rows appended at the end"))
        else:
            reason = f"{digest.rows:,} rows no longer fit into one shard of {policy.max_urls:,}"
            result.append(LayoutRange(range=within, digest=part, olds=(position,), fresh=True, reason=reason))
    return result


def _append_cut(source: Source, shard: Shard, policy: ShardPolicy) -> Sequence[Key]:
    """Return where to cut the last range so that its first piece keeps all earlier entries; empty if impossible."""
    if shard.last_key is None:
        return ()
    boundaries = source.boundaries(shard.range, policy.max_urls)
    if not boundaries:
        return ()
    ranks = source.rank([shard.last_key, boundaries[0]])
    if ranks is None or ranks[0] >= ranks[1]:
        return ()
    if policy.target_urls == policy.max_urls:
        return boundaries
    rest = source.boundaries(KeyRange(boundaries[0], shard.range.upper), policy.target_urls)
    return (boundaries[0], *rest)


def _check_key(source: Source, section: str, within: KeyRange, digest: Digest, policy: ShardPolicy) -> None:
    """Refuse a key that has more rows than a shard holds.

    The rows of the largest key are counted before a refusal: in a database without snapshots, rows may have been added
    and deleted since the range was cut and surveyed. If the range has become too large but no key
    has, it is not refused: it is cut when it is written.

    Raises:
        RefusedError: One key has more rows than a shard holds.
    """
    if digest.rows <= policy.max_urls:
        return
    largest = source.largest_key(within)
    if largest is not None and largest[1] > policy.max_urls:
        raise RefusedError(
            f"section {section!r}: the key {show(largest[0])} has {largest[1]:,} rows, but a shard holds at most "
            f"{policy.max_urls:,} and cannot share a key with another shard. Add a column to key= that distinguishes these rows "
            "(the primary key, for example). Nothing was published."
        )
