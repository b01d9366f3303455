"""Adopt another program's sitemap: write this one in private, compare both, and publish this one on request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.publish.commit_files import index_names
from airflow_sitemaps.pipeline.publish.public_files import foreign_content
from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK, RunRequest
from airflow_sitemaps.pipeline.stages import plan, publish, write
from airflow_sitemaps.pipeline.state.identity import check_owner
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.ports import QUIET, Clock, Progress, Store

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.sitemap import Sitemap

SAMPLES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Difference in URLs, in alphabetical order, between another program's published sitemap and this one.

    ``unread`` are files of the other sitemap whose URLs cannot be counted, each with the reason.
    """

    theirs: int
    ours: int
    only_theirs: int
    only_ours: int
    only_theirs_samples: tuple[str, ...]
    only_ours_samples: tuple[str, ...]
    unread: tuple[str, ...]
    left: tuple[str, ...] = field(default=(), repr=False)
    new: tuple[str, ...] = field(default=(), repr=False)
    report: Report | None = None

    def difference(self) -> Iterator[str]:
        """Yield a line for every URL that differs: ``-`` and a removed URL, then ``+`` and an added one."""
        yield from (f"-{url}" for url in self.left)
        yield from (f"+{url}" for url in self.new)


def adopt(
    sitemap: Sitemap,
    *,
    yes: bool = False,
    allow: Sequence[str] = (),
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = QUIET,
) -> Adoption:
    """Compare another program's sitemap with this one, and replace it on request.

    Without ``yes``, nothing public changes: this sitemap's files are written in private, compared, and later swept. The
    other sitemap's files stay readable for the grace.

    Args:
        yes: Whether to publish this sitemap in place of the other. Default: False.
        allow: Permits for guards, such as ``shrink:products``. Default: none.

    Returns:
        The difference, and the report if the sitemap was published.

    Raises:
        ConfigurationError: There is nothing to adopt.
        GuardError: Too many URLs of the other sitemap would no longer be listed; see the guard ``adopt``.
    """
    store = sitemap.store.open()
    names = (store.index_name, *index_names(sitemap))
    if (manifest := StateRepository(store.state).manifest()) is not None:
        check_owner(sitemap, manifest)
    if manifest is not None or not any(map(store.public.head, names)):
        raise ConfigurationError(
            f"{sitemap.store.describe()}: there is no foreign index {store.index_name!r} to adopt; use build, or "
            "build(sitemap, adopt=True) if another pipeline replaced this one's files"
        )
    planned = plan(sitemap, RunRequest(adopt=True, allow=tuple(allow)), clock=clock, progress=progress)
    receipts = [
        write(sitemap, planned.key, batch.number, clock=clock, progress=progress).receipt_key
        for batch in planned.batches
    ]
    content = compare(sitemap, store, planned.adopted, receipts)
    if not yes:
        return content
    return replace(content, report=publish(sitemap, planned.key, receipts, clock=clock, progress=progress))


def compare(sitemap: Sitemap, store: Store, adopted: Sequence[str], receipt_keys: Sequence[str]) -> Adoption:
    """Compare the URLs of the other sitemap with those of the bodies that receipts name."""
    state = StateRepository(store.state)
    receipts = [state.read_receipt(key) for key in receipt_keys]
    bodies = [
        p.body for receipt in receipts for pieces in receipt.pieces.values() for p in pieces if p.body is not None
    ]
    content = foreign_content(sitemap, store, adopted, bodies)
    left, new = sorted(content.theirs - content.ours), sorted(content.ours - content.theirs)
    return Adoption(
        theirs=len(content.theirs),
        ours=len(content.ours),
        only_theirs=len(left),
        only_ours=len(new),
        only_theirs_samples=tuple(left[:SAMPLES]),
        only_ours_samples=tuple(new[:SAMPLES]),
        unread=content.unread,
        left=tuple(left),
        new=tuple(new),
    )
