"""The list of sitemaps, filtered and sorted on the server, and the page of each one."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from sqlalchemy.orm import Session

from airflow_sitemaps.plugin.dag_profiles import DagState, dags_by_id
from airflow_sitemaps.plugin.events import SectionSettings
from airflow_sitemaps.plugin.pages import Gauge, Issue, PublishedReport, VerificationRun, gauges, issues_of
from airflow_sitemaps.plugin.pages.actions import AvailableAction, actions_of
from airflow_sitemaps.plugin.pages.outcomes import GOOD, Activity
from airflow_sitemaps.plugin.pages.overview import RUNS_IN_LINE, Overview
from airflow_sitemaps.plugin.pages.problems import Problem, is_warned
from airflow_sitemaps.plugin.pages.verdict import DataAge, LastResult, SectionSnapshot, State, verdict_of
from airflow_sitemaps.plugin.readings import Moment, StrictModel, attributes, iso

PROBLEMS_IN_LIST: Final = 3
SortKey = Literal["state", "name", "dag", "at", "urls", "shards", "size", "generation", "dropped"]

SEVERITY: Final[Mapping[str, int]] = {"failing": 0, "warning": 1, "not_verified": 2, "unknown": 3, "healthy": 4}

CSV_COLUMNS: Final = (
    "index_url", "asset", "dag_id", "state", "reason", "activity", "paused", "orphaned", "archived", "result", "run_id",
    "generation", "at", "committed_at", "verified_at", "urls", "shards", "file_bytes", "rows", "dropped",
)  # fmt: skip
FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a text that a spreadsheet would run as a formula."""


class SitemapLine(StrictModel):
    """One sitemap in the list. Sizes are in bytes, times ISO 8601 in UTC.

    ``generation`` is the live one; ``data_read_at`` is when the newest successful run began to read its data; ``history``
    has the URLs after each of the last runs.
    """

    asset: str
    name: str
    dag_id: str
    dag_ids: list[str]
    tags: list[str]
    index_url: str | None
    index_files: int
    state: State
    reason: str
    activity: Activity
    paused: bool
    orphaned: bool
    archived: bool
    problems: list[str]
    result: str
    run_dag_id: str
    run_id: str
    generation: int
    at: str | None
    committed_at: str | None
    verified_at: Moment | None
    data_read_at: Moment | None
    newest_lastmod: str | None
    freshness: DataAge
    urls: int
    shards: int
    file_bytes: int
    rows: int
    dropped: int
    history: list[int]


class ListTotals(StrictModel):
    """Counts over all sitemaps that the user may see, except archived ones."""

    sitemaps: int
    urls: int
    healthy: int
    warning: int
    failing: int
    not_verified: int
    unknown: int
    running: int
    archived: int


class SitemapList(StrictModel):
    """One page of the list.

    ``total`` is the number of sitemaps that match the filter; ``totals`` are over all sitemaps.
    """

    sitemaps: list[SitemapLine]
    total: int
    totals: ListTotals
    dags: list[str]
    tags: list[str]


class DagSitemaps(StrictModel):
    """The sitemaps that a DAG publishes or verifies."""

    sitemaps: list[SitemapLine]


def lines_of(overviews: Sequence[Overview]) -> list[SitemapLine]:
    """Return the lines of sitemaps."""
    return [SitemapLine(**line_of(overview)) for overview in overviews]


def line_of(overview: Overview) -> dict[str, Any]:
    """Return the fields of a sitemap's line, which its page has as well."""
    snapshot, report = overview.snapshot, overview.snapshot.report
    latest = snapshot.summaries[-1] if snapshot.summaries else None
    # A ``javascript:`` URL in an event must not become a link.
    index_urls = [url for url in report.index_urls if url.startswith(("https://", "http://"))]
    run_dag_id, run_id = overview.last_run
    results = [section.outcome for section in snapshot.sections if section.outcome is not None]
    ended = [iso(outcome.at) for outcome in results if outcome.result in GOOD]  # also without an event
    lastmods = [section.newest_lastmod for section in snapshot.sections if section.newest_lastmod]
    return {
        "asset": overview.asset.uri,
        "name": overview.asset.name,
        "dag_id": overview.dag_id,
        "dag_ids": sorted(dag.dag_id for dag in snapshot.publishers),
        "tags": sorted({tag for dag in snapshot.publishers for tag in dag.tags}),
        "index_url": next(iter(index_urls), None),
        "index_files": len(index_urls),
        **attributes(overview.verdict, "state", "reason"),
        **attributes(snapshot, "activity", "paused", "result", "generation"),
        **attributes(report, "committed_at", "file_bytes", "rows"),
        "orphaned": not snapshot.publishers,
        "archived": overview.archived is not None,
        "problems": [problem.title for problem in overview.problems if problem.severity != "info"][:PROBLEMS_IN_LIST],
        "run_dag_id": run_dag_id,
        "run_id": run_id,
        "at": max([latest.at, *ended]) if latest else None,
        "verified_at": snapshot.passed.end if snapshot.passed else None,
        "data_read_at": snapshot.age.data_at,
        "newest_lastmod": max(lastmods, default=None),
        "freshness": snapshot.age,
        "urls": sum(section.urls for section in snapshot.sections) if snapshot.live else report.urls,
        "shards": report.shards.total,
        "dropped": sum(report.rows_dropped.values()),
        "history": [summary.urls for summary in snapshot.summaries],
    }


class ListQuery(StrictModel):
    """The filter and the order of the list. Empty texts mean all. ``state`` is a verdict, ``running`` or ``paused``."""

    search: Annotated[str, Field(max_length=500)] = ""
    state: Literal["", "failing", "warning", "not_verified", "unknown", "healthy", "running", "paused"] = ""
    dag: Annotated[str, Field(max_length=250)] = ""
    tag: Annotated[str, Field(max_length=250)] = ""
    archived: bool = False
    sort: SortKey = "state"
    descending: bool = False


def selected(lines: Sequence[SitemapLine], query: ListQuery) -> list[SitemapLine]:
    """Return the lines that match a query, in its order."""
    matching = [line for line in lines if _matches(line, query)]
    matching.sort(key=lambda line: line.name)
    matching.sort(key=_SORT[query.sort], reverse=query.descending)
    return matching


def _matches(line: SitemapLine, query: ListQuery) -> bool:
    needle = query.search.strip().lower()
    texts = (line.asset, line.index_url or "", *line.dag_ids, line.dag_id)
    return bool(
        line.archived == query.archived
        and (not needle or any(needle in text.lower() for text in texts))
        and query.state in ("", line.state, "paused" if line.paused else "", "running" if line.activity else "")
        and (not query.dag or query.dag in line.dag_ids or query.dag == line.dag_id)
        and (not query.tag or query.tag in line.tags)
    )


_SORT: Final[Mapping[str, Callable[[SitemapLine], Any]]] = {
    "state": lambda line: (SEVERITY[line.state], line.activity == ""),
    "name": lambda line: line.index_url or line.name,
    "dag": lambda line: line.dag_id,
    "at": lambda line: line.at or "",
    "urls": lambda line: line.urls,
    "shards": lambda line: line.shards,
    "size": lambda line: line.file_bytes,
    "generation": lambda line: line.generation,
    "dropped": lambda line: line.dropped,
}


def totals(lines: Sequence[SitemapLine]) -> ListTotals:
    """Return counts over every line. Archived sitemaps are counted separately."""
    shown = [line for line in lines if not line.archived]
    return ListTotals(
        sitemaps=len(shown),
        urls=sum(line.urls for line in shown),
        running=sum(line.activity in ("running", "planning") for line in shown),
        archived=len(lines) - len(shown),
        **{state: sum(line.state == state for line in shown) for state in SEVERITY},
    )


def list_of(lines: Sequence[SitemapLine], query: ListQuery, *, limit: int, offset: int) -> SitemapList:
    """Return one page of the list."""
    matching = selected(lines, query)
    return SitemapList(
        sitemaps=matching[offset : offset + limit],
        total=len(matching),
        totals=totals(lines),
        dags=sorted({dag_id for line in lines for dag_id in line.dag_ids}),
        tags=sorted({tag for line in lines for tag in line.tags}),
    )


def csv_of(lines: Sequence[Mapping[str, Any]], columns: Sequence[str] = CSV_COLUMNS) -> str:
    """Return lines as CSV with a header. Text that a spreadsheet would run as a formula is prefixed with an apostrophe."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_cell(line[column]) for column in columns] for line in lines)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


class SectionState(StrictModel):
    """One section: its state and the reason, and what the live generation holds of it.

    ``last_checked`` is the time at which a successful run last began to read its data; ``last_changed`` the time at
    which its files last changed; ``urls_trend`` its number of URLs after each of the last runs, oldest first.
    """

    name: str
    state: State
    reason: str
    next_step: str
    last_checked: Moment | None
    last_changed: Moment | None
    newest_lastmod: str | None
    urls: int
    urls_trend: list[int]
    max_urls: int
    generation: int
    result: LastResult


class OutsideChange(StrictModel):
    """The live generation, if no DAG run of Airflow made it, such as a rollback in the shell."""

    generation: int
    action: str
    at: Moment | None


class SitemapPage(SitemapLine):
    """One sitemap: its last report, its problems, its usage of limits, and the available actions.

    ``named_by``: the DAGs because of which an orphaned one cannot be archived.
    """

    sections: list[SectionState]
    changed_outside: OutsideChange | None
    report: PublishedReport
    event_at: str | None
    problem_list: list[Problem]
    verification: VerificationRun | None
    gauges: list[Gauge]
    issues: list[Issue]
    sections_left_out: int
    shortened: list[str]
    dags: list[DagState]
    actions: list[AvailableAction]
    may_archive: bool
    named_by: list[str]
    archived_by: str
    announces: bool


def page_of(
    session: Session, overview: Overview, may_trigger: Callable[[str], bool], *, may_archive: bool
) -> SitemapPage:
    """Return one sitemap's page without its history, its runs and the data from the store."""
    snapshot, event = overview.snapshot, overview.event
    actions = actions_of(session, overview)
    live = snapshot.live if snapshot.changed_outside else None
    allowed = {dag_id: may_trigger(dag_id) for dag_id in {action.dag_id for action in actions if action.dag_id}}
    return SitemapPage(
        **line_of(overview),
        sections=[_section(section, overview) for section in snapshot.sections if section.name],
        changed_outside=OutsideChange(at=live.committed_at, **attributes(live, "generation", "action"))
        if live
        else None,
        report=snapshot.report,
        event_at=snapshot.summaries[-1].at if snapshot.summaries else None,
        problem_list=list(overview.problems),
        verification=snapshot.verification,
        gauges=gauges(snapshot.report, snapshot.settings) if snapshot.published else [],
        issues=issues_of(snapshot.report, snapshot.settings),
        sections_left_out=event.sections_left_out if event is not None else 0,
        shortened=list(event.shortened) if event is not None else [],
        dags=list(snapshot.publishers),
        actions=[a.model_copy(update={"allowed": allowed.get(a.dag_id, False)}) for a in actions],
        may_archive=may_archive and not snapshot.publishers,
        named_by=[] if snapshot.publishers else naming_dags(session, overview),
        archived_by=str((overview.archived or {}).get("by", "")),
        announces=bool(overview.tasks.announce),
    )


def naming_dags(session: Session, overview: Overview) -> list[str]:
    """Return the DAGs because of which Airflow would show a sitemap again that is archived."""
    dags = dags_by_id(session, overview.tasks.dags).values()
    return sorted(dag.dag_id for dag in dags if not dag.is_stale or dag.has_import_errors)


NEXT_STEPS: Final[Mapping[str, str]] = {
    "unpublished": "Trigger the DAG, and see its log if it does not publish.",
    "not-verified": "Verify it, or add a SitemapVerifyOperator to a DAG with a schedule.",
    "warned": "See the warnings of the last report.",
}
"""What to do about a verdict for which there is no problem, by its kind."""


def _section(section: SectionSnapshot, overview: Overview) -> SectionState:
    snapshot = overview.snapshot
    verdict = verdict_of(snapshot, warned=is_warned(snapshot, section.name), section=section)
    steps = [
        problem.next_step
        for problem in overview.problems
        if problem.kind == verdict.kind and section.name in (problem.sections or [section.name]) and problem.next_step
    ]
    return SectionState(
        **attributes(section, "name", "newest_lastmod", "urls", "result"),
        **attributes(verdict, "state", "reason"),
        next_step=next(iter(steps), NEXT_STEPS.get(verdict.kind, "")),
        last_checked=section.read_at,
        last_changed=section.changed_at,
        urls_trend=list(section.trend[-RUNS_IN_LINE:]),
        max_urls=snapshot.settings.get(section.name, SectionSettings()).max_urls,
        generation=snapshot.generation if section.published else 0,
    )
