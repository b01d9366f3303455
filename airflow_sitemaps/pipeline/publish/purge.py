"""Call a store's purge hook with the changed addresses."""

from __future__ import annotations

import logging
import traceback
from pathlib import PurePath
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import SitemapError, StoreError
from airflow_sitemaps.shards.index_layout import address
from airflow_sitemaps.waits import waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from airflow_sitemaps.ports import Store
    from airflow_sitemaps.shards.manifest import Manifest

log = logging.getLogger(__name__)


def purge_shards(store: Store, manifest: Manifest, names: Collection[str]) -> None:
    """Remove changed shards from caches before the new index is put.

    A failure stops the promotion only if caches may answer with an old shard. The index then stays as it was, and the
    next attempt or run continues. If caches revalidate shards, crawlers read the right shard despite the failure.
    """
    addresses = sorted(_addresses(manifest, frozenset(names)))
    if store.purge is None or not addresses:
        return
    problem = _purge(store, addresses)
    if problem is None:
        log.info("purged %d addresses from caches", len(addresses))
        return
    text = f"the purge of {len(addresses)} addresses failed ({problem})"
    if store.needs_purge:
        raise StoreError(
            f"{text}. Shards may be cached (shard_cache_control={store.shard_cache_control!r}), so the index was not "
            "replaced. It still lists the complete earlier generation. Check the purge hook, then run again"
        )
    log.warning("%s; crawlers get the new shards nevertheless, because caches revalidate them", text)


def purge_indexes(store: Store, names: Sequence[str]) -> None:
    """Remove changed indexes from caches. A failure is only logged, because caches expire."""
    if store.purge is None or not names:
        return
    problem = _purge(store, [store.base_url + name for name in names])
    if problem is not None:
        log.warning(
            "the purge of %d indexes failed (%s); caches serve the old indexes until they expire", len(names), problem
        )


def _purge(store: Store, addresses: Sequence[str]) -> str | None:
    """Call the hook and return how it failed; a user's function may raise any exception.

    The text of an exception is shown only if it is of this package: others quote requests, with tokens in them.
    """
    assert store.purge is not None
    try:
        with waiting("the purge hook", "The hook's own time-outs apply"):
            store.purge(addresses)
    except SitemapError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        hook = traceback.extract_tb(error.__traceback__)[:2][-1]  # the frame after this one is the hook's
        return f"{type(error).__name__} at {PurePath(hook.filename).name}, line {hook.lineno}"
    return None


def _addresses(manifest: Manifest, names: frozenset[str]) -> Iterator[str]:
    for section in manifest.sections.values():
        yield from (address(section, file.name) for file in section.files() if file.name in names)
    yield from (manifest.base_url + file.name for file in manifest.extras if file.name in names)
