"""Print the structure checks' offences and the budget: ``python -m tests.structure [check …] [path prefix …] [--shrink]``."""

from __future__ import annotations

import sys

from tests.structure import budget
from tests.structure.allowances import shrink, verdict
from tests.structure.checks import CHECKS


def main(arguments: list[str]) -> int:
    """Print every offence, or those of some checks and paths; ``--shrink`` lowers allowances and budget instead."""
    current = {name: check() for name, check in CHECKS.items()}
    names = [argument for argument in arguments if argument in CHECKS] or list(CHECKS)
    if "--shrink" in arguments:
        shrink(current)
        budget.shrink()
    else:
        prefixes = tuple(text for text in arguments if text not in CHECKS)
        for name in names:
            lines = [f"{place} {line}" for place, texts in sorted(current[name].items()) for line in texts]
            chosen = [line for line in lines if not prefixes or line.split(" ", 1)[1].startswith(prefixes)]
            print(*(f"{name}: {line}" for line in chosen or lines * (not prefixes)), sep="\n")
        print(*budget.table(), sep="\n")
    excess = [line for name in names for line in verdict(name, current[name])]
    excess += budget.excess()
    print(*(["Not allowed:", *excess] if excess else ["Within the allowances."]), sep="\n")
    return bool(excess)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
