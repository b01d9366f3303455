"""Take over a sitemap that something else wrote: what it lists, and how that differs from what we would write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import StoreContentError
from airflow_sitemaps.shards.shapes import relative_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.pipeline.state import State
    from airflow_sitemaps.ports import Store

SAMPLES: Final = 20

CHILD_SUFFIXES: Final = (".xml", ".xml.gz", ".txt", ".txt.gz", ".rss", ".atom")

MAX_NAME_BYTES: Final = 800
"""Longest name of a child, so that it is a key of any store, its prefix included."""

MAX_FILE_BYTES: Final = 64 << 20
"""Larger files of theirs are not read: a sitemap has at most 50 MiB, compressed or not (sitemaps.org)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """The difference in URLs between the sitemap that is there and ours, and the report once ours is published.

    ``only_theirs`` would leave the sitemap, ``only_ours`` would be new; samples are in alphabetical order.
    ``unread``: files of theirs that are not in the public area or cannot be read.
    """

    theirs: int
    ours: int
    only_theirs: int
    only_ours: int
    only_theirs_samples: tuple[str, ...]
    only_ours_samples: tuple[str, ...]
    unread: tuple[str, ...]
    report: Report | None = None


def children(store: Store) -> tuple[str, ...]:
    """Public names of the files that the index at our address lists, those that are in the public area."""
    return tuple(name for name in _listed(store) if store.public.head(name) is not None)


def compare(store: Store, state: State, receipt_keys: Sequence[str]) -> Adoption:
    """Their URLs against those of the bodies that receipts name."""
    theirs: set[str] = set()
    unread: list[str] = []
    for name in (store.index_name, *_listed(store)):
        locs = _locs(store, name)
        if locs is None:
            unread.append(name)
        else:
            theirs |= locs
    ours = {loc for key in receipt_keys for loc in _staged(state, key)}
    left, new = sorted(theirs - ours), sorted(ours - theirs)
    return Adoption(
        theirs=len(theirs),
        ours=len(ours),
        only_theirs=len(left),
        only_ours=len(new),
        only_theirs_samples=tuple(left[:SAMPLES]),
        only_ours_samples=tuple(new[:SAMPLES]),
        unread=tuple(unread),
    )


def _listed(store: Store) -> tuple[str, ...]:
    """Names of an index's children that lie at or below its own address."""
    from airflow_sitemaps.protocol.reading import read  # noqa: PLC0415 - lxml is loaded where it is needed

    info = store.public.head(store.index_name)
    found = store.public.get(store.index_name) if info is not None and info.byte_size <= MAX_FILE_BYTES else None
    if found is None:
        return ()
    index = read(found.body)
    if index.kind != "sitemapindex":
        return ()
    names = (e.loc.removeprefix(store.base_url) for e in index.entries if e.loc.startswith(store.base_url))
    return tuple(dict.fromkeys(name for name in names if _is_child(name)))


def _is_child(name: str) -> bool:
    """Whether a name that their index tells may be taken over: once adopted it is swept after the grace.

    An index could name anything in the public area; what does not look like a sitemap is left alone.
    """
    looks = name.endswith(CHILD_SUFFIXES) and name.rpartition("/")[2] != "robots.txt"
    return (
        looks
        and ".." not in name
        and relative_path(name)
        and len(name.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES
    )


def _locs(store: Store, name: str) -> set[str] | None:
    """The page URLs of a public file; None where it cannot be read. An index lists none."""
    from airflow_sitemaps.protocol.reading import read  # noqa: PLC0415

    info = store.public.head(name)
    if info is None or info.byte_size > MAX_FILE_BYTES:
        return None
    found = store.public.get(name)
    if found is None:
        return None
    urlset = read(found.body)
    if urlset.kind == "unknown":
        return None
    return set() if urlset.kind == "sitemapindex" else {entry.loc for entry in urlset.entries}


def _staged(state: State, receipt_key: str) -> Iterator[str]:
    from airflow_sitemaps.protocol.reading import read  # noqa: PLC0415

    for pieces in state.read_receipt(receipt_key).pieces.values():
        for piece in pieces:
            if piece.body is None:
                continue
            found = state.objects.get(piece.body)
            if found is None:
                raise StoreContentError(f"{state.objects.url(piece.body)} is gone; run adopt again")
            yield from (entry.loc for entry in read(found.body).entries)
