"""MySQL and MariaDB: part of a SHA-2 hash, read as an integer. The tests run against a real MariaDB server."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from airflow_sitemaps.sources.columns import TIMES, Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect

if TYPE_CHECKING:
    import sqlalchemy as sa

    from airflow_sitemaps.shards.ranges import Key
    from airflow_sitemaps.sources.driver import Binds
    from airflow_sitemaps.sources.queries import Relation


class MySQL(Dialect):
    """MySQL 8.0 and MariaDB 10.6, and later."""

    name: ClassVar[str] = "mysql"
    drivers: ClassVar[tuple[tuple[str, str], ...]] = (
        ("mysql+mysqldb", "MySQLdb"), ("mysql+pymysql", "pymysql"), ("mysql+mysqlconnector", "mysql.connector"),
    )  # fmt: skip
    escapes_backslash: ClassVar[bool] = True

    max_binds: ClassVar[int] = 30_000
    # The default of max_allowed_packet is 16 MB; some servers set 4 MB.
    max_statement_bytes: ClassVar[int] = 1_000_000
    max_case: ClassVar[int] = 2_000
    prefers_hops: ClassVar[bool] = True
    binds_lists: ClassVar[bool] = True

    hash_version: ClassVar[str] = "sha2-64/2"
    # The first 64 bits of SHA-256. MD5 fails on servers in FIPS mode.
    hash_sql: ClassVar[str] = "CAST(CONV(LEFT(SHA2({}, 256), 16), 16, 10) AS UNSIGNED)"
    hash_type: ClassVar[Any] = pa.uint64()
    checksum_sql: ClassVar[str] = "CAST(SUM(CAST({} AS DECIMAL(39, 0))) AS CHAR)"
    # CONCAT turns it into a text
    byte_length_sql: ClassVar[str] = "LENGTH({})"
    binary_order_sql: ClassVar[str] = "CAST({} AS BINARY)"
    # MySQL's JSON_ARRAYAGG has no order
    members_sql: ClassVar[str] = "CONCAT('[', GROUP_CONCAT(JSON_ARRAY({texts}) ORDER BY {orders} SEPARATOR ','), ']')"

    session_sql: ClassVar[tuple[str, ...]] = (
        "SET SESSION time_zone = '+00:00'",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        # A mode changes what statements mean, or refuses zero dates. MySQL refuses values of an unknown row of a group, as by
        # default; MariaDB, which alone reads /*M! */, would refuse views that it makes.
        "SET SESSION sql_mode = /*M! IF(1, '', */ 'ONLY_FULL_GROUP_BY' /*M! ) */",
        "SET NAMES utf8mb4",
        # By default, MySQL silently cuts the members of a group off after 1,024 bytes.
        "SET SESSION group_concat_max_len = 16777216",
    )
    begin_sql: ClassVar[tuple[str, ...]] = ("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",)
    now_sql: ClassVar[str] = "SELECT UTC_TIMESTAMP(6)"
    # The triggers are those that the role may see.
    identity_sql: ClassVar[str | None] = (
        "SELECT t.create_time, v.view_definition, (SELECT GROUP_CONCAT(g.trigger_name ORDER BY g.trigger_name) FROM"
        " information_schema.triggers g WHERE g.event_object_schema = t.table_schema AND g.event_object_table = t.table_name)"
        " FROM information_schema.tables t LEFT JOIN information_schema.views v ON v.table_schema = t.table_schema AND"
        " v.table_name = t.table_name WHERE t.table_schema = COALESCE(:schema, DATABASE()) AND t.table_name = :name"
    )

    kinds: ClassVar[Mapping[object, Kind]] = {
        **dict.fromkeys((1, 2, 3, 8, 9, 13, 16), Kind.INTEGER),  # TINYINT, SMALLINT, INT, BIGINT, MEDIUMINT, YEAR, BIT
        **dict.fromkeys((0, 4, 5, 246), Kind.NUMBER),  # old DECIMAL, FLOAT, DOUBLE, DECIMAL
        **dict.fromkeys((15, 247, 248, 252, 253, 254), Kind.TEXT),  # also ENUM, SET, and TEXT and BLOB
        7: Kind.ZONED,  # TIMESTAMP, kept in UTC
        10: Kind.DATE,
        12: Kind.TIMESTAMP,  # DATETIME
        245: Kind.JSON,
    }
    """The kind of each column type, by its number in the wire protocol."""
    number_sql: ClassVar[str] = "CAST({} AS DOUBLE)"
    # In a condition, IS NULL also holds for ``0000-00-00`` in a column that is NOT NULL
    null_sql: ClassVar[str] = "{} <=> NULL"
    # No driver has an object for ``0000-00-00``, and the rules must see that value
    time_kinds: ClassVar[frozenset[Kind]] = frozenset()
    # To the second. It ends in ``Z`` if the column is stored in UTC.
    lastmod_sql_of: ClassVar[Mapping[Kind, str]] = {
        Kind.DATE: "CAST({} AS CHAR)",
        Kind.TIMESTAMP: "LEFT(CAST({} AS CHAR), 19)",
        Kind.ZONED: "CONCAT(LEFT(CAST({} AS CHAR), 19), 'Z')",
    }
    # CONVERT replaces each byte that is not UTF-8 by a question mark
    returns_bytes: ClassVar[bool] = True
    key_bind_of: ClassVar[Mapping[Kind, str]] = {
        Kind.BINARY: "UNHEX({})",
        # MySQL compares a number with a text as floats.
        Kind.NUMBER: "CAST({} AS DECIMAL(65, 30))",
        Kind.TIMESTAMP: "CAST({} AS DATETIME(6))",
        Kind.ZONED: "CAST({} AS DATETIME(6))",
        Kind.DATE: "CAST({} AS DATE)",
    }

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Return kinds by the wire protocol's numbers, and the collations of texts.

        ``type_name`` is set if the kind alone does not say how values compare: of ENUM, SET, TIME, BIT, DOUBLE and DECIMAL.
        """
        columns = super().describe(connection, relation, names)
        texts = [name for name in columns if name in set(names) and columns[name].kind is Kind.TEXT]
        if not texts:
            return columns
        collations = ", ".join(f"COLLATION(src.{self.quote(name)})" for name in texts)
        nothing = f"(SELECT * FROM {relation.from_item(self)} LIMIT 0) src"
        sql = f"SELECT {collations} FROM (SELECT 1) one LEFT JOIN {nothing} ON 1 = 1"
        for name, collation in zip(texts, connection.execute(*relation.binds().statement(sql)).one(), strict=True):
            kind = Kind.BINARY if collation == "binary" else Kind.TEXT
            columns[name] = replace(columns[name], kind=kind, collation=str(collation or ""))
        return columns

    def columns_of(self, cursor: Any) -> list[Column]:
        described = list(cursor.description or ())
        return [
            Column(name=str(entry[0]), kind=self.kind_of(entry), type_name=_type_name(entry, flags))
            for entry, flags in zip(described, _flags(cursor, len(described)), strict=True)
        ]

    def key_order(self, column: Column) -> str:
        """Return the ORDER BY expression. An ENUM is ordered by its text, as it is compared, not by its place in the definition."""
        value = self.column(column)
        if column.type_name == "BIT":
            return f"({value} + 0)"
        return f"CONVERT({value} USING utf8mb4) COLLATE utf8mb4_bin" if column.type_name == "ENUM" else value

    def key_value(self, column: Column) -> str:
        """Return SQL for bytes as hexadecimal digits, BIT as an integer, and a 4-byte float as its exact number."""
        value = self.column(column)
        if column.type_name == "BIT":
            return f"({value} + 0)"
        if column.type_name in ("real", "DOUBLE"):
            return f"CAST(CAST({value} AS DOUBLE) AS CHAR)"
        return super().key_value(column)

    def key_output(self, column: Column) -> str:
        return self.raw_text(self.column(column), column) if column.kind is Kind.TEXT else self.key_value(column)

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Return the placeholder, with a cast where the value would take the column's collation or type."""
        if column.type_name == "ENUM":
            return f"CONVERT({placeholder} USING utf8mb4) COLLATE utf8mb4_bin"
        if column.type_name.startswith(("real", "DOUBLE", "TIME", "DECIMAL")):
            return f"CAST({placeholder} AS {column.type_name.replace('real', 'DOUBLE')})"
        return self.key_bind_of.get(column.kind, "{}").format(placeholder)

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        given = binds.add(json.dumps([[place, *key] for place, key in enumerate(keys)]))
        fields = ["place INT PATH '$[0]'"]
        parts = []
        for number, column in enumerate(columns):
            # Without a character set, a text has the database's own.
            kind = "DECIMAL(30, 0)" if column.kind is Kind.INTEGER else "LONGTEXT CHARACTER SET utf8mb4"
            fields.append(f"v{number} {kind} PATH '$[{number + 1}]'")
            parts.append(f"{self._typed(f'given.v{number}', column)} AS k{number}")
        return f"SELECT {', '.join(parts)}, given.place FROM JSON_TABLE({given}, '$[*]' COLUMNS ({', '.join(fields)})) given"

    def _typed(self, value: str, column: Column) -> str:
        if not column.collation or column.kind is Kind.BINARY or column.type_name == "ENUM":
            return self.key_bind(column, value)
        character_set = column.collation.split("_")[0]
        return f"CONVERT({value} USING {character_set}) COLLATE {column.collation}"

    # ------------------------------------------------------------ hashing

    def as_text(self, expression: str, column: Column) -> str:
        if column.kind is Kind.BINARY:
            return f"HEX({expression})"
        if column.type_name == "BIT":
            return f"CONVERT({expression} + 0 USING utf8mb4)"
        return f"CONVERT({expression} USING utf8mb4)"

    def hash_text(self, column: Column) -> str:
        """Return SQL for a text, and for all digits of a FLOAT, whose own text has six. A priority is read with all of them."""
        value = self.column(column)
        return self.as_text(f"CAST({value} AS DOUBLE)" if column.type_name in ("real", "DOUBLE") else value, column)

    def emit_raw(self, column: Column) -> str:
        value = self.column(column)
        return value if column.kind is Kind.BINARY else self.raw_text(value, column)

    def raw_text(self, expression: str, column: Column) -> str:
        """Return SQL for the bytes of a text: MariaDB stores halves of surrogate pairs, on which the drivers fail."""
        return f"CAST({self.as_text(expression, column)} AS BINARY)"

    def concat(self, parts: Sequence[str]) -> str:
        """Concatenate by CONCAT: ``||`` means OR in MySQL."""
        return f"CONCAT({', '.join(parts)})"

    def emit_lastmod(self, column: Column) -> str:
        return super().emit_lastmod(column) if column.kind in TIMES else self.emit_raw(column)


class MariaDB(MySQL):
    """MariaDB, whose connector has another name."""

    drivers: ClassVar[tuple[tuple[str, str], ...]] = (*MySQL.drivers[:2], ("mariadb+mariadbconnector", "mariadb"))


FLOAT, DOUBLE, TIME, BIT, DECIMAL = 4, 5, 11, 16, 246
ENUM_FLAG, SET_FLAG = 256, 2048


def _type_name(entry: Sequence[Any], flags: int) -> str:
    if flags & (ENUM_FLAG | SET_FLAG):
        return "ENUM"
    decimal = "" if entry[5] is None else f"DECIMAL(65, {entry[5]})"
    return {BIT: "BIT", TIME: "TIME(6)", DECIMAL: decimal, FLOAT: "real", DOUBLE: "DOUBLE"}.get(int(entry[1]), "")


def _flags(cursor: Any, number: int) -> list[int]:
    """Return each column's flags, as PyMySQL, mysqlclient or MySQL Connector/Python store them."""
    fields = getattr(getattr(cursor, "_result", None), "fields", None)
    if fields and hasattr(fields[0], "flags"):
        return [int(field.flags) for field in fields]
    flags = getattr(cursor, "description_flags", None)
    if flags:
        return [int(each) for each in flags]
    entries: Sequence[Sequence[Any]] = getattr(cursor, "description", None) or [()] * number
    return [int(entry[7]) if len(entry) > 7 and isinstance(entry[7], int) else 0 for entry in entries]
