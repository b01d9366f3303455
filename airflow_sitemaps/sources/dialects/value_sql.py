"""SQL for values: their types, their canonical texts, their hashes, and how they are read. Dialects inherit it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.columns import BOUNDED, TIMES, Kind
from airflow_sitemaps.sources.dialects.identifier_sql import IdentifierSql

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_sitemaps.sources.columns import Column


class ValueSql(IdentifierSql):
    """SQL of values: types, canonical texts, row hashes, and the columns that a query returns."""

    name: ClassVar[str] = "generic"
    """The name of the database, which is part of the digest's kind."""
    hash_version: ClassVar[str] = ""
    """The name and version of the row hash's expression. It changes whenever the expression changes."""
    hashes_here: ClassVar[bool] = False
    """Whether the engine has no hash function, so that this process reads and hashes the rows."""
    kinds: ClassVar[Mapping[str, Kind]] = {}
    """The kind of each type, by the database's name of the type in lower case, without arguments."""
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "BIGINT",
        Kind.TEXT: "VARCHAR",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMP",
        Kind.ZONED: "TIMESTAMP WITH TIME ZONE",
        Kind.BOOLEAN: "BOOLEAN",
        Kind.UUID: "UUID",
    }
    """The type that a bound key part is cast to if the column's own type name is unknown."""
    text_type: ClassVar[str] = "VARCHAR"
    """The type that values are cast to as text."""
    float_type: ClassVar[str] = "DOUBLE PRECISION"
    """The type of a 64-bit float."""

    @property
    def digest_kind(self) -> str:
        """The name of the row hash. Digests of different kinds are never compared."""
        return f"{self.name}/{self.hash_version}"

    def kind(self, type_name: str) -> Kind:
        """Return the kind of a type.

        Args:
            type_name: The database's name of the type, such as ``VARCHAR(20)`` or ``timestamp(3) with time zone``.

        Returns:
            The kind, or ``Kind.OTHER`` if the type is unknown.
        """
        lowered = type_name.strip().lower()
        if lowered in self.kinds:
            return self.kinds[lowered]
        head, _, rest = lowered.partition("(")
        bare = (head.strip() + rest.partition(")")[2]).strip()
        return self.kinds.get(bare, Kind.OTHER)

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for the canonical text of a value. Two texts are equal exactly if the values are."""
        return f"CAST({expression} AS {self.text_type})"

    def hash_text(self, column: Column) -> str:
        """Return SQL for the text of a value in the row hash, for a database whose canonical text of the type is rounded."""
        return self.as_text(self.column(column), column)

    def byte_length(self, text: str) -> str:
        """Return SQL for the length of a text, itself as a text.

        The length may be in bytes or in characters: both keep neighbouring values apart.
        """
        return f"CAST(LENGTH({text}) AS {self.text_type})"

    def character_length(self, text: str) -> str:
        """Return SQL for the number of characters of a text; some databases count bytes."""
        return f"LENGTH({text})"

    def concat(self, parts: Sequence[str]) -> str:
        """Return SQL that concatenates texts. No text may be NULL."""
        return " || ".join(parts)

    def or_mark(self, value: str, marked: str) -> str:
        """Return SQL for the marked text of a value, or for the mark ``|`` alone if the value is NULL.

        Args:
            marked: The value with its mark. It is NULL if ``value`` is NULL.
        """
        return f"COALESCE({marked}, '|')"

    def hash_of(self, text: str) -> str:
        """Return SQL for the 64-bit hash of a text's bytes, which is never NULL.

        Raises:
            SourceConfigurationError: The dialect has no hash.
        """
        raise SourceConfigurationError(
            f"the database {self.name!r} is not known to this package: it has no row hash for it. "
            "Use one of the databases in docs/databases.md."
        )

    def row_hash(self, columns: Sequence[Column]) -> str:
        """Return SQL for the hash of all emitted columns.

        NULL, the empty text and neighbouring columns are kept apart. A value of a ``BOUNDED`` kind ends with ``|``. Any other
        value is preceded by its length and ``:``. NULL is ``|`` alone. Read from the left, two different rows never have the
        same text.
        """
        parts = []
        for column in columns:
            value = self.hash_text(column)
            if column.kind in BOUNDED:
                parts.append(self.or_mark(value, self.concat([value, "'|'"])))
            else:
                parts.append(self.or_mark(value, self.concat([self.byte_length(value), "':'", value])))
        return self.hash_of(self.concat(parts) if len(parts) > 1 else parts[0])

    def hash_type(self) -> Any:
        """Return the Arrow type of the row hash: int64, or uint64 if the database's hash is unsigned."""
        return pa.int64()

    def checksum(self, hashes: str) -> str:
        """Return SQL for the sum of hashes, in a type that cannot overflow."""
        return f"SUM(CAST({hashes} AS DECIMAL(38, 0)))"

    def modulo(self, expression: str, divisor: int) -> str:
        """Return SQL for the remainder of a division."""
        return f"MOD({expression}, {divisor:d})"

    def binary_order(self, column: Column) -> str:
        """Return the expression that orders rows of one key by an emitted column: the bytes of its text."""
        return self.as_text(self.column(column), column)

    def binary_orders(self, columns: Sequence[Column]) -> str:
        """Return the ``binary_order`` of each column, as an ORDER BY list."""
        return ascending([self.binary_order(column) for column in columns])

    def emit_text(self, column: Column) -> str:
        """Return SQL for a column as the text that goes into an entry."""
        return self.as_text(self.column(column), column)

    def emit_raw(self, column: Column) -> str:
        """Return SQL for a column as the driver is to return it: the bytes of a column of bytes, or a text."""
        return self.emit_bytes(column) if column.kind is Kind.BINARY else self.emit_text(column)

    def raw_text(self, expression: str, column: Column) -> str:
        """Return SQL for the canonical text of a value as the driver is to return it.

        A dialect whose driver fails on a text that is not UTF-8 selects its bytes, which this process decodes.
        """
        return self.as_text(expression, column)

    def emit_comparable(self, column: Column) -> str:
        """Return SQL that converts a column to a type that MIN and MAX accept."""
        return self.emit_text(column) if column.kind is Kind.BINARY else self.emit_raw(column)

    def emit_bytes(self, column: Column) -> str:
        """Return SQL for a column of bytes that hold text.

        A dialect whose driver returns bytes selects them as bytes, and this process decodes them. The default is a text.
        """
        return self.emit_text(column)

    def emit_number(self, column: Column) -> str:
        """Return SQL for a number as a 64-bit float."""
        return f"CAST({self.column(column)} AS {self.float_type})"

    def emit_lastmod(self, column: Column) -> str:
        """Return SQL for a lastmod as a value that Arrow reads unchanged; see ``lastmod_is_text``."""
        return self.column(column) if column.kind in TIMES else self.emit_text(column)

    def lastmod_is_text(self, column: Column) -> bool:
        """Return whether ``emit_lastmod`` yields texts.

        It does so for text columns, and if the values may be invalid times.
        """
        return column.kind not in TIMES

    def emit_micros(self, column: Column) -> str:
        """Return SQL for a time, for drivers that return Python objects.

        The value is a time, or the microseconds since 1970, which are faster to convert.
        """
        return self.emit_lastmod(column)


def ascending(expressions: Sequence[str]) -> str:
    """Return an ORDER BY list. The order is stated, because DuckDB's ``default_order`` can be descending."""
    return ", ".join(f"{expression} ASC" for expression in expressions)
