"""The API beneath the pages: every route authenticated, authorised per DAG, bounded in size."""

from __future__ import annotations

from datetime import datetime, timezone
from hashlib import sha256
from typing import Annotated, Any, Final

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging.decorators import action_logging
from airflow.utils.session import create_session
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request, Response, status
from fastapi.responses import FileResponse, JSONResponse

from airflow_sitemaps import __version__
from airflow_sitemaps.operators.facts import FAILED, PLAN_FACTS, REFUSED, VERIFIED, WRITTEN
from airflow_sitemaps.pipeline.state import MANIFEST
from airflow_sitemaps.plugin import actions, events, facts, runs, views
from airflow_sitemaps.plugin.access import ReadableDags, may_read_assets, may_trigger
from airflow_sitemaps.plugin.airflow_plugin import STATIC
from airflow_sitemaps.plugin.maps import MAX_PAGE, ShardMap, read_map
from airflow_sitemaps.plugin.progress import RETURNED, progress
from airflow_sitemaps.plugin.schemas import (
    ActionWish,
    DagSitemaps,
    Generations,
    History,
    RunProgress,
    ShardPage,
    SitemapList,
    SitemapPage,
    Started,
    Trouble,
)
from airflow_sitemaps.plugin.statefiles import StateFile, StateReader, StoreTroubleError, open_state

MEDIA: Final = {".js": "text/javascript", ".svg": "image/svg+xml"}
STATES: Final = StateReader(opened=open_state)

Asset = Annotated[str, Query(description="URI of the sitemap's asset", max_length=1_500)]

router = APIRouter(dependencies=[Depends(may_read_assets)])


def now() -> datetime:
    """The current time; a dependency, so that tests decide it."""
    return datetime.now(timezone.utc)


Now = Annotated[datetime, Depends(now)]


@router.get("/sitemaps", response_model=SitemapList)
def list_sitemaps(
    session: SessionDep,
    readable: ReadableDags,
    moment: Now,
    limit: Annotated[int, Query(ge=1, le=500)] = 200,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> dict[str, Any]:
    """Every sitemap that a readable DAG has published, trouble first."""
    assets = list(events.assets_with_events(session).values())
    lines = sorted(map(views.in_list, views.known_sitemaps(session, assets, readable, moment)), key=views.by_trouble)
    return {"sitemaps": lines[offset : offset + limit], "total": len(lines)}


def known(asset: Asset, session: SessionDep, readable: ReadableDags, moment: Now) -> views.Known:
    """The sitemap asked for; 404 where there is none that the user may see."""
    found = events.asset_by_uri(session, asset)
    sitemaps = views.known_sitemaps(session, [found] if found else [], readable, moment)
    if not sitemaps:
        raise HTTPException(
            status.HTTP_404_NOT_FOUND,
            "No sitemap with this asset: no run that you may see has published it yet.",
        )
    return sitemaps[0]


def located(asset: Asset, readable: ReadableDags, moment: Now) -> views.Known:
    """The same for routes that then wait for the store: without holding a connection to the database meanwhile."""
    with create_session(scoped=False) as session:
        return known(asset, session, readable, moment)


Known = Annotated[views.Known, Depends(known)]
Located = Annotated[views.Known, Depends(located)]


@router.get("/sitemap", response_model=SitemapPage)
def one_sitemap(sitemap: Known, session: SessionDep, readable: ReadableDags, user: GetUserDep) -> dict[str, Any]:
    """One sitemap but for its history and its shard map; all of it from Airflow's database."""
    return views.whole_page(session, sitemap, readable, lambda dag_id: may_trigger(user, dag_id))


@router.get("/sitemap/history", response_model=History)
def one_history(
    sitemap: Known,
    session: SessionDep,
    readable: ReadableDags,
    limit: Annotated[int, Query(ge=1, le=events.MAX_HISTORY)] = events.MAX_HISTORY,
    before: Annotated[int | None, Query(ge=1)] = None,
) -> dict[str, Any]:
    """What became of each run, oldest first."""
    points = events.history(session, [sitemap.asset.id], dags=readable, limit=limit, before=before)[sitemap.asset.id]
    return {"columns": views.in_columns(points), "before": points[0].event if len(points) == limit else None}


async def manifest_of(sitemap: views.Known) -> tuple[str, ShardMap]:
    """The etag of the published manifest, and the map. Raises StoreTroubleError."""
    file = StateFile.of(facts.store_of(sitemap.event.extra), MANIFEST)
    told = sitemap.event.point.generation
    return await STATES.read(file, "map", read_map, is_old=lambda found: found.generation < told)


def trouble(error: StoreTroubleError) -> JSONResponse:
    """A sentence for the page: no error page, and nothing that a cache would keep."""
    return JSONResponse(Trouble(trouble=str(error)).model_dump(), headers={"Cache-Control": "no-store"})


@router.get("/sitemap/shards", responses={200: {"model": dict[str, Any] | Trouble}})
async def shard_columns(request: Request, sitemap: Located) -> Response:
    """Every shard's numbers, a column each, from the store; or a ``trouble`` where it cannot be read."""
    try:
        etag, found = await manifest_of(sitemap)
    except StoreTroubleError as e:
        return trouble(e)
    return _validated(request, etag, found.columns)


@router.get("/sitemap/shards/texts", responses={200: {"model": ShardPage | Trouble}})
async def shard_texts(
    request: Request,
    sitemap: Located,
    section: Annotated[str, Query(max_length=200)],
    start: Annotated[int, Query(ge=0)] = 0,
    count: Annotated[int, Query(ge=1, le=MAX_PAGE)] = MAX_PAGE,
) -> Response:
    """Names, ranges and newest lastmod of some of a section's shards."""
    try:
        etag, found = await manifest_of(sitemap)
    except StoreTroubleError as e:
        return trouble(e)
    shards = found.page(section, start, count)
    page = ShardPage.model_validate(
        {"generation": found.generation, "section": section, "start": start, "shards": shards}
    )
    return _validated(request, etag, page.model_dump_json())


@router.get("/sitemap/generations", responses={200: {"model": Generations | Trouble}})
async def generations(request: Request, sitemap: Located) -> Response:
    """The generations that can be rolled back to."""
    try:
        etag, found = await manifest_of(sitemap)
    except StoreTroubleError as e:
        return trouble(e)
    answer = Generations.model_validate({"generation": found.generation, "kept": found.kept})
    return _validated(request, etag, answer.model_dump_json())


def _validated(request: Request, etag: str, body: bytes | str) -> Response:
    """An answer that depends on the manifest alone: kept by the browser, which asks whether it is still the same."""
    tag = f'W/"{sha256(f"{__version__} {etag}".encode()).hexdigest()[:32]}"'
    headers = {"Cache-Control": "private, no-cache", "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def readable_dag(dag_id: str, readable: ReadableDags) -> str:
    """The DAG in the path, if the user may read it: 403 else, whether or not there is one."""
    if dag_id not in readable:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")
    return dag_id


ReadableDag = Annotated[str, Depends(readable_dag)]


@router.get("/dags/{dag_id}/sitemaps", response_model=DagSitemaps)
def sitemaps_of_dag(dag_id: ReadableDag, session: SessionDep, readable: ReadableDags, moment: Now) -> dict[str, Any]:
    """The sitemaps that a DAG publishes or verifies."""
    shape = actions.shapes(session, [dag_id]).get(dag_id)
    verifying = [task["task_id"] for task in shape.tasks.get("verify", ())] if shape else []
    assets = events.assets_of_dag(session, dag_id, taking=verifying)
    found = views.known_sitemaps(session, assets, readable, moment)
    published = {sitemap.asset.id for sitemap in found}
    unpublished = [a.uri for a in assets if a.id not in published] if shape and "publish" in shape.tasks else []
    return {"sitemaps": sorted(map(views.in_list, found), key=views.by_trouble), "unpublished": unpublished}


@router.get("/dags/{dag_id}/runs/{run_id}", response_model=RunProgress)
def run_progress(dag_id: ReadableDag, run_id: str, session: SessionDep, moment: Now) -> dict[str, Any]:
    """How far a run is, and what it published; asked again and again while it runs."""
    run = runs.run(session, dag_id, run_id)
    if run is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"The DAG {dag_id} has no run {run_id}")
    tasks = runs.sitemap_tasks(session, [(dag_id, run_id)])
    keys = (FAILED, PLAN_FACTS, REFUSED, VERIFIED, WRITTEN)
    left = runs.xcoms(session, dag_id, run_id, sorted({task.task_id for task in tasks}), keys)
    planning = sorted({task.task_id for task in tasks if task.kind == "plan"})
    left += runs.xcoms(session, dag_id, run_id, planning, [RETURNED])
    published = events.events_of_run(session, dag_id, run_id)
    reports = [views.in_run(event) for event in published]
    return {**progress(run, tasks, left, moment), "reports": reports}


@router.post(
    "/actions",
    response_model=Started,
    status_code=status.HTTP_201_CREATED,
    dependencies=[Depends(action_logging("sitemap_action"))],
)
def act(wish: ActionWish, session: SessionDep, readable: ReadableDags, user: GetUserDep, moment: Now) -> dict[str, str]:
    """Do something to a sitemap: trigger a DAG run with the params that its group defines."""
    sitemap = known(wish.asset, session, readable, moment)
    related = events.dags_of_asset(session, sitemap.asset.id) & readable
    shapes = actions.shapes(session, sorted(related | {sitemap.publisher}))
    publisher = shapes.pop(sitemap.publisher, None)
    offer = next(o for o in actions.offers(publisher, list(shapes.values())) if o.action == wish.action)
    if not may_trigger(user, offer.dag_id or sitemap.publisher):
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"Forbidden: you may not trigger {offer.dag_id}")
    asked = actions.Wish(
        action=wish.action,
        sections=tuple(wish.sections),
        shards=tuple(wish.shards),
        permits=tuple(wish.permits),
        generation=wish.generation,
    )
    try:
        conf = actions.conf_of(asked, offer)
        note = f"Started from the page Sitemaps: {wish.action}"
        run_id = actions.trigger(session, offer.dag_id, conf, user=user.get_name(), note=note)
    except actions.ActionRefusedError as e:
        raise HTTPException(status.HTTP_409_CONFLICT, str(e)) from e
    return {"dag_id": offer.dag_id, "run_id": run_id}


static_router = APIRouter()


@static_router.get("/static/{name}", include_in_schema=False)
def static_file(name: str, user: GetUserDep) -> FileResponse:
    """The bundle and its icons, for people who are logged in."""
    files = {file.name: file for file in STATIC.iterdir() if file.suffix in MEDIA}
    if name not in files:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "No such file")
    headers = {"Cache-Control": "private, max-age=3600", "X-Content-Type-Options": "nosniff"}
    return FileResponse(files[name], media_type=MEDIA[files[name].suffix], headers=headers)


def make_app() -> FastAPI:
    """The application that is mounted on the API server."""
    app = FastAPI(
        title="Sitemaps",
        version=__version__,
        description="What Airflow knows of the sitemaps that its DAGs publish. Beneath the pages in Airflow's UI.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.include_router(router, prefix="/api")
    app.include_router(static_router)

    @app.get("/api/openapi.json", include_in_schema=False)
    def openapi(user: GetUserDep) -> dict[str, Any]:
        """The description of this API, for people who are logged in."""
        return app.openapi()

    return app
