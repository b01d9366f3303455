"""Asset events in Airflow's metadata database: which sitemaps there are, and what became of each run.

Events never change once written, so their small form is kept in memory and each is read from the database once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

from airflow.models.asset import (
    AssetEvent,
    AssetModel,
    DagScheduleAssetReference,
    TaskInletAssetReference,
    TaskOutletAssetReference,
)
from airflow.models.dagrun import DagRun
from sqlalchemy import func, select

from airflow_sitemaps.plugin.facts import Point, is_report, point_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sqlalchemy.orm import Session

MAX_HISTORY: Final = 1_000
"""Runs of one sitemap that a page can show."""
KEPT: Final = 50_000
"""Events whose small form (or whose being none of ours) is remembered."""
AT_ONCE: Final = 200
"""Events read in one statement: 32 KiB each at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetName:
    """An asset: Airflow's id, its name, its URI, and whether a DAG still declares it."""

    id: int
    name: str
    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event, whole."""

    point: Point
    extra: Mapping[str, Any]


class PointCache:
    """Small forms by event id; None for events that are not ours. Bounded, oldest use first out; thread-safe."""

    def __init__(self, size: int = KEPT) -> None:
        self._size = size
        self._points: OrderedDict[int, Point | None] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, ids: Iterable[int]) -> dict[int, Point | None]:
        """What is known of these events."""
        with self._lock:
            found = {i: self._points[i] for i in ids if i in self._points}
            for i in found:
                self._points.move_to_end(i)
            return found

    def add(self, points: Mapping[int, Point | None]) -> None:
        """Remember more."""
        with self._lock:
            self._points.update(points)
            while len(self._points) > self._size:
                self._points.popitem(last=False)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._points.clear()


POINTS: Final = PointCache()


def assets_with_events(session: Session) -> dict[int, AssetName]:
    """Every asset whose newest event is a sitemap's, by id."""
    newest = select(func.max(AssetEvent.id)).where(AssetEvent.source_dag_id.is_not(None)).group_by(AssetEvent.asset_id)
    rows = session.execute(select(AssetEvent.id, AssetEvent.asset_id).where(AssetEvent.id.in_(newest))).all()
    points = points_of(session, [event for event, _ in rows])
    ours = [asset for event, asset in rows if points.get(event) is not None]
    found: dict[int, AssetName] = {}
    for start in range(0, len(ours), AT_ONCE):
        chosen = AssetModel.id.in_(ours[start : start + AT_ONCE])
        for i, name, uri in session.execute(select(AssetModel.id, AssetModel.name, AssetModel.uri).where(chosen)):
            found[i] = AssetName(id=i, name=name, uri=uri)
    return found


def asset_by_uri(session: Session, uri: str) -> AssetName | None:
    """An asset by its URI, None where there is none. Of several with one URI, the one declared last."""
    columns = select(AssetModel.id, AssetModel.name, AssetModel.uri)
    row = session.execute(columns.where(AssetModel.uri == uri).order_by(AssetModel.id.desc()).limit(1)).first()
    return None if row is None else AssetName(id=row[0], name=row[1], uri=row[2])


def points_of(session: Session, ids: Sequence[int]) -> dict[int, Point | None]:
    """The small forms of events, read from the database only where they are not yet known."""
    found = POINTS.known(ids)
    missing = [i for i in ids if i not in found]
    for start in range(0, len(missing), AT_ONCE):
        part = missing[start : start + AT_ONCE]
        read: dict[int, Point | None] = dict.fromkeys(part)
        read.update({event.point.event: event.point for event in _events(session, part)})
        POINTS.add(read)
        found.update(read)
    return found


def history(
    session: Session, asset_ids: Sequence[int], *, dags: set[str], limit: int, before: int | None = None
) -> dict[int, list[Point]]:
    """The newest ``limit`` runs of each asset that came from a DAG in ``dags``, oldest first.

    ``before``: only events with a lower id, for the next page.
    """

    place = func.row_number().over(partition_by=AssetEvent.asset_id, order_by=AssetEvent.id.desc()).label("place")
    inner = select(AssetEvent.id, AssetEvent.asset_id, place).where(AssetEvent.asset_id.in_(asset_ids))
    if before is not None:
        inner = inner.where(AssetEvent.id < before)
    numbered = inner.subquery()
    newest = select(numbered.c.id, numbered.c.asset_id).where(numbered.c.place <= min(limit, MAX_HISTORY))
    rows = session.execute(newest.order_by(numbered.c.id)).all()
    points = points_of(session, [event for event, _ in rows])
    result: dict[int, list[Point]] = {asset: [] for asset in asset_ids}
    for event, asset in rows:
        point = points.get(event)
        if point is not None and point.dag_id in dags:
            result[asset].append(point)
    return result


def whole_events(session: Session, ids: Sequence[int]) -> dict[int, Event]:
    """Events with everything in them, by id."""
    found: dict[int, Event] = {}
    for start in range(0, len(ids), AT_ONCE):
        found.update({e.point.event: e for e in _events(session, ids[start : start + AT_ONCE])})
    return found


def assets_of_dag(session: Session, dag_id: str, *, taking: Collection[str] = ()) -> list[AssetName]:
    """The assets that a DAG's tasks declare as outlets, and those that the tasks ``taking`` declare as inlets."""
    emitted, taken = TaskOutletAssetReference, TaskInletAssetReference
    declared = set(session.scalars(select(emitted.asset_id).where(emitted.dag_id == dag_id)))
    if taking:
        named = (taken.dag_id == dag_id) & taken.task_id.in_(list(taking))
        declared |= set(session.scalars(select(taken.asset_id).where(named)))
    names = select(AssetModel.id, AssetModel.name, AssetModel.uri).where(AssetModel.id.in_(declared))
    return [AssetName(id=i, name=name, uri=uri) for i, name, uri in session.execute(names.order_by(AssetModel.id))]


def dags_of_asset(session: Session, asset_id: int) -> set[str]:
    """The DAGs that emit an asset, take it in, or are scheduled on it."""
    tables = (TaskOutletAssetReference, TaskInletAssetReference, DagScheduleAssetReference)
    return {
        dag_id for table in tables for dag_id in session.scalars(select(table.dag_id).where(table.asset_id == asset_id))
    }


def tasks_taking(session: Session, asset_ids: Iterable[int]) -> dict[int, set[tuple[str, str]]]:
    """By asset, the tasks that take it in, as (DAG, task): verifying tasks name their sitemap so."""
    table = TaskInletAssetReference
    found: dict[int, set[tuple[str, str]]] = {}
    columns = select(table.asset_id, table.dag_id, table.task_id).where(table.asset_id.in_(list(asset_ids)))
    for asset_id, dag_id, task_id in session.execute(columns):
        found.setdefault(asset_id, set()).add((dag_id, task_id))
    return found


def events_of_run(session: Session, dag_id: str, run_id: str) -> list[Event]:
    """The sitemap events that a DAG run emitted, oldest first."""
    assets = [asset.id for asset in assets_of_dag(session, dag_id)]
    since = _start_of(session, dag_id, run_id)
    mine = select(AssetEvent.id).where(AssetEvent.asset_id.in_(assets))  # the index begins with the asset
    if since is not None:
        mine = mine.where(AssetEvent.timestamp >= since)
    mine = mine.where(AssetEvent.source_dag_id == dag_id, AssetEvent.source_run_id == run_id)
    ids = list(session.scalars(mine.order_by(AssetEvent.id).limit(MAX_HISTORY)))
    found = whole_events(session, ids)
    return [found[i] for i in ids if i in found]


def _start_of(session: Session, dag_id: str, run_id: str) -> datetime | None:

    start: datetime | None = session.scalar(
        select(DagRun.start_date).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    )
    return start


def _events(session: Session, ids: Sequence[int]) -> list[Event]:

    columns = select(
        AssetEvent.id, AssetEvent.extra, AssetEvent.timestamp, AssetEvent.source_dag_id, AssetEvent.source_run_id
    )
    found = []
    for i, extra, at, dag_id, run_id in session.execute(columns.where(AssetEvent.id.in_(ids))):
        if dag_id and is_report(extra):
            point = point_of(extra, event=i, at=iso(at), dag_id=dag_id, run_id=run_id or "")
            found.append(Event(point=point, extra=extra))
    return found


def iso(moment: datetime) -> str:
    """A moment as ISO 8601 in UTC, to the millisecond."""
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
