"""The guard over all sections together: each may pass its own guards while the whole sitemap loses too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_sitemaps.shards.guards import Permit, Refusal
from airflow_sitemaps.shards.week import recent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow_sitemaps.shards.guards import Guards
    from airflow_sitemaps.shards.manifest import SectionManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionSize:
    """The size of a published section, before a run and after it.

    Attributes:
        before: The section as last committed.
        now: Number of its rows or URLs that the run would publish, with expired ones.
    """

    before: SectionManifest
    now: int

    @property
    def earlier(self) -> int:
        """Number of URLs that are published, with expired ones."""
        return self.before.urls + self.before.expired_rows


def check_total(guards: Guards, sizes: Mapping[str, SectionSize], *, now: datetime, what: str) -> tuple[Refusal, ...]:
    """Refusals of the sections that shrink, if all sections together lose more than ``max_shrink_total``.

    The earlier number is the greatest of the last generation and of each of the last seven days.

    Args:
        sizes: Sizes of the sections to judge, by name: published ones whose own guards refuse nothing.
        what: What is counted, for the message: ``rows`` or ``URLs``.
    """
    before = max(sum(size.earlier for size in sizes.values()), *_totals([s.before for s in sizes.values()], now), 0)
    after = sum(size.now for size in sizes.values())
    if before < guards.min_rows or after >= before * (1 - guards.max_shrink_total):
        return ()
    part = (before - after) / before
    text = (
        f"All sections together would shrink from {before:,} to {after:,} {what} (-{part:.1%}; the limit is "
        f"max_shrink_total={guards.max_shrink_total:.1%})."
    )
    return tuple(
        Refusal(
            guard="total",
            section=name,
            message=f"Section {name!r} would shrink from {size.earlier:,} to {size.now:,} {what}. {text}",
            value=part,
        )
        for name, size in sizes.items()
        if size.now < size.earlier
    )


def judged_apart(name: str, refused: Sequence[Refusal], allow: Sequence[str]) -> bool:
    """Return whether a section is not part of the total: its own guards refuse it, or a permit lets it shrink."""
    permits = (Permit.of(text) for text in allow)
    return any(refusal.section == name for refusal in refused) or any(
        permit.guard in ("shrink", "empty") and permit.section in (None, name) for permit in permits
    )


def _totals(sections: Sequence[SectionManifest], now: datetime) -> list[int]:
    """Return the total of each recorded day. A section without a record of a day has that of the day before."""
    days = sorted({day for section in sections for day in recent(section, now)})
    return [sum(_on(section, day, now) for section in sections) for day in days]


def _on(section: SectionManifest, day: str, now: datetime) -> int:
    recorded = [record.most for each, record in recent(section, now).items() if each <= day]
    return recorded[-1] if recorded else section.urls
