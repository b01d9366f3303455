"""The guard of news sections: articles leave because of their age, so only those that are still young count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.shards.guards import check_size

if TYPE_CHECKING:
    from airflow_sitemaps.shards.guards import Guards, Refusal

AGED = ("empty", "shrink")
"""Guards that the age of articles may concern."""


def check_articles(guards: Guards, section: str, *, now: int, fresh: int, what: str) -> tuple[Refusal, ...]:
    """Return refusals of a news section that lost too many articles that are not past their age.

    Args:
        now: The number after the run.
        fresh: Number of published articles that are younger than two days.
        what: The unit in the message: ``rows`` or ``URLs``.
    """
    refusals = check_size(guards, section, now=now, before=fresh, peak=0, what=what)
    return tuple(refusal for refusal in refusals if refusal.guard in AGED)
