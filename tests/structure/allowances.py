"""What the structure checks still allow, in ``allowances.txt``: the list may only shrink.

``python -m tests.structure`` prints all offences; ``--shrink`` removes entries that are no longer needed and lowers
counts. It never adds an entry or raises a count.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = Path(__file__).with_name("allowances.txt")
HEADER = """\
# Offences that the checks in tests/structure still allow: check, path or module, count. The list may only shrink.
# `python -m tests.structure --shrink` lowers it and never raises it.
"""

Counts = dict[str, int]


def allowances() -> dict[str, Counts]:
    """Return how many offences each place may still hold, by check."""
    table: dict[str, Counts] = {}
    for line in FILE.read_text().splitlines():
        if line and not line.startswith("#"):
            check, place, count = line.split()
            table.setdefault(check, {})[place] = int(count)
    return table


def verdict(check: str, offences: Mapping[str, list[str]]) -> list[str]:
    """Compare the offences of one check with its allowances.

    Args:
        check: The name of the check, the first word of a line in ``allowances.txt``.
        offences: The offences that the check finds now, by path or module name.

    Returns:
        One line for each excess and for each allowance that is no longer needed. Empty when all is well.
    """
    limits = allowances().get(check, {})
    lines = []
    for place, texts in sorted(offences.items()):
        limit = limits.get(place, 0)
        if len(texts) > limit:
            lines += [f"{place}: {len(texts)} offences, allowed {limit}", *(f"    {text}" for text in texts)]
    clean = limits.keys() - {place for place, texts in offences.items() if texts}
    return lines + [f"{place}: clean now; run `python -m tests.structure --shrink`" for place in sorted(clean)]


def shrink(current: Mapping[str, Mapping[str, list[str]]]) -> None:
    """Rewrite ``allowances.txt`` with lower counts and without the entries that are clean now."""
    lines = [
        f"{check} {place} {min(limit, len(current[check][place]))}\n"
        for check, counts in sorted(allowances().items())
        for place, limit in sorted(counts.items())
        if current[check].get(place)
    ]
    FILE.write_text(HEADER + "".join(lines))
