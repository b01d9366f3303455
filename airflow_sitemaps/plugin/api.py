"""The API of the pages. Every route is authenticated, authorised for each DAG, and limited in size."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response, status
from fastapi.responses import FileResponse

from airflow_sitemaps import __version__
from airflow_sitemaps.operators.facts import FAILED, PLAN_FACTS, REFUSED, VERIFIED, WRITTEN
from airflow_sitemaps.plugin import (
    announcements,
    api_actions,
    api_store,
    dag_profiles,
    dag_runs,
    events,
    list_query,
    overview,
    responses,
    run_table,
)
from airflow_sitemaps.plugin.access import MayEditAssets, ReadableDags, may_read_assets, may_trigger
from airflow_sitemaps.plugin.api_dependencies import Now, ReadableDag, Sitemap, as_csv, now, validated
from airflow_sitemaps.plugin.bundle import STATIC
from airflow_sitemaps.plugin.outcomes import RETURNED
from airflow_sitemaps.plugin.run_progress import progress
from airflow_sitemaps.plugin.schemas.announcements import Announcements
from airflow_sitemaps.plugin.schemas.run_progress import RunProgress
from airflow_sitemaps.plugin.schemas.runs import History, HistoryColumns, RunTable
from airflow_sitemaps.plugin.schemas.sitemaps import DagSitemaps, SitemapList, SitemapPage
from airflow_sitemaps.plugin.state_reader import StateUnavailableError
from airflow_sitemaps.plugin.store_state import STORE_STATES

__all__ = ["make_app", "now"]

MEDIA: Final = {".js": "text/javascript", ".svg": "image/svg+xml"}

router = APIRouter(dependencies=[Depends(may_read_assets)])


def query_of(
    search: Annotated[str, Query(max_length=500)] = "",
    state: Literal["", "failing", "warning", "not_verified", "unknown", "healthy", "running", "paused"] = "",
    dag: Annotated[str, Query(max_length=250)] = "",
    tag: Annotated[str, Query(max_length=250)] = "",
    archived: bool = False,
    sort: list_query.SortKey = "state",
    descending: bool = False,
) -> list_query.ListQuery:
    """Return the filter and the order of the list."""
    return list_query.ListQuery(
        search=search, state=state, dag=dag, tag=tag, archived=archived, sort=sort, descending=descending
    )


ListQuery = Annotated[list_query.ListQuery, Depends(query_of)]


def all_lines(session: SessionDep, readable: ReadableDags, moment: Now) -> list[dict[str, Any]]:
    """Return one line for every sitemap that the user may see."""
    sitemaps = overview.overviews(session, overview.sitemap_assets(session), readable, moment, STORE_STATES)
    return [responses.list_line(sitemap) for sitemap in sitemaps]


AllLines = Annotated[list[dict[str, Any]], Depends(all_lines)]


@router.get("/sitemaps", response_model=SitemapList)
def list_sitemaps(
    lines: AllLines,
    query: ListQuery,
    moment: Now,
    limit: Annotated[int, Query(ge=1, le=500)] = 200,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> dict[str, Any]:
    """Return one page of the sitemaps that match the filter. By default, those that need attention are first."""
    matching = list_query.selected(lines, query)
    return {
        "sitemaps": matching[offset : offset + limit],
        "total": len(matching),
        "totals": list_query.totals(lines),
        "dags": sorted({dag_id for line in lines for dag_id in line["dag_ids"]}),
        "tags": sorted({tag for line in lines for tag in line["tags"]}),
        "as_of": events.iso(moment),
    }


@router.get("/sitemaps.csv", response_class=Response)
def export_sitemaps(lines: AllLines, query: ListQuery) -> Response:
    """Return every sitemap that matches the filter, as CSV."""
    return as_csv(list_query.csv_of(list_query.selected(lines, query)), "sitemaps.csv")


@router.get("/sitemap", response_model=SitemapPage)
def one_sitemap(sitemap: Sitemap, session: SessionDep, user: GetUserDep, may_archive: MayEditAssets) -> dict[str, Any]:
    """Return one sitemap without its history, runs and shards. Everything comes from Airflow's database."""
    return responses.whole_page(session, sitemap, lambda dag_id: may_trigger(user, dag_id), may_archive=may_archive)


@router.get("/sitemap/history", response_model=History)
def one_history(
    request: Request,
    sitemap: Sitemap,
    session: SessionDep,
    readable: ReadableDags,
    limit: Annotated[int, Query(ge=1, le=events.MAX_HISTORY)] = events.MAX_HISTORY,
    before: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """Return the runs for the charts, oldest first. The browser revalidates the response by its ETag."""
    asset_id = sitemap.asset.id
    summaries = events.history(session, [asset_id], dags=readable, limit=limit, before=before)[asset_id]
    runs = dag_runs.runs_by_id(session, [(s.dag_id, s.run_id) for s in summaries])
    names = [name for name in HistoryColumns.model_fields if name != "seconds"]
    columns: dict[str, list[Any]] = {name: [getattr(summary, name) for summary in summaries] for name in names}
    in_order = [runs.get((summary.dag_id, summary.run_id)) for summary in summaries]
    columns["seconds"] = [run.seconds if run is not None else None for run in in_order]
    failures = run_table.failed_runs(session, sitemap, summaries[0].at if summaries else "") if before is None else []
    more = summaries[0].event if len(summaries) == limit else None
    history = History.model_validate({"columns": columns, "failures": failures, "before": more})
    body = history.model_dump_json()
    return validated(request, body, body)


@router.get("/sitemap/runs", response_model=RunTable)
def one_run_table(
    sitemap: Sitemap,
    session: SessionDep,
    readable: ReadableDags,
    limit: Annotated[int, Query(ge=1, le=run_table.MAX_RUNS)] = 25,
    before: Annotated[int | None, Query(ge=1)] = None,
) -> dict[str, Any]:
    """Return the runs that published or should have published, newest first."""
    return run_table.run_table(session, sitemap, readable, limit=limit, before=before)


@router.get("/sitemap/issues.csv", response_class=Response)
def export_issues(sitemap: Sitemap) -> Response:
    """Return the rows that broke a rule, by section and rule, with their samples, as CSV."""
    rows = responses.issue_rows(sitemap.snapshot.report)
    return as_csv(list_query.csv_of(rows, responses.ISSUE_COLUMNS), "validation-issues.csv")


@router.get("/sitemap/announcements", response_model=Announcements)
def one_announcements(sitemap: Sitemap, session: SessionDep) -> dict[str, Any]:
    """Return the announcements to search engines and other services, with their responses."""
    return {"rows": announcements.announcements(session, sitemap.tasks)}


@router.get("/dags/{dag_id}/sitemaps", response_model=DagSitemaps)
def sitemaps_of_dag(dag_id: ReadableDag, session: SessionDep, readable: ReadableDags, moment: Now) -> dict[str, Any]:
    """Return the sitemaps that a DAG publishes or verifies."""
    profile = dag_profiles.dag_profiles(session, [dag_id]).get(dag_id)
    checking = ("verify", "indexnow", "searchconsole", "ping")
    tasks = [task.task_id for task in profile.tasks if task.kind in checking] if profile else []
    assets = events.assets_of_dag(session, dag_id, inlets_of=tasks)
    sitemaps = overview.overviews(session, assets, readable, moment, STORE_STATES)
    return {"sitemaps": list_query.selected([responses.list_line(s) for s in sitemaps], list_query.ListQuery())}


@router.get("/dags/{dag_id}/runs/{run_id}", response_model=RunProgress)
def run_progress(dag_id: ReadableDag, run_id: str, session: SessionDep, moment: Now) -> dict[str, Any]:
    """Return the progress of a run and what it published. The pages poll this route while the run is active."""
    run = dag_runs.run(session, dag_id, run_id)
    if run is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"The DAG {dag_id} has no run {run_id}")
    tasks = dag_runs.sitemap_tasks(session, [(dag_id, run_id)])
    keys = (FAILED, PLAN_FACTS, REFUSED, VERIFIED, WRITTEN)
    pushed = dag_runs.xcoms(session, dag_id, run_id, sorted({task.task_id for task in tasks}), keys)
    planning = sorted({task.task_id for task in tasks if task.kind == "plan"})
    pushed += dag_runs.xcoms(session, dag_id, run_id, planning, [RETURNED])
    reports = [responses.run_report(event) for event in events.events_of_run(session, dag_id, run_id)]
    return {**progress(run, tasks, pushed, moment), "reports": reports}


static_router = APIRouter()


@static_router.get("/static/{name}", include_in_schema=False)
def static_file(name: str, user: GetUserDep) -> FileResponse:
    """Return the bundle or one of its icons, for users who are logged in."""
    files = {file.name: file for file in STATIC.iterdir() if file.suffix in MEDIA}
    if name not in files:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "No such file")
    headers = {"Cache-Control": "private, max-age=3600", "X-Content-Type-Options": "nosniff"}
    return FileResponse(files[name], media_type=MEDIA[files[name].suffix], headers=headers)


def make_app() -> FastAPI:
    """Return the application that is mounted on the API server."""
    app = FastAPI(
        title="Sitemaps",
        version=__version__,
        description="What Airflow knows about the sitemaps that its DAGs publish. Serves the pages in Airflow's UI.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    for part in (router, api_store.router, api_actions.router):
        app.include_router(part, prefix="/api")
    app.include_router(static_router)
    app.add_exception_handler(StateUnavailableError, api_store.unavailable)

    @app.get("/api/openapi.json", include_in_schema=False)
    def openapi(user: GetUserDep) -> dict[str, Any]:
        """Return the OpenAPI description of this API, for users who are logged in."""
        return app.openapi()

    return app
