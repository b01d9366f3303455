"""How long the tests of chaos may take: reduced in ``make test``, long in ``make chaos``."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("SITEMAPS_CHAOS"))


def scaled(short: int, long: int) -> int:
    """A number of seeds, steps or rounds."""
    return long if LONG else short
