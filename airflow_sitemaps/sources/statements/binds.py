"""The binds of a SQL text. Values never become part of the text."""

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
"""The arguments of ``Connection.execute``: the text and its values."""


@dataclass(slots=True)
class Binds:
    """The values of one statement, by the names in its text. Mutable, because a statement adds values as it is built.

    >>> binds = Binds()
    >>> binds.add(7)
    ':sitemap_0'

    Attributes:
        values: The value of each placeholder, by its name without the colon. Default: none.
    """

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
        """Return the text with the values that it uses. Other values are left out."""
        used = {match.group(1) for match in PLACEHOLDER.finditer(sql)} & self.values.keys()
        # ``bindparams`` copies each value. With thousands of values, that takes longer than the survey.
        return sa.text(sql), {name: self.values[name] for name in used}


def guarded(text: str, names: Iterable[str] = ()) -> str:
    """Escape every colon of a text that does not begin a known placeholder.

    Identifiers, casts, and literals in a user's query contain colons that ``text`` must not interpret.

    Args:
        names: The names of the placeholders, without the colon.
    """
    placeholders = set(names)

    def keep_or_escape(match: re.Match[str]) -> str:
        return match.group(0) if match.group(1) in placeholders else "\\" + match.group(0)

    return PLACEHOLDER.sub(keep_or_escape, text)
