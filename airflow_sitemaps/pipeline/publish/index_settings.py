"""Settings of a sitemap's indexes, as the code says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.protocol.entry import MAX_INDEXES
from airflow_sitemaps.shards.index_layout import IndexSettings, index_entries
from airflow_sitemaps.shards.shard_names import with_part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.shards.plan import SectionPlan
    from airflow_sitemaps.sitemap import Sitemap


def index_settings(sitemap: Sitemap) -> IndexSettings:
    """Return the index settings of the code."""
    return IndexSettings(
        base_url=sitemap.store.base_url,
        name=sitemap.store.index_name,
        mode=sitemap.index,
        limits=sitemap.index_limits,
    )


def index_names(sitemap: Sitemap) -> tuple[str, ...]:
    """Return the names that the first index of each section, or of all sections, may have."""
    name = sitemap.store.index_name
    if sitemap.index == "one":
        return (name,)
    return tuple(with_part(name, part) for part in ("recent", *(section.name for section in sitemap.sections)))


def are_to_change(sitemap: Sitemap, manifest: Manifest | None) -> bool:
    """Return whether the code requires index files with other names than the published ones."""
    if manifest is None:
        return False
    wanted = set(index_entries(manifest, index_settings(sitemap)))
    return wanted != {index.name for index in manifest.indexes}


def too_many(sitemap: Sitemap, plans: Mapping[str, SectionPlan], manifest: Manifest | None) -> tuple[str, ...]:
    """Warn if a plan leads to more index files than Google reads for one site.

    Returns:
        One warning, or none.
    """
    most = sitemap.index_limits.max_sitemaps
    shards = {name: sum(s.file is not None for s in was.shards) for name, was in _sections(manifest).items()}
    shards |= {name: sum(action.digest.rows > 0 for action in plan.actions) for name, plan in plans.items()}
    of_present = [shards.get(section.name, 0) for section in sitemap.sections]
    recent = int(sitemap.recent is not None)
    if sitemap.index == "one":
        count = -(-(sum(of_present) + recent) // most)
    else:
        count = recent + sum(-(-number // most) for number in of_present)
    if count <= MAX_INDEXES:
        return ()
    elsewhere = "give sections to a sitemap of their own on another host."
    if sitemap.index == "per_section":
        advice = f"Leave index='per_section' away, so that one index lists many sections, or {elsewhere}"
    else:
        advice = f"Make shards larger (ShardPolicy(max_urls=)), or {elsewhere}"
    where = f"this comes to {count:,} index files at {sitemap.store.base_url}"
    return (f"{where}: Google reads at most {MAX_INDEXES} of one site. {advice}",)


def _sections(manifest: Manifest | None) -> Mapping[str, SectionManifest]:
    return manifest.sections if manifest is not None else {}
