"""Settings of a history that are fixed instead of drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Fixed settings of a history. If a setting is None, the seed decides it.

    Attributes:
        faults: Fraction (0 to 1) of operations that fail.
        crashes: Fraction of operations at which the process dies.
        stalls: Fraction of operations at which the process stops for a while.
        temper: Fraction of tasks that become zombies, are cleared, or are marked failed.
        wild_clock: Whether the clock jumps by days, or back by hours.
        foreign: Whether another program changes public files.
        guarded: Whether guards are set.
        detection: The change detection: ``digest``, ``watermark`` or ``full``.
        sections: Number of sections at the start.
        deploys: Frequency of code changes, as a multiple of the default frequency.
        restless: Whether values constantly change back and forth, and tables are reloaded.
        rivals: Fraction of runs that do not wait for other runs.
        partial: Fraction of runs for some sections only. None: 0.15.
        crawlers: Number of slow crawlers.
        skew: Largest difference of a worker's clock from the accurate clock.
        features: Whether rare features are drawn: a local folder, news, a second pipeline, and so on.
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
    features: bool = False
