"""A source in memory that does what databases do: it fails, changes, keeps versions, a log of changes and groups."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from airflow_sitemaps.ports import ChangeReading, Duplicate
from airflow_sitemaps.shards.ranges import Key, KeyRange, Survey
from airflow_sitemaps.sources import row_values
from airflow_sitemaps.sources.columns import FIELDS
from airflow_sitemaps.sources.memory_source import MemorySource, MemorySourceConfig, Row, text_of
from airflow_sitemaps.sources.queries import COLUMN, EMPTY, LARGE, MAX_CHARACTERS, MAX_MEMBERS, alternates
from airflow_sitemaps.sources.user_texts import loc_columns

Change = tuple[int, Key | None]
"""An entry of a change log: a position and the key of a changed row; None for any row."""
MOST_HASHES: Final = 100_000
"""Number of rows whose hashes are cached."""


@dataclass(frozen=True, slots=True)
class SimulatedSourceConfig(MemorySourceConfig):
    """A source that reads the rows of a list as a database does.

    Attributes:
        before: Called with the name of each operation (``open``, ``boundaries``, ``survey``, ``rank``, ``read``,
            ``batch`` and so on) just before it. To simulate a database that fails or changes, raise an error in it or
            change the rows. Default: does nothing.
        version: Returns the version of this "table", or None. Default: it keeps none.
        change_log: The change log: positions that grow, each with a key or None. The list is read again at every reading.
            Default: none.
        change_log_interval: How long it stands for a survey of every range. Default: 1 day.
    """

    before: Callable[[str], None] = field(default=lambda _operation: None, kw_only=True)
    version: Callable[[], str | None] = field(default=lambda: None, kw_only=True)
    change_log: Sequence[Change] | None = field(default=None, kw_only=True)
    change_log_interval: timedelta | None = field(default=timedelta(days=1), kw_only=True)

    def __post_init__(self) -> None:
        """Have no interval without a change log."""
        if self.change_log is None:
            object.__setattr__(self, "change_log_interval", None)

    @contextmanager
    def open(self, *, section: str) -> Iterator[MemorySource]:
        self.before("open")
        yield SimulatedSource(self, section)

    def identity(self) -> Mapping[str, object]:
        return {**MemorySourceConfig.identity(self), "group": self.group, "language": self.language}

    @property
    def field_columns(self) -> dict[str, str]:
        """The columns of the optional parts of an entry. With ``group``, the members of a group form a column."""
        columns = super(SimulatedSourceConfig, self).field_columns
        columns |= {} if self.group is None else {"alternates": COLUMN}
        return {name: columns[name] for name in FIELDS if name in columns}


class SimulatedSource(MemorySource):
    """The ``Source`` of a ``SimulatedSourceConfig``."""

    _config: SimulatedSourceConfig

    def boundaries(self, within: KeyRange, every: int) -> Sequence[Key]:
        self._config.before("boundaries")
        return super().boundaries(within, every)

    def largest_key(self, within: KeyRange) -> tuple[Key, int] | None:
        self._config.before("largest_key")
        return super().largest_key(within)

    def survey(self, ranges: Sequence[KeyRange], *, urgent: bool = False) -> Survey:
        self._config.before("survey")
        return super().survey(ranges, urgent=urgent)

    def rank(self, keys: Sequence[Key]) -> Sequence[int]:
        self._config.before("rank")
        return super().rank(keys)

    def read(self, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
        self._config.before("read")
        yield from super().read(ranges)

    def touched(self, ranges: Sequence[KeyRange], since: datetime) -> Sequence[int]:
        self._config.before("touched")
        return super().touched(ranges, since)

    def newest(self, ranges: Sequence[KeyRange], since: datetime, most: int) -> Sequence[pa.RecordBatch]:
        self._config.before("newest")
        return super().newest(ranges, since, most)

    def duplicates(self, most: int) -> Sequence[Duplicate]:
        self._config.before("duplicates")
        return super().duplicates(most)

    def table_version(self) -> str | None:
        self._config.before("table_version")
        return self._config.version()

    def changes(self, ranges: Sequence[KeyRange], since: str | None) -> ChangeReading:
        self._config.before("changes")
        return read_change_log(self._config.change_log or (), ranges, since)

    def _rows(self) -> Sequence[Row]:
        """The current rows, each with the members of its group if there are groups."""
        config = self._config
        if config.group is None or config.language is None:
            return config.rows
        needed = (config.language, *loc_columns(config.loc))
        groups: dict[Any, list[list[str | None]]] = {}
        for row in config.rows:
            if None not in (row.get(config.group), *(row.get(name) for name in (*config.key_columns, *needed))):
                groups.setdefault(row[config.group], []).append([text_of(row[name]) for name in needed])
        texts = {group: _members_text(members) for group, members in groups.items()}
        texts |= {group: EMPTY for group in groups if group == 0 or str(group).strip() in ("", "0")}
        whole = [None not in [row.get(name) for name in (*config.key_columns, *needed)] for row in config.rows]
        return [
            {**row, COLUMN: texts.get(row.get(config.group)) if is_whole else None}
            for row, is_whole in zip(config.rows, whole, strict=True)
        ]

    def _hashes(self, rows: Sequence[Row], names: Sequence[str]) -> list[int]:
        return row_hashes([tuple(text_of(row.get(name)) for name in names) for row in rows])

    def _batch(self, found: Sequence[tuple[int, Row]]) -> pa.RecordBatch:
        self._config.before("batch")
        batch = super()._batch(found)
        if self._config.group is None:
            return batch
        listed = alternates(batch["alternates"], batch["loc"], self._config.loc)
        return batch.set_column(batch.schema.get_field_index("alternates"), "alternates", listed)


def _members_text(members: list[list[str | None]]) -> str:
    text_of_all = json.dumps(sorted(members, key=str), ensure_ascii=False)
    return LARGE if len(members) > MAX_MEMBERS or len(text_of_all) > MAX_CHARACTERS else text_of_all


def read_change_log(log: Sequence[Change], ranges: Sequence[KeyRange], since: str | None) -> ChangeReading:
    """What a log says, as ``ports.Source.changes`` defines it."""
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
    lowers = [within.lower for within in ranges if within.lower is not None]
    changed = {bisect_right(lowers, key) for key in keys if key is not None}
    return ChangeReading(position=position, ranges=tuple(sorted(changed)), changes=len(keys))


_hashes: dict[tuple[str | None, ...], int] = {}


def row_hashes(rows: list[tuple[str | None, ...]]) -> list[int]:
    """The ``rowhash`` of rows of texts from a cache, because simulations hash the same few rows repeatedly."""
    hashes = {row: _hashes.get(row) for row in rows}
    unknown = [row for row, value in hashes.items() if value is None]
    if unknown:
        columns = [pa.array(column, pa.string()) for column in zip(*unknown, strict=True)]
        computed = dict(zip(unknown, row_values.row_hashes(columns).to_pylist(), strict=True))
        if len(_hashes) > MOST_HASHES:
            _hashes.clear()
        _hashes.update(computed)
        hashes |= computed
    return [hashes[row] or 0 for row in rows]
