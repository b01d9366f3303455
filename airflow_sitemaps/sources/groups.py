"""Alternates from a grouping column: rows of one group and their languages are each other's versions.

The database adds a column to the relation that holds the language and the parts of the ``loc`` of every member of a
row's group. It is one of the emitted columns, and so part of the row hash: when one member's URL or language changes,
when one joins or leaves, the ranges of all members are dirty. The URLs are put together here, as those of rows are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.protocol.alternates import from_group
from airflow_sitemaps.protocol.languages import hreflang_fault
from airflow_sitemaps.sources.relation import Relation

if TYPE_CHECKING:
    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.location import Location
    from airflow_sitemaps.sources.statement import Binds

COLUMN: Final = "sitemap_alternates"
"""The column that is added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouped(Relation):
    """A relation with the members of each row's group, a JSON array of ``[language, loc parts …]``, beside it.

    Rows without a key, a group, a language or a whole ``loc`` are in no group: they have NULL there.
    """

    base: Relation
    group: Column
    language: Column
    loc: tuple[Column, ...]
    key: tuple[Column, ...]

    def from_item(self, dialect: Dialect) -> str:
        """As ``Relation`` does; the base is asked twice, so a dear query is best materialised."""
        base = self.base.from_item(dialect)
        needed = dict.fromkeys(dialect.column(column) for column in (*self.key, self.group, self.language, *self.loc))
        whole = " AND ".join(f"{column} IS NOT NULL" for column in needed)
        members = dialect.members(self.group, (self.language, *self.loc), base, whole)
        return (
            f"(SELECT src.*, sitemap_members.members AS {dialect.quote(COLUMN)} FROM {base} "
            f"LEFT JOIN ({members}) sitemap_members "
            f"ON {dialect.column(self.group)} = sitemap_members.member_of AND {whole}) src"
        )

    def binds(self) -> Binds:
        """The base's."""
        return self.base.binds()


def alternates(members: pa.Array, locs: pa.Array, location: Location) -> pa.Array:
    """The ``alternates`` column: from the column ``COLUMN`` and the rows' own URLs.

    As ``{"group": [...]}``: whoever writes the rows leaves out the members that the rules of URLs drop.
    NULL for a row that is alone in its group, for one that another row of its language goes before, and for one whose
    language is none: the others do not name it, and a pair that is not mutual is ignored.

    Raises:
        SourceError: what the database gave is no whole JSON.
    """
    distinct = members.unique().drop_null()
    groups = [_read(text) for text in distinct.to_pylist()]
    parts = [list(part) for part in zip(*(member for group in groups for member in group), strict=True)]
    if not parts:
        return pa.nulls(len(members), pa.string())
    texts = [pa.array(part, pa.string()) for part in parts[1:]]
    urls = iter(location.expand(dict(zip(location.columns, texts, strict=True))).to_pylist())
    found: dict[str, tuple[frozenset[str], str]] = {}
    for text, group in zip(distinct.to_pylist(), groups, strict=True):
        listed = from_group([(next(urls), language) for language, *_ in group])
        found[text] = _named(listed), f'{{"group": {listed}}}'
    rows = zip(members.to_pylist(), locs.to_pylist(), strict=True)
    return pa.array(
        [found[text][1] if text is not None and loc in found[text][0] else None for text, loc in rows], pa.string()
    )


def _named(listed: str) -> frozenset[str]:
    """The URLs that stand in a list once it is rendered, none where there is but one."""
    by_language: dict[str, str] = {}
    for each in json.loads(listed):
        language = each["hreflang"].strip().replace("_", "-").lower()
        if hreflang_fault(language) is None:
            by_language.setdefault(language, each["href"])
    return frozenset(by_language.values()) if len(by_language) > 1 else frozenset()


def _read(text: str) -> list[list[str]]:
    try:
        group: list[list[str]] = json.loads(text)
    except ValueError as error:
        raise SourceError(
            f"the members of a group cannot be read ({error}): the database cut them off after {len(text):,} "
            "characters. A group holds the versions of one page; look at the column given as group="
        ) from error
    return group
