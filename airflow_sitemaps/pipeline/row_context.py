"""Settings for the validation of a section's rows, in a dry run as in a build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.protocol.entry import RowContext

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Clock
    from airflow_sitemaps.sitemap import Section, Sitemap


def judge_of(sitemap: Sitemap, section: Section, clock: Clock) -> RowContext:
    """Return the settings for the validation of a section's entries."""
    return RowContext(
        base_url=sitemap.base_url_of(section),
        cross_submit=tuple(sitemap.cross_submit),
        rulebook=sitemap.rulebook(section),
        limits=sitemap.limits_of(section),
        max_urls=sitemap.file_urls_of(section),
        now=clock.now(),
        format=section.format,
        kind=section.kind,
        section=section.name,
        timezone=section.source.timezone,
        feeds_since=clock.now() - sitemap.recent_window if sitemap.feeds else None,
        from_template="{" in str(getattr(section.source, "loc", "")),
    )
