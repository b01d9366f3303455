"""The columns of a source: the kind of each, and the part of an entry that it feeds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from airflow_sitemaps.errors import SourceConfigurationError

FIELDS: Final = ("lastmod", "changefreq", "priority", "images", "videos", "news", "alternates", "title", "description")
"""The optional parts of an entry, in the order in which they are hashed and read."""

FEED_FIELDS: Final = ("title", "description")
"""The optional parts that only feeds show."""


@dataclass(frozen=True, slots=True, init=False)
class Observed:
    """A lastmod that the runs observe: the time of the run that found other values in the columns that make the page.

    Attributes:
        columns: The columns that make the page, such as its title and price.
        initial: A column with the date of a URL that was never listed before, such as that of its publication. Default:
            None, no date in the first build, and the time of the run later.

    Raises:
        SourceConfigurationError: A name is no text, or is given twice.
    """

    columns: tuple[str, ...]
    initial: str | None

    def __init__(self, *columns: str, initial: str | None = None) -> None:
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "initial", initial)
        names = [*columns, *([] if initial is None else [initial])]
        if not columns or not all(isinstance(name, str) and name.strip() for name in names):
            raise SourceConfigurationError(f"{self}: give the names of the columns that make the page")
        if len(set(columns)) < len(columns):
            raise SourceConfigurationError(f"{self}: a column is given twice; give each once")

    def __str__(self) -> str:
        initial = [] if self.initial is None else [f"initial={self.initial!r}"]
        return f"Observed({', '.join([*map(repr, self.columns), *initial])})"


class Kind(str, Enum):
    """The kind of a column's values, as far as it matters for hashing, binding and reading."""

    INTEGER = "integer"
    """Of at most 64 bits, signed."""
    NUMBER = "number"
    """Decimals, floats, and whole numbers of more than 64 bits."""
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    """Times without a zone. They are read in the source's ``timezone``."""
    ZONED = "zoned"
    """Moments: times with a zone, or stored in UTC."""
    BOOLEAN = "boolean"
    UUID = "uuid"
    JSON = "json"
    BINARY = "binary"
    OTHER = "other"
    """Any other or unknown kind. The values are read as text."""


NUMBERS: Final = frozenset({Kind.INTEGER, Kind.NUMBER})
TIMES: Final = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.ZONED})

BOUNDED: Final = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.DATE, Kind.TIMESTAMP, Kind.ZONED, Kind.BOOLEAN, Kind.UUID})
"""Kinds whose texts are never empty and never contain a ``|``, so that they are hashed without their length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a source.

    ``type_name`` (empty if the kind is enough) and ``collation`` come from the database, quoted by it, and may be used
    in SQL unchanged.
    """

    name: str
    kind: Kind
    type_name: str = ""
    collation: str = ""

    def kind_text(self) -> str:
        """Return kind and collation as one text."""
        return self.description().removeprefix(self.name).strip()

    def description(self) -> str:
        """Return name, kind and collation as one text. It changes when the order of the values may have changed."""
        kind = self.type_name.partition("(")[0].strip() or "unknown" if self.kind is Kind.OTHER else self.kind.value
        return " ".join(part for part in (self.name, kind, self.collation) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One column of a select list, with the Arrow type of its values."""

    name: str
    sql: str
    type: Any
