"""Digests of whole tables, in a form that Airflow stores with a trigger."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.shards.digest import total
from airflow_sitemaps.shards.key import KeyRange
from airflow_sitemaps.sources.sql import SqlSource

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Section, Sitemap

log = logging.getLogger(__name__)

EVERYTHING = KeyRange(None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDigest:
    """The published digest of a section's table.

    Rows that only exchange their keys give the same digest: the same URLs stay listed.

    Attributes:
        section: The section's name.
        source: The settings of its ``SqlSource``, as JSON can hold them.
        kind: Kind of the digest, or None if the section is not published.
        rows: Number of rows with a key.
        checksum: Sum of the rows' hashes, as 16 hexadecimal digits.
    """

    section: str
    source: Mapping[str, Any]
    kind: str | None
    rows: int
    checksum: str

    def poll(self, version: str | None) -> tuple[str | None, str]:
        """Compare the table with the published digest. The table is not read while its version is the given one.

        Args:
            version: The version that the table had when it was last found to be as published, or None.

        Returns:
            The table's version, or None if the database has no exact one; and how the table differs from what is
            published, or the empty text.

        Raises:
            SourceConfigurationError: The connection, table or column does not exist.
            SourceError: The database cannot be reached.
        """
        from airflow_sitemaps.sources.session_factory import opened

        with opened(SqlSource.restored(self.source), self.section) as session:
            present = session.table_version()
            if present is not None and present == version:
                return present, ""
            digest = session.survey([EVERYTHING]).digests[0]
            kind = session.digest_kind
        now = (kind if self.kind is not None else None, digest.rows, f"{digest.checksum:016x}")
        if now == (self.kind, self.rows, self.checksum):
            return present, ""
        return present, (
            f"section {self.section!r}: {digest.rows:,} rows with checksum {now[2]}; "
            f"published are {self.rows:,} with {self.checksum}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return asdict(self)


def in_worker(sitemap: Sitemap, sections: Collection[str]) -> str:
    """Return why the triggerer cannot compare the tables of these sections, or the empty text if it can.

    Args:
        sitemap: The sitemap, with rendered sources.
        sections: Names of the sections; empty means all.
    """
    for section in _selected(sitemap, sections):
        source = section.source
        if not isinstance(source, SqlSource):
            return f"section {section.name!r} has no SqlSource"
        if source.materialize is not None:
            return f"section {section.name!r} stores its query's rows (materialize=)"
        if source.change_log is not None:
            return f"section {section.name!r} has a change log (change_log=)"
        if (how := sitemap.change_detection_of(section)) != "digest":
            return f"section {section.name!r} has change_detection={how!r}"
        if not _is_json(source.resolved()):
            return f"a parameter of section {section.name!r} is neither text, number, boolean nor None"
    return ""


def published(sitemap: Sitemap, sections: Collection[str]) -> tuple[list[TableDigest], datetime | None]:
    """Return the published digest of each section's table, and when the files change without the tables.

    Args:
        sitemap: The sitemap, with rendered sources for which ``in_worker`` returns the empty text.
        sections: Names of the sections; empty means all.

    Returns:
        The digests, and the first time at which a published row is rendered differently or an extra file changes. None:
        there is no such time.
    """
    root = StateRepository(sitemap.store.open().state).root()
    manifest = root.manifest if root is not None else None
    selected = _selected(sitemap, sections)
    moments = [manifest.recheck_at] if manifest is not None else []
    if manifest is not None:
        states = (manifest.sections.get(section.name) for section in selected)
        moments += [shard.recheck_at for state in states if state is not None for shard in state.shards]
    return [_digest(section, manifest) for section in selected], min(
        (m for m in moments if m is not None), default=None
    )


def _selected(sitemap: Sitemap, sections: Collection[str]) -> list[Section]:
    return [section for section in sitemap.sections if not sections or section.name in sections]


def _digest(section: Section, manifest: Manifest | None) -> TableDigest:
    state = manifest.sections.get(section.name) if manifest is not None else None
    whole = total(shard.digest for shard in (state.shards if state is not None else ()))
    assert isinstance(section.source, SqlSource)
    return TableDigest(
        section=section.name,
        source=section.source.resolved(),
        kind=state.digest_kind if state is not None else None,
        rows=whole.rows,
        checksum=f"{whole.checksum:016x}",
    )


def _is_json(settings: Mapping[str, Any]) -> bool:
    try:
        return bool(json.loads(json.dumps(settings, allow_nan=False)) == settings)
    except (TypeError, ValueError):
        return False
