"""BigQuery: FARM_FINGERPRINT. The tests run its statements transpiled, not on BigQuery itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa
import sqlalchemy as sa

from airflow_sitemaps.shards.ranges import Key
from airflow_sitemaps.sources.columns import Column, Kind
from airflow_sitemaps.sources.dialects.base import Warehouse
from airflow_sitemaps.sources.dialects.value_sql import KINDS
from airflow_sitemaps.sources.driver import Binds, Statement, literal


class BigQuery(Warehouse):
    """BigQuery, with sqlalchemy-bigquery."""

    name: ClassVar[str] = "bigquery"
    arrow_method: ClassVar[str] = "to_arrow_iterable"
    escapes_backslash: ClassVar[bool] = True
    estimates_scans: ClassVar[bool] = True

    # A query may have 10,000 parameters and 1 MB of unresolved SQL.
    max_binds: ClassVar[int] = 10_000
    max_statement_bytes: ClassVar[int] = 500_000
    max_case: ClassVar[int] = 500

    hash_version: ClassVar[str] = "farm_fingerprint/1"
    # The fingerprint of open-source FarmHash, which never changes
    hash_sql: ClassVar[str] = "FARM_FINGERPRINT({})"
    checksum_sql: ClassVar[str] = "CAST(SUM(CAST({} AS BIGNUMERIC)) AS STRING)"
    byte_length_sql: ClassVar[str] = "CAST(BYTE_LENGTH({}) AS STRING)"
    now_sql: ClassVar[str] = "SELECT CURRENT_TIMESTAMP()"
    # BigQuery keeps it for seven days by default
    as_of_sql: ClassVar[str] = "FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}'"
    # BigQuery has no array of arrays
    members_sql: ClassVar[str] = "CONCAT('[', STRING_AGG(TO_JSON_STRING([{texts}]), ',' ORDER BY {orders}), ']')"

    kinds: ClassVar[Mapping[object, Kind]] = {**KINDS, "timestamp": Kind.ZONED}
    cast_types: ClassVar[Mapping[Kind, str]] = {
        Kind.INTEGER: "INT64", Kind.NUMBER: "BIGNUMERIC", Kind.DATE: "DATE", Kind.TIMESTAMP: "DATETIME",
        Kind.ZONED: "TIMESTAMP", Kind.BOOLEAN: "BOOL", Kind.BINARY: "BYTES",
    }  # fmt: skip
    # A float may not fit into a BIGNUMERIC
    own_types: ClassVar[Mapping[object, str]] = {"float": "FLOAT64", "float64": "FLOAT64"}
    text_type: ClassVar[str] = "STRING"
    text_sql: ClassVar[str] = "CAST({} AS STRING)"
    text_sql_of: ClassVar[Mapping[Kind, str]] = {
        Kind.JSON: "TO_JSON_STRING({})", Kind.BINARY: "TO_HEX({})", Kind.ZONED: "STRING({}, 'UTC')",
    }  # fmt: skip
    number_sql: ClassVar[str] = "CAST({} AS FLOAT64)"
    float_key: ClassVar[str] = "IF(IS_NAN({value}), CAST('inf' AS FLOAT64), {value})"
    key_bind_of: ClassVar[Mapping[Kind, str]] = {Kind.BINARY: "FROM_HEX({})"}

    @classmethod
    def hook_engine(cls, connection: Any, hook: Any) -> sa.Engine:
        """Create an engine over the hook's own client, which supports impersonation, key files and the location.

        ``google_cloud_platform`` has the same fields as ``gcpbigquery``, but no hook with an engine.
        """
        hook_type = import_module("airflow.providers.google.cloud.hooks.bigquery").BigQueryHook
        hook = hook_type(gcp_conn_id=connection.conn_id, location=connection.extra_dejson.get("location"))
        client = hook.get_client(project_id=hook.project_id, location=hook.location)
        url = sa.URL.create("bigquery", host=client.project, query={"user_supplied_client": "true"})
        return sa.create_engine(url, connect_args={"client": client})

    def arrow_batches(self, cursor: Any) -> Iterator[pa.RecordBatch] | None:
        """Return the batches of ``RowIterator.to_arrow_iterable`` in the rows' order, or None without such an iterator.

        They come by the Storage API where ``google-cloud-bigquery-storage`` is installed, else by the REST API.
        https://cloud.google.com/python/docs/reference/bigquery/latest/google.cloud.bigquery.table.RowIterator
        """
        rows: Any = getattr(cursor, "_query_rows", None)
        if rows is None:
            job = getattr(cursor, "query_job", None)
            rows = job.result() if job is not None else None
        if not hasattr(rows, "to_arrow_iterable"):
            return None
        storage = getattr(cursor.connection, "_bqstorage_client", None)
        batches: Iterator[pa.RecordBatch] = rows.to_arrow_iterable(bqstorage_client=storage, max_stream_count=1)
        return batches

    def scanned_bytes(self, connection: sa.Connection, statement: Statement) -> int:
        """Return the bytes of a free dry run: exact for tables that are not clustered, else an upper bound.

        See https://cloud.google.com/bigquery/docs/best-practices-costs.
        """
        # As sqlalchemy-bigquery itself finds the client of its connections.
        client: Any = getattr(connection.connection.driver_connection, "_client", None)
        make: Callable[..., sa.Dialect] = type(connection.dialect)
        sql = literal(statement, make(paramstyle="named"), self.text_literal)
        config: Any = import_module("google.cloud.bigquery").QueryJobConfig(dry_run=True, use_query_cache=False)
        return int(client.query(sql, job_config=config).total_bytes_processed)

    def boundary_rows(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str:
        """Return a query of all keys in one JSON bind, each with its position as the last of its texts."""
        place = Column(name="place", kind=Kind.INTEGER)
        given = self.key_list((*columns, place), [(*key, number) for number, key in enumerate(keys)], binds)
        texts = [f"JSON_VALUE(part, '$[{number}]')" for number in range(len(columns) + 1)]
        parts = [f"{self.listed_key(c, text)} AS k{n}" for n, (c, text) in enumerate(zip(columns, texts, strict=False))]
        return f"SELECT {', '.join(parts)}, CAST({texts[-1]} AS INT64) AS place FROM UNNEST(JSON_QUERY_ARRAY({given})) AS part"

    def buckets(self, columns: Sequence[Column], keys: Sequence[Key], binds: Binds) -> str | None:
        if len(columns) != 1:
            return None
        ends = f"ARRAY(SELECT k0 FROM ({self.boundary_rows(columns, keys, binds)}) given ORDER BY place)"
        return f"RANGE_BUCKET({self.key_order(columns[0])}, {ends})"
