"""The values of a SQL text: as binds, or as literals for commands that accept no binds (COPY, CREATE TABLE AS)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

PLACEHOLDER: Final = re.compile(r"(?<![:\w\\]):(\w+)(?![:\w])|:")
"""A placeholder as SQLAlchemy's ``text`` reads it, or any other colon."""
ESCAPED: Final = re.compile(r"\\:|(?<![:\w\\]):(\w+)(?![:\w])")
"""An escaped colon, or a placeholder."""
PREFIX: Final = "sitemap_"

Statement = tuple[sa.TextClause, dict[str, Any]]
"""The arguments of ``Connection.execute``: the text and its values."""


@dataclass(slots=True)
class Binds:
    """The values of one statement, by the names in its text. Mutable: a statement adds values as it is built."""

    values: dict[str, Any] = field(default_factory=dict)

    def add(self, value: Any) -> str:
        """Bind a value and return its placeholder."""
        name = f"{PREFIX}{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def include(self, parameters: Mapping[str, Any]) -> None:
        """Add the user's values, which already have names."""
        self.values.update(parameters)

    def statement(self, sql: str) -> Statement:
        """Return the text with the values that it uses."""
        used = {match.group(1) for match in PLACEHOLDER.finditer(sql)} & self.values.keys()
        # ``bindparams`` copies each value. With thousands of values, that takes longer than the survey.
        return sa.text(sql), {name: self.values[name] for name in used}


def guarded(text: str, names: Iterable[str] = ()) -> str:
    """Escape colons of identifiers, casts and literals: all but those that begin a known placeholder."""
    placeholders = set(names)

    def keep_or_escape(match: re.Match[str]) -> str:
        return match.group(0) if match.group(1) in placeholders else "\\" + match.group(0)

    return PLACEHOLDER.sub(keep_or_escape, text)


def literal(statement: Statement, dialect: sa.Dialect, text_literal: Callable[[str], str]) -> str:
    """Return a statement as final SQL with its values as literals.

    The text is scanned once: SQLAlchemy's ``literal_binds`` also unescapes the colons inside the values. ``dialect``
    must not double percent signs. ``text_literal`` writes texts, because some of SQLAlchemy's dialects double percent
    signs (BigQuery), and others leave backslashes that begin an escape (ClickHouse), with which a value could end its
    literal.
    """
    clause, values = statement

    def written(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return ":"
        value = values[match.group(1)]
        if isinstance(value, str):
            return text_literal(value)
        return str(sa.literal(value).compile(dialect=dialect, compile_kwargs={"literal_binds": True}))

    return ESCAPED.sub(written, clause.text)
