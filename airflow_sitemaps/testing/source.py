"""A source in memory: a list of rows that a test may change at any time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.ports import Duplicate
from airflow_sitemaps.shards.digest import MODULUS, Digest, Survey
from airflow_sitemaps.sources import keytext, rowhash
from airflow_sitemaps.sources.groups import COLUMN, alternates
from airflow_sitemaps.sources.location import Location

if TYPE_CHECKING:
    from airflow_sitemaps.shards.key import Key, KeyRange

Row = Mapping[str, Any]
EXTENSIONS: Final = ("images", "videos", "news", "alternates")
NULL_SAMPLES: Final = 5
MOST_HASHES: Final = 100_000
"""Rows whose hash is remembered."""


@dataclass(frozen=True, slots=True)
class MemorySourceConfig:
    """Rows of a list, read anew at every question; the test keeps the list and changes it.

    ``key`` names one column or several, of integers or texts; ``loc`` is a column or a template, and the other
    mappings are columns, as in ``SqlSource``. ``order`` maps a key to what it is sorted by: the collation of this
    "database" (``lambda key: tuple(part.casefold() for part in key)``). ``before`` is called with the name of each
    operation (``open``, ``boundaries``, ``survey``, ``rank``, ``read``, ``batch``) just before it: raise in it, or
    change the rows, to be a database that fails or moves. Extension columns may hold texts or JSON values.
    """

    rows: Sequence[Row]
    key: str | Sequence[str] = field(default="id", kw_only=True)
    loc: str = field(default="loc", kw_only=True)
    lastmod: str | None = field(default=None, kw_only=True)
    changefreq: str | None = field(default=None, kw_only=True)
    priority: str | None = field(default=None, kw_only=True)
    images: str | None = field(default=None, kw_only=True)
    videos: str | None = field(default=None, kw_only=True)
    news: str | None = field(default=None, kw_only=True)
    alternates: str | None = field(default=None, kw_only=True)
    group: str | None = field(default=None, kw_only=True)
    language: str | None = field(default=None, kw_only=True)
    timezone: str = field(default="UTC", kw_only=True)
    order: Callable[[Key], Any] = field(default=lambda key: key, kw_only=True)
    before: Callable[[str], None] = field(default=lambda _operation: None, kw_only=True)
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(timezone.utc), kw_only=True)
    batch_rows: int = field(default=65_536, kw_only=True)

    @contextmanager
    def open(self, *, section: str) -> Iterator[MemorySource]:
        """A source over the rows; ``section`` is only for messages."""
        self.before("open")
        yield MemorySource(self, section)

    def identity(self) -> Mapping[str, object]:
        """The mapping, without the rows."""
        return {"source": "memory", "key": list(self.key_columns), "loc": self.loc} | {
            name: getattr(self, name)
            for name in ("lastmod", "changefreq", "priority", *EXTENSIONS, "group", "language")
        }

    def column(self, name: str) -> str | None:
        """The column of an optional part of an entry; that of a group's members is added to the rows."""
        found: str | None = COLUMN if name == "alternates" and self.group is not None else getattr(self, name)
        return found

    def members(self) -> Sequence[Row]:
        """The rows as they are now, each with the members of its group where there are groups."""
        if self.group is None or self.language is None:
            return self.rows
        needed = (self.language, *Location(self.loc).columns)
        groups: dict[Any, list[list[str | None]]] = {}
        for row in self.rows:
            if None not in (row.get(self.group), *(row.get(name) for name in (*self.key_columns, *needed))):
                groups.setdefault(row[self.group], []).append([_text(row[name]) for name in needed])
        texts = {group: json.dumps(sorted(found, key=str), ensure_ascii=False) for group, found in groups.items()}
        whole = [None not in [row.get(name) for name in (*self.key_columns, *needed)] for row in self.rows]
        return [
            {**row, COLUMN: texts.get(row.get(self.group)) if is_whole else None}
            for row, is_whole in zip(self.rows, whole, strict=True)
        ]

    def describe(self) -> str:
        """For logs."""
        return f"memory ({len(self.rows):,} rows)"

    def discard(self, *, section: str) -> None:
        """Nothing was shared."""

    def rendered(self, render: Callable[[str], str]) -> MemorySourceConfig:
        """Itself: nothing here is templated."""
        return self

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key's columns, in order."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)


class MemorySource:
    """The ``Source`` of a ``MemorySourceConfig``: sorts and hashes in Python."""

    digest_kind: str = f"memory/{rowhash.KIND}"

    def __init__(self, config: MemorySourceConfig, section: str) -> None:
        self._config = config
        self._section = section

    def boundaries(self, within: KeyRange, every: int) -> Sequence[Key]:
        """Greedy cuts: each piece takes whole keys until the next key would make it larger than ``every``."""
        self._config.before("boundaries")
        found: list[Key] = []
        size = 0
        for key, rows in self._groups(within):
            if size and size + len(rows) > every:
                found.append(key)
                size = 0
            size += len(rows)
        return found

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        """Digests by the same hashes that ``read`` tells."""
        self._config.before("survey")
        nulls = [row for row in self._config.rows if self._key(row) is None]
        return Survey(
            digests=tuple(self._digest(within) for within in ranges),
            null_keys=len(nulls),
            null_key_samples=tuple(str(row.get(self._config.loc, dict(row))) for row in nulls[:NULL_SAMPLES]),
        )

    def rank(self, keys: Sequence[Key]) -> Sequence[int]:
        """Dense ranks by ``order``."""
        self._config.before("rank")
        sort_keys = [self._config.order(key) for key in keys]
        places = {value: place for place, value in enumerate(sorted(set(sort_keys)))}
        return [places[value] for value in sort_keys]

    def read(self, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
        """The rows of the ranges, as they are when the iteration starts."""
        self._config.before("read")
        found = [(index, row) for index, within in enumerate(ranges) for row in self._ordered(within)]
        size = self._config.batch_rows
        for start in range(0, len(found), size):
            self._config.before("batch")
            yield self._batch(found[start : start + size])

    def touched(self, ranges: Sequence[KeyRange], since: datetime) -> Sequence[int]:
        """The ranges with a row whose lastmod is ``since`` or later; texts are compared as ISO 8601 in UTC."""
        self._config.before("touched")
        name = self._config.lastmod
        if name is None:
            raise SourceConfigurationError(f"section {self._section!r}: a watermark needs a lastmod")
        first = _iso(since)[:19]
        return [
            index
            for index, within in enumerate(ranges)
            if any(_iso(row[name])[:19] >= first for row in self._ordered(within) if row.get(name) is not None)
        ]

    def duplicates(self, most: int) -> Sequence[Duplicate]:
        """URLs by the number of rows that have them."""
        self._config.before("duplicates")
        counts = Counter(loc for loc in _locs(self._config.loc, self._config.rows).to_pylist() if loc is not None)
        shared = sorted(((rows, loc) for loc, rows in counts.items() if rows > 1), key=lambda pair: (-pair[0], pair[1]))
        return [Duplicate(loc=loc, rows=rows) for rows, loc in shared[:most]]

    def now(self) -> datetime:
        """The clock of this "database"."""
        return self._config.clock()

    def _key(self, row: Row) -> Key | None:
        try:
            key = tuple(row[name] for name in self._config.key_columns)
        except KeyError as error:
            raise SourceConfigurationError(
                f"section {self._section!r}: the rows have no key column {error.args[0]!r}; they have {', '.join(row)}"
            ) from None
        return None if any(part is None for part in key) else key

    def _groups(self, within: KeyRange) -> list[tuple[Key, list[Row]]]:
        """The rows by key, in order; keys that sort alike are one key."""
        order = self._config.order
        low = None if within.lower is None else order(within.lower)
        high = None if within.upper is None else order(within.upper)
        groups: dict[Any, tuple[Key, list[Row]]] = {}
        for row in self._config.members():
            key = self._key(row)
            if key is None:
                continue
            place = order(key)
            if (low is None or place >= low) and (high is None or place < high):
                groups.setdefault(place, (key, []))[1].append(row)
        return [groups[place] for place in sorted(groups)]

    def _ordered(self, within: KeyRange) -> list[Row]:
        rows: list[Row] = []
        for _key, group in self._groups(within):
            rows += sorted(group, key=lambda row: [str(value).encode() for value in self._emitted_values(row)])
        return rows

    def _emitted(self) -> list[str]:
        """The columns that reach the sitemap: those of ``loc``, then the mapped ones."""
        config = self._config
        names = list(Location(config.loc).columns)
        mapped = (config.lastmod, config.changefreq, config.priority, *(config.column(name) for name in EXTENSIONS))
        return names + [name for name in mapped if name is not None]

    def _emitted_values(self, row: Row) -> list[Any]:
        return [row.get(name) for name in self._emitted()]

    def _digest(self, within: KeyRange) -> Digest:
        rows = self._ordered(within)
        newest = None
        if self._config.lastmod is not None:
            values = [row.get(self._config.lastmod) for row in rows]
            newest = max((_iso(value) for value in values if value is not None), default=None)
        return Digest(rows=len(rows), newest=newest, checksum=sum(self._hashes(rows)) % MODULUS)

    def _hashes(self, rows: Sequence[Row]) -> list[int]:
        names = self._emitted()
        return _row_hashes([tuple(_text(row.get(name)) for name in names) for row in rows])

    def _batch(self, found: Sequence[tuple[int, Row]]) -> pa.RecordBatch:
        config = self._config
        rows = [row for _index, row in found]
        columns: dict[str, pa.Array] = {
            "range": pa.array([index for index, _row in found], pa.int32()),
            "row_hash": pa.array(self._hashes(rows), pa.uint64()),
            "key": pa.array([keytext.dump(self._key(row) or ()) for row in rows], pa.string()),
            "loc": _locs(config.loc, rows),
        }
        if config.lastmod is not None:
            columns["lastmod"] = _lastmods([row.get(config.lastmod) for row in rows], ZoneInfo(config.timezone))
        if config.changefreq is not None:
            columns["changefreq"] = pa.array([row.get(config.changefreq) for row in rows], pa.string())
        if config.priority is not None:
            columns["priority"] = _priorities([row.get(config.priority) for row in rows])
        for name in EXTENSIONS:
            column = config.column(name)
            if column is not None:
                columns[name] = pa.array([_text(row.get(column)) for row in rows], pa.string())
        if config.group is not None:
            columns["alternates"] = alternates(columns["alternates"], columns["loc"], Location(config.loc))
        return pa.RecordBatch.from_pydict(columns)


_hashes: dict[tuple[str | None, ...], int] = {}


def _row_hashes(rows: list[tuple[str | None, ...]]) -> list[int]:
    """``rowhash`` of rows of texts, remembered: simulations ask for the same few rows again and again."""
    found = {row: _hashes.get(row) for row in rows}
    unknown = [row for row, known in found.items() if known is None]
    if unknown:
        columns = [pa.array(column, pa.string()) for column in zip(*unknown, strict=True)]
        made = dict(zip(unknown, rowhash.row_hashes(columns).to_pylist(), strict=True))
        if len(_hashes) > MOST_HASHES:
            _hashes.clear()
        _hashes.update(made)
        found |= made
    return [found[row] or 0 for row in rows]


def _locs(loc: str, rows: Sequence[Row]) -> pa.Array:
    location = Location(loc)
    return location.expand(
        {name: pa.array([_text(row.get(name)) for row in rows], pa.string()) for name in location.columns}
    )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    return _iso(value) if isinstance(value, date) else str(value)


def _iso(value: Any) -> str:
    """A lastmod as the survey tells it; naive datetimes are UTC."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return aware.astimezone(timezone.utc).isoformat()
    return value.isoformat() if isinstance(value, date) else str(value)


def _lastmods(values: Sequence[Any], zone: ZoneInfo) -> pa.Array:
    """timestamp, date32 or string: what all values of the batch are; string when they are mixed."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {datetime}:
        aware = [value.replace(tzinfo=zone) if value and not value.tzinfo else value for value in values]
        return pa.array(aware, pa.timestamp("us", "UTC"))
    if kinds == {date}:
        return pa.array(values, pa.date32())
    return pa.array([None if value is None else _iso(value) for value in values], pa.string())


def _priorities(values: Sequence[Any]) -> pa.Array:
    if any(isinstance(value, str) for value in values):
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array([None if value is None else float(value) for value in values], pa.float64())
