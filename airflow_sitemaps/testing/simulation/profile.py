"""The part of a history that is fixed beforehand, rather than drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What is fixed beforehand; None leaves it to the seed.

    Attributes:
        faults: Share (0 to 1) of operations that fail.
        crashes: Share of operations at which the process dies.
        stalls: Share of operations at which the process stands still for a while.
        temper: Share of tasks that become zombies, are cleared or marked failed.
        wild_clock: Whether days pass and hours return.
        foreign: Whether another program changes public files.
        guarded: Whether guards are set.
        detection: How changes are found: ``digest``, ``watermark`` or ``full``.
        sections: Number of sections at the start.
        deploys: How often the code changes, in multiples of the usual rate.
        restless: Whether values flip back and forth and tables are loaded again all the time.
        rivals: Share of runs that do not wait for others.
        partial: Share of runs for some sections only; None: the usual 0.15.
        crawlers: Number of slow crawlers.
        skew: Greatest difference of a worker's clock from the true time.
    """

    faults: float | None = None
    crashes: float | None = None
    stalls: float | None = None
    temper: float | None = None
    wild_clock: bool | None = None
    foreign: bool | None = None
    guarded: bool | None = None
    detection: str | None = None
    sections: int | None = None
    deploys: float = 1.0
    restless: bool = False
    rivals: float = 0.35
    partial: float | None = None
    crawlers: int | None = None
    skew: timedelta | None = None
