"""The input of a commit in addition to the manifest, the plan and the receipts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow_sitemaps.shards.index_layout import IndexSettings
    from airflow_sitemaps.shards.shard_names import Format


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionFacts:
    """The part of a section's configuration that determines its file names and addresses.

    Attributes:
        path: Folder of its files below the sitemap's folder.
        base_url: Address of that folder, ending in ``/``.
        format: Format of its files: ``xml`` or ``text``.
    """

    path: str
    base_url: str
    format: Format


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """The input of the reducer in addition to manifest, plan and receipts.

    Attributes:
        owner: Owner of the sitemap.
        sections: Configuration of the sections by name, in the order of the index.
        index: Settings of the indexes.
        history: Number of generations kept for rollback.
        now: Time of the commit.
        write_id: Identifier of this write of the manifest.
        index_etags: Etags of the objects that now have the names of drifted or unknown index files; None for a name
            without an object. Default: none.
        extras: Names of the configured extra files. Default: none.
        adopted: Public names of another program's sitemap that this run takes over. Default: none.
        state_id: Identifier of the state area. Default: None.
    """

    owner: str
    sections: Mapping[str, SectionFacts]
    index: IndexSettings
    history: int
    now: datetime
    write_id: str
    index_etags: Mapping[str, str | None] = field(default_factory=dict)
    extras: tuple[str, ...] = ()
    adopted: tuple[str, ...] = ()
    state_id: str | None = None
