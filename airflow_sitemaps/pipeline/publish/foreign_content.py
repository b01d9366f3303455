"""Compare the URLs of another program's sitemap with the URLs of the run that adopts it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import StoreContentError
from airflow_sitemaps.shards.guards import check_adoption, permitted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.pipeline.state.repository import StateRepository
    from airflow_sitemaps.ports import Store
    from airflow_sitemaps.shards.guards import Guards, Refusal
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


def foreign_content(
    store: Store, state: StateRepository, names: Sequence[str], receipt_keys: Sequence[str]
) -> ForeignContent:
    """Read the files of another program's sitemap and the bodies that receipts name.

    Args:
        store: The opened store.
        state: The private area.
        names: Public names of the other sitemap's files. An index lists no page.
        receipt_keys: Keys of the receipts.

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
    ours = frozenset(loc for key in receipt_keys for loc in _staged(state, key))
    return ForeignContent(theirs=frozenset(theirs), ours=ours, unread=tuple(unread))


def judge_adoption(
    guards: Guards, store: Store, state: StateRepository, plan: Plan, receipt_keys: Sequence[str]
) -> tuple[Refusal, ...]:
    """Return the guards' refusals for a first publication that replaces another program's sitemap.

    Args:
        guards: The sitemap's guards.
        store: The opened store.
        state: The private area.
        plan: The plan of the run.
        receipt_keys: Keys of the run's receipts.
    """
    if not plan.adopted or plan.base_generation or guards.max_shrink >= 1:
        return ()
    content = foreign_content(store, state, plan.adopted, receipt_keys)
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


def _staged(state: StateRepository, receipt_key: str) -> Iterator[str]:
    from airflow_sitemaps.protocol.validation.reader import read  # noqa: PLC0415

    for pieces in state.read_receipt(receipt_key).pieces.values():
        for piece in pieces:
            if piece.body is None:
                continue
            content = state.objects.get(piece.body)
            if content is None:
                raise StoreContentError(f"{state.objects.url(piece.body)} is missing; run adopt again")
            yield from (entry.loc for entry in read(content.body).entries)
