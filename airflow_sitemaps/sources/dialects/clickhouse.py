"""ClickHouse: cityHash64. The tests run it live within the process (chdb), with its own client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import sqlalchemy as sa

from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Dialect
from airflow_sitemaps.sources.readers import clickhouse_stream
from airflow_sitemaps.sources.statements.binds import guarded

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.sources.readers.streams import Rows
    from airflow_sitemaps.sources.statements.binds import Binds, Statement
    from airflow_sitemaps.sources.statements.relation import Relation
    from airflow_sitemaps.sources.statements.table_name import NamePart

ASOF_KINDS = frozenset({Kind.INTEGER, Kind.NUMBER, Kind.DATE, Kind.ZONED})
"""The kinds that an ASOF join compares."""
WRAPPERS = ("nullable(", "lowcardinality(")


def _bare(type_name: str) -> str:
    """Return a type's name without ``Nullable`` and ``LowCardinality``."""
    for wrapper in WRAPPERS:
        if type_name.lower().startswith(wrapper):
            return _bare(type_name[len(wrapper) : -1])
    return type_name


TABLE: Final = sa.text(
    """
SELECT engine, concat(toString(uuid), ' ', hex(MD5(create_table_query)))
FROM system.tables WHERE database = if(:base = '', currentDatabase(), :base) AND name = :name
"""
)
PARTS: Final = sa.text(
    """
SELECT count(), sum(rows), hex(MD5(arrayStringConcat(arraySort(groupArray(concat(name, ' ', hash_of_all_files))), '\n')))
FROM system.parts WHERE active AND database = if(:base = '', currentDatabase(), :base) AND table = :name
"""
)
INEXACT: Final = sa.text(
    """
SELECT
  (SELECT count() FROM system.mutations WHERE NOT is_done
    AND database = if(:base = '', currentDatabase(), :base) AND table = :name)
  + (SELECT count() FROM system.columns WHERE (default_kind = 'ALIAS' OR position(default_expression, '(') > 0)
    AND database = if(:base = '', currentDatabase(), :base) AND table = :name)
"""
)
"""What makes rows change while no part does: mutations under way, and columns that are computed when they are read."""

REPLICATED: Final = ("Replicated", "Shared")
"""How the engines of replicated tables begin: ``ReplicatedMergeTree``, and ``SharedMergeTree`` of ClickHouse Cloud."""


def version_of(connection: sa.Connection, table: Sequence[NamePart], from_item: str) -> str | None:
    """Return the version of a table of the MergeTree family, or None if its parts do not determine its rows.

    A replicated table has no version: each statement may reach another replica, and the survey may read one that has
    not received the parts of the version yet.

    Rows that a policy or a lightweight delete hides are in the parts, so the table then has fewer rows than its parts.

    Args:
        from_item: The table for ``FROM``.
    """
    *database, name = [part.text for part in table]
    values = {"base": database[-1] if database else "", "name": name}
    table_row = connection.execute(TABLE, values).first()
    engine = "" if table_row is None else str(table_row[0])
    if table_row is None or not engine.endswith("MergeTree") or engine.startswith(REPLICATED):
        return None
    parts = connection.execute(PARTS, values).one()
    rows = connection.execute(sa.text(f"SELECT count() FROM {from_item}")).scalar_one()
    # No part is also what a role sees that may not look at them.
    if not int(parts[1]) or int(parts[1]) != int(rows) or int(connection.execute(INEXACT, values).scalar_one()):
        return None
    return f"{table_row[1]} {parts[0]} {parts[1]} {parts[2]}"


class ClickHouse(Dialect):
    """ClickHouse, with clickhouse-sqlalchemy or clickhouse-connect."""

    name: ClassVar[str] = "clickhouse"
    hash_version: ClassVar[str] = "cityhash64/1"
    enforces_keys: ClassVar[bool] = False
    lists_keys: ClassVar[bool] = True
    joins_ranges: ClassVar[bool] = True
    sorts_in_parts: ClassVar[bool] = True
    escapes_backslash: ClassVar[bool] = True
    float_key: ClassVar[str] = "if(isNaN({value}), inf, {value})"

    # The default of max_query_size is 262,144 bytes.
    max_binds: ClassVar[int] = 5_000
    max_statement_bytes: ClassVar[int] = 120_000
    max_case: ClassVar[int] = 300

    now_sql: ClassVar[str] = "SELECT toString(now64(6, 'UTC'))"

    kinds: ClassVar[Mapping[str, Kind]] = {
        "int8": Kind.INTEGER,
        "int16": Kind.INTEGER,
        "int32": Kind.INTEGER,
        "int64": Kind.INTEGER,
        "uint8": Kind.INTEGER,
        "uint16": Kind.INTEGER,
        "uint32": Kind.INTEGER,
        "uint64": Kind.NUMBER,
        "decimal": Kind.NUMBER,
        "float32": Kind.NUMBER,
        "float64": Kind.NUMBER,
        "string": Kind.TEXT,
        "fixedstring": Kind.TEXT,
        "date": Kind.DATE,
        "date32": Kind.DATE,
        "datetime": Kind.ZONED,
        "datetime64": Kind.ZONED,
        "uuid": Kind.UUID,
        "bool": Kind.BOOLEAN,
        "json": Kind.JSON,
    }
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "Int64",
        Kind.NUMBER: "Decimal(38, 10)",
        Kind.DATE: "Date32",
        Kind.ZONED: "DateTime64(6, 'UTC')",
        Kind.UUID: "UUID",
        Kind.BOOLEAN: "Bool",
    }
    text_type: ClassVar[str] = "String"

    def kind(self, type_name: str) -> Kind:
        """Return the kind of a type, without regard to ``Nullable`` and ``LowCardinality``."""
        return super().kind(_bare(type_name.strip()))

    def describe(self, connection: sa.Connection, relation: Relation, names: Sequence[str]) -> dict[str, Column]:
        """Return names and types from a result's description. Keys are cast to the column's own type.

        ClickHouse cannot compare a Float64 with a text, and a UNION of both has a type without an order.
        """
        sql = f"SELECT src.* FROM {relation.from_item(self)} WHERE 1 = 0"
        with connection.execute(*relation.binds().statement(sql)) as result:
            described = result.cursor.description if result.cursor is not None else ()
        return {
            str(name): Column(name=str(name), kind=self.kind(str(code)), type_name=guarded(_bare(str(code))))
            for name, code, *_rest in described or ()
        }

    def rows(self, connection: sa.Connection, statement: Statement) -> Generator[Rows, None, None]:
        """Stream the rows of a statement by the client, block by block."""
        return clickhouse_stream.blocks(connection, statement)

    def table_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> str | None:
        """Return the table's definition and active parts as a version."""
        return version_of(connection, table, ".".join(self.quote_table(part) for part in table))

    def as_text(self, expression: str, column: Column) -> str:
        """Return SQL for a text by toString, with moments in UTC. toString keeps NULL; a CAST to String refuses it."""
        if column.kind is Kind.ZONED:
            return f"toString(toTimeZone({expression}, 'UTC'))"
        return f"toString({expression})"

    def key_value(self, column: Column) -> str:
        """Return SQL for the canonical value, with ``%`` and the bytes of a String that is not UTF-8 percent-encoded."""
        value = super().key_value(column)
        if column.kind is not Kind.TEXT:
            return value
        return f"if(isValidUTF8({value}), replaceAll({value}, '%', '%25'), encodeURLComponent({value}))"

    def key_bind(self, column: Column, placeholder: str) -> str:
        """Return SQL that turns a canonical value into the column's type."""
        is_text = column.kind is Kind.TEXT
        return super().key_bind(column, f"decodeURLComponent({placeholder})" if is_text else placeholder)

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Return a query of all keys in one JSON bind."""
        given = self.key_list(columns, keys, binds)
        parts = ", ".join(f"{self.listed_key(c, f'given.1[{n + 1}]')} AS k{n}" for n, c in enumerate(columns))
        listed = f"SELECT JSONExtract({given}, 'Array(Array(String))') AS listed"
        rows = f"SELECT arrayJoin(arrayZip(listed, arrayEnumerate(listed))) AS given FROM ({listed})"
        return f"SELECT {parts}, given.2 - 1 AS place FROM ({rows})"

    def bucket_rows(
        self, columns: Sequence[Column], keys: Sequence[Key], from_item: str, where: str, measures: str, binds: Binds
    ) -> str | None:
        """Return an ASOF join, which takes one number or time, and an equality besides."""
        if len(columns) != 1 or columns[0].kind not in ASOF_KINDS:
            return None
        key = self.key_order(columns[0])
        ends = (
            f"SELECT k0, place + 1 AS number, 1 AS joined FROM ({self.boundary_rows(columns, keys, binds)}) given_keys"
        )
        return (
            f"SELECT COALESCE(ends.number, 0) AS bucket, measured.newest AS newest, measured.row_hash AS row_hash FROM"
            f" (SELECT assumeNotNull({key}) AS row_key, 1 AS joined, {measures} FROM {from_item} WHERE {where}) measured"
            f" ASOF LEFT JOIN ({ends}) ends ON measured.joined = ends.joined AND measured.row_key >= ends.k0"
        )

    def byte_length(self, text: str) -> str:
        """Return SQL for the number of bytes."""
        return f"toString(length({text}))"

    def members(self, group: Column, columns: Sequence[Column], from_item: str, where: str, most: int) -> str:
        """Write the arrays as texts, sorted and joined. They can be NULL, so that rows without a group get NULL, not ''."""
        texts = ", ".join(f"assumeNotNull({self.emit_text(column)})" for column in columns)
        joined = f"arrayStringConcat(arraySort(groupArray(toJSONString([{texts}]))), ',')"
        return self.aggregated(f"toNullable(concat('[', {joined}, ']'))", group, from_item, where, most)

    def hash_of(self, text: str) -> str:
        """Return SQL for the cityHash64 of a text, which is never NULL here."""
        return f"cityHash64(assumeNotNull({text}))"

    def hash_type(self) -> Any:
        """Return uint64: the hash is unsigned."""
        return pa.uint64()

    def checksum(self, hashes: str) -> str:
        """Return SQL for the sum in 256 bits: sum() of UInt64 overflows silently."""
        return f"toString(SUM(toUInt256({hashes})))"

    def emit_number(self, column: Column) -> str:
        """Return SQL for a float by toFloat64, which keeps NULL."""
        return f"toFloat64({self.column(column)})"

    def lastmod_is_text(self, column: Column) -> bool:
        """Return whether the lastmod is a text. All but dates are, because drivers disagree on the zone of a time."""
        return column.kind is not Kind.DATE

    def emit_lastmod(self, column: Column) -> str:
        """Return SQL for a moment as text: in UTC, to the second, ending in ``Z``."""
        if column.kind is Kind.ZONED:
            return f"concat(substring({self.as_text(self.column(column), column)}, 1, 19), 'Z')"
        return super().emit_lastmod(column)
