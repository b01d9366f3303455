"""Alternates from a grouping column: the rows of one group are each other's versions in other languages.

The database adds a column with the language and the parts of the ``loc`` of every member of a row's group. As an
emitted column it is part of the row hash: if a member's URL or language changes, or a member joins or leaves, the
ranges of all members are dirty. This module builds the members' URLs as those of rows.

Zero and the empty text form no group, because tables use them for rows without one. A group of more than
``MAX_MEMBERS`` rows most likely comes from the wrong column, a text of more than ``MAX_CHARACTERS`` holds something
else than URLs. Such rows are listed without alternates, so that memory and file sizes stay linear. The rule
``alternate`` counts these cases.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.protocol.extensions.languages import alternates_of_group, hreflang_fault
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.queries.relation import Relation

if TYPE_CHECKING:
    from airflow_sitemaps.sources.dialects.value_sql import ValueSql
    from airflow_sitemaps.sources.driver import Binds
    from airflow_sitemaps.sources.row_values import LocMapping

COLUMN: Final = "sitemap_alternates"
MAX_MEMBERS: Final = 500
"""The largest number of versions of a page: no site uses more of Google's about 200 languages and as many regions."""
MAX_CHARACTERS: Final = 250_000
"""The largest number of characters of a group: 500 URLs of 500 characters. Each row of the group repeats them."""
EMPTY: Final = "#empty"
"""The column's value for a row whose group is zero or the empty text."""
LARGE: Final = "#large"
"""The column's value for a row whose group has more than ``MAX_MEMBERS`` members, or ``MAX_CHARACTERS``."""
FAULTS: Final = {
    EMPTY: "the group is zero or the empty text, which form no group",
    LARGE: (
        f"more than {MAX_MEMBERS} rows share this group, or their URLs have more than {MAX_CHARACTERS:,} characters; "
        "check the column given as group="
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedRelation(Relation):
    """A relation with an added column of the members of each row's group.

    The column is a JSON array of ``[language, loc parts …]``, or NULL if a row's key, group, language or a column of
    its ``loc`` is NULL.
    """

    base: Relation
    group: Column
    language: Column
    loc: tuple[Column, ...]
    key: tuple[Column, ...]

    def from_item(self, sql: ValueSql) -> str:
        """Write the relation for ``FROM``. The base is read twice, so materialize an expensive query."""
        base = self.base.from_item(sql)
        needed = dict.fromkeys(sql.column(column) for column in (*self.key, self.group, self.language, *self.loc))
        whole = " AND ".join(f"{column} IS NOT NULL" for column in needed)
        empty = self._is_empty(sql)
        grouped = f"{whole} AND NOT ({empty})"
        members = sql.members(self.group, (self.language, *self.loc), base, grouped, MAX_MEMBERS)
        too_long = f"{sql.character_length_sql.format('sitemap_members.members')} > {MAX_CHARACTERS:d}"
        return (
            f"(SELECT src.*, CASE WHEN {whole} AND {empty} THEN '{EMPTY}' WHEN {too_long} THEN '{LARGE}'"
            " ELSE sitemap_members.members END"
            f" AS {sql.quote(COLUMN)} FROM {base} LEFT JOIN ({members}) sitemap_members"
            f" ON {sql.column(self.group)} = sitemap_members.member_of AND {whole}) src"
        )

    def _is_empty(self, sql: ValueSql) -> str:
        if self.group.kind in (Kind.INTEGER, Kind.NUMBER):
            return f"{sql.column(self.group)} = 0"
        if self.group.kind in (Kind.TEXT, Kind.OTHER, Kind.JSON):
            return f"TRIM({sql.emit_text(self.group)}) IN ('', '0')"
        return "1 = 0"

    def binds(self) -> Binds:
        """Return the base's binds."""
        return self.base.binds()


def alternates(members: pa.Array, locs: pa.Array, location: LocMapping) -> pa.Array:
    """Build the ``alternates`` column: a JSON text or NULL for each row.

    ``{"group": [...]}`` lists the alternates, and the writer omits members that the URL rules drop. NULL: the group has
    one row, or an earlier row has the same language. ``{"group": [], "fault": …}`` must be counted: the group is empty
    or too large, or the row's language is invalid. Other rows then do not list it: search engines ignore pairs that are
    not mutual. ``SourceError`` is raised if the database returned JSON that is cut off.
    """
    distinct = members.unique().drop_null().to_pylist()
    groups = {text: _Group(_read(text)) for text in distinct if text not in FAULTS}
    parts = [
        list(part) for part in zip(*(member for group in groups.values() for member in group.members), strict=True)
    ]
    texts = [pa.array(part, pa.string()) for part in parts[1:]]
    urls = iter(location.expand(dict(zip(location.columns, texts, strict=True))).to_pylist() if parts else ())
    for group in groups.values():
        group.list_members(urls)
    rows = zip(members.to_pylist(), locs.to_pylist(), strict=True)
    return pa.array([_row_value(text, loc, groups) for text, loc in rows], pa.string())


def _row_value(text: str | None, loc: str | None, groups: dict[str, _Group]) -> str | None:
    if text is None:
        return None
    if text in FAULTS:
        return _fault(FAULTS[text])
    return groups[text].value_for(loc)


def _fault(reason: str) -> str:
    return json.dumps({"group": [], "fault": reason}, ensure_ascii=False)


class _Group:
    """The members of one group, and the values of their rows."""

    def __init__(self, members: list[list[str]]) -> None:
        self.members = members
        self._json = ""
        self._named: frozenset[str] = frozenset()
        self._unusable: dict[str, str] = {}

    def list_members(self, urls: Iterator[str | None]) -> None:
        pairs: list[tuple[Any, str]] = [(next(urls), language) for language, *_parts in self.members]
        listed = alternates_of_group(pairs)
        self._json = f'{{"group": {listed}}}'
        by_language: dict[str, str] = {}
        for each in json.loads(listed):
            language = each["hreflang"].strip().replace("_", "-").lower()
            fault = hreflang_fault(language)
            if fault is None:
                by_language.setdefault(language, each["href"])
        self._named = frozenset(by_language.values()) if len(by_language) > 1 else frozenset()
        if len(pairs) > 1:
            self._unusable = {
                url: f"hreflang {language!r} {fault}"
                for url, language in pairs
                if (fault := hreflang_fault(language.strip().replace("_", "-").lower())) is not None
            }

    def value_for(self, loc: str | None) -> str | None:
        if loc in self._named:
            return self._json
        return _fault(self._unusable[loc]) if loc is not None and loc in self._unusable else None


def _read(text: str) -> list[list[str]]:
    try:
        # A byte that is not UTF-8 is marked by a control character, which strict JSON does not hold.
        members: list[list[str]] = json.loads(text, strict=False)
    except ValueError as error:
        raise SourceError(
            f"the members of a group cannot be read ({error}): the database truncated them after {len(text):,} "
            "characters. A group holds the versions of one page; check the column given as group="
        ) from error
    return members
