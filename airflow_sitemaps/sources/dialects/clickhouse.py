"""ClickHouse: cityHash64. The tests run it live within the process (chdb), with its own client."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import sqlalchemy as sa

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Warehouse
from airflow_sitemaps.sources.dialects.value_sql import KINDS
from airflow_sitemaps.sources.driver import Rows, Statement, guarded, partitions, with_label

if TYPE_CHECKING:
    from airflow_sitemaps.sources.user_texts import NamePart

WRAPPERS = ("nullable(", "lowcardinality(")

TABLE: Final = sa.text("""
SELECT engine, concat(toString(uuid), ' ', hex(MD5(create_table_query)))
FROM system.tables WHERE database = if(:base = '', currentDatabase(), :base) AND name = :name
""")  # fmt: skip
PARTS: Final = sa.text("""
SELECT count(), sum(rows), hex(MD5(arrayStringConcat(arraySort(groupArray(concat(name, ' ', hash_of_all_files))), '\n')))
FROM system.parts WHERE active AND database = if(:base = '', currentDatabase(), :base) AND table = :name
""")  # fmt: skip
INEXACT: Final = sa.text("""
SELECT
  (SELECT count() FROM system.mutations WHERE NOT is_done
    AND database = if(:base = '', currentDatabase(), :base) AND table = :name)
  + (SELECT count() FROM system.columns WHERE (default_kind = 'ALIAS' OR position(default_expression, '(') > 0)
    AND database = if(:base = '', currentDatabase(), :base) AND table = :name)
""")  # fmt: skip
"""What makes rows change while no part does: mutations under way, and columns that are computed when they are read."""

REPLICATED: Final = ("Replicated", "Shared")
"""``ReplicatedMergeTree``, and ``SharedMergeTree`` of ClickHouse Cloud."""

FORMATS: Final = {"String": "bytes"}
"""A String need not be UTF-8. As a text, clickhouse-connect would return the hexadecimal digits of one that is not."""


def _bare(type_name: str) -> str:
    for wrapper in WRAPPERS:
        if type_name.lower().startswith(wrapper):
            return _bare(type_name[len(wrapper) : -1])
    return type_name


def _client_of(connection: sa.Connection) -> Any | None:
    """Return clickhouse-connect's client, or None if the driver is another."""
    client = getattr(connection.connection.dbapi_connection, "client", None)
    return client if hasattr(client, "query_row_block_stream") else None


def _query_of(connection: sa.Connection, statement: Statement) -> tuple[str, dict[str, Any]]:
    text, values = statement
    compiled = text.compile(dialect=connection.dialect)
    parameters = dict(compiled.construct_params(values))
    # The client fills in values by Python's % operator, only where there are some.
    sql = compiled.string if parameters else compiled.string.replace("%%", "%")
    return with_label(connection, sql), parameters


class ClickHouse(Warehouse):
    """ClickHouse, with clickhouse-sqlalchemy or clickhouse-connect."""

    name: ClassVar[str] = "clickhouse"
    drivers: ClassVar[tuple[tuple[str, str], ...]] = (
        ("clickhousedb", "clickhouse_connect"),
        ("clickhouse+native", "clickhouse_sqlalchemy"),
    )
    escapes_backslash: ClassVar[bool] = True

    # The default of max_query_size is 262,144 bytes.
    max_binds: ClassVar[int] = 5_000
    max_statement_bytes: ClassVar[int] = 120_000
    max_case: ClassVar[int] = 300

    hash_version: ClassVar[str] = "cityhash64/1"
    hash_sql: ClassVar[str] = "cityHash64(assumeNotNull({}))"
    hash_type: ClassVar[Any] = pa.uint64()
    # sum() of UInt64 overflows silently
    checksum_sql: ClassVar[str] = "toString(SUM(toUInt256({})))"
    byte_length_sql: ClassVar[str] = "toString(length({}))"
    now_sql: ClassVar[str] = "SELECT toString(now64(6, 'UTC'))"
    # They can be NULL, so that rows without a group get NULL, not ''
    members_sql: ClassVar[str] = (
        "toNullable(concat('[', arrayStringConcat(arraySort(groupArray(toJSONString([{texts}]))), ','), ']'))"
    )
    member_text_sql: ClassVar[str] = "assumeNotNull({})"

    kinds: ClassVar[Mapping[object, Kind]] = {
        **KINDS, "datetime": Kind.ZONED, "datetime64": Kind.ZONED,
        **dict.fromkeys(("uint8", "uint16", "uint32"), Kind.INTEGER),
    }  # fmt: skip
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "Int64", Kind.NUMBER: "Decimal(38, 10)", Kind.DATE: "Date32",
        Kind.ZONED: "DateTime64(6, 'UTC')", Kind.UUID: "UUID", Kind.BOOLEAN: "Bool",
    }  # fmt: skip
    text_type: ClassVar[str] = "String"
    # toString keeps NULL; a CAST to String refuses it
    text_sql: ClassVar[str] = "toString({})"
    text_sql_of: ClassVar[Mapping[Kind, str]] = {Kind.ZONED: "toString(toTimeZone({}, 'UTC'))"}
    number_sql: ClassVar[str] = "toFloat64({})"
    float_key: ClassVar[str] = "if(isNaN({value}), inf, {value})"
    # Drivers disagree on the zone of a time, so it is read as a text, to the second
    time_kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.DATE})
    lastmod_sql_of: ClassVar[Mapping[Kind, str]] = {
        Kind.ZONED: "concat(substring(toString(toTimeZone({}, 'UTC')), 1, 19), 'Z')"
    }
    listed_part_sql: ClassVar[str] = "given.1[{number}]"
    listed_rows_sql: ClassVar[str] = (
        "SELECT {parts}, given.2 - 1 AS place FROM (SELECT arrayJoin(arrayZip(listed, arrayEnumerate(listed))) AS given"
        " FROM (SELECT JSONExtract({given}, 'Array(Array(String))') AS listed))"
    )
    # It takes one number or time, and an equality besides
    asof_sql: ClassVar[str] = (
        "SELECT COALESCE(ends.number, 0) AS bucket, {names} FROM"
        " (SELECT assumeNotNull({key}) AS row_key, 1 AS joined, {measures} FROM {from_item} WHERE {where}) measured"
        " ASOF LEFT JOIN (SELECT k0, place + 1 AS number, 1 AS joined FROM ({given}) given_keys) ends"
        " ON measured.joined = ends.joined AND measured.row_key >= ends.k0"
    )
    asof_kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.DATE, Kind.ZONED})

    def kind(self, type_name: str) -> Kind:
        return super().kind(_bare(type_name.strip()))

    def type_of(self, description: Sequence[Any]) -> str:
        """Return the own type, since a Float64 and a text have no common order. Of times in UTC, as their texts are."""
        name = _bare(str(description[1]))
        if self.kind(name) is Kind.ZONED:
            return f"DateTime64({name[11]}, 'UTC')" if name.startswith("DateTime64(") else "DateTime('UTC')"
        return guarded(name)

    def rows(self, connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
        """Stream the rows block by block, as clickhouse-connect does. Its cursor would hold the whole result in memory."""
        client = _client_of(connection)
        if client is None:
            yield from partitions(connection, statement)
            return
        with client.query_row_block_stream(*_query_of(connection, statement), query_formats=FORMATS) as stream:
            for block in stream:
                if block:
                    yield block

    def arrow_rows(
        self, connection: sa.Connection, statement: Statement, tell: Callable[[str], None]
    ) -> Generator[pa.RecordBatch | Rows, None, None]:
        """Stream by ``query_arrow_stream``. Texts come as bytes: a String need not be UTF-8."""
        client = _client_of(connection)
        if client is None:
            tell("through a cursor, because only clickhouse-connect streams Arrow")
            yield from partitions(connection, statement)
            return
        tell("Arrow batches by query_arrow_stream")
        with client.query_arrow_stream(*_query_of(connection, statement), use_strings=False) as batches:
            yield from batches

    def table_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> str | None:
        """Return the definition and active parts of a MergeTree table, or None if its parts do not determine its rows.

        A replicated table has no version: each statement may reach another replica, one that lacks parts of it. If a
        policy or a lightweight delete hides rows, the table has fewer rows than its parts.
        """
        *database, name = [part.text for part in table]
        values = {"base": database[-1] if database else "", "name": name}
        row = connection.execute(TABLE, values).first()
        engine = "" if row is None else str(row[0])
        if row is None or not engine.endswith("MergeTree") or engine.startswith(REPLICATED):
            return None
        parts = connection.execute(PARTS, values).one()
        rows = connection.execute(sa.text(f"SELECT count() FROM {self.table_name(table)}")).scalar_one()
        # No part is also what a role sees that may not look at them.
        if not int(parts[1]) or int(parts[1]) != int(rows) or int(connection.execute(INEXACT, values).scalar_one()):
            return None
        return f"{row[1]} {parts[0]} {parts[1]} {parts[2]}"

    def key_value(self, column: Column) -> str:
        """Return SQL for the canonical value, with ``%`` and the bytes of a String that is not UTF-8 percent-encoded."""
        value = super().key_value(column)
        if column.kind is not Kind.TEXT:
            return value
        return f"if(isValidUTF8({value}), replaceAll({value}, '%', '%25'), encodeURLComponent({value}))"

    def key_bind(self, column: Column, placeholder: str) -> str:
        return super().key_bind(
            column, f"decodeURLComponent({placeholder})" if column.kind is Kind.TEXT else placeholder
        )
