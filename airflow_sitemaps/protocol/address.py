"""URLs and dates inside an extension, read as ``loc`` and ``lastmod`` are; their host may be any."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.limits import MAX_LOC_CHARACTERS
from airflow_sitemaps.protocol.loc import WHITE, normalise, scope_of
from airflow_sitemaps.protocol.rules import RULES, Verdict

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.entry import Judge

CLEAN: Final = re.compile(
    r"https?://(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.){1,5}[a-z]{2,24}/"
    r"(?:[A-Za-z0-9._~!$&'()*+,=:@/?-]|%[0-9A-Fa-f]{2})*"
)
"""A URL that normalising would not change, its length apart: most of them; the rest take the long way.

Of what XML wants escaped it holds at most ``&`` and ``'``.
"""


def is_clean(raw: str) -> bool:
    """Whether a URL is in normal form already, at a glance; False where only the long way can tell."""
    return CLEAN.fullmatch(raw) is not None and len(raw) <= MAX_LOC_CHARACTERS


@dataclass(slots=True)
class Addresses:
    """The URLs and dates of one row's column. ``mended`` gathers the ``loc-…`` rules that a URL broke and got over."""

    judge: Judge
    mended: list[str] = field(default_factory=list)

    def normalise(self, raw: str) -> tuple[str | None, str | None]:
        """The URL to write, or None and what is wrong with it.

        A URL that can be mended is mended where its rule says so (``repair``, ``keep``), else it is refused. A bare
        ``https://host`` stays without a slash: here it is nobody's identity, and readers compare it as it was given.
        """
        if is_clean(raw):
            return raw, None
        scope = scope_of(self.judge.base_url, self.judge.cross_submit)
        rulebook = self.judge.rulebook
        reading = normalise(raw, origin=scope.origin, keep_entities=rulebook["loc-entity"] is Verdict.KEEP)
        if reading.loc is None:
            return None, f"breaks {reading.faults[-1]} ({RULES[reading.faults[-1]].text})"
        for rule in reading.faults:
            if rulebook[rule] not in (Verdict.REPAIR, Verdict.KEEP):
                return None, f"breaks {rule} ({RULES[rule].text})"
            self.mended.append(rule)
        bare = raw.strip(WHITE)
        return (bare if reading.loc == bare + "/" else reading.loc), None

    def date(self, raw: str) -> str | None:
        """The date or date-time to write, or None where it cannot be read; without a zone it is in the judge's."""
        try:
            read = lastmod.parse(raw, self.judge.timezone)
        except lastmod.LastmodError:
            return None
        return None if read is None else lastmod.render(read)
