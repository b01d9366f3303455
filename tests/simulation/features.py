"""Features that only some histories have, such as another store, a second pipeline, or news."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

LOCAL: Final = 0.02
ADOPTED: Final = 0.08
LOST: Final = 0.08
STRANGER: Final = 0.08
NEWS: Final = 0.15
STALE: Final = 0.1
CACHED: Final = 0.15
REBUILT: Final = 0.1
PARTLY: Final = 0.5
STALE_READS: Final = 0.1
VERSIONS: Final = 0.25
CHANGE_LOGS: Final = 0.2
CLOUD: Final = 0.3
ASKS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The features of a history. They are drawn separately, so that histories without them do not change.

    Attributes:
        local: Whether the store is a folder of this machine.
        adopts: Whether another program's sitemap is at the address before the first run.
        loses_state: Whether the state area is lost at the end, and the published sitemap adopted.
        stranger: Whether a second pipeline with a state area of its own tries to publish to the same address.
        news: Whether the second section is of news.
        stale: Fraction (0 to 1) of listings that return an earlier answer.
        cached: Whether a crawler reads through a shared cache.
        rebuilds: Share of runs that write some shards again.
        stale_reads: Fraction of reads of single objects that return an earlier answer.
        partly: Whether runs publish the other sections where a writing task fails (``publish_others``).
        versions: Whether the database keeps versions of its tables, so that runs skip surveys.
        change_logs: Whether the tables have change logs, so that runs survey only some ranges.
        asks: Whether guards refuse lost rows and a person decides. Then no read is outdated: a run that reads a manifest from
            before a question cannot close it.
        cloud: Whether the store differs from S3 as Google Cloud Storage and Azure do; a local store counts more.
    """

    local: bool = False
    adopts: bool = False
    loses_state: bool = False
    stranger: bool = False
    news: bool = False
    stale: float = 0.0
    cached: bool = False
    rebuilds: float = 0.0
    partly: bool = False
    stale_reads: float = 0.0
    versions: bool = False
    change_logs: bool = False
    cloud: bool = False
    asks: bool = False

    @classmethod
    def drawn(cls, seed: int) -> Features:
        """Draw the features of a history."""
        random = Random(f"features of {seed}")
        features = cls(
            local=random.random() < LOCAL,
            adopts=random.random() < ADOPTED,
            loses_state=random.random() < LOST,
            stranger=random.random() < STRANGER,
            news=random.random() < NEWS,
            stale=0.2 if random.random() < STALE else 0.0,
            cached=random.random() < CACHED,
            rebuilds=0.3 if random.random() < REBUILT else 0.0,
            partly=random.random() < PARTLY,
            stale_reads=0.1 if random.random() < STALE_READS else 0.0,
            versions=random.random() < VERSIONS,
            change_logs=random.random() < CHANGE_LOGS,
            cloud=random.random() < CLOUD,
        )
        asks = Random(f"asks {seed}").random() < ASKS and not features.stale_reads
        features = replace(features, asks=asks)
        # A second pipeline knows the first only by the objects that it reads: two answers from before the first one's
        # publication let it put files that no index lists.
        return replace(features, stale_reads=0.0) if features.stranger else features
