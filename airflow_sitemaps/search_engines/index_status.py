"""Index status: what a sample of inspected URLs says of each section, its history in the state area, and the estimates.

A day's sample is drawn by section and age. The estimates are of the last ``WINDOW_DAYS`` days: each age counts by the
number of its listed URLs, so that a sample with many new URLs does not make a section look new.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Final, Literal

import msgspec

from airflow_sitemaps.pipeline.state.repository import newest, put_newest
from airflow_sitemaps.ports import ObjectStore
from airflow_sitemaps.shards import Count, Decoder

FORMAT: Final = 1
AREA: Final = "inspections/"
KEPT: Final = 200
"""Number of newest observations that are kept, one for each day and engine."""

WINDOW_DAYS: Final = 7
"""Days of which the samples make one estimate. URLs are new, or changed, for as many days."""

MAX_REASONS: Final = 20
Z: Final = 1.959964
"""Two-sided quantile of the normal distribution for 95 %."""

STAGES: Final = ("discovered", "crawled", "indexed")

_Days = Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{0,7}\Z")]


class Stratum(msgspec.Struct, kw_only=True):
    """The listed URLs of a section and an age, and what the inspected ones of them are.

    ``first_crawl`` and ``recrawl`` count inspected URLs by whole days from the first listing, and from the lastmod, to the
    last crawl; under the empty text those that were not crawled since. ``failed`` URLs got no usable response.
    """

    urls: Count = 0
    inspected: Count = 0
    failed: Count = 0
    discovered: Count = 0
    crawled: Count = 0
    indexed: Count = 0
    other_canonical: Count = 0
    reasons: dict[str, Count] = {}
    first_crawl: dict[_Days, Count] = {}
    recrawl: dict[_Days, Count] = {}

    def add(self, other: Stratum) -> None:
        """Add the inspected URLs of another sample."""
        for name in ("inspected", "failed", *STAGES, "other_canonical"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("reasons", "first_crawl", "recrawl"):
            counts = getattr(self, name)
            for key, number in getattr(other, name).items():
                tally(counts, key, number)


class SubmittedFeed(msgspec.Struct, frozen=True, kw_only=True):
    """An index or feed as the engine knows it. ``status`` is its own word, empty if it does not know the address."""

    url: str
    status: str = ""
    urls: int = 0
    last_read: str | None = None

    def __str__(self) -> str:
        if not self.status:
            return f"Bing, {self.url}: not submitted: submit it in Bing Webmaster Tools"
        return f"Bing, {self.url}: {self.status}, {self.urls:,} URLs, last read {self.last_read or 'never'}"


class SiteState(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine says of the whole site, listed pages or not: its counts of one ``day``, and the submitted feeds."""

    day: str = ""
    pages: dict[str, int] = {}
    feeds: tuple[SubmittedFeed, ...] = ()


class Observation(msgspec.Struct, kw_only=True):
    """The sample of one day in an engine. ``day`` is the engine's, by which it counts its quota; ``at`` is ISO 8601 in UTC.

    ``sections`` holds the strata by section and age (``new``, ``changed``, ``other``), ``stages`` those that the engine tells
    of a URL.
    """

    format: Literal[1] = FORMAT
    engine: str
    day: date
    at: str = ""
    generation: int = 0
    properties: list[str] = []
    sections: dict[str, dict[str, Stratum]] = {}
    stages: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)] = ("crawled", "indexed")
    site: SiteState | None = None


_OBSERVATION: Final = Decoder(Observation)


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """An estimated share of a section's listed URLs, with the bounds of its 95 % interval."""

    share: float
    low: float
    high: float


class SectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The estimates of one section, and the numbers of its inspections; a small section has more of them than URLs.

    An estimate is None if the engine does not tell it of a URL. The days are medians, None if fewer than half of the URLs were crawled since. An engine tells the last crawl, not the
    first one, so the true numbers are these or smaller.
    """

    section: str
    urls: int
    inspected: int
    failed: int
    discovered: Estimate | None = None
    crawled: Estimate | None = None
    indexed: Estimate | None = None
    reasons: dict[str, int]
    other_canonical: int
    first_crawl_days: int | None
    first_crawl_of: int
    recrawl_days: int | None
    recrawl_of: int

    @property
    def shares(self) -> dict[str, Estimate]:
        """Return the estimates by stage."""
        return {name: share for name in STAGES if (share := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """What an engine knows of a URL. ``canonical``: the address that it prefers, empty if it is the URL itself."""

    crawled_at: datetime | None
    is_discovered: bool = True
    is_indexed: bool = False
    reason: str
    canonical: str = ""


def tally(counts: dict[str, int], key: str, number: int = 1) -> None:
    """Count a key; beyond ``MAX_REASONS`` texts, as ``other``. Numbers of days have no bound of their own."""
    has_place = key in counts or not key or key.isdecimal() or len(counts) < MAX_REASONS
    name = key if has_place else "other"
    counts[name] = counts.get(name, 0) + number


def statuses(observations: Sequence[Observation]) -> list[SectionStatus]:
    """Return the status of each section of the newest observation, from the samples of its last ``WINDOW_DAYS`` days."""
    return [_status(section, strata, observations[-1]) for section, strata in _sampled(observations).items()]


def total(observations: Sequence[Observation]) -> SectionStatus | None:
    """Return the status of all sections of the newest observation together; None without an inspection."""
    strata = [stratum for each in _sampled(observations).values() for stratum in each]
    return _status("", strata, observations[-1]) if strata else None


def _sampled(observations: Sequence[Observation]) -> dict[str, list[Stratum]]:
    """Return the strata of each section of the newest observation that has inspected URLs, over ``WINDOW_DAYS`` days."""
    if not observations:
        return {}
    newest = observations[-1]
    window = [each for each in observations if 0 <= (newest.day - each.day).days < WINDOW_DAYS]
    sampled = {}
    for section, ages in newest.sections.items():
        strata = []
        for age, now in ages.items():
            stratum = Stratum(urls=now.urls)
            for each in window:
                if (earlier := each.sections.get(section, {}).get(age)) is not None:
                    stratum.add(earlier)
            strata.append(stratum)
        if any(stratum.inspected for stratum in strata):
            sampled[section] = strata
    return sampled


def _status(section: str, strata: Sequence[Stratum], newest: Observation) -> SectionStatus:
    total = Stratum(urls=sum(stratum.urls for stratum in strata))
    for stratum in strata:
        total.add(stratum)
    return SectionStatus(
        section=section,
        urls=total.urls,
        inspected=total.inspected,
        failed=total.failed,
        **{
            stage: estimate([(each.urls, each.inspected, getattr(each, stage)) for each in strata])
            for stage in STAGES
            if stage in newest.stages
        },
        reasons=dict(sorted(total.reasons.items(), key=lambda reason: -reason[1])),
        other_canonical=total.other_canonical,
        first_crawl_days=median(total.first_crawl),
        first_crawl_of=sum(total.first_crawl.values()),
        recrawl_days=median(total.recrawl),
        recrawl_of=sum(total.recrawl.values()),
    )


def estimate(strata: Iterable[tuple[int, int, int]]) -> Estimate:
    """Estimate a share from strata of (listed, inspected, counted) URLs, by the Wilson interval with continuity correction.

    Without the correction the interval covers the truth in fewer than 95 % of samples where the share is near 0 or 1.
    The size of the sample is the one that a sample without strata needs for the same variance. A stratum without
    inspected URLs is left out.
    """
    drawn = [(urls, min(n, urls), min(x / n, 1.0)) for urls, n, x in strata if n and urls]
    listed = sum(urls for urls, _, _ in drawn)
    if not listed:
        return Estimate(share=0.0, low=0.0, high=1.0)
    weights = [(urls / listed, n, share) for urls, n, share in drawn]
    p = min(1.0, sum(weight * share for weight, _, share in weights))
    by_size = 1 / sum(weight**2 / n for weight, n, _ in weights)
    smoothed = [(weight, n, (share * n + 1) / (n + 2)) for weight, n, share in weights]
    mean = sum(weight * share for weight, _, share in smoothed)
    by_variance = mean * (1 - mean) / sum(w**2 * share * (1 - share) / n for w, n, share in smoothed)
    low, high = _wilson(p, min(by_size, by_variance))
    return Estimate(share=p, low=min(low, p), high=max(high, p))


def _wilson(p: float, n: float) -> tuple[float, float]:
    """Return the Wilson interval with continuity correction (Newcombe 1998, method 4)."""
    middle, width = 2 * n * p + Z**2, 2 * (n + Z**2)
    below = max(0.0, Z**2 - 2 - 1 / n + 4 * p * (n * (1 - p) + 1))
    above = max(0.0, Z**2 + 2 - 1 / n + 4 * p * (n * (1 - p) - 1))
    low = 0.0 if p == 0 else max(0.0, (middle - 1 - Z * math.sqrt(below)) / width)
    high = 1.0 if p == 1 else min(1.0, (middle + 1 + Z * math.sqrt(above)) / width)
    return low, high


def median(days: Mapping[str, int]) -> int | None:
    """Return the median of whole days with their counts; None if at least half of the URLs were not crawled since."""
    total, seen = sum(days.values()), 0
    for day, number in sorted((int(day), number) for day, number in days.items() if day):
        seen += number
        if seen * 2 > total:
            return day
    return None


def keep(objects: ObjectStore, observation: Observation) -> None:
    """Store the observation of a day in the place of an earlier one, and remove those above ``KEPT``."""
    put_newest(objects, f"{AREA}{observation.engine}/", str(observation.day), observation, most=KEPT)


def history(objects: ObjectStore, engine: str, most: int = KEPT) -> list[Observation]:
    """Return the newest observations of an engine, oldest first. Objects that cannot be read are left out."""
    return newest(objects, f"{AREA}{engine}/", _OBSERVATION, most)
