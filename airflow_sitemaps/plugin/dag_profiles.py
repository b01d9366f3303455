"""Profiles of serialized DAGs: the kinds of their sitemap tasks, their params and their schedule.

Reading a serialized DAG is expensive. Each version is therefore read once, and its small profile is kept in memory.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from airflow.models.dag_version import DagVersion
from airflow.models.serialized_dag import SerializedDagModel
from croniter import croniter  # type: ignore[import-untyped]  # no stubs, and Airflow needs none
from sqlalchemy import func, select

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy.orm import Session

KINDS: Final[Mapping[str, str]] = {
    "SitemapPlanOperator": "plan",
    "SitemapWriteOperator": "write",
    "SitemapPublishOperator": "publish",
    "SitemapRollbackOperator": "rollback",
    "SitemapVerifyOperator": "verify",
    "SitemapFreshnessOperator": "freshness",
    "IndexNowOperator": "indexnow",
    "SearchConsoleSubmitOperator": "searchconsole",
    "SitemapPingOperator": "ping",
}
"""Kind of a task by its operator's class name, in the order in which a run's tasks are shown."""

MAX_PROFILES: Final = 5_000
"""Number of profiles kept in memory. A profile takes about one kilobyte."""
CRON_RUNS: Final = 15
"""Smallest number of scheduled runs to search for the longest gap. It covers daily runs that repeat every two weeks."""
CRON_SECONDS: Final = 15 * 86_400
"""Smallest period to search. It covers the weekends of a schedule with several runs a day."""
MAX_CRON_RUNS: Final = 2_000
"""Largest number of scheduled runs to search. It covers the weekend of a run each minute of the working hours."""
CRON_BASE: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)
"""Start of the search for the longest gap. Any fixed time is suitable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProfile:
    """A sitemap task of a DAG.

    Attributes:
        task_id: Airflow's ID, with the prefix of the task group.
        kind: One of the values of ``KINDS``.
        outlets: URIs of the assets that the task emits. Default: none.
        inlets: URIs of the assets that the task declares as inlets. Default: none.
        generation: Text of a rollback's ``generation`` argument, usually a template. Default: empty.
    """

    task_id: str
    kind: str
    outlets: tuple[str, ...] = ()
    inlets: tuple[str, ...] = ()
    generation: str = ""

    @property
    def group_id(self) -> str:
        """ID of the task group; empty for a task outside a group."""
        return self.task_id.rpartition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class DagProfile:
    """The parts of a serialized DAG that concern sitemaps.

    Attributes:
        dag_id: Airflow's ID.
        params: Names of the DAG's params. Default: none.
        tasks: Its sitemap tasks, in the order of the DAG. Default: none.
        period_s: Longest gap between two scheduled runs, in seconds. Default: None, for a DAG without a time schedule.
    """

    dag_id: str
    params: frozenset[str] = frozenset()
    tasks: Sequence[TaskProfile] = field(default=())
    period_s: float | None = None

    def of_kind(self, kind: str) -> list[TaskProfile]:
        """Return the DAG's tasks of one kind."""
        return [task for task in self.tasks if task.kind == kind]


class ProfileCache:
    """A cache of profiles by DAG and hash of its serialized form.

    It is bounded, evicts the least recently used profile first, and is thread-safe.

    Args:
        size: Largest number of profiles. Default: ``MAX_PROFILES``.
    """

    def __init__(self, size: int = MAX_PROFILES) -> None:
        self._size = size
        self._profiles: OrderedDict[tuple[str, str], DagProfile] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str]) -> DagProfile | None:
        """Return the profile of one version of a DAG, or None if it is not cached."""
        with self._lock:
            profile = self._profiles.get(key)
            if profile is not None:
                self._profiles.move_to_end(key)
            return profile

    def add(self, key: tuple[str, str], profile: DagProfile) -> None:
        """Store the profile of one version of a DAG.

        Args:
            key: DAG ID, and hash of the DAG's serialized form.
        """
        with self._lock:
            self._profiles[key] = profile
            while len(self._profiles) > self._size:
                self._profiles.popitem(last=False)


PROFILES: Final = ProfileCache()


def dag_profiles(session: Session, dag_ids: Iterable[str]) -> dict[str, DagProfile]:
    """Return the profile of the newest version of each DAG. DAGs that were never serialized are left out."""
    profiles: dict[str, DagProfile] = {}
    missing = {}
    for dag_id, row_id, dag_hash in _newest_versions(session, list(dag_ids)):
        cached = PROFILES.get((dag_id, dag_hash))
        if cached is None:
            missing[row_id] = (dag_id, dag_hash)
        else:
            profiles[dag_id] = cached
    for row_id, (dag_id, dag_hash) in missing.items():
        row = session.get(SerializedDagModel, row_id)
        if row is None or row.data is None:
            continue
        profiles[dag_id] = profile_of(dag_id, row.data)
        PROFILES.add((dag_id, dag_hash), profiles[dag_id])
        session.expunge(row)  # its data may take megabytes
    return profiles


def _newest_versions(session: Session, dag_ids: list[str]) -> list[Any]:
    """Return rows of (DAG, ID of its newest serialized form, hash of that form)."""
    if not dag_ids:
        return []
    rank = func.row_number().over(partition_by=SerializedDagModel.dag_id, order_by=DagVersion.version_number.desc())
    numbered = (
        select(SerializedDagModel.dag_id, SerializedDagModel.id, SerializedDagModel.dag_hash, rank.label("place"))
        .join(DagVersion, SerializedDagModel.dag_version_id == DagVersion.id)
        .where(SerializedDagModel.dag_id.in_(dag_ids))
        .subquery()
    )
    newest = select(numbered.c.dag_id, numbered.c.id, numbered.c.dag_hash).where(numbered.c.place == 1)
    return list(session.execute(newest).all())


def profile_of(dag_id: str, data: Mapping[str, Any]) -> DagProfile:
    """Return the profile of a serialized DAG. Parts in an unknown form are left out."""
    dag = _mapping(data.get("dag"))
    tasks = [_task(_mapping(_mapping(task).get("__var", task))) for task in dag.get("tasks") or ()]
    params = dag.get("params")
    pairs = params if isinstance(params, list) else []
    names = params if isinstance(params, Mapping) else [pair[0] for pair in pairs if isinstance(pair, list) and pair]
    return DagProfile(
        dag_id=dag_id,
        params=frozenset(map(str, names)),
        tasks=tuple(task for task in tasks if task is not None),
        period_s=period_of(_mapping(dag.get("timetable"))),
    )


def _task(task: Mapping[str, Any]) -> TaskProfile | None:
    kind = KINDS.get(str(task.get("task_type", "")))
    if kind is None:
        return None
    return TaskProfile(
        task_id=str(task.get("task_id", "")),
        kind=kind,
        outlets=_uris(task.get("outlets")),
        inlets=_uris(task.get("inlets")),
        generation=str(task.get("generation", "")),
    )


def _uris(assets: Any) -> tuple[str, ...]:
    uris = [_mapping(_mapping(asset).get("__var", asset)).get("uri") for asset in assets or ()]
    return tuple(uri for uri in uris if isinstance(uri, str))


def period_of(timetable: Mapping[str, Any]) -> float | None:
    """Return the longest gap between two scheduled runs in seconds, or None if the timetable is not time-based.

    Of a schedule by assets or time, the time counts.
    """
    settings = _mapping(timetable.get("__var"))
    if isinstance(settings.get("timetable"), Mapping):
        return period_of(settings["timetable"])
    delta, expression = settings.get("delta"), settings.get("expression")
    if isinstance(delta, (int, float)) and delta > 0:
        return float(delta)
    several = settings.get("expressions")
    expressions = several if isinstance(several, list) else [expression]
    if not expressions or not all(isinstance(each, str) for each in expressions):
        return None
    return _longest_gap(tuple(expressions), str(settings.get("timezone") or "UTC"))


@functools.lru_cache(maxsize=1_024)
def _longest_gap(expressions: tuple[str, ...], zone: str) -> float | None:
    """Return the longest gap between two times of cron expressions in seconds; None if one cannot be read."""
    try:
        start = CRON_BASE.astimezone(ZoneInfo(zone))
        every = heapq.merge(*(_times(croniter(expression, start)) for expression in expressions))
        moments = list(itertools.islice(every, 1))
        for moment in itertools.islice(every, MAX_CRON_RUNS):
            moments.append(moment)
            if len(moments) >= CRON_RUNS and moment - moments[0] >= CRON_SECONDS:
                break
    except (ValueError, KeyError, TypeError):  # croniter's errors are ValueErrors; an unknown zone is a KeyError
        return None
    return max(later - earlier for earlier, later in itertools.pairwise(moments))


def _times(fires: croniter) -> Iterator[float]:
    while True:
        yield fires.get_next(float)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
