"""Numbers with their nouns, for lines that people read."""

from __future__ import annotations

from typing import Final

_STEP: Final = 1_024


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the right form: ``1 range``, ``2,000 ranges``, ``3 batches``."""
    if number == 1:
        return f"1 {noun}"
    ending = "es" if noun.endswith(("ch", "x", "s")) else "s"
    return f"{number:,} {noun}{ending}"


def size(number: float) -> str:
    """Format a number of bytes: ``1.6 MB``."""
    for unit in ("B", "KB", "MB"):
        if abs(number) < _STEP:
            return f"{number:,.0f} {unit}" if unit == "B" else f"{number:,.1f} {unit}"
        number /= _STEP
    return f"{number:,.1f} GB"


def duration(seconds: float) -> str:
    """Return a duration as text in one unit, such as ``3 hours``."""
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= unit:
            return counted(round(seconds / unit), name)
    return counted(round(seconds), "second")
