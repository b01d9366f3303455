"""A piece of SQL text with its binds. Values never become part of the text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PLACEHOLDER: Final = re.compile(r"(?<![:\w\\]):(\w+)(?![:\w])|:")
"""A placeholder as SQLAlchemy's ``text`` reads it, or any other colon."""
PREFIX: Final = "sitemap_"

Statement = tuple[sa.TextClause, dict[str, Any]]
"""What ``Connection.execute`` takes: the text, and its values."""


@dataclass(slots=True)
class Binds:
    """The values of one statement, by the names that its text uses. Mutable: a statement is built around it.

    >>> binds = Binds()
    >>> binds.add(7)
    ':sitemap_0'
    """

    values: dict[str, Any] = field(default_factory=dict)

    def add(self, value: Any) -> str:
        """Bind a value and give its placeholder."""
        name = f"{PREFIX}{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def include(self, parameters: Mapping[str, Any]) -> None:
        """Add values that already have names: the user's."""
        self.values.update(parameters)

    def statement(self, sql: str) -> Statement:
        """The text and the values it uses; values that the text does not use are left out."""
        used = {match.group(1) for match in PLACEHOLDER.finditer(sql)} & self.values.keys()
        # Not ``bindparams``: it copies each one, which takes longer than the survey when there are thousands.
        return sa.text(sql), {name: self.values[name] for name in used}


def guarded(text: str, names: Iterable[str] = ()) -> str:
    """A text in which only ``:name`` with one of ``names`` is a placeholder: every other colon is escaped.

    Identifiers, casts, and literals in a user's query hold colons, and ``text`` must leave them alone.
    """
    known = set(names)

    def keep_or_escape(match: re.Match[str]) -> str:
        return match.group(0) if match.group(1) in known else "\\" + match.group(0)

    return PLACEHOLDER.sub(keep_or_escape, text)
