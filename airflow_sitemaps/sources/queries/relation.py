"""The rows that a source reads: a table or a query, with the user's condition and parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.driver import PLACEHOLDER, Binds, guarded
from airflow_sitemaps.sources.user_texts import name_parts

if TYPE_CHECKING:
    from airflow_sitemaps.sources.dialects.value_sql import ValueSql

OTHERS: Final = r"""|"(?:[^"]|"")*"|`[^`]*`|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/|;|['"]"""
ESCAPING: Final = r"'(?:[^'\\]|\\.|'')*'"
QUOTES: Final = tuple(
    re.compile(text + OTHERS, re.DOTALL) for text in (r"'(?:[^']|'')*'", ESCAPING, rf"{ESCAPING}|\#[^\n]*")
)
"""Texts, names and comments, in which a semicolon ends nothing. In MySQL a backslash escapes a quote, and # begins a comment."""
NOTHING: Final = re.compile(r"(?:[\s;]|(?:--|\#)[^\n]*|/\*.*?\*/)*", re.DOTALL)
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
            name = sql.table_name(name_parts(self.table))
            if self.as_of:
                name += f" {guarded(self.as_of)}"
            elif self.where is None:
                return f"{name} src"
            if self.where is None:
                return f"(SELECT * FROM {name}) src"
            return f"(SELECT * FROM {name} WHERE (\n{guarded(self.where, self.parameters)}\n)) src"
        # The line break ends a comment at the end of the query.
        inner = f"(\n{guarded((self.query or '').strip().rstrip(';'), self.parameters)}\n)"
        if self.where is None:
            return f"{inner} src"
        return f"(SELECT * FROM {inner} query_rows WHERE (\n{guarded(self.where, self.parameters)}\n)) src"

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
    if not lists:
        return Relation(table=table, query=query, where=where, parameters=parameters)
    empty = [name for name, values in lists.items() if not values]
    if empty:
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
REDUCTIONS: Final = (
    (re.compile(r"u(?=[io])"), ""),  # NOT IN, NOT LIKE
    (re.compile(r"([nlv])i\(-?l(?:,-?l)*\)"), "v"),
    (re.compile(r"\([nlv]\)"), "v"),
    (re.compile(r"(?<![nlv)])[u-][nlv]"), "v"),
    (re.compile(r"[nlv][o-][nlv]"), "v"),
)
"""How parts of a condition join to a value ``v``: ``n`` is a name, ``l`` a constant, ``o`` an operator, ``u`` is NOT."""


def is_fixed(condition: str | None) -> bool:
    """Return whether a condition only compares columns and constants. It calls no function and reads no other table."""
    if condition is None:
        return True
    if MOMENT.search(condition) is not None:
        return False
    readings = [tokens for reading in READINGS if "q" not in (tokens := _tokens(reading, condition))]
    return bool(readings) and all(_is_value(tokens) for tokens in readings)


def _tokens(reading: re.Pattern[str], condition: str) -> str:
    """Return one letter for each token. ``q`` is a quote that nothing closes, so the reading is wrong."""
    letters = []
    for match in reading.finditer(condition):
        kind = match.lastgroup or "other"
        if kind == "n" and CHANGING.fullmatch(match.group()):
            kind = "other"
        letters.append({"skip": "", "sign": match.group(), "quote": "q", "other": "?"}.get(kind, kind))
    return "".join(letters)


def _is_value(tokens: str) -> bool:
    before = ""
    while before != tokens:
        before = tokens
        for pattern, value in REDUCTIONS:
            tokens = pattern.sub(value, tokens)
    return tokens in {"n", "l", "v"}
