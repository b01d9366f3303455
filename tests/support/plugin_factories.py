"""Reports, events and manifests of any size, made without running anything."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow.models.asset import AssetEvent, AssetModel, TaskOutletAssetReference
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import insert

from airflow_sitemaps.operators import SECTIONS
from airflow_sitemaps.pipeline.report import Report, SectionReport, ShardCounts
from airflow_sitemaps.shards.manifest import GenerationNote, Manifest, PublicFile, SectionManifest, Shard
from airflow_sitemaps.shards.ranges import Digest, KeyRange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)
BUNDLE = "tests"


def report(generation: int = 1, *, urls: int = 1_000, shards: int = 10, at: datetime = NOW, **changes: Any) -> Report:
    """A report of one section; ``changes`` are fields of ``Report``."""
    counts = ShardCounts(total=shards, kept=shards - 1, rewritten=1)
    section = SectionReport(urls=urls, rows=urls, shards=counts, rows_read=urls // shards, file_bytes=shards * 90_000)
    made = Report(
        run=f"run-{generation}",
        result="published",
        generation=generation,
        previous_generation=generation - 1,
        started_at=(at - timedelta(seconds=30)).isoformat(),
        finished_at=at.isoformat(),
        committed_at=at.isoformat(),
        index_urls=("https://shop.example/sitemap.xml",),
        urls=urls,
        rows=urls,
        shards=counts,
        rows_dropped={},
        fields_fixed={},
        sections={"products": section},
        seconds={"plan": 4.0, "write": 20.0, "publish": 6.0},
        file_bytes=shards * 90_000,
        rows_read=urls // shards,
        bytes_written=90_000,
    )
    return replace(made, **changes)


def extra(made: Report, *, state_url: str | None = None, **where: str) -> dict[str, Any]:
    """An asset event's extra as the publisher emits it."""
    store = {
        "public_url": "/nowhere",
        "state_url": state_url or "/nowhere-state",
        "conn_id": None,
        "base_url": "https://shop.example/",
        "index_name": "sitemap.xml",
    }
    return {"format": 1, "report": made.to_dict(), "store": store, "group_id": "sitemap", **where}


def manifest(shards: int, *, generation: int = 7, name: str = "products", urls: int = 49_900) -> Manifest:
    """A generation whose shards are of all ages, fills and states."""
    return Manifest(
        generation=generation,
        write_id="0123456789abcdef",
        run="run-7",
        owner="",
        base_url="https://shop.example/",
        committed_at=NOW,
        sections={
            name: SectionManifest(
                name=name,
                fingerprint="f",
                digest_kind="d",
                changed_in=generation,
                next_serial=shards + 1,
                base_url="https://shop.example/",
                shards=tuple(shard(i, shards, generation, name, urls) for i in range(shards)),
            )
        },
        indexes=(
            PublicFile(
                name="sitemap.xml", body=f"runs/run-{generation}/bodies/sitemap.xml", xml_hash="0" * 64,
                xml_byte_size=1_000, byte_size=1_000, modified_at=NOW, listed=False,
            ),
        ),
        promoted=True,
        history=tuple(
            GenerationNote(
                generation=n, committed_at=NOW - timedelta(hours=generation - n), run=f"run-{n}",
                urls=shards * 25_000 + n * 120_000, shards=shards, byte_size=18 * (shards * 25_000 + n * 120_000),
            )
            for n in range(1, generation)
        ),
    )  # fmt: skip


def shard(i: int, of: int, generation: int, name: str, urls: int) -> Shard:
    """The ``i``-th of ``of`` shards."""
    lower = None if i == 0 else (i * urls,)
    upper = None if i == of - 1 else ((i + 1) * urls,)
    if i % 97 == 96:
        return Shard(range=KeyRange(lower, upper))
    held = max(1, urls * (1 + i * 7919 % 100) // 100)
    age = timedelta(minutes=(i // 40 * 104_729 + i * 7_919 % 5_000) % 90_000)
    return Shard(
        range=KeyRange(lower, upper),
        digest=Digest(rows=held + i % 3, newest="2026-11-19T08:00:00+00:00", checksum=i * 2_654_435_761 % 2**64),
        urls=held,
        newest_lastmod="2026-11-19T08:00:00Z",
        written_in=generation if i % 11 == 0 else 1 + i % max(1, generation - 1),
        dirty_since=NOW if i % 89 == 88 else None,
        dropped={"loc-missing": i % 3} if i % 3 else {},
        file=PublicFile(
            name=f"{name}-{i + 1:05d}.xml.gz",
            body=f"runs/run-7/bodies/{i:064x}",
            xml_hash=f"{i * 7919:064x}",
            xml_byte_size=held * 140,
            byte_size=held * 18,
            modified_at=NOW - age,
            etag=None if i % 501 == 500 else f"{i:032x}",
        ),
    )


def add_dag(session: Session, dag_id: str) -> None:
    """A DAG as far as permissions and status need one."""
    if session.get(DagBundleModel, BUNDLE) is None:
        session.add(DagBundleModel(name=BUNDLE))
        session.flush()
    if session.get(DagModel, dag_id) is None:
        session.add(DagModel(dag_id=dag_id, bundle_name=BUNDLE, is_stale=False, is_paused=False, fileloc="/dags/x.py"))
        session.flush()


def add_asset(session: Session, uri: str, dag_id: str, task_id: str = "sitemap.publish") -> int:
    """An asset that a DAG's task emits; returns its id."""
    add_dag(session, dag_id)
    asset = AssetModel(name=f"sitemap {uri}", uri=uri, group="asset", extra={})
    session.add(asset)
    session.flush()
    session.add(TaskOutletAssetReference(asset_id=asset.id, dag_id=dag_id, task_id=task_id))
    session.flush()
    return asset.id


def add_event(
    session: Session, asset_id: int, dag_id: str | None, made: dict[str, Any], at: datetime, run: str = "r"
) -> None:
    """An event of an asset."""
    session.add(
        AssetEvent(
            asset_id=asset_id,
            extra=made,
            source_dag_id=dag_id,
            source_run_id=run,
            source_task_id="sitemap.publish",
            timestamp=at,
        )
    )


def add_history(
    session: Session, uri: str, dag_id: str, generations: int, *, shards: int = 10, state_url: str | None = None
) -> int:
    """A sitemap with so many generations, an hour apart; returns the asset's id."""
    asset_id = add_asset(session, uri, dag_id)
    for n in range(1, generations + 1):
        at = NOW - timedelta(hours=generations - n)
        made = report(n, urls=shards * 40_000 + n * 37 % 5_000, shards=shards, at=at)
        add_event(session, asset_id, dag_id, extra(made, state_url=state_url), at, run=f"run-{n}")
    session.flush()
    return asset_id


@dataclass(frozen=True, slots=True)
class Ran:
    """A run of a DAG with one sitemap group: the states of its tasks, and what a failed task pushed.

    ``by_hand``: a person marked its publishing task as successful.
    """

    number: int
    state: str = "success"
    publish: str | None = "success"
    plan: str | None = "success"
    conf: Mapping[str, Any] = field(default_factory=dict)
    pushed: Mapping[str, Any] = field(default_factory=dict)
    verify: str | None = None
    user: str | None = None
    sections: tuple[str, ...] = ()
    by_hand: bool = False

    @property
    def run_id(self) -> str:
        """Airflow's id of the run."""
        return f"run-{self.number}"


def add_run(session: Session, dag_id: str, ran: Ran, at: datetime, *, minutes: float = 5) -> None:
    """A run that started at ``at``, with the task instances of its sitemap group; it takes ``minutes``."""
    ended = ran.state in ("success", "failed")
    end = at + timedelta(minutes=minutes) if ended else None
    run = DagRun(
        dag_id=dag_id, run_id=ran.run_id, run_type="manual", state=ran.state, start_date=at, queued_at=at,
        logical_date=None, run_after=at, conf=dict(ran.conf),
        triggered_by=DagRunTriggeredByType.UI if ran.user else DagRunTriggeredByType.TIMETABLE,
        triggering_user_name=ran.user,
    )  # fmt: skip
    run.end_date = end
    session.add(run)
    session.flush()
    tasks = [
        ("sitemap.plan", "SitemapPlanOperator", ran.plan),
        ("sitemap.publish", "SitemapPublishOperator", ran.publish),
        ("verify", "SitemapVerifyOperator", ran.verify),
    ]
    for task_id, operator, state in tasks:
        if state is not None or task_id != "verify":
            add_task(session, dag_id, ran.run_id, task_id, operator, state, at, end)
    failed = "sitemap.plan" if ran.plan == "failed" else "verify" if ran.verify else "sitemap.publish"
    pushed = [(failed, key, value) for key, value in ran.pushed.items()]
    if ran.publish == "success" and not ran.by_hand:
        pushed.append(("sitemap.publish", "return_value", {"result": "published"}))
    if ran.sections:
        pushed.append(("sitemap.plan", SECTIONS, list(ran.sections)))
    for task_id, key, value in pushed:
        session.execute(
            insert(XComModel).values(
                dag_run_id=run.id, dag_id=dag_id, run_id=ran.run_id, task_id=task_id, map_index=-1, key=key, value=value,
                timestamp=at,
            )
        )  # fmt: skip
    session.flush()


def add_task(
    session: Session,
    dag_id: str,
    run_id: str,
    task_id: str,
    operator: str,
    state: str | None,
    start: datetime | None,
    end: datetime | None,
    *,
    map_index: int = -1,
) -> None:
    """A task instance of a run."""
    session.execute(
        insert(TaskInstance).values(
            dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index, operator=operator, state=state, pool="default",
            start_date=start, end_date=end, try_number=1,
        )
    )  # fmt: skip
