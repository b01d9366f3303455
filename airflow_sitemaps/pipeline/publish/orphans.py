"""Orphans: public files that bear this pipeline's stamp but that no manifest names.

A late put of a stopped run leaves such files.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.state.ownership import STATE_ID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from airflow_sitemaps.ports import ObjectInfo, Store
    from airflow_sitemaps.shards.manifest import Manifest

SUFFIXES: Final = (".xml", ".xml.gz", ".txt.gz", ".atom", ".rss", ".xsl")
"""Endings of the names that this package publishes."""

EXAMINED: Final = 1_000
"""Maximum number of unknown files whose metadata one sweep reads; the next sweep continues."""


def orphans(store: Store, manifest: Manifest, now: datetime, grace: timedelta) -> tuple[ObjectInfo, ...]:
    """Find public files of this pipeline that its manifest does not name.

    A file without a stamp, or with another pipeline's stamp, is never an orphan. Neither is a file younger than the
    grace, because a run that has just committed may have put it.

    Args:
        manifest: The current manifest, which must be promoted.

    Returns:
        The orphans as they are now, with their etags.

    Raises:
        StoreError: The store failed.
    """
    if not manifest.state_id:
        return ()
    candidates = islice(_unknown(store, manifest, now - grace), EXAMINED)
    infos = mapped(store.public.head, candidates, "sitemap-orphans")
    return tuple(info for info in infos if info is not None and info.metadata.get(STATE_ID) == manifest.state_id)


def _unknown(store: Store, manifest: Manifest, before: datetime) -> Iterator[str]:
    names = {file.name for file in manifest.public_files()}
    names |= {item.key for item in manifest.departed if item.area == "public"}
    for info in store.public.list():
        is_old = info.modified_at is not None and info.modified_at < before
        if is_old and info.key not in names and info.key.endswith(SUFFIXES):
            yield info.key
