"""The ledger: what one shard's URLs have been through, as private Parquet, and the dates that follow from it.

``decode`` returns what ``encode`` was given. Equal rows give equal bytes, so an unchanged part is not stored again.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_sitemaps.protocol.columnar.lastmod import DAY_S, Lastmods, to_utc

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.columnar.elements import Cleaned

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
    """Return the rows of a part, or some of their columns, with the kind of its fingerprints. ValueError: it is no part."""
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


# ------------------------------------------------------------ observed dates
# The date is computed before its entry is rendered. Whether the rows changed between plan and reading is known only when the
# range is read to its end; the run's dates of such a range are then moved by ``not_before``. The entries keep their length.


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierDates:
    """What is known of entries.

    ``places`` are their rows in the old parts, null for a new URL. ``carried``: the lastmod was observed. ``differs``: the
    fingerprint is another.
    """

    places: pa.Int32Array
    lastmods: Lastmods
    carried: pa.BooleanArray
    differs: pa.BooleanArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Dating:
    """How a run dates its entries.

    Attributes:
        at: Time of the run by the database's clock, in whole seconds.
        since: Time of the section's last published run; None in its first build, which dates nothing but by ``initial``.
        keep: Whether a changed URL keeps its date.
    """

    at: datetime
    since: datetime | None = None
    keep: bool = False

    def dated(self, piece: Cleaned, earlier: EarlierDates | None, zone: str) -> Cleaned:
        """Return entries with their dates. Their present lastmods are those of ``initial``; a date begins in ``zone``."""
        at = _seconds(self.at)
        initial = _with_seconds(piece.lastmods, len(piece))
        past = pc.less_equal(_seconds_of(initial, zone), at)
        initial = Lastmods(day=pc.if_else(past, initial.day, None), second=initial.second)
        if earlier is None:
            if self.since is None:
                return replace(piece, lastmods=None if piece.lastmods is None else initial)
            places = pa.nulls(len(piece), pa.int32())
            listed, carried, changed = _with_seconds(None, len(piece)), _none(len(piece)), _none(len(piece))
        else:
            places, listed, carried = earlier.places, earlier.lastmods, earlier.carried
            changed = _none(len(piece)) if self.keep else pc.and_(carried, earlier.differs)
        moved = changed
        if self.since is not None:
            recent = pc.fill_null(pc.greater(_seconds_of(initial, zone), _seconds(self.since)), False)
            moved = pc.or_(changed, pc.and_not(pc.is_null(places), recent))
        dates = _chosen(carried, listed, initial)
        if not moved.true_count:
            return replace(piece, lastmods=dates, moved=None)
        moments = pc.max_element_wise(pc.add(_seconds_of(listed), 1), pa.scalar(at, pa.int64()))
        return replace(piece, lastmods=_chosen(moved, _of_seconds(moments), dates), moved=moved)


def not_before(piece: Cleaned, moment: datetime) -> Cleaned:
    """Return entries whose dates of this run are at ``moment`` at the earliest."""
    if piece.moved is None:
        return piece
    dates = _with_seconds(piece.lastmods, len(piece))
    moments = pc.max_element_wise(_seconds_of(dates), pa.scalar(_seconds(moment), pa.int64()))
    return replace(piece, lastmods=_chosen(piece.moved, _of_seconds(moments), dates))


def _with_seconds(lastmods: Lastmods | None, length: int) -> Lastmods:
    """Return lastmods with a column of seconds, null for a date."""
    if lastmods is not None and lastmods.second is not None:
        return lastmods
    day = pa.nulls(length, pa.int32()) if lastmods is None else lastmods.day
    return Lastmods(day=day, second=pa.nulls(length, pa.int32()))


def _of_seconds(moments: pa.Int64Array) -> Lastmods:
    day = pc.divide(moments, DAY_S)  # of the present, so not before 1970
    second = pc.subtract(moments, pc.multiply(day, DAY_S))
    return Lastmods(day=day.cast(pa.int32()), second=second.cast(pa.int32()))


def _seconds_of(lastmods: Lastmods, zone: str = "UTC") -> pa.Int64Array:
    """Return seconds since 1970; a date stands for its midnight in the zone."""
    days = pc.multiply(lastmods.day.cast(pa.int64()), DAY_S)
    midnights = to_utc(days.view(pa.timestamp("s")), zone).view(pa.int64())
    return pc.coalesce(pc.add(days, lastmods.second), midnights)


def _chosen(mask: pa.BooleanArray, these: Lastmods, others: Lastmods) -> Lastmods:
    """Return the lastmods of the mask, and elsewhere the others. Both have a column of seconds."""
    columns = ((these.day, others.day), (these.second, others.second))
    day, second = (pc.if_else(mask, *pair) for pair in columns)
    return Lastmods(day=day, second=second)


def _none(length: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(False), length)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
