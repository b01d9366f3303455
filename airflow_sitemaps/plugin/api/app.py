"""The API of the pages. Every route is authenticated, authorised for each DAG, and limited in size."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging.decorators import action_logging
from airflow.models.asset import AssetModel
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response, status
from fastapi.responses import FileResponse
from pydantic import Field

from airflow_sitemaps import __version__
from airflow_sitemaps.plugin import STATIC, dag_runs, events
from airflow_sitemaps.plugin.api import store_routes
from airflow_sitemaps.plugin.api.dependencies import (
    MayEditAssets,
    Now,
    ReadableDag,
    ReadableDags,
    Sitemap,
    as_csv,
    may_read_assets,
    may_trigger,
    now,
    sitemap_of,
    validated,
)
from airflow_sitemaps.plugin.dag_profiles import dag_profiles
from airflow_sitemaps.plugin.dag_runs import RETURNED
from airflow_sitemaps.plugin.pages import announcements, overview, run_table
from airflow_sitemaps.plugin.pages.actions import ActionRefusedError, ActionRequest, actions_of, conf_of, trigger
from airflow_sitemaps.plugin.pages.announcements import Announcements
from airflow_sitemaps.plugin.pages.findings import ISSUE_COLUMNS, issue_rows, issues_of
from airflow_sitemaps.plugin.pages.overview import ARCHIVED_KEY
from airflow_sitemaps.plugin.pages.run_progress import KEYS, RunProgress, progress
from airflow_sitemaps.plugin.pages.run_table import History, RunTable
from airflow_sitemaps.plugin.pages.sitemap_pages import (
    CSV_COLUMNS,
    DagSitemaps,
    ListQuery,
    SitemapLine,
    SitemapList,
    SitemapPage,
    SortKey,
    csv_of,
    line_of,
    page_of,
    selected,
    totals,
)
from airflow_sitemaps.plugin.readings import StrictModel, iso
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
    sort: SortKey = "state",
    descending: bool = False,
) -> ListQuery:
    """Return the filter and the order of the list."""
    return ListQuery(search=search, state=state, dag=dag, tag=tag, archived=archived, sort=sort, descending=descending)


Wanted = Annotated[ListQuery, Depends(query_of)]


def all_lines(session: SessionDep, readable: ReadableDags, moment: Now) -> list[SitemapLine]:
    """Return one line for every sitemap that the user may see."""
    sitemaps = overview.overviews(session, overview.sitemap_assets(session), readable, moment, STORE_STATES)
    return [SitemapLine(**line_of(sitemap)) for sitemap in sitemaps]


AllLines = Annotated[list[SitemapLine], Depends(all_lines)]


@router.get("/sitemaps")
def list_sitemaps(
    lines: AllLines,
    query: Wanted,
    moment: Now,
    limit: Annotated[int, Query(ge=1, le=500)] = 200,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> SitemapList:
    """Return one page of the sitemaps that match the filter. By default, those that need attention are first."""
    matching = selected(lines, query)
    return SitemapList(
        sitemaps=matching[offset : offset + limit],
        total=len(matching),
        totals=totals(lines),
        dags=sorted({dag_id for line in lines for dag_id in line.dag_ids}),
        tags=sorted({tag for line in lines for tag in line.tags}),
        as_of=moment,
    )


@router.get("/sitemaps.csv", response_class=Response)
def export_sitemaps(lines: AllLines, query: Wanted) -> Response:
    """Return every sitemap that matches the filter, as CSV."""
    rows = [line.model_dump(include={*CSV_COLUMNS}) for line in selected(lines, query)]
    return as_csv(csv_of(rows), "sitemaps.csv")


@router.get("/sitemap")
def one_sitemap(sitemap: Sitemap, session: SessionDep, user: GetUserDep, may_archive: MayEditAssets) -> SitemapPage:
    """Return one sitemap without its history, runs and shards. Everything comes from Airflow's database."""
    return page_of(session, sitemap, lambda dag_id: may_trigger(user, dag_id), may_archive=may_archive)


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
    body = run_table.history_of(session, sitemap, readable, limit=limit, before=before).model_dump_json()
    return validated(request, body, body)


@router.get("/sitemap/runs")
def one_run_table(
    sitemap: Sitemap,
    session: SessionDep,
    readable: ReadableDags,
    limit: Annotated[int, Query(ge=1, le=run_table.MAX_RUNS)] = 25,
    before: Annotated[int | None, Query(ge=1)] = None,
) -> RunTable:
    """Return the runs that published or should have published, newest first."""
    return run_table.run_table(session, sitemap, readable, limit=limit, before=before)


@router.get("/sitemap/issues.csv", response_class=Response)
def export_issues(sitemap: Sitemap) -> Response:
    """Return the rows that broke a rule, by section and rule, with their samples, as CSV."""
    rows = issue_rows(issues_of(sitemap.snapshot.report, sitemap.snapshot.settings))
    return as_csv(csv_of(rows, ISSUE_COLUMNS), "validation-issues.csv")


@router.get("/sitemap/announcements")
def one_announcements(sitemap: Sitemap, session: SessionDep) -> Announcements:
    """Return the announcements to search engines and other services, with their responses."""
    return announcements.announcements(session, sitemap.tasks)


@router.get("/dags/{dag_id}/sitemaps")
def sitemaps_of_dag(dag_id: ReadableDag, session: SessionDep, readable: ReadableDags, moment: Now) -> DagSitemaps:
    """Return the sitemaps that a DAG publishes or verifies."""
    profile = dag_profiles(session, [dag_id]).get(dag_id)
    checking = ("verify", "indexnow", "searchconsole", "ping")
    tasks = [task.task_id for task in profile.tasks if task.kind in checking] if profile else []
    assets = events.assets_of_dag(session, dag_id, inlets_of=tasks)
    sitemaps = overview.overviews(session, assets, readable, moment, STORE_STATES)
    return DagSitemaps(sitemaps=selected([SitemapLine(**line_of(s)) for s in sitemaps], ListQuery()))


@router.get("/dags/{dag_id}/runs/{run_id}")
def run_progress(dag_id: ReadableDag, run_id: str, session: SessionDep, moment: Now) -> RunProgress:
    """Return the progress of a run and what it published. The pages poll this route while the run is active."""
    run = dag_runs.run(session, dag_id, run_id)
    if run is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"The DAG {dag_id} has no run {run_id}")
    tasks = dag_runs.sitemap_tasks(session, [(dag_id, run_id)])
    pushed = dag_runs.xcoms(session, tasks, KEYS)
    pushed += dag_runs.xcoms(session, [task for task in tasks if task.kind == "plan"], [RETURNED])
    rows = [row[2:] for row in pushed]
    return progress(run, tasks, rows, moment, events.events_of_run(session, dag_id, run_id))


class StartedRun(StrictModel):
    """The DAG run that an action triggered."""

    dag_id: str
    run_id: str


class ArchiveBody(StrictModel):
    """Whether to archive an orphaned sitemap, or to show it again."""

    asset: Annotated[str, Field(max_length=1_500)]
    archived: bool


@router.post(
    "/actions",
    status_code=status.HTTP_201_CREATED,
    dependencies=[Depends(action_logging("sitemap_action"))],
)
def act(body: ActionRequest, session: SessionDep, readable: ReadableDags, user: GetUserDep, moment: Now) -> StartedRun:
    """Perform an action on a sitemap: trigger a DAG run with the params that its task group defines."""
    sitemap = sitemap_of(body.asset, session, readable, moment)
    available = next(a for a in actions_of(session, sitemap) if a.action == body.action)
    dag_id = available.dag_id or sitemap.dag_id
    if not may_trigger(user, dag_id):
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"Forbidden: you may not trigger {dag_id}")
    try:
        conf = conf_of(body, available)
        note = f"Started from the page Sitemaps: {body.action}"
        run_id = trigger(session, available.dag_id, conf, user=user.get_name(), note=note)
    except ActionRefusedError as e:
        raise HTTPException(status.HTTP_409_CONFLICT, str(e)) from e
    return StartedRun(dag_id=available.dag_id, run_id=run_id)


@router.post(
    "/archive",
    dependencies=[Depends(action_logging("sitemap_archive"))],
)
def archive(
    body: ArchiveBody,
    session: SessionDep,
    readable: ReadableDags,
    user: GetUserDep,
    moment: Now,
    may_archive: MayEditAssets,
) -> ArchiveBody:
    """Hide an orphaned sitemap from the list, or show it again. The asset's ``extra`` records it."""
    sitemap = sitemap_of(body.asset, session, readable, moment)
    if not may_archive:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden: archiving needs permission to edit assets")
    if sitemap.snapshot.publishers:
        raise HTTPException(status.HTTP_409_CONFLICT, "A DAG publishes this sitemap; only orphaned ones are archived.")
    asset = session.get(AssetModel, sitemap.asset.id)
    if asset is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "The asset no longer exists.")
    extra = {name: value for name, value in (asset.extra or {}).items() if name != ARCHIVED_KEY}
    if body.archived:
        extra[ARCHIVED_KEY] = {"at": iso(moment), "by": user.get_name()}
    asset.extra = extra
    return body


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
    for part in (router, store_routes.router):
        app.include_router(part, prefix="/api")
    app.include_router(static_router)
    app.add_exception_handler(StateUnavailableError, store_routes.unavailable)

    @app.get("/api/openapi.json", include_in_schema=False)
    def openapi(user: GetUserDep) -> dict[str, Any]:
        """Return the OpenAPI description of this API, for users who are logged in."""
        return app.openapi()

    return app
