"""Compare the URLs of another program's sitemap with the URLs of the generation that replaces it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import StoreContentError
from airflow_sitemaps.shards.guards import check_adoption, permitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from airflow_sitemaps.ports import Store
    from airflow_sitemaps.shards.guards import Guards, Refusal
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.shards.plan import Plan

MAX_FILE_BYTES: Final = 64 << 20
"""Maximum size of a foreign file that is read, in bytes: a sitemap has at most 50 MiB (sitemaps.org)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignContent:
    """The URLs of both sitemaps.

    Attributes:
        theirs: URLs of the other program's sitemap.
        ours: URLs of this sitemap.
        unread: Files of the other sitemap that are not in the public area or cannot be read.
    """

    theirs: frozenset[str]
    ours: frozenset[str]
    unread: tuple[str, ...]


def foreign_content(store: Store, names: Sequence[str], bodies: Iterable[str]) -> ForeignContent:
    """Read the files of another program's sitemap and the private bodies of this one.

    Args:
        store: The opened store.
        names: Public names of the other sitemap's files. An index lists no page.
        bodies: Keys of the bodies.

    Raises:
        StoreContentError: A body is missing.
    """
    theirs: set[str] = set()
    unread: list[str] = []
    for name in names:
        locs = _locs(store, name)
        if locs is None:
            unread.append(name)
        else:
            theirs |= locs
    ours = frozenset(loc for key in bodies for loc in _staged(store, key))
    return ForeignContent(theirs=frozenset(theirs), ours=ours, unread=tuple(unread))


def judge_adoption(guards: Guards, store: Store, plan: Plan, manifest: Manifest) -> tuple[Refusal, ...]:
    """Return the guards' refusals for a first publication that replaces another program's sitemap.

    Args:
        guards: The sitemap's guards.
        store: The opened store.
        plan: The plan of the run.
        manifest: The manifest to commit. URLs of sections that it omits are lost.
    """
    if not plan.adopted or plan.base_generation or guards.max_shrink >= 1:
        return ()
    bodies = [file.body for section in manifest.sections.values() for file in section.files()]
    content = foreign_content(store, plan.adopted, bodies)
    gone = len(content.theirs - content.ours)
    return permitted(check_adoption(guards, theirs=len(content.theirs), only_theirs=gone), plan.allow)[0]


def _locs(store: Store, name: str) -> set[str] | None:
    """Return the page URLs of a public file, or None if the file cannot be read. An index lists no pages."""
    from airflow_sitemaps.protocol.validation.reader import read  # noqa: PLC0415

    info = store.public.head(name)
    if info is None or info.byte_size > MAX_FILE_BYTES:
        return None
    content = store.public.get(name)
    if content is None:
        return None
    urlset = read(content.body)
    if urlset.kind == "unknown":
        return None
    return set() if urlset.kind == "sitemapindex" else {entry.loc for entry in urlset.entries}


def _staged(store: Store, body: str) -> Iterator[str]:
    from airflow_sitemaps.protocol.validation.reader import read  # noqa: PLC0415

    content = store.state.get(body)
    if content is None:
        raise StoreContentError(f"{store.state.url(body)} is missing; run adopt again")
    yield from (entry.loc for entry in read(content.body).entries)
