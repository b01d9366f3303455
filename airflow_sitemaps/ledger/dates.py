"""Observed dates: the lastmod of a URL is the time of the run that found another fingerprint. Pure.

The date is computed before its entry is rendered. Whether the rows changed between plan and reading is known only when the
range is read to its end; the run's dates of such a range are then moved by ``not_before``. The length of the entries stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.lastmod import DAY_S, Lastmods

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.columnar.elements import Cleaned


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

    def dated(self, piece: Cleaned, earlier: EarlierDates | None) -> Cleaned:
        """Return entries with their dates. Their present lastmods are those of ``initial``."""
        at = _seconds(self.at)
        initial = _Dates.of(piece.lastmods, len(piece)).only_until(at)
        if earlier is None:
            if self.since is None:
                return replace(piece, lastmods=None if piece.lastmods is None else initial.lastmods)
            places = pa.nulls(len(piece), pa.int32())
            listed, carried, changed = _Dates.of(None, len(piece)), _none(len(piece)), _none(len(piece))
        else:
            places, listed, carried = earlier.places, _Dates(earlier.lastmods), earlier.carried
            changed = _none(len(piece)) if self.keep else pc.and_(carried, earlier.differs)
        moved = changed
        if self.since is not None:
            recent = pc.fill_null(pc.greater(initial.seconds, _seconds(self.since)), False)
            moved = pc.or_(changed, pc.and_not(pc.is_null(places), recent))
        dates = listed.where(carried, initial)
        if not moved.true_count:
            return replace(piece, lastmods=dates.lastmods, moved=None)
        moments = pc.max_element_wise(pc.add(listed.seconds, 1), pa.scalar(at, pa.int64()))
        return replace(piece, lastmods=_Dates.at(moments).where(moved, dates).lastmods, moved=moved)


def not_before(piece: Cleaned, moment: datetime) -> Cleaned:
    """Return entries whose dates of this run are at ``moment`` at the earliest."""
    if piece.moved is None:
        return piece
    dates = _Dates.of(piece.lastmods, len(piece))
    moments = pc.max_element_wise(dates.seconds, pa.scalar(_seconds(moment), pa.int64()))
    return replace(piece, lastmods=_Dates.at(moments).where(piece.moved, dates).lastmods)


@dataclass(frozen=True, slots=True)
class _Dates:
    """Lastmods that all have a column of seconds."""

    lastmods: Lastmods

    @classmethod
    def of(cls, lastmods: Lastmods | None, length: int) -> _Dates:
        if lastmods is None:
            return cls(Lastmods(day=pa.nulls(length, pa.int32()), second=pa.nulls(length, pa.int32())))
        second = pa.nulls(length, pa.int32()) if lastmods.second is None else lastmods.second
        return cls(Lastmods(day=lastmods.day, second=second))

    @classmethod
    def at(cls, moments: pa.Int64Array) -> _Dates:
        day = pc.divide(moments, DAY_S)  # of the present, so not before 1970
        second = pc.subtract(moments, pc.multiply(day, DAY_S))
        return cls(Lastmods(day=day.cast(pa.int32()), second=second.cast(pa.int32())))

    @property
    def seconds(self) -> pa.Int64Array:
        """Seconds since 1970; a date stands for its midnight."""
        days = pc.multiply(self.lastmods.day.cast(pa.int64()), DAY_S)
        return pc.add(days, pc.fill_null(self.lastmods.second, 0))

    def only_until(self, second: int) -> _Dates:
        """Return the dates without those after a time."""
        past = pc.less_equal(self.seconds, second)
        return _Dates(replace(self.lastmods, day=pc.if_else(past, self.lastmods.day, None)))

    def where(self, mask: pa.BooleanArray, other: _Dates) -> _Dates:
        """Return the dates of the mask, and elsewhere the other ones."""
        day = pc.if_else(mask, self.lastmods.day, other.lastmods.day)
        return _Dates(Lastmods(day=day, second=pc.if_else(mask, self.lastmods.second, other.lastmods.second)))


def _none(length: int) -> pa.BooleanArray:
    return pa.repeat(pa.scalar(False), length)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
