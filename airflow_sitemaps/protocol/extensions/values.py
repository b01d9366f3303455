"""URLs and dates in an extension, parsed like ``loc`` and ``lastmod``. URLs may be of any host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.protocol.loc import WHITE, is_clean, normalise, scope_of
from airflow_sitemaps.protocol.rules import RULES, Verdict

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.entry import RowContext


@dataclass(slots=True)
class Addresses:
    """The URLs and dates of one row's column.

    Attributes:
        context: Settings of the section.
        fixed: The ``loc-…`` rules under which a URL was repaired.
    """

    context: RowContext
    fixed: list[str] = field(default_factory=list)

    def normalise(self, raw: str) -> tuple[str | None, str | None]:
        """Return the normal form of a URL, or None and the description of its fault.

        A faulty URL is repaired if the verdict of its rule is ``repair`` or ``keep``. Otherwise it is refused. A bare
        ``https://host`` gets no slash, because readers compare the URL as given.
        """
        if is_clean(raw):
            return raw, None
        scope = scope_of(self.context.base_url, self.context.cross_submit)
        rulebook = self.context.rulebook
        reading = normalise(raw, origin=scope.origin, keep_entities=rulebook["loc-entity"] is Verdict.KEEP)
        if reading.loc is None:
            return None, f"breaks {reading.faults[-1]} ({RULES[reading.faults[-1]].text})"
        for rule in reading.faults:
            if rulebook[rule] not in (Verdict.REPAIR, Verdict.KEEP):
                return None, f"breaks {rule} ({RULES[rule].text})"
            self.fixed.append(rule)
        bare = raw.strip(WHITE)
        return (bare if reading.loc == bare + "/" else reading.loc), None

    def date(self, raw: str) -> str | None:
        """Return the date or date-time to write, or None if it is not valid. Without a zone, the section's zone applies."""
        try:
            read = lastmod.parse(raw, self.context.timezone)
        except lastmod.LastmodError:
            return None
        return None if read is None else lastmod.render(read)
