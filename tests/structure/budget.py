"""How many lines and modules each folder of the package may have, in ``budget.txt``: the numbers may only shrink.

``python -m tests.structure --shrink`` lowers them to what the folders have now. Raise a number by hand, in a commit of its
own that says why.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Final, NamedTuple

from tests.structure.inventory import PACKAGE, ROOT, matching

FILE = Path(__file__).with_name("budget.txt")
HEADER = """\
# Most lines and modules of each folder of the package, __init__.py files included. `python -m tests.structure` prints what
# they have now, and `--shrink` lowers the numbers. Raise one only in a commit of its own that says why.
"""
TOP: Final = "(top)"
"""The modules that are in no folder."""


class Size(NamedTuple):
    """The size of a folder."""

    lines: int
    modules: int


def sizes() -> dict[str, Size]:
    """Return the size of each folder directly below the package, with its subfolders."""
    lines: dict[str, int] = defaultdict(int)
    modules: dict[str, int] = defaultdict(int)
    for path in matching(f"{PACKAGE}/*.py"):
        folder = path.parts[1] if len(path.parts) > 2 else TOP
        lines[folder] += len((ROOT / path).read_bytes().splitlines())
        modules[folder] += 1
    return {folder: Size(lines[folder], modules[folder]) for folder in sorted(lines)}


def budget() -> dict[str, Size]:
    """Return the limits by folder."""
    rows = (line.split() for line in FILE.read_text().splitlines() if line and not line.startswith("#"))
    return {folder: Size(int(lines), int(modules)) for folder, lines, modules in rows}


def total(folders: dict[str, Size]) -> Size:
    """Return the sum of some folders."""
    return Size(sum(size.lines for size in folders.values()), sum(size.modules for size in folders.values()))


def table() -> list[str]:
    """Return a line for each folder and one for the sum, with the sizes and the limits."""
    now, limits = sizes(), budget()
    rows = [(folder, size, limits.get(folder, Size(0, 0))) for folder, size in now.items()]
    rows.append(("sum", total(now), total(limits)))
    return [
        f"{name:16} {size.lines:6,} of {limit.lines:6,} lines {size.modules:4} of {limit.modules:4} modules"
        for name, size, limit in rows
    ]


def excess() -> list[str]:
    """Return a line for each folder that is larger than its limit, or that has a limit and is gone."""
    now, limits = sizes(), budget()
    lines = [
        f"{folder}: {size.lines:,} lines in {size.modules} modules; the budget allows {limit.lines:,} in {limit.modules}"
        for folder, size in now.items()
        for limit in [limits.get(folder, Size(0, 0))]
        if size.lines > limit.lines or size.modules > limit.modules
    ]
    return lines + [f"{folder}: no such folder; remove its line" for folder in sorted(limits.keys() - now.keys())]


def shrink() -> None:
    """Rewrite ``budget.txt`` with the smaller of size and limit, without folders that are gone."""
    now = sizes()
    rows = {
        folder: Size(min(limit.lines, now[folder].lines), min(limit.modules, now[folder].modules))
        for folder, limit in sorted(budget().items())
        if folder in now
    }
    FILE.write_text(HEADER + "".join(f"{folder} {size.lines} {size.modules}\n" for folder, size in rows.items()))
