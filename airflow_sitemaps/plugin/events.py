"""Asset events in Airflow's metadata database: the sitemaps that exist, and the report of each run.

Events never change, so each is read once, and its summary is kept in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from airflow_sitemaps.airflow_compat import AssetEvent, AssetModel, DagRun, TaskOutletAssetReference
from airflow_sitemaps.errors import GuardError
from airflow_sitemaps.pipeline.report import Report, ShardCounts
from airflow_sitemaps.plugin.dag_profiles import FOLLOWING, AssetName, dag_profiles, newest_of
from airflow_sitemaps.plugin.readings import BoundedCache, integer, iso, mapping, read_as, text, texts, timestamp
from airflow_sitemaps.protocol import CURRENT
from airflow_sitemaps.protocol.rules import RULES, Effect, Verdict
from airflow_sitemaps.shards.guards import Guards

EVENT_FORMAT: Final = 1
"""The newest format of an event's ``extra`` that this version reads."""
MAX_HISTORY: Final = 1_000
AT_ONCE: Final = 200
"""Number of events whose whole content is in memory at the same time, of at most 32 KiB each."""


_VERDICTS: Final = {verdict.value: verdict for verdict in Verdict}


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionSettings:
    """Settings of a section that an event states where they differ from the default (``asset_events``).

    ``max_dropped`` is a fraction of the rows. ``loc`` is empty if it holds no column. ``hosts`` excludes the store's.
    """

    rules: Mapping[str, str] = field(default_factory=dict)
    max_urls: int = CURRENT.max_urls
    max_dropped: float = Guards().max_dropped
    loc: str = ""
    hosts: tuple[str, ...] = ()

    def effect_of(self, rule: str, *, dropped: bool) -> Effect:
        """Return the effect on the rows that broke a rule."""
        if dropped:
            return Effect.LEFT_OUT
        if rule not in RULES:
            return Effect.FIXED
        return RULES[rule].effect(_VERDICTS.get(self.rules.get(rule, ""), RULES[rule].default))


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """Where the sitemap's files are, as the event or the DAG's asset states it."""

    public_url: str = ""
    state_url: str = ""
    conn_id: str | None = None
    base_url: str = ""
    index_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run in the history, small enough to keep thousands in memory. What the event does not contain is empty.

    ``at`` and ``data_at``, when the run began to read its data, are ISO 8601. ``generation`` is current after the run.
    ``sections`` has the number of URLs, and whether files changed; ``failed`` whether a guard refused, and the reason.
    """

    event: int
    at: str
    data_at: str
    dag_id: str
    run_id: str
    group_id: str
    result: str
    action: str
    generation: int
    urls: int
    shards: ShardCounts
    dropped: int
    file_bytes: int
    bytes_written: int
    rows_read: int
    planned: tuple[str, ...]
    sections: Mapping[str, tuple[int, bool]]
    store_run: str
    failed: Mapping[str, tuple[bool, str]]

    def is_of_all(self, sections: Collection[str]) -> bool:
        """Return whether it was a build of all of these sections."""
        return self.action == "build" and (not self.planned or {*sections} <= {*self.planned})


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An asset event, or a report in the store in its form. ``shortened`` are the parts that did not fit into it."""

    summary: RunSummary
    task_id: str
    report: Report
    settings: Mapping[str, SectionSettings]
    store: StoreFacts
    sections_left_out: int
    shortened: tuple[str, ...]


def is_report(extra: object) -> bool:
    """Return whether an event's ``extra`` is a sitemap's report in a format that this version reads."""
    if not isinstance(extra, Mapping) or not isinstance(extra.get("report"), Mapping):
        return False
    return 1 <= integer(extra.get("format")) <= EVENT_FORMAT and "generation" in extra["report"]


def report_of(extra: Mapping[str, Any]) -> Report:
    """Return the report in an event's ``extra``."""
    report = read_as(Report, extra.get("report"))
    return replace(
        report,
        started_at=timestamp(report.started_at),
        finished_at=timestamp(report.finished_at),
        committed_at=timestamp(report.committed_at) or None,
    )


NO_REPORT: Final = report_of({})
_AS_REPORTED: Final = (
    "result", "action", "generation", "urls", "shards", "file_bytes", "bytes_written", "rows_read",
)  # fmt: skip


def event_of(extra: Mapping[str, Any], *, event: int, at: str, dag_id: str, run_id: str) -> Event:
    """Return an event from its ``extra``. ``at`` is ISO 8601 in UTC."""
    report = report_of(extra)
    summary = RunSummary(
        event=event,
        at=at,
        data_at=report.started_at,
        dag_id=dag_id,
        run_id=run_id,
        group_id=text(extra.get("group_id")),
        dropped=sum(report.rows_dropped.values()),
        planned=tuple(map(sys.intern, report.planned)),
        sections={sys.intern(name): (part.urls, part.shards.has_changes()) for name, part in report.sections.items()},
        store_run=report.run,
        failed={f.section: (f.error == GuardError.__name__, f.message) for f in report.failures},
        **{name: getattr(report, name) for name in _AS_REPORTED},
    )
    sections = mapping(mapping(extra.get("report")).get("sections"))
    return Event(
        summary=summary,
        task_id=text(extra.get("task_id")),
        report=report,
        settings={name: read_as(SectionSettings, section) for name, section in sections.items()},
        store=read_as(StoreFacts, extra.get("store")),
        sections_left_out=integer(extra.get("sections_left_out")),
        shortened=tuple(texts(extra.get("shortened"))),
    )


SUMMARIES: Final = BoundedCache[int, RunSummary | None](50_000)
"""Summaries by event ID, of other assets as well; None marks an event of another kind of asset."""

_ASSET_COLUMNS: Final = select(AssetModel.id, AssetModel.name, AssetModel.uri, AssetModel.extra)


def _asset(row: Any) -> AssetName:
    return AssetName(id=row[0], name=row[1], uri=row[2], extra=row[3] if isinstance(row[3], dict) else {})


def assets_by_id(session: Session, ids: Iterable[int]) -> list[AssetName]:
    """Return assets in the order of their IDs. Unknown assets are left out."""
    chosen = _ASSET_COLUMNS.where(AssetModel.id.in_(set(ids))).order_by(AssetModel.id)
    return [_asset(row) for row in session.execute(chosen)]


def assets_with_events(session: Session) -> list[int]:
    """Return the IDs of the assets whose newest event came from a sitemap."""
    newest = select(func.max(AssetEvent.id)).where(AssetEvent.source_dag_id.is_not(None)).group_by(AssetEvent.asset_id)
    rows = session.execute(select(AssetEvent.id, AssetEvent.asset_id).where(AssetEvent.id.in_(newest))).all()
    summaries = summaries_of(session, [event for event, _ in rows])
    return [asset for event, asset in rows if summaries.get(event) is not None]


def asset_by_uri(session: Session, uri: str) -> AssetName | None:
    """Return the asset with a URI, of several the one declared last; None if it does not exist."""
    chosen = _ASSET_COLUMNS.where(AssetModel.uri == uri).order_by(AssetModel.id.desc()).limit(1)
    row = session.execute(chosen).first()
    return None if row is None else _asset(row)


def assets_of_dag(session: Session, dag_id: str) -> list[AssetName]:
    """Return the assets that a DAG's tasks emit, and those that its tasks verify or announce."""
    outlet = TaskOutletAssetReference
    declared = set(session.scalars(select(outlet.asset_id).where(outlet.dag_id == dag_id)))
    tasks = [task for profile in dag_profiles(session, [dag_id]).values() for task in profile.tasks]
    uris = {uri for task in tasks for uri in (*task.outlets, *(task.inlets if task.kind in FOLLOWING else ()))}
    declared |= set(session.scalars(select(AssetModel.id).where(AssetModel.uri.in_(uris))))
    return assets_by_id(session, declared)


def summaries_of(session: Session, ids: Sequence[int]) -> dict[int, RunSummary | None]:
    """Return the summaries of events by ID, None for those of another kind of asset. Only unknown ones are read."""
    summaries = SUMMARIES.get(ids)
    missing = [i for i in ids if i not in summaries]
    for start in range(0, len(missing), AT_ONCE):
        part = missing[start : start + AT_ONCE]
        read = dict.fromkeys(part) | {i: event.summary for i, event in whole_events(session, part).items()}
        SUMMARIES.add(read)
        summaries.update(read)
    return summaries


def history(
    session: Session, asset_ids: Sequence[int], *, dags: Collection[str], limit: int, before: int | None = None
) -> dict[int, list[RunSummary]]:
    """Return the newest runs of each asset, oldest first: of these DAGs, with a lower event ID than ``before``."""
    chosen = (AssetEvent.asset_id.in_(asset_ids), AssetEvent.source_dag_id.in_(dags))
    emitted = select(AssetEvent.id, AssetEvent.asset_id).where(*chosen)
    if before is not None:
        emitted = emitted.where(AssetEvent.id < before)
    newest = newest_of(AssetEvent.asset_id, emitted, by=AssetEvent.id, limit=min(limit, MAX_HISTORY))
    rows = session.execute(newest.order_by("id")).all()
    summaries = summaries_of(session, [event for event, _ in rows])
    result: dict[int, list[RunSummary]] = {asset: [] for asset in asset_ids}
    for event, asset in rows:
        if (summary := summaries.get(event)) is not None:
            result[asset].append(summary)
    return result


def whole_events(session: Session, ids: Sequence[int]) -> dict[int, Event]:
    """Return events with their whole content, by ID. Events of other kinds of assets are left out."""
    columns = select(
        AssetEvent.id, AssetEvent.extra, AssetEvent.timestamp, AssetEvent.source_dag_id, AssetEvent.source_run_id
    )
    return {
        i: event_of(extra, event=i, at=iso(at), dag_id=dag_id, run_id=run_id or "")
        for i, extra, at, dag_id, run_id in session.execute(columns.where(AssetEvent.id.in_(ids)))
        if dag_id and is_report(extra)
    }


def events_of_run(session: Session, dag_id: str, run_id: str) -> list[Event]:
    """Return the sitemap events that a DAG run emitted, oldest first."""
    assets = [asset.id for asset in assets_of_dag(session, dag_id)]
    since: datetime | None = session.scalar(  # not its start, which is a later one after a task of it was cleared
        select(DagRun.run_after).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)
    )
    emitted = select(AssetEvent.id).where(AssetEvent.asset_id.in_(assets))  # the database index starts with the asset
    if since is not None:
        emitted = emitted.where(AssetEvent.timestamp >= since)
    emitted = emitted.where(AssetEvent.source_dag_id == dag_id, AssetEvent.source_run_id == run_id)
    ids = list(session.scalars(emitted.order_by(AssetEvent.id).limit(MAX_HISTORY)))
    events = whole_events(session, ids)
    return [events[i] for i in ids if i in events]
