"""The answers of the API, put together from events, runs and health."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.operators.facts import FAILED, REFUSED, VERIFIED
from airflow_sitemaps.plugin import actions, events, facts, health, runs, verifications
from airflow_sitemaps.plugin.headroom import gauges
from airflow_sitemaps.plugin.progress import refusals_of, why
from airflow_sitemaps.plugin.situation import Situation, last_result
from airflow_sitemaps.protocol.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from airflow_sitemaps.plugin.events import AssetName, Event
    from airflow_sitemaps.plugin.facts import Point
    from airflow_sitemaps.plugin.runs import TaskFacts
    from airflow_sitemaps.plugin.verifications import Verification

LINE: Final = 30
"""Runs in the small history line of the list."""
COLUMNS: Final = (
    "event",
    "at",
    "dag_id",
    "run_id",
    "result",
    "action",
    "generation",
    "urls",
    "shards",
    "created",
    "rewritten",
    "removed",
    "repaired",
    "dropped",
    "seconds",
    "file_bytes",
    "bytes_written",
    "rows_read",
)
"""Of the history, a column each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One sitemap as known from Airflow's database. ``event`` is the newest."""

    asset: AssetName
    event: Event
    situation: Situation
    publisher: str

    @property
    def result(self) -> str:
        return last_result(self.situation)


def known_sitemaps(session: Session, assets: Sequence[AssetName], readable: set[str], now: datetime) -> list[Known]:
    """Everything about the given assets that have an event the user may see."""
    points = events.history(session, [a.id for a in assets], dags=readable, limit=LINE)
    seen = [(asset, points[asset.id]) for asset in assets if points[asset.id]]
    newest = events.whole_events(session, [line[-1].event for _, line in seen])
    publishers = {asset.id: publisher_of(line) for asset, line in seen}
    takers = events.tasks_taking(session, publishers)
    dag_facts = runs.dags(session, publishers.values())
    looking = {dag_id for taken in takers.values() for dag_id, _ in taken} & readable
    latest = runs.latest_runs(session, {*publishers.values(), *looking})
    tasks = runs.sitemap_tasks(session, [(run.dag_id, run.run_id) for run in latest.values()])
    verified = runs.left_by(session, [task for task in tasks if task.kind == "verify"], VERIFIED)
    found = []
    for asset, line in seen:
        dag_id = publishers[asset.id]
        mine = tasks_of(line, [task for task in tasks if task.dag_id == dag_id])
        verifying = [*mine, *(t for t in tasks if (t.dag_id, t.task_id) in takers.get(asset.id, ()))]
        event = newest[line[-1].event]
        situation = Situation(
            points=line,
            report=facts.report_of(event.extra),
            dag=dag_facts.get(dag_id),
            run=latest.get(dag_id),
            tasks=mine,
            now=now,
            refused=_refused(session, mine),
            failed=_failed(session, mine),
            verification=_verification(verifying, verified),
        )
        found.append(Known(asset=asset, event=event, situation=situation, publisher=dag_id))
    return found


def _verification(tasks: Sequence[TaskFacts], left: Mapping[tuple[str, str, str], Any]) -> Verification | None:
    task = verifications.newest(tasks)
    if task is None:
        return None
    return verifications.verification_of(task, left.get((task.dag_id, task.run_id, task.task_id)))


def publisher_of(line: Sequence[Point]) -> str:
    """The DAG that publishes: of the newest run that was no rollback."""
    return next((p.dag_id for p in reversed(line) if p.action != "rollback"), line[-1].dag_id)


def tasks_of(line: Sequence[Point], tasks: Sequence[TaskFacts]) -> list[TaskFacts]:
    """The tasks of a DAG that concern this sitemap: those of its group, and verifications outside any group."""
    group = next((p.group_id for p in reversed(line) if p.action != "rollback"), line[-1].group_id)
    return [task for task in tasks if task.group_id == group or (task.kind == "verify" and not task.group_id)]


def _refused(session: Session, tasks: Sequence[TaskFacts]) -> list[dict[str, str]]:
    failed = [task for task in tasks if task.state == "failed"]
    if not failed:
        return []
    rows = runs.xcoms(session, failed[0].dag_id, failed[0].run_id, [task.task_id for task in failed], [REFUSED])
    return [refusal for _, _, _, value in rows for refusal in refusals_of(value)]


def _failed(session: Session, tasks: Sequence[TaskFacts]) -> dict[str, str]:
    """Why tasks failed, by task, as far as they said."""
    failed = [task for task in tasks if task.state == "failed"]
    return {task_id: said for (_, _, task_id), v in runs.left_by(session, failed, FAILED).items() if (said := why(v))}


def in_list(known: Known) -> dict[str, Any]:
    """One line of the list."""
    point, found = known.situation.points[-1], health.problems(known.situation)
    run = known.situation.run
    return {
        "asset": known.asset.uri,
        "name": known.asset.name,
        "dag_id": known.publisher,
        "index_url": next(iter(safe_urls(known.situation.report["index_urls"])), None),
        "health": health.worst(found),
        "trouble": [problem.title for problem in found if problem.severity != "info"][:3],
        "result": known.result,
        "run_id": run.run_id if run else point.run_id,
        "generation": point.generation,
        "at": point.at,
        "committed_at": known.situation.report["committed_at"],
        "urls": point.urls,
        "shards": point.shards,
        "file_bytes": point.file_bytes,
        "rows": point.rows,
        "dropped": point.dropped,
        "line": [p.urls for p in known.situation.points],
    }


def by_trouble(line: Mapping[str, Any]) -> tuple[int, int, str]:
    """Sorts trouble to the top, then what runs, then by name."""
    order = {"error": 0, "warning": 1, "ok": 2}
    return order[line["health"]], line["result"] != "running", line["name"]


def whole_page(
    session: Session, known: Known, readable: set[str], may_trigger: Callable[[str], bool]
) -> dict[str, Any]:
    """One sitemap's page but for its history and shard map."""
    related = events.dags_of_asset(session, known.asset.id) & readable
    shapes = actions.shapes(session, sorted(related | {known.publisher}))
    publisher = shapes.pop(known.publisher, None)
    offers = actions.offers(publisher, list(shapes.values()))
    allowed = {dag_id: may_trigger(dag_id) for dag_id in {o.dag_id for o in offers if o.dag_id}}
    dag = known.situation.dag
    return {
        **in_list(known),
        "report": known.situation.report,
        "store": facts.store_of(known.event.extra),
        "group_id": known.situation.points[-1].group_id,
        "problems": [asdict(problem) for problem in health.problems(known.situation)],
        "verification": verifications.as_answer(known.situation.verification),
        "gauges": gauges(known.situation.report),
        "rules": rule_texts(known.situation.report),
        "sections_left_out": facts.whole(known.event.extra.get("sections_left_out")),
        "shortened": facts.texts(known.event.extra.get("shortened")),
        "dag": None
        if dag is None
        else {
            "paused": dag.is_paused,
            "gone": dag.is_stale,
            "every": dag.every,
            "next_run": events.iso(dag.next_run) if dag.next_run else None,
        },
        "actions": [
            {
                "action": offer.action,
                "dag_id": offer.dag_id,
                "possible": offer.possible,
                "why_not": offer.why_not,
                "paused": offer.paused,
                "allowed": allowed.get(offer.dag_id, False),
            }
            for offer in offers
        ],
    }


def in_run(event: Event) -> dict[str, Any]:
    """What a run published, for its tab."""
    report = facts.report_of(event.extra)
    return {
        "group_id": event.point.group_id,
        "at": event.point.at,
        "report": report,
        "rules": rule_texts(report),
    }


def rule_texts(report: Mapping[str, Any]) -> dict[str, str]:
    """What the rules that a report names say."""
    named = {rule for rules in (report["rows_dropped"], report["fields_mended"]) for rule in rules}
    return {rule: RULES[rule].text for rule in sorted(named) if rule in RULES}


def safe_urls(urls: Sequence[str]) -> list[str]:
    """Addresses that may become links: a ``javascript:`` URL in an event must not."""
    return [url for url in urls if url.startswith(("https://", "http://"))]


def in_columns(points: Sequence[Point]) -> dict[str, list[Any]]:
    """The history, oldest first, a column each."""
    return {name: [getattr(point, name) for point in points] for name in COLUMNS}
