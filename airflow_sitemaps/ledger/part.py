"""A ledger part: what one shard's URLs have been through, as private Parquet, one row per listed URL in the shard's order.

``decode`` returns what ``encode`` was given. Equal rows give equal bytes, so an unchanged part is not stored again.
"""

from __future__ import annotations

import hashlib
import html
import re
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

MOMENT: Final = pa.timestamp("ms", "UTC")
"""Type of the times. They are whole seconds; Parquet has no type for those."""

SCHEMA: Final = pa.schema(
    [
        pa.field("loc", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("lastmod", pa.string()),
        pa.field("fingerprint", pa.int64()),
        pa.field("first_listed", MOMENT),
        pa.field("changed_at", MOMENT),
    ]
)
"""Columns of a part.

``loc`` and ``lastmod`` are as listed. ``key`` is a JSON array of the row's key, as of the last writing. The fingerprint
has 64 bits over what makes the page. ``first_listed`` is the time of the run that listed the URL first, null if its age is
not known. ``changed_at`` is the time of the run that last saw another fingerprint, null until one did.
"""

JOINED: Final = ["loc", "fingerprint", "first_listed", "changed_at"]
"""Columns that the next writing of a range needs."""

_KIND: Final = b"airflow_sitemaps.fingerprint"
_DICTIONARIES: Final = ["section", "shard", "first_listed", "changed_at"]
_ENCODINGS: Final = {"loc": "DELTA_BYTE_ARRAY", "key": "DELTA_BYTE_ARRAY"}
_ENTRY: Final = re.compile(rb"<url><loc>([^<]*)</loc>(?:<lastmod>([^<]*)</lastmod>)?")
_LINE: Final = re.compile(rb"[^\n]+")


def encode(rows: pa.Table, kind: str) -> bytes:
    """Return rows as a Parquet file. ``kind`` names the expression of their fingerprints."""
    sink = pa.BufferOutputStream()
    pq.write_table(  # in one chunk: the pages of a file depend on the chunks of its table
        rows.combine_chunks().replace_schema_metadata({_KIND: kind.encode()}),
        sink,
        compression="zstd",
        compression_level=1,
        use_dictionary=_DICTIONARIES,
        column_encoding=_ENCODINGS,
        row_group_size=max(1, rows.num_rows),
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode(data: bytes, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of a part, or some of their columns, with the kind of its fingerprints (see ``kind_of``).

    Raises:
        ValueError: The bytes are no part.
    """
    try:
        read = pq.ParquetFile(pa.BufferReader(data)).read(columns, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"no ledger part: {error}") from error
    if not read.schema.equals(SCHEMA if columns is None else pa.schema([SCHEMA.field(name) for name in columns])):
        raise ValueError(f"no ledger part: its columns are {', '.join(read.schema.names)}")
    return read


def kind_of(rows: pa.Table) -> str:
    """Return the kind of the fingerprints of decoded rows; "" if they have none."""
    kind: bytes = (rows.schema.metadata or {}).get(_KIND, b"")
    return kind.decode()


def checksum_of(data: bytes) -> str:
    """Return the checksum of a part's bytes: 16 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()[:16]


def rows_of_body(content: bytes, *, is_text: bool) -> pa.Table:
    """Return the rows of a part that is missing, from the shard's uncompressed body; what only the part knew is null."""
    entries = [(line, b"") for line in _LINE.findall(content)] if is_text else _ENTRY.findall(content)
    locs = pa.array([loc for loc, _ in entries], pa.binary()).cast(pa.string())
    if b"&" in content:
        locs = pa.array([html.unescape(loc) if "&" in loc else loc for loc in locs.to_pylist()], pa.string())
    lastmods = pa.array([lastmod or None for _, lastmod in entries], pa.binary()).cast(pa.string())
    unknown = {field.name: pa.nulls(len(locs), field.type) for field in SCHEMA}
    return pa.table(unknown | {"loc": locs, "lastmod": lastmods})


def without_fingerprints(rows: pa.Table) -> pa.Table:
    """Return rows whose fingerprints cannot be compared, because they are of another kind."""
    place = rows.schema.get_field_index("fingerprint")
    return rows.set_column(place, SCHEMA.field("fingerprint"), pa.nulls(rows.num_rows, pa.int64()))
