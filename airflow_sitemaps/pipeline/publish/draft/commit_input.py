"""Collect the facts that a commit needs: the settings of the code, and the state of the public area."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.pipeline.publish.index_settings import index_names, index_settings
from airflow_sitemaps.pipeline.state.ownership import check_stamp
from airflow_sitemaps.pipeline.state.repository import plan_key
from airflow_sitemaps.pipeline.state.store_time import bounded_time
from airflow_sitemaps.shards.commit_facts import CommitFacts, SectionFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.ports import Clock, Store
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Sitemap


def commit_facts(
    sitemap: Sitemap, store: Store, old: Manifest | None, plan_adopted: Sequence[str], clock: Clock, *, run: str = ""
) -> CommitFacts:
    """Collect the input of the reducer from the code and from the public area.

    Args:
        plan_adopted: Public names of another program's sitemap that the run takes over.
        clock: Source of time and of tokens. The commit's time is the store's if this clock is ahead of it.
        run: Identifier of the run, whose plan was stored a short time ago. Default: "", there is no plan.

    Raises:
        OwnershipError: Another pipeline put an object under one of the names.
        StoreError: The store failed.
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
    """Find the indexes and extra files whose object changed since the last generation, and return their etags.

    Raises:
        OwnershipError: Another pipeline put an object, and the run does not adopt it.
    """
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
