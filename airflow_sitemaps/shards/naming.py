"""Names of public files: stable, ordered, never reused."""

from __future__ import annotations

import re
from typing import Final, Literal

SUFFIX: Final = {"xml": ".xml.gz", "text": ".txt.gz"}

Format = Literal["xml", "text"]


def shard_name(path: str, section: str, serial: int, form: Format) -> str:
    """The public name of a shard: ``de/products-00042.xml.gz``."""
    return f"{path}{section}-{serial:05d}{SUFFIX[form]}"


def shard_names(path: str, section: str) -> re.Pattern[str]:
    """Matches every name that a section's shards can have; group 1 is the serial."""
    return re.compile(re.escape(path + section) + r"-(\d{5,})\.(?:xml|txt)\.gz")


def fits(name: str, path: str, section: str, form: Format) -> bool:
    """Whether a name is one that this section, at this path and in this format, would give."""
    return name.endswith(SUFFIX[form]) and shard_names(path, section).fullmatch(name) is not None
