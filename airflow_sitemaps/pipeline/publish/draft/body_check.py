"""Check before a commit that the bodies of its new files are in the state area."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import IncompleteError
from airflow_sitemaps.pipeline.concurrency import mapped

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.ports import ObjectInfo, Store
    from airflow_sitemaps.shards.manifest import Manifest

FEW: Final = 8
"""Maximum number of bodies that are checked one by one; for more, the folder is listed."""


def check_bodies(store: Store, old: Manifest | None, new: Manifest) -> Mapping[str, ObjectInfo]:
    """Check that every body that a generation newly needs exists and is complete.

    Args:
        old: The last manifest, whose bodies are not checked again, or None.

    Returns:
        The info of each checked body by key. It may hold more bodies of the same folders.

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
