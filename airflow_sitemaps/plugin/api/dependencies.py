"""Dependencies that the routes share: permissions, the current time, the requested sitemap, and validated responses."""

from __future__ import annotations

from datetime import datetime, timezone
from hashlib import sha256
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AssetDetails, DagAccessEntity, DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Query, Request, Response, status

from airflow_sitemaps import __version__
from airflow_sitemaps.plugin import events
from airflow_sitemaps.plugin.pages import overview
from airflow_sitemaps.plugin.store_state import STORE_STATES

Asset = Annotated[str, Query(description="URI of the sitemap's asset", max_length=1_500)]


def now() -> datetime:
    """Return the current time. It is a dependency, so that tests can replace it."""
    return datetime.now(timezone.utc)


Now = Annotated[datetime, Depends(now)]


def sitemap_of(asset: Asset, session: SessionDep, readable: ReadableDags, moment: Now) -> overview.Overview:
    """Return the requested sitemap, or respond with 404 if no such sitemap is visible to the user."""
    named = events.asset_by_uri(session, asset)
    sitemaps = overview.overviews(session, [named] if named else [], readable, moment, STORE_STATES)
    if not sitemaps:
        raise HTTPException(
            status.HTTP_404_NOT_FOUND, "This sitemap does not exist, or you may not see the DAG that publishes it."
        )
    return sitemaps[0]


def detached_sitemap(asset: Asset, readable: ReadableDags, moment: Now) -> overview.Overview:
    """Return the requested sitemap and release the database connection, for routes that wait for the store."""
    with create_session(scoped=False) as session:
        return sitemap_of(asset, session, readable, moment)


Sitemap = Annotated[overview.Overview, Depends(sitemap_of)]
DetachedSitemap = Annotated[overview.Overview, Depends(detached_sitemap)]


def readable_dag(dag_id: str, readable: ReadableDags) -> str:
    """Return the DAG in the path. If the user may not read it, respond with 403, whether or not it exists."""
    if dag_id not in readable:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden")
    return dag_id


ReadableDag = Annotated[str, Depends(readable_dag)]


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


def readable_dags(user: GetUserDep) -> set[str]:
    """Return the IDs of the DAGs that the user may read. Anonymous callers receive 401 before this runs."""
    allowed = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    return set(allowed)


def may_read_assets(user: GetUserDep) -> None:
    """Respond with 403 to users who may not see assets: every response is built from the events of assets."""
    if not get_auth_manager().is_authorized_asset(method="GET", details=AssetDetails(), user=user):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden: seeing sitemaps needs permission to read assets")


def may_edit_assets(user: GetUserDep) -> bool:
    """Return whether the user may change assets. Archiving a sitemap requires this permission."""
    return bool(get_auth_manager().is_authorized_asset(method="PUT", details=AssetDetails(), user=user))


def may_trigger(user: Any, dag_id: str) -> bool:
    """Return whether the user may trigger runs of a DAG."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    allowed = get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user
    )
    return bool(allowed)


ReadableDags = Annotated[set[str], Depends(readable_dags)]
MayEditAssets = Annotated[bool, Depends(may_edit_assets)]
