"""A store in memory that differs from S3 as Google Cloud Storage and Azure do.

Each write has a token of its own, two writes of one name at once collide (409), a name that is written twice in a moment is
sometimes refused (429), and a copy takes a while.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow_sitemaps.ports import PutOutcomeError
from airflow_sitemaps.stores import read_source
from airflow_sitemaps.stores.memory import MemoryObjects, MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from random import Random

    from typing_extensions import Unpack

    from airflow_sitemaps.ports import Headers, ObjectInfo, ObjectStore, PutMode
    from tests.simulation.fault_injector import FaultInjector

HOT: Final = 0.2
"""Share of writes that are refused because the name was written at the same moment."""
LONGEST_COPY: Final = 4
"""Most turns that a copy takes."""


@dataclass(slots=True)
class Traffic:
    """What is going on in both areas. No ``injector``: nothing is refused with 429."""

    random: Random
    pause: Callable[[], None]
    injector: FaultInjector | None = None
    versions: Iterator[int] = field(default_factory=lambda: count(1))
    under_way: set[tuple[str, str]] = field(default_factory=set)
    written: dict[tuple[str, str], datetime] = field(default_factory=dict)

    def count(self, what: str) -> None:
        """Count what the store did."""
        if self.injector is not None:
            self.injector.struck[f"cloud: {what}"] += 1

    def is_too_fast(self, place: tuple[str, str], now: datetime) -> bool:
        """Return whether a name is written too often."""
        injector = self.injector
        return (
            injector is not None and not injector.calm and self.written.get(place) == now and self.random.random() < HOT
        )


@dataclass(slots=True)
class CloudObjects(MemoryObjects):
    """One area of the store, an ``ObjectStore``."""

    traffic: Traffic = field(kw_only=True)

    def put(self, key: str, body: bytes, *, mode: PutMode, **headers: Unpack[Headers]) -> str:
        """Write an object in two turns, unless another write of it is under way."""
        traffic, place = self.traffic, (self.area, key)
        if place in traffic.under_way:
            traffic.count("409")
            raise PutOutcomeError(f"put {self.url(key)}: 409: another write is under way", definite=False)
        traffic.under_way.add(place)
        try:
            traffic.pause()
            if traffic.is_too_fast(place, self.now()):
                traffic.count("429")
                raise PutOutcomeError(f"put {self.url(key)}: 429: the name is written too often", definite=False)
            etag = MemoryObjects.put(self, key, body, mode=mode, **headers)
            traffic.written[place] = self.now()
            return etag
        finally:
            traffic.under_way.discard(place)

    def copy(
        self, source: ObjectStore, found: ObjectInfo, key: str, *, mode: PutMode, **headers: Unpack[Headers]
    ) -> str:
        """Copy an object in several turns. The condition on the target holds at the end."""
        body = read_source(source, found)
        for _ in range(self.traffic.random.randint(0, LONGEST_COPY)):
            self.traffic.count("a copy takes another turn")
            self.traffic.pause()
        return self.put(key, body, mode=mode, **headers)

    def _etag(self, body: bytes) -> str:
        return f"{next(self.traffic.versions):016d}"


class CloudStore(MemoryStore):
    """The store."""

    def __init__(self, traffic: Traffic, **settings: Any) -> None:
        super().__init__(**settings)
        self.traffic = traffic
        self.public: CloudObjects = self._area("public")
        self.state: CloudObjects = self._area("state")

    def _area(self, name: Literal["public", "state"]) -> CloudObjects:
        area: MemoryObjects = getattr(self, name)
        return CloudObjects(name, self.log, area.lock, area.now, traffic=self.traffic)
