"""How a sitemap's indexes are made: as its code says now, and as they were at an earlier commit."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, Literal

from airflow_sitemaps.protocol.limits import MAX_INDEXES, PROFILES
from airflow_sitemaps.shards.index import IndexSettings, index_entries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.shards.manifest import Manifest, SectionState
    from airflow_sitemaps.shards.plan import SectionPlan
    from airflow_sitemaps.sitemap import Sitemap

MODES: Final[tuple[Literal["one", "per_section"], ...]] = ("one", "per_section")


def index_settings(sitemap: Sitemap) -> IndexSettings:
    """How the code says that the indexes are made."""
    return IndexSettings(
        base_url=sitemap.store.base_url,
        name=sitemap.store.index_name,
        mode=sitemap.index,
        limits=sitemap.index_limits,
    )


def settings_of_commit(sitemap: Sitemap, manifest: Manifest) -> IndexSettings:
    """Settings under which a manifest was committed, whatever the code says by now: its index names tell them."""
    settings = index_settings(sitemap)
    committed = [index.name for index in manifest.indexes]
    stems = [name.replace(f"-{section}.", ".") for name in committed for section in manifest.sections]
    for name, mode, limits in product(
        dict.fromkeys((settings.name, *committed, *stems)),
        dict.fromkeys((settings.mode, *MODES)),
        (settings.limits, *PROFILES.values()),
    ):
        candidate = IndexSettings(base_url=manifest.base_url, name=name, mode=mode, limits=limits)
        if set(index_entries(manifest, candidate)) == set(committed):
            return candidate
    return settings


def are_to_change(sitemap: Sitemap, manifest: Manifest | None) -> bool:
    """Whether the code asks for other index files than there are, though no shard may change."""
    if manifest is None:
        return False
    wanted = set(index_entries(manifest, index_settings(sitemap)))
    return wanted != {index.name for index in manifest.indexes}


def too_many(sitemap: Sitemap, plans: Mapping[str, SectionPlan], manifest: Manifest | None) -> tuple[str, ...]:
    """A warning where a plan comes to more index files than Google takes of one site."""
    most = sitemap.index_limits.max_sitemaps
    shards = {name: sum(s.file is not None for s in was.shards) for name, was in _sections(manifest).items()}
    shards |= {name: sum(target.digest.rows > 0 for target in plan.targets) for name, plan in plans.items()}
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


def _sections(manifest: Manifest | None) -> Mapping[str, SectionState]:
    return manifest.sections if manifest is not None else {}
