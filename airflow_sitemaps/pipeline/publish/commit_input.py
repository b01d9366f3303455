"""What a commit needs: the settings of the indexes, the state of the public area, and the bodies of its new files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import IncompleteError
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.state.ownership import check_stamp
from airflow_sitemaps.pipeline.state.repository import bounded_time, plan_key
from airflow_sitemaps.protocol.entry import MAX_INDEXES
from airflow_sitemaps.shards.index_layout import IndexSettings, index_entries
from airflow_sitemaps.shards.section_commit import CommitFacts, SectionFacts
from airflow_sitemaps.shards.shard_names import with_part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.ports import Clock, ObjectInfo, Store
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.shards.plan import SectionPlan
    from airflow_sitemaps.sitemap import Sitemap


FEW: Final = 8
"""Maximum number of bodies that are checked one by one; for more, the folder is listed."""


def commit_facts(
    sitemap: Sitemap, store: Store, old: Manifest | None, plan_adopted: Sequence[str], clock: Clock, *, run: str = ""
) -> CommitFacts:
    """Collect the input of the reducer. The commit's time is the store's if the clock is ahead of it.

    A ``run`` is one whose plan was stored a short time ago; "" if there is no plan.
    """
    settings = index_settings(sitemap)
    return CommitFacts(
        owner=sitemap.owner,
        sections={
            s.name: SectionFacts(path=s.path, base_url=sitemap.base_url_of(s), format=s.format)
            for s in sitemap.sections
        },
        index=settings,
        history=sitemap.history,
        now=bounded_time(store.state, clock, store.state.head(plan_key(run)) if run else None),
        write_id=clock.token(),
        index_etags=_index_etags(
            store, old, (settings.name, *index_names(sitemap), *sitemap.extra_names), plan_adopted
        ),
        extras=tuple(sorted(sitemap.extra_names)),
        adopted=tuple(plan_adopted),
        state_id=(old.state_id if old is not None else None) or clock.token(),
    )


def _index_etags(
    store: Store, old: Manifest | None, wanted: Sequence[str], adopted: Sequence[str]
) -> dict[str, str | None]:
    """Return the etags of indexes and extra files whose object changed. Another pipeline's must be adopted."""
    names: dict[str, str | None] = {}
    departed: set[tuple[str, str | None]] = set()
    if old is not None:
        names = {file.name: file.etag for file in (*old.indexes, *old.extras)}
        departed = {(item.key, item.etag) for item in old.departed if item.area == "public"}
    drifted: dict[str, str | None] = {}
    for name in dict.fromkeys((*names, *(wanted if old is None else wanted[:1]))):
        info = store.public.head(name)
        etag = None if info is None else info.etag
        if (name in names and etag != names[name]) or (name not in names and etag is not None):
            drifted[name] = etag
            if info is not None and name not in adopted and (name, etag) not in departed:
                check_stamp(store.public.url(name), info, old)
    return drifted


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
    """Return a warning if a plan leads to more index files than Google reads for one site, or none."""
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


def check_bodies(store: Store, old: Manifest | None, new: Manifest) -> Mapping[str, ObjectInfo]:
    """Check that every body that a generation newly needs exists and is complete, unless the old manifest has it.

    The returned infos, by key, may cover more bodies of the same folders.

    Raises:
        IncompleteError: A body is missing or has another size.
    """
    kept = old.bodies() if old is not None else set()
    files = [file for file in new.public_files() if file.body not in kept]
    present = _bodies(store, [file.body for file in files])
    for file in files:
        info = present.get(file.body)
        if info is None or info.byte_size != file.byte_size:
            what = "is not there" if info is None else f"has {info.byte_size:,} bytes, not {file.byte_size:,}"
            raise IncompleteError(
                f"{store.state.url(file.body)}, the body of {file.name}, {what}. Nothing was published; "
                "run again to plan these files again."
            )
    return present


def _bodies(store: Store, keys: Sequence[str]) -> dict[str, ObjectInfo]:
    """Return the info of the bodies that exist: a few are checked one by one, many by listing their folders."""
    if len(keys) <= FEW:
        infos = mapped(lambda key: (key, store.state.head(key)), keys, "sitemap-check")
        return {key: info for key, info in infos if info is not None}
    folders = {key.rpartition("/")[0] + "/" for key in keys}
    return {info.key: info for folder in sorted(folders) for info in store.state.list(folder)}
