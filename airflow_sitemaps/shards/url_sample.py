"""Samples of a section's URLs, from which the commit estimates how many URLs were replaced and which folders changed.

A URL is in the sample if the first ``level`` bits of its fingerprint are 0, which is true for one URL in ``2**level``.
The sample of a lower level contains that of a higher level, so samples of two generations are compared at the higher
one. The size of a sample does not depend on the number of URLs.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import xxhash

from airflow_sitemaps.shards import Count

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from airflow_sitemaps.shards.manifest import SectionManifest

    Numbers = npt.NDArray[np.uint64]


URLS: Final = 2_048
"""Approximate number of a section's URLs in its sample."""

THINNED: Final = 256
"""Maximum number of URLs in the sample that is kept of each day."""

PRINT_BYTES: Final = 6
"""Size of a stored fingerprint, in bytes."""

PREFIXES: Final = 20
"""Number of prefixes of a shard's sample that are counted separately. The others are counted together."""

TOP: Final = 10
"""Prefixes of a whole sitemap that a report shows."""

REST: Final = "…"

_PREFIX: Final = re.compile(r"([^/]+//[^/]+/(?:[^/?#]*/)?).*", re.DOTALL)

_HASH_BITS: Final = 24
"""Number of low bits of a fingerprint that are a hash of the whole URL; the high bits determine its levels."""


def level_of(rows: int) -> int:
    """Return the level at which the sample of this many rows has about ``URLS`` URLs."""
    return max(0, (max(1, rows) - 1) // URLS).bit_length()


def sample(columns: Sequence[pa.StringArray], level: int, spreads: Sequence[Numbers]) -> tuple[str, dict[str, int]]:
    """Return the fingerprints of a file's sampled URLs, as base64, and their number by scheme, host and first folder.

    The columns hold no nulls; ``shards.shard_file`` computes the spreads.
    """
    import numpy as np  # noqa: PLC0415 - heavy; loaded where work is done

    kept: list[bytes] = []
    prefixes: Counter[str] = Counter()
    for column, spread in zip(columns, spreads, strict=True):
        if not len(column):
            continue
        chosen = np.flatnonzero(spread >> np.uint64(64 - level) == 0) if level else np.arange(len(spread))
        urls = column.take(chosen).to_pylist()
        kept += [_print(high, url) for high, url in zip(spread[chosen].tolist(), urls, strict=True)]
        prefixes.update(map(prefix_of, urls))
    frequent = dict(prefixes.most_common(PREFIXES))
    rest = sum(prefixes.values()) - sum(frequent.values())
    if rest:
        frequent[REST] = rest
    return _encoded(kept), frequent


def prefix_of(loc: str) -> str:
    """Return scheme, host and first folder of a URL in normal form, such as ``https://www.example.com/de/``."""
    return _PREFIX.sub(r"\1", loc)


def gone(before: SectionManifest, after: SectionManifest) -> float | None:
    """Return the fraction of the URLs of ``before`` that ``after`` does not list, or None if either has no sample."""
    level = max(_level(before), _level(after))
    return _share_gone(_sampled(before, level), _sampled(after, level))


def moved(
    before: SectionManifest, after: SectionManifest, heirs: Sequence[SectionManifest]
) -> tuple[float, float] | None:
    """Return the fractions of the URLs of ``before`` that only its ``heirs`` list, and that neither they nor ``after`` do."""
    level = max(map(_level, (before, after, *heirs)))
    old, new, theirs = _sampled(before, level), _sampled(after, level), [_sampled(heir, level) for heir in heirs]
    if not old or new is None or None in theirs:
        return None
    left = old - new
    lost = left.difference(*filter(None, theirs))
    return (len(left) - len(lost)) / len(old), len(lost) / len(old)


def thinned(section: SectionManifest) -> str:
    """Return a section's sample with at most ``THINNED`` URLs, as its level and base64, or "" if a shard has none."""
    level = _level(section)
    sampled = _sampled(section, level)
    if sampled is None:
        return ""
    prints = sorted(sampled)
    while len(prints) > THINNED:
        level += 1
        prints = _of_level(prints, level)
    return f"{level}:{_encoded(prints)}"


def gone_since(earlier: str, after: SectionManifest) -> float | None:
    """Return the fraction of the URLs of a thinned sample that a section does not list, or None if it has no sample."""
    first, _, text = earlier.partition(":")
    level = max(int(first), _level(after))
    return _share_gone(set(_prints(text, level)), _sampled(after, level))


def _share_gone(old: set[bytes] | None, new: set[bytes] | None) -> float | None:
    return None if not old or new is None else len(old - new) / len(old)


def prefixes(section: SectionManifest) -> dict[str, int] | None:
    """Estimate from its samples how many of a section's URLs have each prefix. Return None if a shard has no sample."""
    counts: Counter[str] = Counter()
    for shard in section.shards:
        if shard.urls and shard.sample is None:
            return None
        for prefix, number in shard.prefixes.items():
            counts[prefix] += number << shard.sample_level
    sampled = sum(counts.values())
    return {prefix: round(number * section.urls / sampled) for prefix, number in counts.items()}  # they add up to all


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCount:
    """Estimated numbers of URLs below a scheme, host and first folder, like ``https://www.example.com/de/``."""

    prefix: str
    urls: Count
    urls_before: Count


def top_prefixes(before: Iterable[SectionManifest], after: Iterable[SectionManifest]) -> tuple[PrefixCount, ...]:
    """Return the prefixes with the most URLs, before or after a run, estimated from samples."""
    old, new = _prefix_counts(before), _prefix_counts(after)
    names = sorted({*old, *new} - {REST}, key=lambda name: (-max(old[name], new[name]), name))
    return tuple(PrefixCount(prefix=name, urls=new[name], urls_before=old[name]) for name in names[:TOP])


def _prefix_counts(sections: Iterable[SectionManifest]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for section in sections:
        counts.update(prefixes(section) or {})
    return counts


def repeated(section: SectionManifest) -> float | None:
    """Estimate the fraction of a section's URLs that are repetitions. Return None if a shard has no sample."""
    level = _level(section)
    distinct = _sampled(section, level)
    if distinct is None:
        return None
    number = sum(len(_prints(shard.sample or "", level)) for shard in section.shards)
    return (number - len(distinct)) / number if number else 0.0


def _level(section: SectionManifest) -> int:
    return max((shard.sample_level for shard in section.shards), default=0)


def _sampled(section: SectionManifest, level: int) -> set[bytes] | None:
    """Return a section's fingerprints at a level, or None if a shard has no sample."""
    if any(shard.urls and shard.sample is None for shard in section.shards):
        return None
    return set().union(*[_prints(shard.sample, level) for shard in section.shards if shard.sample])


def _of_level(prints: list[bytes], level: int) -> list[bytes]:
    """Return those of ordered fingerprints that are in the sample of a level: the first ones."""
    if not level:
        return prints
    return prints[: bisect_left(prints, (1 << (8 * PRINT_BYTES - level)).to_bytes(PRINT_BYTES, "big"))]


def _encoded(prints: Iterable[bytes]) -> str:
    return base64.b64encode(b"".join(sorted(prints))).decode()


def _prints(text: str, level: int) -> list[bytes]:
    """Return the fingerprints of an encoded sample that are in the sample of a level, in order."""
    data = base64.b64decode(text)
    return _of_level([data[at : at + PRINT_BYTES] for at in range(0, len(data), PRINT_BYTES)], level)


def _print(spread: int, url: str) -> bytes:
    """Return the fingerprint of a sampled URL: the first bits of its spread, then bits of its hash."""
    high_bits = 8 * PRINT_BYTES - _HASH_BITS
    bits = xxhash.xxh3_64_intdigest(url.encode()) & ((1 << _HASH_BITS) - 1)
    return ((spread >> (64 - high_bits)) << _HASH_BITS | bits).to_bytes(PRINT_BYTES, "big")
