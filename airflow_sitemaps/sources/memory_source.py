"""Rows in memory as a source: the pages of a ``ListSource``, or a list of rows that a test may change at any time."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from itertools import groupby
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.ports import ChangeReading, Duplicate, Source, SourceConfig
from airflow_sitemaps.protocol.rules import sample_text
from airflow_sitemaps.shards.ranges import PATIENT, Digest, Key, KeyRange, Survey
from airflow_sitemaps.sources import row_values
from airflow_sitemaps.sources.columns import FEED_FIELDS, FIELDS
from airflow_sitemaps.sources.row_values import urls_of
from airflow_sitemaps.sources.source_settings import EntryColumns
from airflow_sitemaps.sources.user_texts import loc_columns

Row = Mapping[str, Any]
BATCH_ROWS: Final = 65_536
NULL_SAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class MemorySourceConfig(EntryColumns, SourceConfig):
    """A source that reads the rows of a list. The list is read again at every query, so a test can change it.

    The other columns, from ``lastmod`` to ``description``, and ``timezone`` are those of ``SqlSource``. Extension columns
    may hold texts or JSON values. ``group`` needs a database.

    Attributes:
        rows: The rows. The test keeps the list.
        key: Column of the key, or several columns; integers or texts. Default: ``id``.
        loc: Column or template of the URL, as in ``SqlSource``. Default: ``loc``.
        clock: Returns the current time of this "database". Default: the system's.
    """

    rows: Sequence[Row]
    key: str | Sequence[str] = field(default="id", kw_only=True)
    loc: str = field(default="loc", kw_only=True)
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(timezone.utc), kw_only=True)

    def __post_init__(self) -> None:
        """Refuse what only a database does."""
        if self.group is not None:
            raise SourceConfigurationError("MemorySourceConfig(group=): give alternates=, or test over a database")

    @contextmanager
    def open(self, *, section: str) -> Iterator[MemorySource]:
        """Yield a source over the rows; ``section`` is only for messages."""
        yield MemorySource(self, section)

    def identity(self) -> Mapping[str, object]:
        """Return the settings that the shards depend on, without the rows."""
        parts = {name: getattr(self, name) for name in (*FIELDS, "timezone")}
        parts = {name: part for name, part in parts.items() if name not in FEED_FIELDS or part is not None}
        if self.observed:
            parts["lastmod"] = str(self.lastmod)
        if self.page:
            parts["page"] = ",".join(self.page)
        return {"source": "memory", "key": list(self.key_columns), "loc": self.loc} | parts

    def describe(self) -> str:
        """Return a description for logs."""
        return f"memory ({len(self.rows):,} rows)"

    @property
    def key_columns(self) -> tuple[str, ...]:
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)


class MemorySource(Source):
    """The ``Source`` of a ``MemorySourceConfig``. It sorts and hashes in Python."""

    digest_kind = f"memory/{row_values.HASH_KIND}"

    def __init__(self, config: MemorySourceConfig, section: str) -> None:
        self._config = config
        self._section = section

    @property
    def key_kinds(self) -> Sequence[str]:
        """Kind of each key column: ``integer`` or ``text`` by its first value, ``unknown`` if it has no value."""
        return [f"{name} {_kind(row.get(name) for row in self._config.rows)}" for name in self._config.key_columns]

    def boundaries(self, within: KeyRange, every: int) -> Sequence[Key]:
        keys: list[Key] = []
        size = 0
        for key, group in groupby(self._rows_of([within])[0], self._key):
            rows = len(list(group))
            if size and size + rows > every:
                keys.append(key)
                size = 0
            size += rows
        return keys

    def largest_key(self, within: KeyRange) -> tuple[Key, int] | None:
        return next(iter(Counter(map(self._key, self._rows_of([within])[0])).most_common(1)), None)

    def survey(self, ranges: Sequence[KeyRange], *, urgent: bool = False) -> Survey:
        nulls = [row for row in self._config.rows if None in self._key(row)]
        return Survey(
            digests=tuple(self._digest(rows, urgent=urgent) for rows in self._rows_of(ranges)),
            null_keys=len(nulls),
            null_key_samples=tuple(
                sample_text(str(row.get(self._config.loc, dict(row)))) for row in nulls[:NULL_SAMPLES]
            ),
        )

    def rank(self, keys: Sequence[Key]) -> Sequence[int]:
        """Return dense ranks by Python's order of integers and texts."""
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        return [places[key] for key in keys]

    def read(self, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the ranges, as they are when the iteration starts.

        Like the result of one statement, the rows stay in the order of their keys even if a key changes meanwhile.
        """
        rows = [(index, dict(row)) for index, piece in enumerate(self._rows_of(ranges)) for row in piece]
        for start in range(0, len(rows), BATCH_ROWS):
            yield self._batch(rows[start : start + BATCH_ROWS])

    def touched(self, ranges: Sequence[KeyRange], since: datetime) -> Sequence[int]:
        return sorted({index for _, index, _ in self._newer(ranges, since)})

    def newest(self, ranges: Sequence[KeyRange], since: datetime, most: int) -> Sequence[pa.RecordBatch]:
        newer = sorted(self._newer(ranges, since), key=lambda each: each[0], reverse=True)[:most]
        return [self._batch([(index, row) for _, index, row in newer])]

    def _newer(self, ranges: Sequence[KeyRange], since: datetime) -> Iterator[tuple[str, int, Row]]:
        """Yield the rows whose lastmod is ``since`` or later, each after its lastmod (ISO 8601 in UTC) and its range."""
        name = self._config.field_columns.get("lastmod")
        if name is None:
            raise SourceConfigurationError(f"section {self._section!r}: a watermark needs a lastmod")
        dated = (
            (_iso(row[name]), index, row)
            for index, rows in enumerate(self._rows_of(ranges))
            for row in rows
            if row.get(name) is not None
        )
        return (each for each in dated if each[0][:19] >= _iso(since)[:19])

    def duplicates(self, most: int) -> Sequence[Duplicate]:
        counts = Counter(loc for loc in _locs(self._config.loc, self._config.rows).to_pylist() if loc is not None)
        shared = sorted(((rows, loc) for loc, rows in counts.items() if rows > 1), key=lambda pair: (-pair[0], pair[1]))
        return [Duplicate(loc=loc, rows=rows) for rows, loc in shared[:most]]

    def changes(self, ranges: Sequence[KeyRange], since: str | None) -> ChangeReading:
        """Return that any range may have changed, because a list has no change log."""
        return ChangeReading(position="", ranges=None, cause="a list has no change log")

    def now(self) -> datetime:
        """Return the time of the "database's" clock."""
        return self._config.clock()

    clock = now

    def _key(self, row: Row) -> Key:
        """Return the parts of a row's key; no range holds a key with None."""
        try:
            return tuple(row[name] for name in self._config.key_columns)
        except KeyError as error:
            raise SourceConfigurationError(
                f"section {self._section!r}: the rows have no key column {error.args[0]!r}; they have {', '.join(row)}"
            ) from None

    def _rows(self) -> Sequence[Row]:
        return self._config.rows

    def _rows_of(self, ranges: Sequence[KeyRange]) -> list[list[Row]]:
        """Return the rows of each range, ordered by key and then by what they emit."""
        names = self._emitted()
        keyed = [(key, row) for row in self._rows() if None not in (key := self._key(row))]
        keyed.sort(key=lambda pair: (pair[0], [str(pair[1].get(name)).encode() for name in names]))
        keys, rows = [key for key, _row in keyed], [row for _key, row in keyed]
        pieces = []
        for within in ranges:
            start = 0 if within.lower is None else bisect_left(keys, within.lower)
            end = len(rows) if within.upper is None else bisect_left(keys, within.upper)
            pieces.append(rows[start:end])
        return pieces

    def _emitted(self, *, urgent: bool = False) -> list[str]:
        """Return the columns that reach the sitemap: those of ``loc``, then the mapped ones; or those that do not wait."""
        config = self._config
        mapped = [column for name, column in config.field_columns.items() if not urgent or name not in PATIENT]
        return [*loc_columns(config.loc), *mapped, *(() if urgent else config.page_columns)]

    def _digest(self, rows: Sequence[Row], *, urgent: bool) -> Digest:
        newest = None
        if (name := self._config.field_columns.get("lastmod")) is not None:
            values = [row.get(name) for row in rows]
            newest = max((_iso(value) for value in values if value is not None), default=None)
        of_urgent = sum(self._hashes(rows, self._emitted(urgent=True))) if urgent else None
        return Digest.of(len(rows), newest, sum(self._hashes(rows, self._emitted())), of_urgent)

    def _hashes(self, rows: Sequence[Row], names: Sequence[str]) -> list[int]:
        columns = [pa.array([text_of(row.get(name)) for row in rows], pa.string()) for name in names]
        return list(row_values.row_hashes(columns).to_pylist())

    def _batch(self, found: Sequence[tuple[int, Row]]) -> pa.RecordBatch:
        config = self._config
        rows = [row for _index, row in found]
        columns: dict[str, pa.Array] = {
            "range": pa.array([index for index, _row in found], pa.int32()),
            "row_hash": pa.array(self._hashes(rows, self._emitted()), pa.uint64()),
            "key": pa.array([row_values.key_text(self._key(row)) for row in rows], pa.string()),
            "loc": _locs(config.loc, rows),
        }
        if config.page_columns:
            columns["fingerprint"] = pa.array(self._hashes(rows, config.page_columns), pa.uint64())
        for name, column in config.field_columns.items():
            values = [row.get(column) for row in rows]
            if name == "lastmod":
                columns[name] = _lastmods(values, ZoneInfo(config.timezone))
            elif name == "priority":
                columns[name] = _priorities(values)
            else:
                columns[name] = pa.array([text_of(value) for value in values], pa.string())
        return pa.RecordBatch.from_pydict(columns)


class ListSession(MemorySource):
    """The ``Source`` of a ``ListSource``."""

    digest_kind = "list/1"

    def touched(self, ranges: Sequence[KeyRange], since: datetime) -> Sequence[int]:
        """Return every range, because a list is small and people edit its dates."""
        return list(range(len(ranges)))

    def newest(self, ranges: Sequence[KeyRange], since: datetime, most: int) -> Sequence[pa.RecordBatch]:
        """Return every row for the same reason. The texts of a list may be dates, and times of any zone."""
        return list(self.read(ranges))


def _kind(values: Iterable[Any]) -> str:
    """Return the kind of a key by its first value: ``integer``, ``text``, or ``unknown`` without any. Refuse any other."""
    value = next((each for each in values if each is not None), None)
    if value is None:
        return "unknown"
    if not isinstance(value, (int, str)):
        raise SourceConfigurationError(f"the key {value!r} is a {type(value).__name__}; give integers or texts")
    return "integer" if isinstance(value, int) else "text"


def _locs(loc: str, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    """Return the URLs of rows, from a column or a template."""
    columns = {name: pa.array([text_of(row.get(name)) for row in rows], pa.string()) for name in loc_columns(loc)}
    return urls_of(loc, columns)


def text_of(value: Any) -> str | None:
    """Return a value as the text of a column."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    return _iso(value) if isinstance(value, date) else str(value)


def _iso(value: Any) -> str:
    """Return a lastmod in the form of the survey. Naive datetimes are in UTC."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return aware.astimezone(timezone.utc).isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def _lastmods(values: Sequence[Any], zone: ZoneInfo) -> pa.Array:
    """Return a column of type timestamp, date32 or string: the type of all values, or string for mixed types."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {datetime}:
        aware = [value.replace(tzinfo=zone) if value and not value.tzinfo else value for value in values]
        return pa.array(aware, pa.timestamp("us", "UTC"))
    if kinds == {date}:
        return pa.array(values, pa.date32())
    return pa.array([None if value is None else _iso(value) for value in values], pa.string())


def _priorities(values: Sequence[Any]) -> pa.Array:
    """Return a column of numbers, or of texts if any value is one."""
    if any(isinstance(value, str) for value in values):
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array([None if value is None else float(value) for value in values], pa.float64())
