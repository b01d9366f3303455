"""BigQuery's Storage API on loopback: gRPC from the client's own generated types, and Arrow from the rows of a query.

Each query of ``tests.support.bigquery_rest`` keeps its rows here, as the temporary table of its job.
"""

from __future__ import annotations

import atexit
from concurrent import futures
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PART_ROWS: Final = 4
"""The rows of one answer, so that results come in several parts."""
SERVICE: Final = "google.cloud.bigquery.storage.v1.BigQueryRead"
ARROW: Final = {
    "INTEGER": pa.int64(),
    "STRING": pa.string(),
    "JSON": pa.string(),
    "BYTES": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "FLOAT": pa.float64(),
    "NUMERIC": pa.decimal128(38, 9),
    "DATE": pa.date32(),
    "DATETIME": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
}
"""By BigQuery's type, that of Arrow: https://cloud.google.com/bigquery/docs/reference/storage#arrow_schema_details"""

TABLES: Final[dict[str, pa.Table]] = {}
"""The results of queries, by job."""
READ: Final[list[str]] = []
"""The tables that were read."""


def keep(job: str, fields: Sequence[dict[str, Any]], rows: Sequence[tuple[Any, ...]]) -> None:
    """Keep the result of a query."""
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays = [pa.array(values, ARROW[field["type"]]) for field, values in zip(fields, columns, strict=True)]
    TABLES[job] = pa.Table.from_arrays(arrays, names=[field["name"] for field in fields])


def _create_read_session(request: Any, _context: Any) -> Any:
    """A session with at most as many streams as the client asks for; an empty table has none."""
    from google.cloud.bigquery_storage_v1 import types  # noqa: PLC0415 - only where the packages are

    assert request.read_session.data_format == types.DataFormat.ARROW
    assert request.max_stream_count == 1, "several streams have no order"
    job = request.read_session.table.rpartition("/")[2]
    table = TABLES[job]
    READ.append(job)
    return types.ReadSession(
        name=f"sessions/{job}",
        table=request.read_session.table,
        data_format=types.DataFormat.ARROW,
        arrow_schema=types.ArrowSchema(serialized_schema=table.schema.serialize().to_pybytes()),
        streams=[types.ReadStream(name=f"sessions/{job}/streams/0")] if table.num_rows else [],
    )


def _read_rows(request: Any, _context: Any) -> Iterator[Any]:
    """The batches of a stream from an offset. The first answer has the schema."""
    from google.cloud.bigquery_storage_v1 import types  # noqa: PLC0415 - only where the packages are

    table = TABLES[request.read_stream.split("/")[1]]
    schema = types.ArrowSchema(serialized_schema=table.schema.serialize().to_pybytes())
    for number, batch in enumerate(table.slice(request.offset).combine_chunks().to_batches(max_chunksize=PART_ROWS)):
        first = {} if number else {"arrow_schema": schema}
        yield types.ReadRowsResponse(
            row_count=batch.num_rows,
            arrow_record_batch=types.ArrowRecordBatch(serialized_record_batch=batch.serialize().to_pybytes()),
            **first,
        )


@cache
def _address() -> str:
    import grpc  # noqa: PLC0415 - only where the packages are
    from google.cloud.bigquery_storage_v1 import types  # noqa: PLC0415

    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    handlers = {
        "CreateReadSession": grpc.unary_unary_rpc_method_handler(
            _create_read_session, types.CreateReadSessionRequest.deserialize, types.ReadSession.serialize
        ),
        "ReadRows": grpc.unary_stream_rpc_method_handler(
            _read_rows, types.ReadRowsRequest.deserialize, types.ReadRowsResponse.serialize
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    atexit.register(server.stop, None)
    return f"127.0.0.1:{port}"


@cache
def client() -> Any:
    """The real client of the Storage API, over a channel to the server of this process."""
    import grpc  # noqa: PLC0415 - only where the packages are
    from google.cloud.bigquery_storage_v1 import BigQueryReadClient  # noqa: PLC0415
    from google.cloud.bigquery_storage_v1.services.big_query_read.transports import (  # noqa: PLC0415
        BigQueryReadGrpcTransport,
    )

    return BigQueryReadClient(transport=BigQueryReadGrpcTransport(channel=grpc.insecure_channel(_address())))
