"""What of a history is fixed beforehand, rather than drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What is fixed beforehand; None leaves it to the seed.

    ``faults``, ``crashes``, ``stalls``: parts of all operations. ``temper``: part of tasks that become zombies, are cleared or
    marked failed. ``wild_clock``: days pass, and hours return. ``foreign``: somebody else meddles with public files.
    ``guarded``: guards are set. ``detection``: how changes are found. ``deploys``: how often the code changes, against
    the usual (1). ``restless``: values flip back and forth and tables are loaded again all the time. ``rivals``: part of
    runs that do not wait for others.
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
    crawlers: int | None = None
