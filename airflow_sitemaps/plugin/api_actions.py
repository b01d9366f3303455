"""Routes with side effects: they trigger a DAG run, or archive an orphaned sitemap."""

from __future__ import annotations

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging.decorators import action_logging
from airflow.models.asset import AssetModel
from fastapi import APIRouter, Depends, HTTPException, status

from airflow_sitemaps.plugin import actions, responses
from airflow_sitemaps.plugin.access import MayEditAssets, ReadableDags, may_read_assets, may_trigger
from airflow_sitemaps.plugin.api_dependencies import Now, sitemap_of
from airflow_sitemaps.plugin.events import iso
from airflow_sitemaps.plugin.overview import ARCHIVED_KEY
from airflow_sitemaps.plugin.schemas.actions import ActionBody, ArchiveBody, Started

router = APIRouter(dependencies=[Depends(may_read_assets)])


@router.post(
    "/actions",
    response_model=Started,
    status_code=status.HTTP_201_CREATED,
    dependencies=[Depends(action_logging("sitemap_action"))],
)
def act(body: ActionBody, session: SessionDep, readable: ReadableDags, user: GetUserDep, moment: Now) -> dict[str, str]:
    """Perform an action on a sitemap: trigger a DAG run with the params that its task group defines."""
    sitemap = sitemap_of(body.asset, session, readable, moment)
    available = next(a for a in responses.actions_of(session, sitemap) if a.action == body.action)
    dag_id = available.dag_id or sitemap.dag_id
    if not may_trigger(user, dag_id):
        raise HTTPException(status.HTTP_403_FORBIDDEN, f"Forbidden: you may not trigger {dag_id}")
    request = actions.ActionRequest(
        action=body.action,
        sections=tuple(body.sections),
        shards=tuple(body.shards),
        permits=tuple(body.permits),
        generation=body.generation,
    )
    try:
        conf = actions.conf_of(request, available)
        note = f"Started from the page Sitemaps: {body.action}"
        run_id = actions.trigger(session, available.dag_id, conf, user=user.get_name(), note=note)
    except actions.ActionRefusedError as e:
        raise HTTPException(status.HTTP_409_CONFLICT, str(e)) from e
    return {"dag_id": available.dag_id, "run_id": run_id}


@router.post(
    "/archive",
    response_model=ArchiveBody,
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
