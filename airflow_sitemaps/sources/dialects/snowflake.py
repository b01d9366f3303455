"""Snowflake: half of MD5. The tests run its statements through fakesnow, not on Snowflake itself.

https://docs.snowflake.com/en/sql-reference/functions/system_last_change_commit_time
https://docs.snowflake.com/en/sql-reference/info-schema/tables
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import sqlalchemy as sa

from airflow_sitemaps.sources.columns import NUMBERS, TIMES, Kind
from airflow_sitemaps.sources.dialects.base import Warehouse
from airflow_sitemaps.sources.driver import guarded

if TYPE_CHECKING:
    from airflow_sitemaps.sources.user_texts import NamePart


class Snowflake(Warehouse):
    """Snowflake, with snowflake-sqlalchemy."""

    name: ClassVar[str] = "snowflake"
    arrow_method: ClassVar[str] = "fetch_arrow_batches"
    escapes_backslash: ClassVar[bool] = True

    folds_names: ClassVar[bool] = True
    max_binds: ClassVar[int] = 10_000
    max_statement_bytes: ClassVar[int] = 500_000
    max_case: ClassVar[int] = 500

    session_sql: ClassVar[tuple[str, ...]] = (
        (
            "ALTER SESSION SET TIMEZONE = 'UTC', DATE_OUTPUT_FORMAT = 'YYYY-MM-DD',"
            " TIMESTAMP_NTZ_OUTPUT_FORMAT = 'YYYY-MM-DD HH24:MI:SS.FF9',"
            " TIMESTAMP_LTZ_OUTPUT_FORMAT = 'YYYY-MM-DD HH24:MI:SS.FF9 TZHTZM',"
            " TIMESTAMP_TZ_OUTPUT_FORMAT = 'YYYY-MM-DD HH24:MI:SS.FF9 TZHTZM', BINARY_OUTPUT_FORMAT = 'HEX'"
        ),
    )
    now_sql: ClassVar[str] = "SELECT SYSDATE()"
    # Snowflake keeps it for the table's DATA_RETENTION_TIME_IN_DAYS, one by default
    as_of_sql: ClassVar[str] = "AT (TIMESTAMP => CAST('{moment}' AS TIMESTAMP_TZ))"

    hash_version: ClassVar[str] = "md5-lower64/1"
    # Half of the MD5 of the text's bytes, which no collation affects. HASH would be faster, but Snowflake does not guarantee
    # the same result across releases.
    hash_sql: ClassVar[str] = "MD5_NUMBER_LOWER64({})"
    hash_type: ClassVar[Any] = pa.uint64()
    # NUMBER(38, 0) holds the sum of more rows than a table can have
    checksum_sql: ClassVar[str] = "TO_VARCHAR(SUM(CAST({} AS NUMBER(20, 0))))"
    byte_length_sql: ClassVar[str] = "TO_VARCHAR(OCTET_LENGTH({}))"
    members_sql: ClassVar[str] = "TO_JSON(ARRAY_AGG(ARRAY_CONSTRUCT({texts})) WITHIN GROUP (ORDER BY {orders}))"

    kinds: ClassVar[Mapping[object, Kind]] = {
        1: Kind.NUMBER,  # REAL
        2: Kind.TEXT,
        3: Kind.DATE,
        **dict.fromkeys((4, 8), Kind.TIMESTAMP),  # TIMESTAMP, TIMESTAMP_NTZ
        **dict.fromkeys((6, 7), Kind.ZONED),  # TIMESTAMP_LTZ, TIMESTAMP_TZ
        **dict.fromkeys((5, 9, 10), Kind.JSON),  # VARIANT, OBJECT, ARRAY
        11: Kind.BINARY,
        13: Kind.BOOLEAN,
    }
    """The kind of each type, by the connector's number of it. Number 0 is FIXED, which is whole if its scale is 0."""

    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "NUMBER(38, 0)", Kind.NUMBER: "NUMBER(38, 18)", Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMP_NTZ", Kind.ZONED: "TIMESTAMP_TZ", Kind.BOOLEAN: "BOOLEAN",
    }  # fmt: skip
    # In the formats that the session sets
    text_sql: ClassVar[str] = "TO_VARCHAR({})"
    text_sql_of: ClassVar[Mapping[Kind, str]] = {
        Kind.JSON: "TO_JSON({})",
        Kind.ZONED: "TO_VARCHAR(CONVERT_TIMEZONE('UTC', {}))",
    }
    number_sql: ClassVar[str] = "CAST({} AS FLOAT)"
    # Without its zone, which the driver reads the same way in every session's zone
    lastmod_sql_of: ClassVar[Mapping[Kind, str]] = {Kind.ZONED: "CONVERT_TIMEZONE('UTC', {})"}
    listed_part_sql: ClassVar[str] = "CAST(given.value[{at}] AS VARCHAR)"
    listed_rows_sql: ClassVar[str] = (
        "SELECT {parts}, given.index AS place FROM TABLE(FLATTEN(INPUT => PARSE_JSON({given}))) given"
    )
    # Rows below the first key have no match
    asof_sql: ClassVar[str] = (
        "SELECT COALESCE(given_keys.place + 1, 0) AS bucket, {names} FROM"
        " (SELECT {key} AS row_key, {measures} FROM {from_item} WHERE {where}) measured"
        " ASOF JOIN ({given}) given_keys MATCH_CONDITION (measured.row_key >= given_keys.k0)"
    )
    asof_kinds: ClassVar[frozenset[Kind]] = NUMBERS | TIMES

    def arrow_batches(self, cursor: Any) -> Iterator[pa.RecordBatch] | None:
        """Return the batches of ``fetch_arrow_batches``, or None if the connector has no Arrow for this result.

        https://docs.snowflake.com/en/developer-guide/python-connector/python-connector-api
        """
        fetch = getattr(cursor, "fetch_arrow_batches", None)
        if fetch is None:
            return None
        # Nanoseconds of 64 bits end in the year 2262.
        has_microseconds = "force_microsecond_precision" in signature(fetch).parameters
        tables = fetch(force_microsecond_precision=True) if has_microseconds else fetch()
        return chain.from_iterable(table.to_batches() for table in tables)

    def kind_of(self, description: Sequence[Any]) -> Kind:
        code, scale = (int(str(value or 0)) for value in (description[1], description[5]))
        if code == 0:
            # Every integer type is NUMBER(38, 0) in Snowflake. Reading a key beyond 64 bits raises an error.
            return Kind.INTEGER if scale == 0 else Kind.NUMBER
        return self.kinds.get(code, Kind.OTHER)

    def type_of(self, description: Sequence[Any]) -> str:
        """Return the own type of a number that is not whole: a large one does not fit into that of ``cast_types``."""
        code, precision, scale = (int(str(description[place] or 0)) for place in (1, 4, 5))
        if code == 1:
            return "FLOAT"
        return f"NUMBER({precision}, {scale})" if code == 0 and scale and precision else ""

    def table_version(self, connection: sa.Connection, table: Sequence[NamePart]) -> str | None:
        """Return a table's definition and last change, or None if its rows can change without a change of the table.

        A row access or masking policy reads other tables. An Iceberg or hybrid table may be written elsewhere.
        """
        parts = [self.quote_table(part).replace("\\:", ":") for part in table]
        names = [part[1:-1].replace('""', '"') if part.startswith('"') else part.upper() for part in parts]
        catalog = f"{guarded(parts[-3])}." if len(parts) > 2 else ""
        row = connection.execute(
            sa.text(
                f"SELECT CREATED, LAST_DDL FROM {catalog}INFORMATION_SCHEMA.TABLES WHERE TABLE_NAME = :name"
                " AND TABLE_SCHEMA = COALESCE(:space, CURRENT_SCHEMA()) AND TABLE_TYPE = 'BASE TABLE'"
                " AND IS_ICEBERG = 'NO' AND IS_HYBRID = 'NO'"
            ),
            {"name": names[-1], "space": names[-2] if len(names) > 1 else None},
        ).first()
        if row is None:
            return None
        whole = {"whole": ".".join(parts)}
        policies = sa.text(
            f"SELECT COUNT(*) FROM TABLE({catalog}INFORMATION_SCHEMA.POLICY_REFERENCES("
            "REF_ENTITY_NAME => :whole, REF_ENTITY_DOMAIN => 'TABLE'))"
        )
        if int(connection.execute(policies, whole).scalar_one()):
            return None
        token = connection.execute(sa.text("SELECT SYSTEM$LAST_CHANGE_COMMIT_TIME(:whole)"), whole).scalar_one()
        return None if token is None else f"{row[0]} {row[1]} {token}"
