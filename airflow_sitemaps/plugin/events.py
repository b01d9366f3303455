"""Asset events in Airflow's metadata database: the sitemaps that exist, and the result of each run.

Events never change after they are written. Each event is therefore read once, and its summary is kept in memory.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow.models.asset import AssetEvent, AssetModel, TaskInletAssetReference, TaskOutletAssetReference
from airflow.models.dagrun import DagRun
from sqlalchemy import func, select

from airflow_sitemaps.plugin.event_payload import RunSummary, is_report, summary_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy.orm import Session

MAX_HISTORY: Final = 1_000
"""Largest number of runs of one sitemap that a page shows."""
MAX_SUMMARIES: Final = 50_000
"""Number of events whose summary is kept in memory, including events of other assets."""
AT_ONCE: Final = 200
"""Number of events read in one SQL statement, of at most 32 KiB each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetName:
    """An asset.

    Attributes:
        id: Airflow's ID.
        name: Name of the asset.
        uri: URI of the asset.
        extra: Metadata from its declaration. Default: none.
    """

    id: int
    name: str
    uri: str
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An asset event.

    Attributes:
        summary: Its summary.
        extra: Its whole content.
    """

    summary: RunSummary
    extra: Mapping[str, Any]


class SummaryCache:
    """A cache of summaries by event ID. The value None marks an event of another kind of asset.

    It is bounded, evicts the least recently used summary first, and is thread-safe.

    Args:
        size: Largest number of summaries. Default: ``MAX_SUMMARIES``.
    """

    def __init__(self, size: int = MAX_SUMMARIES) -> None:
        self._size = size
        self._summaries: OrderedDict[int, RunSummary | None] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, ids: Iterable[int]) -> dict[int, RunSummary | None]:
        """Return the cached summaries of these events."""
        with self._lock:
            kept = {i: self._summaries[i] for i in ids if i in self._summaries}
            for i in kept:
                self._summaries.move_to_end(i)
            return kept

    def add(self, summaries: Mapping[int, RunSummary | None]) -> None:
        """Store summaries."""
        with self._lock:
            self._summaries.update(summaries)
            while len(self._summaries) > self._size:
                self._summaries.popitem(last=False)

    def clear(self) -> None:
        """Remove all summaries."""
        with self._lock:
            self._summaries.clear()


SUMMARIES: Final = SummaryCache()


def assets_by_id(session: Session, ids: Iterable[int]) -> dict[int, AssetName]:
    """Return assets by ID. Unknown assets are left out."""
    chosen, assets = list(ids), {}
    columns = select(AssetModel.id, AssetModel.name, AssetModel.uri, AssetModel.extra)
    for start in range(0, len(chosen), AT_ONCE):
        for row in session.execute(columns.where(AssetModel.id.in_(chosen[start : start + AT_ONCE]))):
            assets[row[0]] = _asset(row)
    return assets


def _asset(row: Any) -> AssetName:
    return AssetName(id=row[0], name=row[1], uri=row[2], extra=row[3] if isinstance(row[3], dict) else {})


def assets_with_events(session: Session) -> list[int]:
    """Return the IDs of the assets whose newest event came from a sitemap."""
    newest = select(func.max(AssetEvent.id)).where(AssetEvent.source_dag_id.is_not(None)).group_by(AssetEvent.asset_id)
    rows = session.execute(select(AssetEvent.id, AssetEvent.asset_id).where(AssetEvent.id.in_(newest))).all()
    summaries = summaries_of(session, [event for event, _ in rows])
    return [asset for event, asset in rows if summaries.get(event) is not None]


def asset_by_uri(session: Session, uri: str) -> AssetName | None:
    """Return the asset with a URI, or None if it does not exist.

    If several assets share the URI, return the one declared last.
    """
    columns = select(AssetModel.id, AssetModel.name, AssetModel.uri, AssetModel.extra)
    row = session.execute(columns.where(AssetModel.uri == uri).order_by(AssetModel.id.desc()).limit(1)).first()
    return None if row is None else _asset(row)


def summaries_of(session: Session, ids: Sequence[int]) -> dict[int, RunSummary | None]:
    """Return the summaries of events. Only those that are not in memory are read from the database.

    Returns:
        Summaries by event ID; None for an event of another kind of asset.
    """
    summaries = SUMMARIES.get(ids)
    missing = [i for i in ids if i not in summaries]
    for start in range(0, len(missing), AT_ONCE):
        part = missing[start : start + AT_ONCE]
        read: dict[int, RunSummary | None] = dict.fromkeys(part)
        read.update({event.summary.event: event.summary for event in _events(session, part)})
        SUMMARIES.add(read)
        summaries.update(read)
    return summaries


def history(
    session: Session, asset_ids: Sequence[int], *, dags: Collection[str], limit: int, before: int | None = None
) -> dict[int, list[RunSummary]]:
    """Return the newest runs of each asset that emitted an event, oldest first.

    Args:
        dags: Return only events of these DAGs.
        before: Return only events with a lower ID, for the next page. Default: no limit.
    """
    place = func.row_number().over(partition_by=AssetEvent.asset_id, order_by=AssetEvent.id.desc()).label("place")
    inner = select(AssetEvent.id, AssetEvent.asset_id, place).where(AssetEvent.asset_id.in_(asset_ids))
    if before is not None:
        inner = inner.where(AssetEvent.id < before)
    numbered = inner.subquery()
    newest = select(numbered.c.id, numbered.c.asset_id).where(numbered.c.place <= min(limit, MAX_HISTORY))
    rows = session.execute(newest.order_by(numbered.c.id)).all()
    summaries = summaries_of(session, [event for event, _ in rows])
    result: dict[int, list[RunSummary]] = {asset: [] for asset in asset_ids}
    for event, asset in rows:
        summary = summaries.get(event)
        if summary is not None and summary.dag_id in dags:
            result[asset].append(summary)
    return result


def whole_events(session: Session, ids: Sequence[int]) -> dict[int, Event]:
    """Return events with their whole content, by ID."""
    events: dict[int, Event] = {}
    for start in range(0, len(ids), AT_ONCE):
        events.update({e.summary.event: e for e in _events(session, ids[start : start + AT_ONCE])})
    return events


def assets_of_dag(session: Session, dag_id: str, *, inlets_of: Collection[str] = ()) -> list[AssetName]:
    """Return the assets that a DAG's tasks declare as outlets.

    Args:
        inlets_of: Tasks whose inlets are included. Default: none.
    """
    outlet, inlet = TaskOutletAssetReference, TaskInletAssetReference
    declared = set(session.scalars(select(outlet.asset_id).where(outlet.dag_id == dag_id)))
    if inlets_of:
        chosen = (inlet.dag_id == dag_id) & inlet.task_id.in_(list(inlets_of))
        declared |= set(session.scalars(select(inlet.asset_id).where(chosen)))
    return sorted(assets_by_id(session, declared).values(), key=lambda asset: asset.id)


def events_of_run(session: Session, dag_id: str, run_id: str) -> list[Event]:
    """Return the sitemap events that a DAG run emitted, oldest first."""
    assets = [asset.id for asset in assets_of_dag(session, dag_id)]
    start: datetime | None = session.scalar(
        select(DagRun.start_date).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    )
    emitted = select(AssetEvent.id).where(AssetEvent.asset_id.in_(assets))  # the database index starts with the asset
    if start is not None:
        emitted = emitted.where(AssetEvent.timestamp >= start)
    emitted = emitted.where(AssetEvent.source_dag_id == dag_id, AssetEvent.source_run_id == run_id)
    ids = list(session.scalars(emitted.order_by(AssetEvent.id).limit(MAX_HISTORY)))
    events = whole_events(session, ids)
    return [events[i] for i in ids if i in events]


def _events(session: Session, ids: Sequence[int]) -> list[Event]:
    columns = select(
        AssetEvent.id, AssetEvent.extra, AssetEvent.timestamp, AssetEvent.source_dag_id, AssetEvent.source_run_id
    )
    events = []
    for i, extra, at, dag_id, run_id in session.execute(columns.where(AssetEvent.id.in_(ids))):
        if dag_id and is_report(extra):
            summary = summary_of(extra, event=i, at=iso(at), dag_id=dag_id, run_id=run_id or "")
            events.append(Event(summary=summary, extra=extra))
    return events


def iso(moment: datetime) -> str:
    """Return a time as ISO 8601 in UTC, with milliseconds."""
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
