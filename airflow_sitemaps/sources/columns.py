"""A source's columns: what kind each is, and what part of an entry it feeds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

FIELDS: Final = ("lastmod", "changefreq", "priority", "images", "videos", "news", "alternates")
"""The optional parts of an entry, in the order in which they are hashed and read."""


class Kind(str, Enum):
    """What a column's values are, as far as hashing, binding and reading care."""

    INTEGER = "integer"
    """Whole numbers of at most 64 bits, signed."""
    NUMBER = "number"
    """Decimals, floats, and whole numbers that are larger."""
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    """Without a zone: read in the source's ``timezone``."""
    ZONED = "zoned"
    """A moment: with a zone, or stored in UTC."""
    BOOLEAN = "boolean"
    UUID = "uuid"
    JSON = "json"
    BINARY = "binary"
    OTHER = "other"
    """Anything else, or not known: read as text."""


TIMES: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.ZONED})

BOUNDED: Final = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP, Kind.ZONED, Kind.BOOLEAN, Kind.UUID})
"""Kinds whose texts are never empty and never hold a ``|``: these need no length before them when hashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its name as the database knows it, its kind, the database's own name of its type, its collation.

    ``type_name`` and ``collation`` come from the database, quoted by it, and may stand in SQL as they are.
    """

    name: str
    kind: Kind
    type_name: str = ""
    collation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """Which columns make an entry: the key's, those of ``loc``, and one for each optional field."""

    key: tuple[Column, ...]
    loc: tuple[Column, ...]
    fields: tuple[tuple[str, Column], ...] = ()

    @property
    def emitted(self) -> tuple[Column, ...]:
        """All columns that reach the sitemap, in the order in which they are hashed."""
        return (*self.loc, *(column for _name, column in self.fields))

    def field(self, name: str) -> Column | None:
        """The column of an optional field."""
        return dict(self.fields).get(name)
