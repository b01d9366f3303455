"""SQL of the queries over the rows that a source reads: a table or a query, with the user's condition, parameters and groups."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.protocol.extensions.languages import alternates_of_group, hreflang_fault
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.driver import PLACEHOLDER, Binds, guarded
from airflow_sitemaps.sources.row_values import urls_of
from airflow_sitemaps.sources.user_texts import loc_columns, name_parts

if TYPE_CHECKING:
    from airflow_sitemaps.sources.dialects.value_sql import ValueSql


OTHERS: Final = r"""|"(?:[^"]|"")*"|`[^`]*`|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/|;|['"]"""
ESCAPING: Final = r"'(?:[^'\\]|\\.|'')*'"
QUOTES: Final = tuple(
    re.compile(text + OTHERS, re.DOTALL) for text in (r"'(?:[^']|'')*'", ESCAPING, rf"{ESCAPING}|\#[^\n]*")
)
"""Texts, names and comments, in which a semicolon ends nothing. In MySQL a backslash escapes a quote, and # begins a comment."""
NOTHING: Final = re.compile(r"(?:[\s;]|(?:--|\#)[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/)*")
ARRAY_BEFORE: Final = re.compile(r"\b(any|all|some|unnest)\s*\(\s*$", re.IGNORECASE)
"""The text before a list that the database reads as an array, not as the right side of ``IN``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table (in the form of ``name_parts``) or a query, with a condition on its rows. All texts are final SQL.

    ``as_of`` follows the table's name to read an earlier state of it. ``parameters`` are the values of ``:name`` in
    query and condition.
    """

    table: str | None = None
    query: str | None = None
    where: str | None = None
    as_of: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def from_item(self, sql: ValueSql) -> str:
        """Write the relation as ``… src``, for ``FROM``. The condition is inside it, so that no other names are visible to it."""
        if self.table is not None:
            rows = alone = sql.table_name(name_parts(self.table))
            if self.as_of:
                rows = f"{rows} {guarded(self.as_of)}"
                alone = f"(SELECT * FROM {rows})"
        else:
            # The line break ends a comment at the end of the query.
            alone = f"(\n{guarded((self.query or '').strip().rstrip(';'), self.parameters)}\n)"
            rows = f"{alone} query_rows"
        if self.where is None:
            return f"{alone} src"
        return f"(SELECT * FROM {rows} WHERE (\n{guarded(self.where, self.parameters)}\n)) src"

    def unknown_placeholders(self) -> list[str]:
        """Return the names in query and condition that look like placeholders and have no value, in order."""
        texts = (self.query or "", self.where or "")
        names = (match.group(1) for text in texts for match in PLACEHOLDER.finditer(text))
        return [name for name in dict.fromkeys(names) if name and not name[0].isdigit() and name not in self.parameters]

    def binds(self) -> Binds:
        """Return new binds that hold the user's values."""
        return Binds(dict(self.parameters))


def relation_of(table: str | None, query: str | None, where: str | None, parameters: Mapping[str, Any]) -> Relation:
    """Create a relation in which each list parameter becomes one parameter per value.

    ``:ids`` becomes ``(:ids_0, :ids_1)``. After ``ANY(`` and similar functions it becomes ``ARRAY[:ids_0, :ids_1]``.
    """
    query = None if query is None else one_statement(query, "query=")
    lists = {
        name: list(value) for name, value in parameters.items() if isinstance(value, (list, tuple, set, frozenset))
    }
    if empty := [name for name, values in lists.items() if not values]:
        raise SourceConfigurationError(
            f"parameters={{{empty[0]!r}: []}}: an empty list matches no row, and SQL cannot express it. Give at least "
            "one value, or omit the condition"
        )
    names = {name: free_names(name, len(values), parameters) for name, values in lists.items()}
    flat = {name: value for name, value in parameters.items() if name not in lists}
    for name, values in lists.items():
        flat |= dict(zip(names[name], values, strict=True))
    return Relation(table=table, query=_expanded(query, names), where=_expanded(where, names), parameters=flat)


def free_names(name: str, number: int, taken: Mapping[str, Any]) -> list[str]:
    """Return names of parameters that begin with a name and are not taken."""
    stem = name
    while any(other.startswith(f"{stem}_") for other in taken):
        stem += "_"
    return [f"{stem}_{place}" for place in range(number)]


def _expanded(text: str | None, names: Mapping[str, list[str]]) -> str | None:
    if text is None:
        return None

    def expand(match: re.Match[str]) -> str:
        listed = names.get(match.group(1) or "")
        if listed is None:
            return match.group(0)
        values = ", ".join(f":{each}" for each in listed)
        before = match.string[: match.start()]
        return f"ARRAY[{values}]" if ARRAY_BEFORE.search(before) else f"({values})"

    return PLACEHOLDER.sub(expand, text)


def one_statement(sql: str, argument: str) -> str:
    """Return a query without the semicolon and comments at its end. Another statement after it is refused."""
    is_several = False
    for reading in QUOTES:
        tokens = list(reading.finditer(sql))
        if any(token.group() in {"'", '"'} for token in tokens):
            continue  # a quote that nothing closes: the database reads it in the other way
        end = next((token.start() for token in tokens if token.group() == ";"), len(sql))
        if NOTHING.fullmatch(sql, end):
            return sql[:end]
        is_several = True
    if is_several:
        raise SourceConfigurationError(
            f"{argument}: it holds several statements, separated by a semicolon; give one SELECT. Statements that set up the "
            "session belong in session="
        )
    return sql


TOKENS: Final = r"""
  (?P<skip>    \s+ | --[^\n]* | /\*.*?\*/ )
| (?P<l>       (?:\b(?:date|datetime|timestamp)\s*)? {text} | \b(?:null|true|false)\b | :[A-Za-z_]\w*
             | \b\d+(?:\.\d*)?(?:e[+-]?\d+)?\b )
| (?P<u>       \bnot\b )
| (?P<i>       \bin\b )
| (?P<o>       \b(?:and|or|is|like|ilike|rlike|regexp|between|escape)\b | <=>|<>|!=|<=|>=|==|\|\||[=<>+*/%] )
| (?P<n>       (?:{name}) (?:\.(?:{name}))* )
| (?P<sign>    [-(),] )
| (?P<quote>   ['"`] )
| (?P<other>   . )
"""
NAME: Final = r'[A-Za-z_]\w* | "(?:[^"]|"")*" | `[^`]*`'
READINGS: Final = tuple(
    re.compile(TOKENS.format(text=text, name=NAME), re.VERBOSE | re.DOTALL | re.IGNORECASE)
    for text in (r"'(?:[^'\\]|\\.|'')*'", r"'(?:[^']|'')*'")
)
"""The tokens. In some databases a backslash does not escape a quote, so there are two readings."""
CHANGING: Final = re.compile(
    r"current\w*|localtime\w*|sys\w*|utc_\w*|session\w*|user|now|today|yesterday|tomorrow|getdate|rownum|_part\w*|_table_suffix",
    re.IGNORECASE,
)
"""Names without quotes that some databases read as a function or as the place of a row in storage."""
MOMENT: Final = re.compile(r"'\s*(?:now|today|yesterday|tomorrow)(?=[\s'])", re.IGNORECASE)
"""A text that some databases read as a time, such as Spark in ``date 'today'``."""
UNFIXED: Final = re.compile(r"\?|[nl)][nl(]|i(?!\(-?l(?:,-?l)*\))")
"""Letters of a condition that is not fixed: an unknown token, a call or a word of a statement, IN without constants."""


def is_fixed(condition: str | None) -> bool:
    """Return whether a condition only compares columns and constants. It calls no function and reads no other table."""
    if condition is None:
        return True
    if MOMENT.search(condition) is not None:
        return False
    readings = [tokens for reading in READINGS if "q" not in (tokens := _tokens(reading, condition))]
    return bool(readings) and all(tokens and not UNFIXED.search(tokens) for tokens in readings)


def _tokens(reading: re.Pattern[str], condition: str) -> str:
    """Return one letter for each token. ``q`` is a quote that nothing closes, so the reading is wrong."""
    letters = []
    for match in reading.finditer(condition):
        kind = match.lastgroup or "other"
        if kind == "n" and CHANGING.fullmatch(match.group()):
            kind = "other"
        letters.append({"skip": "", "sign": match.group(), "quote": "q", "other": "?"}.get(kind, kind))
    return "".join(letters)


# ------------------------------------------------------------ alternates from a grouping column
# The database adds a column with the language and the parts of the ``loc`` of every member of a row's group. As an emitted
# column it is part of the row hash: if a member's URL or language changes, or a member joins or leaves, the ranges of all
# members are dirty. Zero and the empty text form no group, because tables use them for rows without one. A group of more
# than ``MAX_MEMBERS`` rows most likely comes from the wrong column, a text of more than ``MAX_CHARACTERS`` holds something
# else than URLs. Such rows are listed without alternates, so that memory and file sizes stay linear. The rule ``alternate``
# counts these cases.


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


def alternates(members: pa.Array, locs: pa.Array, loc: str) -> pa.Array:
    """Build the ``alternates`` column: a JSON text or NULL for each row.

    ``{"group": [...]}`` lists the alternates, and the writer omits members that the URL rules drop. NULL: the group has
    one row, or an earlier row has the same language. ``{"group": [], "fault": …}`` must be counted: the group is empty
    or too large, or the row's language is invalid. Other rows then do not list it: search engines ignore pairs that are
    not mutual. ``SourceError`` is raised if the database returned JSON that is cut off.
    """
    distinct = members.unique().drop_null().to_pylist()
    groups = {text: _read(text) for text in distinct if text not in FAULTS}
    parts = [list(part) for part in zip(*(member for group in groups.values() for member in group), strict=True)]
    texts = [pa.array(part, pa.string()) for part in parts[1:]]
    urls = iter(urls_of(loc, dict(zip(loc_columns(loc), texts, strict=True))).to_pylist() if parts else ())
    values = {text: _by_url([(next(urls), member[0]) for member in group]) for text, group in groups.items()}
    faults = {text: _fault(reason) for text, reason in FAULTS.items()}
    rows = zip(members.to_pylist(), locs.to_pylist(), strict=True)
    return pa.array(
        [None if text is None else faults.get(text) or values[text].get(loc) for text, loc in rows], pa.string()
    )


def _fault(reason: str) -> str:
    return json.dumps({"group": [], "fault": reason}, ensure_ascii=False)


def _by_url(members: list[tuple[Any, str]]) -> dict[str, str]:
    """Return the column's values for the rows of a group, by their URLs. ``members`` are URLs and languages."""
    values = {}
    for url, language in members if len(members) > 1 else ():
        if url is not None and (fault := hreflang_fault(_plain(language))) is not None:
            values[url] = _fault(f"hreflang {language!r} {fault}")
    listed = alternates_of_group(members)
    by_language: dict[str, str] = {}
    for each in json.loads(listed):
        language = _plain(each["hreflang"])
        if hreflang_fault(language) is None:
            by_language.setdefault(language, each["href"])
    if len(by_language) > 1:
        values |= dict.fromkeys(by_language.values(), f'{{"group": {listed}}}')
    return values


def _plain(language: str) -> str:
    return language.strip().replace("_", "-").lower()


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
