"""The API's responses, built from overviews."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.plugin import dag_profiles, dag_runs, event_payload, verifications
from airflow_sitemaps.plugin.actions import AvailableAction, available_actions
from airflow_sitemaps.plugin.events import iso
from airflow_sitemaps.plugin.headroom import gauges
from airflow_sitemaps.plugin.overview import RUNS_IN_LINE
from airflow_sitemaps.plugin.problems import is_warned
from airflow_sitemaps.plugin.snapshot import Snapshot, result_in_words, verdict_of
from airflow_sitemaps.protocol.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from airflow_sitemaps.plugin.events import Event
    from airflow_sitemaps.plugin.freshness import Freshness
    from airflow_sitemaps.plugin.overview import Overview
    from airflow_sitemaps.plugin.problems import Problem
    from airflow_sitemaps.plugin.section_states import SectionState

PROBLEMS_IN_LIST: Final = 3
"""Largest number of problem titles in a line of the list."""


def list_line(overview: Overview) -> dict[str, Any]:
    """Return one line of the list."""
    snapshot, report = overview.snapshot, overview.snapshot.report
    latest = snapshot.summaries[-1] if snapshot.summaries else None
    dags = [publisher.dag for publisher in snapshot.publishers]
    index_urls = safe_urls(report["index_urls"])
    run_dag_id, run_id = _last_run(snapshot)
    lastmods = [section.newest_lastmod for section in snapshot.sections if section.newest_lastmod]
    return {
        "asset": overview.asset.uri,
        "name": overview.asset.name,
        "dag_id": overview.dag_id,
        "dag_ids": sorted({dag.dag_id for dag in dags}),
        "tags": sorted({tag for dag in dags for tag in dag.tags}),
        "index_url": next(iter(index_urls), None),
        "index_files": len(index_urls),
        "state": overview.verdict.state,
        "reason": overview.verdict.reason,
        "activity": snapshot.activity,
        "paused": snapshot.paused,
        "orphaned": not snapshot.publishers,
        "archived": overview.archived is not None,
        "problems": [problem.title for problem in overview.problems if problem.severity != "info"][:PROBLEMS_IN_LIST],
        "result": result_in_words(snapshot),
        "run_dag_id": run_dag_id,
        "run_id": run_id,
        "generation": snapshot.generation,
        "at": latest.at if latest else None,
        "committed_at": report["committed_at"],
        "verified_at": _time(snapshot.passed.end) if snapshot.passed else None,
        "data_read_at": _time(snapshot.freshness.data_at),
        "newest_lastmod": max(lastmods, default=None),
        "freshness": freshness_answer(snapshot.freshness),
        "urls": sum(section.urls for section in snapshot.sections) if snapshot.live else latest.urls if latest else 0,
        "shards": latest.shards if latest else 0,
        "file_bytes": latest.file_bytes if latest else 0,
        "rows": latest.rows if latest else 0,
        "dropped": latest.dropped if latest else 0,
        "history": [summary.urls for summary in snapshot.summaries],
    }


def _last_run(snapshot: Snapshot) -> tuple[str, str]:
    """Return the run of the result that is shown, as (DAG, run ID); empty texts if there is none."""
    outcome = snapshot.worst_outcome
    if outcome is not None:
        return outcome.run.dag_id, outcome.run.run_id if outcome.run.dag_id else ""
    if snapshot.summaries:
        return snapshot.summaries[-1].dag_id, snapshot.summaries[-1].run_id
    return "", ""


def freshness_answer(freshness: Freshness) -> dict[str, Any]:
    """Return the freshness in the form that the pages use."""
    return {
        "data_at": _time(freshness.data_at),
        "age_s": freshness.age_s,
        "objective_s": freshness.objective_s,
        "source": freshness.source,
        "state": freshness.state,
    }


def _time(moment: datetime | None) -> str | None:
    return iso(moment) if moment is not None else None


def whole_page(
    session: Session,
    overview: Overview,
    may_trigger: Callable[[str], bool],
    *,
    may_archive: bool,
) -> dict[str, Any]:
    """Return one sitemap's page without its history, its runs and the data from the store.

    Args:
        may_trigger: Returns whether the user may trigger runs of a DAG.
        may_archive: Whether the user may archive sitemaps.
    """
    snapshot = overview.snapshot
    offered = actions_of(session, overview)
    allowed = {dag_id: may_trigger(dag_id) for dag_id in {action.dag_id for action in offered if action.dag_id}}
    extra = overview.extra
    return {
        **list_line(overview),
        "sections": [_section(section, overview) for section in snapshot.sections if section.name],
        "changed_outside": _outside(snapshot),
        "report": snapshot.report,
        "event_at": snapshot.summaries[-1].at if snapshot.summaries else None,
        "store": event_payload.store_of(overview.extra),
        "problem_list": [_problem(problem) for problem in overview.problems],
        "verification": verifications.as_answer(snapshot.verification),
        "gauges": gauges(snapshot.report) if snapshot.published else [],
        "rules": rule_texts(snapshot.report),
        "sections_left_out": event_payload.integer(extra.get("sections_left_out")),
        "shortened": event_payload.texts(extra.get("shortened")),
        "dags": [_dag(publisher.dag) for publisher in snapshot.publishers],
        "actions": [_action(action, allowed) for action in offered],
        "may_archive": may_archive and not snapshot.publishers,
        "archived_by": str((overview.archived or {}).get("by", "")),
        "announces": bool(overview.tasks.announce),
        "as_of": iso(snapshot.now),
    }


NEXT_STEPS: Final[Mapping[str, str]] = {
    "unpublished": "Trigger the DAG, and see its log if it does not publish.",
    "not-verified": "Verify it, or add a SitemapVerifyOperator to a DAG with a schedule.",
    "warned": "See the warnings of the last report.",
}
"""What to do about a verdict for which there is no problem, by its kind."""


def _section(section: SectionState, overview: Overview) -> dict[str, Any]:
    snapshot = overview.snapshot
    part = snapshot.report["sections"].get(section.name)
    verdict = verdict_of(snapshot, warned=part is not None and is_warned(part), section=section)
    concerned = [
        p for p in overview.problems if p.kind == verdict.kind and section.name in (p.sections or [section.name])
    ]
    steps = [problem.next_step for problem in concerned if problem.next_step]
    return {
        "name": section.name,
        "state": verdict.state,
        "reason": verdict.reason,
        "next_step": next(iter(steps), NEXT_STEPS.get(verdict.kind, "")),
        "last_checked": _time(section.read_at),
        "last_changed": _time(section.changed_at),
        "newest_lastmod": section.newest_lastmod,
        "urls": section.urls,
        "urls_trend": list(section.trend[-RUNS_IN_LINE:]),
        "generation": snapshot.generation if section.published else 0,
        "result": section.result,
    }


def _outside(snapshot: Snapshot) -> dict[str, Any] | None:
    live = snapshot.live
    if live is None or not snapshot.changed_outside:
        return None
    return {"generation": live.generation, "action": live.action, "at": _time(live.committed_at)}


def actions_of(session: Session, overview: Overview) -> list[AvailableAction]:
    """Return the actions of a sitemap: of the DAG that publishes it, and of DAGs with its other operators."""
    publishers = [publisher.dag.dag_id for publisher in overview.snapshot.publishers]
    publisher = overview.dag_id if overview.dag_id in publishers else next(iter(publishers), "")
    profiles = dag_profiles.dag_profiles(session, overview.tasks.dags)
    paused = {dag_id: dag.is_paused for dag_id, dag in dag_runs.dags(session, profiles).items()}
    others = [profile for dag_id, profile in sorted(profiles.items()) if dag_id != publisher and dag_id in paused]
    return available_actions(profiles.get(publisher), [_own_tasks(p, overview) for p in others], paused)


def _own_tasks(profile: dag_profiles.DagProfile, overview: Overview) -> dag_profiles.DagProfile:
    """Return a DAG's profile without the verification and rollback tasks of other sitemaps."""
    own = {*overview.tasks.verify, *overview.tasks.rollback}
    tasks = [
        task
        for task in profile.tasks
        if task.kind not in ("verify", "rollback") or (profile.dag_id, task.task_id) in own
    ]
    return dag_profiles.DagProfile(
        dag_id=profile.dag_id, params=profile.params, tasks=tuple(tasks), period_s=profile.period_s
    )


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "severity": problem.severity,
        "kind": problem.kind,
        "title": problem.title,
        "detail": problem.detail,
        "next_step": problem.next_step,
        "permits": list(problem.permits),
        "dag_id": problem.dag_id,
        "run_id": problem.run_id,
        "failed_tasks": failed_tasks(problem.failed_tasks),
    }


def failed_tasks(tasks: Sequence[tuple[str, int]], limit: int = 5) -> list[dict[str, Any]]:
    """Return the first failed tasks, for links to their logs.

    Args:
        limit: Largest number of tasks. Default: 5.
    """
    return [{"task_id": task_id, "map_index": map_index} for task_id, map_index in tasks[:limit]]


def _dag(dag: dag_runs.DagState) -> dict[str, Any]:
    return {
        "dag_id": dag.dag_id,
        "paused": dag.is_paused,
        "has_import_errors": dag.has_import_errors,
        "schedule": dag.schedule,
        "next_run": _time(dag.next_run) if not dag.is_paused else None,
    }


def _action(action: AvailableAction, allowed: Mapping[str, bool]) -> dict[str, Any]:
    return {
        "action": action.action,
        "dag_id": action.dag_id,
        "possible": action.possible,
        "why_not": action.why_not,
        "paused": action.paused,
        "allowed": allowed.get(action.dag_id, False),
    }


def run_report(event: Event) -> dict[str, Any]:
    """Return the report of what a run published, for the run's tab."""
    report = event_payload.report_of(event.extra)
    return {
        "group_id": event.summary.group_id,
        "at": event.summary.at,
        "report": report,
        "rules": rule_texts(report),
    }


ISSUE_COLUMNS: Final = ("section", "rule", "text", "result", "rows", "sample")
"""Columns of the exported validation issues."""


def issue_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows that broke a rule: one line for each sample, or one line for a rule without samples."""
    texts = rule_texts(report)
    return [
        {
            "section": name,
            "rule": rule,
            "text": texts.get(rule, ""),
            "result": outcome,
            "rows": section["rows_dropped"].get(rule, 0) + section["fields_fixed"].get(rule, 0),
            "sample": sample,
        }
        for name, section in report["sections"].items()
        for rule, outcome in section["outcomes"].items()
        for sample in section["samples"].get(rule) or [""]
    ]


def rule_texts(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each rule that a report names."""
    named: Collection[str] = {*report["rows_dropped"], *report["fields_fixed"]}
    return {rule: RULES[rule].text for rule in sorted(named) if rule in RULES}


def safe_urls(urls: Sequence[str]) -> list[str]:
    """Return the URLs that may become links. A ``javascript:`` URL in an event must not."""
    return [url for url in urls if url.startswith(("https://", "http://"))]
