"""A source in memory: a list of rows that a test may change at any time."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.ports import ChangeReading, Duplicate, Source, SourceConfig
from airflow_sitemaps.protocol.rules import sample_text
from airflow_sitemaps.shards.ranges import Digest, Key, KeyRange, Survey
from airflow_sitemaps.sources import row_values
from airflow_sitemaps.sources.columns import FEED_FIELDS, Observed
from airflow_sitemaps.sources.queries.groups import COLUMN, EMPTY, LARGE, MAX_CHARACTERS, MAX_MEMBERS, alternates
from airflow_sitemaps.sources.row_values import LocMapping
from airflow_sitemaps.sources.source_settings import EntryColumns
from airflow_sitemaps.testing.row_columns import iso, kind, lastmods, locs, priorities, row_hashes, text

Row = Mapping[str, Any]
Change = tuple[int, Key | None]
"""An entry of a change log: a position and the key of a changed row; None for any row."""
EXTENSIONS: Final = ("images", "videos", "news", "alternates", "title", "description")
NULL_SAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class MemorySourceConfig(EntryColumns, SourceConfig):
    """A source that reads the rows of a list. The list is read again at every query, so a test can change it.

    The other columns, from ``lastmod`` to ``language``, and ``timezone`` are those of ``SqlSource``. Extension columns may
    hold texts or JSON values.

    Attributes:
        rows: The rows. The test keeps the list.
        key: Column of the key, or several columns; integers or texts. Default: ``id``.
        loc: Column or template of the URL, as in ``SqlSource``. Default: ``loc``.
        order: Maps a key to its sort key: the collation of this "database", such as
            ``lambda key: tuple(part.casefold() for part in key)``. Default: the key.
        before: Called with the name of each operation (``open``, ``boundaries``, ``survey``, ``rank``, ``read``,
            ``batch`` and so on) just before it. To simulate a database that fails or changes, raise an error in it or
            change the rows. Default: does nothing.
        clock: Returns the current time of this "database". Default: the system's.
        batch_rows: Largest number of rows in a batch. Default: 65,536.
        version: Returns the version of this "table", or None. Default: it keeps none.
        change_log: The change log: positions that grow, each with a key or None. The list is read again at every reading.
            Default: none.
        change_log_interval: How long it stands for a survey of every range. Default: 1 day.
    """

    rows: Sequence[Row]
    key: str | Sequence[str] = field(default="id", kw_only=True)
    loc: str = field(default="loc", kw_only=True)
    order: Callable[[Key], Any] = field(default=lambda key: key, kw_only=True)
    before: Callable[[str], None] = field(default=lambda _operation: None, kw_only=True)
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(timezone.utc), kw_only=True)
    batch_rows: int = field(default=65_536, kw_only=True)
    version: Callable[[], str | None] = field(default=lambda: None, kw_only=True)
    change_log: Sequence[Change] | None = field(default=None, kw_only=True)
    change_log_interval: timedelta | None = field(default=timedelta(days=1), kw_only=True)

    def __post_init__(self) -> None:
        """Have no interval without a change log."""
        if self.change_log is None:
            object.__setattr__(self, "change_log_interval", None)

    @contextmanager
    def open(self, *, section: str) -> Iterator[MemorySource]:
        """Yield a source over the rows; ``section`` is only for messages."""
        self.before("open")
        yield MemorySource(self, section)

    def identity(self) -> Mapping[str, object]:
        """Return the settings that the shards depend on, without the rows."""
        names = ("lastmod", "changefreq", "priority", *EXTENSIONS, "group", "language")
        parts = {name: getattr(self, name) for name in names}
        parts = {name: part for name, part in parts.items() if name not in FEED_FIELDS or part is not None}
        if self.observed:
            parts["lastmod"] = str(self.lastmod)
        if self.page:
            parts["page"] = ",".join(self.page)
        return {"source": "memory", "key": list(self.key_columns), "loc": self.loc} | parts

    def column(self, name: str) -> str | None:
        """Return the column of an optional part of an entry. With ``group``, the members of a group form a column."""
        column = COLUMN if name == "alternates" and self.group is not None else getattr(self, name)
        return column.initial if isinstance(column, Observed) else column

    def members(self) -> Sequence[Row]:
        """Return the current rows, each with the members of its group if there are groups."""
        if self.group is None or self.language is None:
            return self.rows
        needed = (self.language, *LocMapping(self.loc).columns)
        groups: dict[Any, list[list[str | None]]] = {}
        for row in self.rows:
            if None not in (row.get(self.group), *(row.get(name) for name in (*self.key_columns, *needed))):
                groups.setdefault(row[self.group], []).append([text(row[name]) for name in needed])
        texts = {group: _members_text(members) for group, members in groups.items()}
        texts |= {group: EMPTY for group in groups if group == 0 or str(group).strip() in ("", "0")}
        whole = [None not in [row.get(name) for name in (*self.key_columns, *needed)] for row in self.rows]
        return [
            {**row, COLUMN: texts.get(row.get(self.group)) if is_whole else None}
            for row, is_whole in zip(self.rows, whole, strict=True)
        ]

    def describe(self) -> str:
        """Return a description for logs."""
        return f"memory ({len(self.rows):,} rows)"

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The key's columns, in order."""
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)


class MemorySource(Source):
    """The ``Source`` of a ``MemorySourceConfig``. It sorts and hashes in Python.

    Args:
        config: The rows and their mapping.
        section: Name of the section, for messages.
    """

    digest_kind: str = f"memory/{row_values.HASH_KIND}"
    state: str = ""

    def __init__(self, config: MemorySourceConfig, section: str) -> None:
        self._config = config
        self._section = section

    @property
    def key_kinds(self) -> Sequence[str]:
        """Kind of each key column: ``integer`` or ``text`` by its first value, ``unknown`` if it has no value."""
        values = [
            next((row[name] for row in self._config.rows if row.get(name) is not None), None)
            for name in self._config.key_columns
        ]
        return [f"{name} {kind(value)}" for name, value in zip(self._config.key_columns, values, strict=True)]

    def boundaries(self, within: KeyRange, every: int) -> Sequence[Key]:
        """Return the keys at which new pieces begin.

        Keys are added to a piece until the next key would make it larger than ``every`` rows.

        Args:
            within: Range of keys.
            every: Largest number of rows in a piece, unless one key has more.
        """
        self._config.before("boundaries")
        keys: list[Key] = []
        size = 0
        for key, rows in self._groups(within):
            if size and size + len(rows) > every:
                keys.append(key)
                size = 0
            size += len(rows)
        return keys

    def largest_key(self, within: KeyRange) -> tuple[Key, int] | None:
        """Return the key with the most rows, and their number. If several keys are equal, the first one counts."""
        self._config.before("largest_key")
        return max(((key, len(rows)) for key, rows in self._groups(within)), key=lambda pair: pair[1], default=None)

    def survey(self, ranges: Sequence[KeyRange], *, urgent: bool = False) -> Survey:
        """Return the digests of the ranges, from the same hashes that ``read`` returns."""
        self._config.before("survey")
        nulls = [row for row in self._config.rows if self._key(row) is None]
        return Survey(
            digests=tuple(self._digest(within, urgent=urgent) for within in ranges),
            null_keys=len(nulls),
            null_key_samples=tuple(
                sample_text(str(row.get(self._config.loc, dict(row)))) for row in nulls[:NULL_SAMPLES]
            ),
        )

    def rank(self, keys: Sequence[Key]) -> Sequence[int]:
        """Return dense ranks by ``order``."""
        self._config.before("rank")
        sort_keys = [self._config.order(key) for key in keys]
        places = {value: place for place, value in enumerate(sorted(set(sort_keys)))}
        return [places[value] for value in sort_keys]

    def read(self, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the ranges, as they are when the iteration starts.

        Like the result of one statement, the rows stay in the order of their keys even if a key changes meanwhile.
        """
        self._config.before("read")
        rows = [(index, dict(row)) for index, within in enumerate(ranges) for row in self._ordered(within)]
        size = self._config.batch_rows
        for start in range(0, len(rows), size):
            self._config.before("batch")
            yield self._batch(rows[start : start + size])

    def touched(self, ranges: Sequence[KeyRange], since: datetime) -> Sequence[int]:
        """Return the indexes of the ranges with a row whose lastmod is ``since`` or later.

        Args:
            ranges: The ranges.
            since: Earliest lastmod. Texts are compared as ISO 8601 in UTC.
        """
        self._config.before("touched")
        name = self._config.column("lastmod")
        if name is None:
            raise SourceConfigurationError(f"section {self._section!r}: a watermark needs a lastmod")
        first = iso(since)[:19]
        return [
            index
            for index, within in enumerate(ranges)
            if any(iso(row[name])[:19] >= first for row in self._ordered(within) if row.get(name) is not None)
        ]

    def duplicates(self, most: int) -> Sequence[Duplicate]:
        """Return the URLs that several rows share, with their number of rows, the largest number first."""
        self._config.before("duplicates")
        counts = Counter(loc for loc in locs(self._config.loc, self._config.rows).to_pylist() if loc is not None)
        shared = sorted(((rows, loc) for loc, rows in counts.items() if rows > 1), key=lambda pair: (-pair[0], pair[1]))
        return [Duplicate(loc=loc, rows=rows) for rows, loc in shared[:most]]

    def table_version(self) -> str | None:
        """Return the version of the "table"."""
        self._config.before("table_version")
        return self._config.version()

    def changes(self, ranges: Sequence[KeyRange], since: str | None) -> ChangeReading:
        """Return what the change log says."""
        self._config.before("changes")
        return read_change_log(self._config.change_log or (), ranges, since, self._config.order)

    def now(self) -> datetime:
        """Return the time of the "database's" clock."""
        return self._config.clock()

    clock = now

    def _key(self, row: Row) -> Key | None:
        try:
            key = tuple(row[name] for name in self._config.key_columns)
        except KeyError as error:
            raise SourceConfigurationError(
                f"section {self._section!r}: the rows have no key column {error.args[0]!r}; they have {', '.join(row)}"
            ) from None
        return None if any(part is None for part in key) else key

    def _groups(self, within: KeyRange) -> list[tuple[Key, list[Row]]]:
        """Return the rows by key, in order. Keys with the same sort key count as one key."""
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

    def _emitted(self, *, urgent: bool = False) -> list[str]:
        """Return the columns that reach the sitemap: those of ``loc``, then the mapped ones; or those that do not wait."""
        config = self._config
        names = list(LocMapping(config.loc).columns)
        fields = EXTENSIONS if urgent else ("lastmod", "changefreq", "priority", *EXTENSIONS)
        mapped = [name for name in map(config.column, fields) if name is not None]
        return [*names, *mapped, *(() if urgent else config.page_columns)]

    def _emitted_values(self, row: Row) -> list[Any]:
        return [row.get(name) for name in self._emitted()]

    def _digest(self, within: KeyRange, *, urgent: bool = False) -> Digest:
        rows = self._ordered(within)
        newest = None
        if (name := self._config.column("lastmod")) is not None:
            values = [row.get(name) for row in rows]
            newest = max((iso(value) for value in values if value is not None), default=None)
        of_urgent = sum(self._hashes(rows, self._emitted(urgent=True))) if urgent else None
        return Digest.of(len(rows), newest, sum(self._hashes(rows)), of_urgent)

    def _hashes(self, rows: Sequence[Row], names: Sequence[str] = ()) -> list[int]:
        names = names or self._emitted()
        return row_hashes([tuple(text(row.get(name)) for name in names) for row in rows])

    def _batch(self, found: Sequence[tuple[int, Row]]) -> pa.RecordBatch:
        config = self._config
        rows = [row for _index, row in found]
        columns: dict[str, pa.Array] = {
            "range": pa.array([index for index, _row in found], pa.int32()),
            "row_hash": pa.array(self._hashes(rows), pa.uint64()),
            "key": pa.array([row_values.key_text(self._key(row) or ()) for row in rows], pa.string()),
            "loc": locs(config.loc, rows),
        }
        if config.page_columns:
            columns["fingerprint"] = pa.array(self._hashes(rows, config.page_columns), pa.uint64())
        if (lastmod := config.column("lastmod")) is not None:
            columns["lastmod"] = lastmods([row.get(lastmod) for row in rows], ZoneInfo(config.timezone))
        if config.changefreq is not None:
            columns["changefreq"] = pa.array([row.get(config.changefreq) for row in rows], pa.string())
        if config.priority is not None:
            columns["priority"] = priorities([row.get(config.priority) for row in rows])
        for name in EXTENSIONS:
            column = config.column(name)
            if column is not None:
                columns[name] = pa.array([text(row.get(column)) for row in rows], pa.string())
        if config.group is not None:
            columns["alternates"] = alternates(columns["alternates"], columns["loc"], LocMapping(config.loc))
        return pa.RecordBatch.from_pydict(columns)


def _members_text(members: list[list[str | None]]) -> str:
    text_of_all = json.dumps(sorted(members, key=str), ensure_ascii=False)
    return LARGE if len(members) > MAX_MEMBERS or len(text_of_all) > MAX_CHARACTERS else text_of_all


def read_change_log(
    log: Sequence[Change], ranges: Sequence[KeyRange], since: str | None, order: Callable[[Key], Any]
) -> ChangeReading:
    """Return what a log says, as ``ports.Source.changes`` defines it; ``order`` maps a key to its sort key."""
    position = str(log[-1][0]) if log else ""
    if since is None:
        return ChangeReading(position=position, ranges=None)
    if not since.isdigit() or int(since) not in {place for place, _key in log}:
        cause = f"its change log is truncated: it does not hold position {since}"
        return ChangeReading(position=position, ranges=None, cause=cause, is_gap=bool(since))
    keys = [key for place, key in log if place > int(since)]
    if None in keys:
        cause = "changes of its change log have a NULL key"
        return ChangeReading(position=position, ranges=None, changes=len(keys), cause=cause, is_gap=True)
    lowers = [order(within.lower) for within in ranges if within.lower is not None]
    changed = {bisect_right(lowers, order(key)) for key in keys if key is not None}
    return ChangeReading(position=position, ranges=tuple(sorted(changed)), changes=len(keys))
