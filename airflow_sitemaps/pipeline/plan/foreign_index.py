"""Files of a sitemap that another program wrote: which its index lists, and which a run may take over."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import OwnershipError
from airflow_sitemaps.pipeline.publish.commit_input import index_names
from airflow_sitemaps.pipeline.publish.foreign_content import children
from airflow_sitemaps.pipeline.state.ownership import check_stamp, is_of_another

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from airflow_sitemaps.ports import ObjectInfo, Store
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Sitemap

EXAMINED_SHARDS: Final = 20
"""Maximum number of changed shards whose stamp a plan reads.

A few are enough: a pipeline that overwrites another's shards replaces its index too.
"""


def adopted_names(sitemap: Sitemap, store: Store, manifest: Manifest | None, *, adopt: bool) -> tuple[str, ...]:
    """Return the names of public files that this run may take over.

    Args:
        adopt: Whether the run was started to take over the files of another program or pipeline.

    Returns:
        The names; empty if the address is free or belongs to this pipeline.

    Raises:
        OwnershipError: The index belongs to another program, and the run was not started with ``adopt``.
    """
    if manifest is not None:
        return tuple(_of_others(store, manifest)) if adopt else ()
    extras = sitemap.extra_names
    names = dict.fromkeys((store.index_name, *index_names(sitemap), *sorted(extras)))
    infos = {name: store.public.head(name) for name in names}
    present = {name: info for name, info in infos.items() if info is not None}
    if not adopt:
        _refuse(store, present, extras)
        return ()
    listed = [child for name in present if name not in extras for child in children(sitemap, store, name)]
    return tuple(dict.fromkeys((*present, *listed)))


def _refuse(store: Store, present: Mapping[str, ObjectInfo], extras: Collection[str]) -> None:
    """Refuse to publish over objects of another pipeline, and over an index of an unknown program."""
    for name, info in present.items():
        check_stamp(store.public.url(name), info, None)
    for name in present:
        if name not in extras:
            raise OwnershipError(
                f"{store.public.url(name)} exists, but no manifest of this sitemap names it: another program wrote it. "
                "Nothing was changed. To compare and replace it, run `airflow-sitemaps adopt`; or give "
                "this sitemap another address."
            )


def check_stamps(store: Store, manifest: Manifest, listing: Mapping[str, ObjectInfo]) -> None:
    """Refuse to plan if another pipeline replaced public files of this one.

    The check covers all indexes and extra files, and the first changed shards. The promotion checks each file that it
    replaces.

    Raises:
        OwnershipError: Another pipeline stamped one of them.
    """
    for name in _changed(manifest, listing):
        info = store.public.head(name)
        if info is not None:
            check_stamp(store.public.url(name), info, manifest)


def _of_others(store: Store, manifest: Manifest) -> Iterator[str]:
    listing = {info.key: info for info in store.public.list()}
    for name in _changed(manifest, listing):
        info = store.public.head(name)
        if info is not None and is_of_another(info, manifest):
            yield name


def _changed(manifest: Manifest, listing: Mapping[str, ObjectInfo]) -> Iterator[str]:
    """Yield the names of indexes, extra files and a few shards whose object is not the promoted one."""
    shards = (file for section in manifest.sections.values() for file in section.files())
    changed = (file.name for file in shards if file.name in listing and listing[file.name].etag != file.etag)
    yield from islice(changed, EXAMINED_SHARDS)
    besides = (*manifest.indexes, *manifest.extras)
    for beside in besides:
        if beside.name in listing and listing[beside.name].etag != beside.etag:
            yield beside.name
