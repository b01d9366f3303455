"""``python -m demo`` runs the demonstration; ``--page`` shows its result in Airflow's UI."""

from __future__ import annotations

import argparse
import sys

from demo import story


def main() -> int:
    """Run what the arguments name, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=story.__doc__)
    parser.add_argument("--places", type=int, metavar="N", help="load only N places, for a quick try")
    text = "run Airflow with its UI over the last demonstration (port 8080)"
    parser.add_argument("--page", type=int, nargs="?", const=8080, metavar="PORT", help=text)
    arguments = parser.parse_args()
    well = story.run(arguments.places) if arguments.page is None else story.show(arguments.page)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
