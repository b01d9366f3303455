"""MySQL and MariaDB: a slice of SHA2 as an integer; MariaDB is run live in the tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.sources.columns import TIMES, Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.sources.relation import Relation
    from airflow_sitemaps.sources.statement import Binds

FIELD_TYPES = {
    0: Kind.NUMBER,  # DECIMAL
    1: Kind.INTEGER,  # TINYINT
    2: Kind.INTEGER,  # SMALLINT
    3: Kind.INTEGER,  # INT
    4: Kind.NUMBER,  # FLOAT
    5: Kind.NUMBER,  # DOUBLE
    7: Kind.ZONED,  # TIMESTAMP, kept in UTC
    8: Kind.INTEGER,  # BIGINT
    9: Kind.INTEGER,  # MEDIUMINT
    10: Kind.DATE,
    12: Kind.TIMESTAMP,  # DATETIME
    13: Kind.INTEGER,  # YEAR
    15: Kind.TEXT,
    245: Kind.JSON,
    246: Kind.NUMBER,  # DECIMAL
    247: Kind.TEXT,  # ENUM
    248: Kind.TEXT,  # SET
    252: Kind.TEXT,  # TEXT and BLOB
    253: Kind.TEXT,  # VARCHAR
    254: Kind.TEXT,  # CHAR
}
"""The column types of the wire protocol, which every driver puts in a result's description."""


class MySQL(Dialect):
    """MySQL 8.0 and MariaDB 10.6, and later."""

    name: ClassVar[str] = "mysql"
    hash_version: ClassVar[str] = "sha2-64/1"
    live: ClassVar[bool] = True

    max_binds: ClassVar[int] = 30_000
    # max_allowed_packet is 16 MB by default, and 4 MB where somebody was careful.
    max_statement_bytes: ClassVar[int] = 1_000_000
    max_case: ClassVar[int] = 2_000
    prefers_hops: ClassVar[bool] = True

    session_sql: ClassVar[tuple[str, ...]] = (
        "SET SESSION time_zone = '+00:00'",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        # ANSI_QUOTES and the like would change what the statements mean; zero dates must be readable.
        "SET SESSION sql_mode = 'ONLY_FULL_GROUP_BY'",
        "SET NAMES utf8mb4",
        # Else MySQL cuts the members of a group off after 1,024 bytes, and says nothing.
        "SET SESSION group_concat_max_len = 16777216",
    )
    begin_sql: ClassVar[tuple[str, ...]] = ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",)
    now_sql: ClassVar[str] = "SELECT UTC_TIMESTAMP(6)"

    text_type: ClassVar[str] = "CHAR"
    float_type: ClassVar[str] = "DOUBLE"

    def kind_of(self, description: Sequence[Any]) -> Kind:
        """By the wire protocol's numbers."""
        return FIELD_TYPES.get(int(description[1]), Kind.OTHER)

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Kinds by the wire protocol's numbers, and the collations of texts."""
        columns = super().describe(connection, relation, names)
        texts = [name for name in columns if name in set(names) and columns[name].kind is Kind.TEXT]
        if not texts:
            return columns
        asked = ", ".join(f"COLLATION(src.{self.quote(name)})" for name in texts)
        sql = f"SELECT {asked} FROM (SELECT 1) one LEFT JOIN (SELECT * FROM {relation.from_item(self)} LIMIT 0) src ON 1 = 1"
        for name, collation in zip(texts, connection.execute(*relation.binds().statement(sql)).one(), strict=True):
            kind = Kind.BINARY if collation == "binary" else Kind.TEXT
            columns[name] = Column(name=name, kind=kind, collation=str(collation or ""))
        return columns

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Plain: a bound text takes the column's collation, and its type where that is a date, a UUID or a number."""
        if column.kind is Kind.BINARY:
            return f"CAST({placeholder} AS BINARY)"
        if column.kind in KEY_TYPES:
            return f"CAST({placeholder} AS {KEY_TYPES[column.kind]})"
        return placeholder

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """One JSON bind, whatever their number; texts in their column's collation."""
        given = binds.add(json.dumps([[place, *key] for place, key in enumerate(keys)]))
        fields = ["place INT PATH '$[0]'"]
        parts = []
        for number, column in enumerate(columns):
            kind = "BIGINT" if column.kind is Kind.INTEGER else "LONGTEXT"
            fields.append(f"v{number} {kind} PATH '$[{number + 1}]'")
            parts.append(f"{self._typed(f'given.v{number}', column)} AS k{number}")
        return f"SELECT {', '.join(parts)}, given.place FROM JSON_TABLE({given}, '$[*]' COLUMNS ({', '.join(fields)})) given"

    def _typed(self, value: str, column: Column) -> str:
        if not column.collation or column.kind is Kind.BINARY:
            return self.key_bind(column, value)
        character_set = column.collation.split("_")[0]
        return f"CONVERT({value} USING {character_set}) COLLATE {column.collation}"

    def rank_at_once(self, columns: Sequence[Column]) -> int | None:
        """Any number: they are one bind."""
        return None

    # ------------------------------------------------------------ hashing

    def as_text(self, expression: str, column: Column) -> str:
        """Text in UTF-8; bytes of BLOBs are taken for UTF-8."""
        return f"CONVERT({expression} USING utf8mb4)"

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str) -> str:
        """By GROUP_CONCAT: MySQL's JSON_ARRAYAGG has no order."""
        texts = ", ".join(self.emit_text(column) for column in columns)
        joined = f"GROUP_CONCAT(JSON_ARRAY({texts}) ORDER BY {self.binary_orders(columns)} SEPARATOR ',')"
        return self.aggregated(f"CONCAT('[', {joined}, ']')", group, from_item, where)

    def byte_length(self, text: str) -> str:
        """Bytes; CONCAT makes a text of the number."""
        return f"LENGTH({text})"

    def concat(self, parts: Sequence[str]) -> str:
        """``||`` means OR here."""
        return f"CONCAT({', '.join(parts)})"

    def hash_of(self, text: str) -> str:
        """The first 64 bits of SHA-256 (MD5 fails on servers in FIPS mode)."""
        return f"CAST(CONV(LEFT(SHA2({text}, 256), 16), 16, 10) AS UNSIGNED)"

    def hash_type(self) -> Any:
        """Unsigned."""
        return pa.uint64()

    def checksum(self, hashes: str) -> str:
        """The sum of an exact integer is a DECIMAL, exact."""
        return f"CAST(SUM(CAST({hashes} AS DECIMAL(39, 0))) AS CHAR)"

    # ------------------------------------------------------------ reading

    def lastmod_is_text(self, column: Column) -> bool:
        """Always: no driver has an object for ``0000-00-00``, and the rules must see it."""
        return True

    def emit_lastmod(self, column: Column) -> str:
        """A time to the second, ending in ``Z`` where it is stored in UTC."""
        value = self.column(column)
        if column.kind not in TIMES:
            return self.emit_text(column)
        if column.kind is Kind.DATE:
            return f"CAST({value} AS CHAR)"
        seconds = f"LEFT(CAST({value} AS CHAR), 19)"
        return f"CONCAT({seconds}, 'Z')" if column.kind is Kind.ZONED else seconds

    def binary_order(self, column: Column) -> str:
        """Bytes, whatever the column's collation."""
        return f"CAST({self.as_text(self.column(column), column)} AS BINARY)"


KEY_TYPES = {
    # Compared with a text, a number would be compared as a float.
    Kind.NUMBER: "DECIMAL(65, 30)",
    Kind.TIMESTAMP: "DATETIME(6)",
    Kind.ZONED: "DATETIME(6)",
    Kind.DATE: "DATE",
}
