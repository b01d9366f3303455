"""Routes over Airflow's database, and what all routes share. Each is authenticated, authorised for each DAG, and limited."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from pydantic import Field

from airflow_sitemaps import __version__
from airflow_sitemaps.airflow_compat import (
    AssetDetails,
    AssetModel,
    DagAccessEntity,
    DagDetails,
    DagModel,
    GetUserDep,
    SessionDep,
    action_logging,
    get_auth_manager,
)
from airflow_sitemaps.plugin import STATIC, dag_runs, events, pages
from airflow_sitemaps.plugin.pages import actions, announcements, overview, runs, sitemap_pages
from airflow_sitemaps.plugin.pages.sitemap_pages import ListQuery, SitemapLine, csv_of, selected
from airflow_sitemaps.plugin.readings import NO_NUL, StrictModel, iso
from airflow_sitemaps.plugin.state_reader import STORE_STATES

MEDIA: Final = {".js": "text/javascript", ".svg": "image/svg+xml"}


def now() -> datetime:
    """Return the current time. It is a dependency, so that tests can replace it."""
    return datetime.now(timezone.utc)


def readable_dags(user: GetUserDep) -> set[str]:
    """Return the IDs of the DAGs that the user may read. Anonymous callers receive 401 before this runs."""
    return set(get_auth_manager().get_authorized_dag_ids(user=user, method="GET"))


def may_read_assets(user: GetUserDep) -> None:
    """Respond with 403 to users who may not see assets: every response is built from the events of assets."""
    if not get_auth_manager().is_authorized_asset(method="GET", details=AssetDetails(), user=user):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden: seeing sitemaps needs permission to read assets")


def may_edit_assets(user: GetUserDep) -> bool:
    """Return whether the user may change assets. Archiving a sitemap requires this permission."""
    return bool(get_auth_manager().is_authorized_asset(method="PUT", details=AssetDetails(), user=user))


def may_use_runs(user: Any, dag_id: str, method: Literal["GET", "POST"]) -> bool:
    """Return whether the user may read runs of a DAG (``GET``), or trigger them (``POST``)."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    allowed = get_auth_manager().is_authorized_dag(
        method=method, access_entity=DagAccessEntity.RUN, details=details, user=user
    )
    return bool(allowed)


Asset = Annotated[str, Query(description="URI of the sitemap's asset", max_length=1_500, pattern=NO_NUL)]
Now = Annotated[datetime, Depends(now)]
ReadableDags = Annotated[set[str], Depends(readable_dags)]
MayEditAssets = Annotated[bool, Depends(may_edit_assets)]


def sitemap_of(asset: Asset, session: SessionDep, readable: ReadableDags, moment: Now) -> overview.Overview:
    """Return the requested sitemap, or respond with 404 if no such sitemap is visible to the user."""
    named = events.asset_by_uri(session, asset)
    sitemaps = overview.overviews(session, [named] if named else [], readable, moment, STORE_STATES)
    if not sitemaps:
        raise HTTPException(
            status.HTTP_404_NOT_FOUND, "This sitemap does not exist, or you may not see the DAG that publishes it."
        )
    return sitemaps[0]


Sitemap = Annotated[overview.Overview, Depends(sitemap_of)]


def readable_dag(dag_id: str, readable: ReadableDags) -> str:
    """Return the DAG in the path. If the user may not read it, respond with 403, whether or not it exists."""
    if dag_id not in readable:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")
    return dag_id


ReadableDag = Annotated[str, Depends(readable_dag)]


def readable_runs(dag_id: ReadableDag, user: GetUserDep) -> str:
    """Return the DAG in the path. If the user may not read its runs, respond with 403."""
    if not may_use_runs(user, dag_id, "GET"):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")
    return dag_id


def validated(request: Request, etag: str, body: bytes | str) -> Response:
    """Return a response that the browser keeps and revalidates by its ETag, or 304 if the content is unchanged."""
    tag = f'W/"{sha256(f"{__version__} {etag}".encode()).hexdigest()[:32]}"'
    headers = {"Cache-Control": "private, no-cache", "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def as_csv(text: str, name: str) -> Response:
    """Return a CSV file as a download."""
    headers = {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


def wrong_request(_: Request, error: Exception) -> Response:
    """Return what is wrong with a request, without its values: JSON in UTF-8 cannot hold every text and number of them."""
    faults: Any = error.errors() if isinstance(error, RequestValidationError) else ()
    detail = [{name: fault[name] for name in ("type", "loc", "msg")} for fault in faults]
    return Response(json.dumps({"detail": detail}), media_type="application/json", status_code=422)


router = APIRouter(prefix="/api", dependencies=[Depends(may_read_assets)])


Wanted = Annotated[ListQuery, Depends(ListQuery)]


def all_lines(session: SessionDep, readable: ReadableDags, moment: Now) -> list[SitemapLine]:
    """Return one line for every sitemap that the user may see."""
    return sitemap_pages.lines_of(
        overview.overviews(session, overview.sitemap_assets(session), readable, moment, STORE_STATES)
    )


AllLines = Annotated[list[SitemapLine], Depends(all_lines)]


@router.get("/sitemaps")
def list_sitemaps(
    lines: AllLines,
    query: Wanted,
    limit: Annotated[int, Query(ge=1, le=500)] = 200,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> sitemap_pages.SitemapList:
    """Return one page of the sitemaps that match the filter. By default, those that need attention are first."""
    return sitemap_pages.list_of(lines, query, limit=limit, offset=offset)


@router.get("/sitemaps.csv", response_class=Response)
def export_sitemaps(lines: AllLines, query: Wanted) -> Response:
    """Return every sitemap that matches the filter, as CSV."""
    rows = [line.model_dump(include={*sitemap_pages.CSV_COLUMNS}) for line in selected(lines, query)]
    return as_csv(csv_of(rows), "sitemaps.csv")


@router.get("/sitemap")
def one_sitemap(
    sitemap: Sitemap, session: SessionDep, user: GetUserDep, may_archive: MayEditAssets
) -> sitemap_pages.SitemapPage:
    """Return one sitemap without its history, runs and shards. Everything comes from Airflow's database."""
    return sitemap_pages.page_of(
        session, sitemap, lambda dag_id: may_use_runs(user, dag_id, "POST"), may_archive=may_archive
    )


@router.get("/sitemap/history", response_model=runs.History)
def one_history(
    request: Request,
    sitemap: Sitemap,
    session: SessionDep,
    readable: ReadableDags,
    limit: Annotated[int, Query(ge=1, le=events.MAX_HISTORY)] = events.MAX_HISTORY,
    before: Annotated[int | None, Query(ge=1, le=(1 << 63) - 1)] = None,
) -> Response:
    """Return the runs for the charts, oldest first. The browser revalidates the response by its ETag."""
    body = runs.history_of(session, sitemap, readable, limit=limit, before=before).model_dump_json()
    return validated(request, body, body)


@router.get("/sitemap/runs")
def one_run_table(
    sitemap: Sitemap,
    session: SessionDep,
    readable: ReadableDags,
    limit: Annotated[int, Query(ge=1, le=runs.MAX_RUNS)] = 25,
    before: Annotated[int | None, Query(ge=1, le=(1 << 63) - 1)] = None,
) -> runs.RunTable:
    """Return the runs that published or should have published, newest first."""
    return runs.run_table(session, sitemap, readable, limit=limit, before=before)


@router.get("/sitemap/issues.csv", response_class=Response)
def export_issues(sitemap: Sitemap) -> Response:
    """Return the rows that broke a rule, by section and rule, with their samples, as CSV."""
    issues = pages.issues_of(sitemap.snapshot.report, sitemap.snapshot.settings)
    rows = [{**issue.model_dump(), "sample": sample} for issue in issues for sample in issue.samples or [""]]
    return as_csv(csv_of(rows, pages.ISSUE_COLUMNS), "validation-issues.csv")


@router.get("/sitemap/announcements")
def one_announcements(sitemap: Sitemap, session: SessionDep) -> announcements.Announcements:
    """Return the announcements to search engines and other services, with their responses."""
    return announcements.announcements(session, sitemap.tasks, sitemap.asset.uri)


@router.get("/dags/{dag_id}/sitemaps")
def sitemaps_of_dag(
    dag_id: ReadableDag, session: SessionDep, readable: ReadableDags, moment: Now
) -> sitemap_pages.DagSitemaps:
    """Return the sitemaps that a DAG publishes or verifies."""
    assets = events.assets_of_dag(session, dag_id)
    sitemaps = overview.overviews(session, assets, readable, moment, STORE_STATES)
    return sitemap_pages.DagSitemaps(sitemaps=selected(sitemap_pages.lines_of(sitemaps), ListQuery()))


@router.get("/dags/{dag_id}/runs/{run_id}")
def run_progress(
    dag_id: Annotated[str, Depends(readable_runs)],
    run_id: Annotated[str, Path(pattern=NO_NUL)],
    session: SessionDep,
    moment: Now,
) -> runs.RunProgress:
    """Return the progress of a run and what it published. The pages poll this route while the run is active."""
    run = dag_runs.runs_by_id(session, [(dag_id, run_id)]).get((dag_id, run_id))
    if run is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"The DAG {dag_id} has no run {run_id}")
    tasks = dag_runs.in_chains(session, dag_runs.sitemap_tasks(session, [(dag_id, run_id)]))
    pushed = dag_runs.pushed_by(session, tasks, runs.KEYS)
    pushed |= dag_runs.pushed_by(session, [task for task in tasks if task.kind == "plan"], [dag_runs.RETURNED])
    return runs.progress(run, tasks, pushed, moment, events.events_of_run(session, dag_id, run_id))


class StartedRun(StrictModel):
    """The DAG run that an action triggered."""

    dag_id: str
    run_id: str


class ArchiveBody(StrictModel):
    """Whether to archive an orphaned sitemap, or to show it again."""

    asset: Annotated[str, Field(max_length=1_500, pattern=NO_NUL)]
    archived: bool


@router.post("/actions", status_code=status.HTTP_201_CREATED, dependencies=[Depends(action_logging("sitemap_action"))])
def act(
    body: actions.ActionRequest, session: SessionDep, readable: ReadableDags, user: GetUserDep, moment: Now
) -> StartedRun:
    """Perform an action on a sitemap: trigger a DAG run with the params that its task group defines."""
    sitemap = sitemap_of(body.asset, session, readable, moment)
    available = next(a for a in actions.actions_of(session, sitemap) if a.action == body.action)
    dag_id = available.dag_id or sitemap.dag_id
    if not may_use_runs(user, dag_id, "POST"):
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"Forbidden: you may not trigger {dag_id}")
    try:
        conf = actions.conf_of(body, available)
        note = f"Started from the page Sitemaps: {body.action}"
        run_id = actions.trigger(session, available.dag_id, conf, user=user.get_name(), note=note)
    except actions.ActionRefusedError as e:
        raise HTTPException(status.HTTP_409_CONFLICT, str(e)) from e
    return StartedRun(dag_id=available.dag_id, run_id=run_id)


@router.post("/archive", dependencies=[Depends(action_logging("sitemap_archive"))])
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
    if body.archived and (named := sitemap_pages.naming_dags(session, sitemap)):
        why = f"Airflow would show this sitemap again: remove it first from the DAGs that name it, {', '.join(named[:5])}."
        raise HTTPException(status.HTTP_409_CONFLICT, why)
    asset = session.get(AssetModel, sitemap.asset.id)
    if asset is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "The asset no longer exists.")
    extra = {name: value for name, value in (asset.extra or {}).items() if name != overview.ARCHIVED_KEY}
    if body.archived:
        extra[overview.ARCHIVED_KEY] = {"at": iso(moment), "by": user.get_name()}
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


@static_router.get("/api/openapi.json", include_in_schema=False)
def openapi(request: Request, user: GetUserDep) -> dict[str, Any]:
    """Return the OpenAPI description of this API, for users who are logged in."""
    described: dict[str, Any] = request.app.openapi()
    return described
