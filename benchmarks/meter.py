"""CPU seconds, wall seconds and peak memory of a block of code in this process."""

from __future__ import annotations

import resource
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PER_MB = 1024 if sys.platform != "darwin" else 1024 * 1024


def cpu_s() -> float:
    """User and system CPU seconds of all threads of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mb() -> float:
    """The most memory that this process has held so far, in MB, everything it imported included.

    Not ``ru_maxrss`` where there is better: a new process inherits that of the one that started it.
    """
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024
    except (OSError, IndexError):
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / PER_MB


def resident_mb() -> float:
    """What this process holds now, in MB; on systems without /proc the most that it has held."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)
    except OSError:
        return peak_mb()


@contextmanager
def metered() -> Iterator[dict[str, float]]:
    """A dictionary that holds ``cpu_s``, ``wall_s`` and ``peak_mb`` when the block is done."""
    found: dict[str, float] = {}
    cpu, wall = cpu_s(), time.perf_counter()
    yield found
    found.update(cpu_s=cpu_s() - cpu, wall_s=time.perf_counter() - wall, peak_mb=peak_mb())
