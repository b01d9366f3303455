"""Change detection by watermark: for tables so large that digesting all of it at every run is too dear.

A run surveys the ranges in which a row's lastmod moved since the last run, the last range, and one slice of the
others, so that deletes and silent updates are found within ``SLICES`` runs. What it remembers is advice: where it is
lost, or where anything else changed the section (a rollback, another configuration), everything is surveyed.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.putting import put_surely
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.shards.digest import Digest, Survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_sitemaps.pipeline.state import State
    from airflow_sitemaps.ports import Source
    from airflow_sitemaps.shards.key import KeyRange
    from airflow_sitemaps.shards.manifest import SectionState

log = logging.getLogger(__name__)

LAG: Final = timedelta(minutes=15)
"""How far behind the database's clock the watermark stays: transactions that were under way commit late."""

WATERMARKS: Final = "watermarks/"
"""Where they lie in the state area."""

SLICES: Final = 24
"""Runs within which every range is surveyed once, whether or not its lastmods moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """What is remembered between runs: the database's time, the next slice, and the generation it holds for."""

    moment: datetime
    slice: int
    changed_in: int


def key_of(section: str) -> str:
    """Where a section's watermark lies."""
    return f"{WATERMARKS}{section}.json"


def remembered(state: State, section: SectionState) -> Watermark | None:
    """The watermark of the section as it now is; None where there is none that holds."""
    found = state.objects.get(key_of(section.name))
    if found is None:
        return None
    try:
        value = json.loads(found.body)
        mark = Watermark(
            moment=datetime.fromisoformat(value["moment"]),
            slice=int(value["slice"]),
            changed_in=int(value["changed_in"]),
        )
        if mark.moment.tzinfo is None:
            raise ValueError("its moment has no zone")
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        log.warning("section %s: its watermark cannot be read; everything is surveyed", section.name)
        return None
    return mark if mark.changed_in == section.changed_in else None


def remember(state: State, section: str, mark: Watermark) -> None:
    """Keep a watermark for the next run."""
    value = {"moment": mark.moment.isoformat(), "slice": mark.slice, "changed_in": mark.changed_in}
    body = json.dumps(value).encode()
    put_surely(
        state.objects,
        key_of(section),
        body,
        mode=Overwrite(),
        write_id=f"{mark.changed_in}-{mark.slice}-{mark.moment.isoformat()}",
        content_type="application/json",
    )


class Partial:
    """A source whose survey asks only where something may have changed, and takes the rest as it was.

    What is to be read has to be asked about as well (``ask_also``): a plan must know how many rows are there now.
    """

    def __init__(self, source: Source, section: SectionState, mark: Watermark) -> None:
        self._source = source
        self._section = section
        self._mark = mark
        self._also: set[int] = set()
        self._known: dict[int, Digest] = {}

    def ask_also(self, positions: Iterable[int]) -> bool:
        """Have these ranges surveyed the next time; whether one of them was not yet."""
        self._also.update(positions)
        return not self._also <= self._known.keys()

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        """Digests of all ranges; of those not asked about, the last run's."""
        asked = sorted(self._also - self._known.keys() if self._known else self._changed(ranges))
        found = self._source.survey([ranges[position] for position in asked])
        self._known.update(zip(asked, found.digests, strict=True))
        digests = [self._known.get(position, shard.digest) for position, shard in enumerate(self._section.shards)]
        return Survey(digests=tuple(digests), null_keys=found.null_keys, null_key_samples=found.null_key_samples)

    def _changed(self, ranges: Sequence[KeyRange]) -> set[int]:
        """Where lastmods moved, the last range, and this run's slice of the others."""
        touched = set(self._source.touched(ranges, self._mark.moment - LAG))
        asked = touched | {len(ranges) - 1} | self._slice(len(ranges))
        log.info(
            "section %s: lastmods moved in %d of %d ranges since %s; %d surveyed",
            self._section.name,
            len(touched),
            len(ranges),
            self._mark.moment - LAG,
            len(asked),
        )
        return asked

    def _slice(self, number: int) -> set[int]:
        return set(range(self._mark.slice % SLICES, number, SLICES))
