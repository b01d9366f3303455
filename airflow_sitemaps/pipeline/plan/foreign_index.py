"""Files of a sitemap that another program wrote: which its index lists, and which a run may take over."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import OwnershipError
from airflow_sitemaps.pipeline.publish.foreign_content import MAX_FILE_BYTES
from airflow_sitemaps.pipeline.state.ownership import check_stamp, is_of_another
from airflow_sitemaps.shards.schema import is_relative_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_sitemaps.ports import ObjectInfo, Store
    from airflow_sitemaps.shards.manifest import IndexFile, Manifest, PublicFile

EXAMINED_SHARDS: Final = 20
"""Maximum number of changed shards whose stamp a plan reads.

A few are enough: a pipeline that overwrites another's shards replaces its index too.
"""

CHILD_SUFFIXES: Final = (".xml", ".xml.gz", ".txt", ".txt.gz", ".rss", ".atom")

MAX_NAME_BYTES: Final = 800
"""Maximum length of a child's name, in bytes, so that with its prefix it is a valid key in any store."""


def adopted_names(
    store: Store, manifest: Manifest | None, *, indexes: Sequence[str], extras: Sequence[str], adopt: bool
) -> tuple[str, ...]:
    """Return the names of public files that this run may take over.

    Args:
        store: The opened store.
        manifest: This pipeline's manifest, or None before its first commit.
        indexes: Names of the indexes that this sitemap may have.
        extras: Names of its recent entries, feeds and stylesheet.
        adopt: Whether the run was started to take over the files of another program or pipeline.

    Returns:
        The names; empty if the address is free or belongs to this pipeline.

    Raises:
        OwnershipError: The index belongs to another program, and the run was not started with ``adopt``.
    """
    if manifest is not None:
        return tuple(_of_others(store, manifest)) if adopt else ()
    infos = {name: store.public.head(name) for name in dict.fromkeys((store.index_name, *indexes, *extras))}
    present = {name: info for name, info in infos.items() if info is not None}
    if not adopt:
        _refuse(store, present, extras)
        return ()
    names = [child for name in present if name not in extras for child in children(store, name)]
    return tuple(dict.fromkeys((*present, *names)))


def _refuse(store: Store, present: Mapping[str, ObjectInfo], extras: Sequence[str]) -> None:
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

    Args:
        store: The opened store.
        manifest: This pipeline's manifest.
        listing: The public objects by name.

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
    besides: tuple[IndexFile | PublicFile, ...] = (*manifest.indexes, *manifest.extras)
    for beside in besides:
        if beside.name in listing and listing[beside.name].etag != beside.etag:
            yield beside.name


def children(store: Store, index: str | None = None) -> tuple[str, ...]:
    """Return the names of the files in the public area that an index lists.

    Args:
        store: The opened store.
        index: Name of the index. Default: the sitemap's own.
    """
    return tuple(name for name in listed(store, index) if store.public.head(name) is not None)


def listed(store: Store, index: str | None = None) -> tuple[str, ...]:
    """Return the names of an index's children at or below its own address.

    Args:
        store: The opened store.
        index: Name of the index. Default: the sitemap's own.
    """
    from airflow_sitemaps.protocol.validation.reader import read  # noqa: PLC0415 - lxml is loaded where it is needed

    name = index or store.index_name
    info = store.public.head(name)
    content = store.public.get(name) if info is not None and info.byte_size <= MAX_FILE_BYTES else None
    if content is None:
        return ()
    document = read(content.body)
    if document.kind != "sitemapindex":
        return ()
    names = (e.loc.removeprefix(store.base_url) for e in document.entries if e.loc.startswith(store.base_url))
    return tuple(dict.fromkeys(name for name in names if _is_child(name)))


def _is_child(name: str) -> bool:
    """Return whether a run may take over a name from a foreign index; the run later sweeps it, after the grace.

    An index can name any public file. A run takes over only names that look like a sitemap.
    """
    looks = name.endswith(CHILD_SUFFIXES) and name.rpartition("/")[2] != "robots.txt"
    return (
        looks
        and ".." not in name
        and is_relative_path(name)
        and len(name.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES
    )
