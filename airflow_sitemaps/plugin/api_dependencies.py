"""Dependencies that the routes share: the current time, the requested sitemap, and validated responses."""

from __future__ import annotations

from datetime import datetime, timezone
from hashlib import sha256
from typing import Annotated

from airflow.api_fastapi.common.db.common import SessionDep
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Query, Request, Response, status

from airflow_sitemaps import __version__
from airflow_sitemaps.plugin import events, overview
from airflow_sitemaps.plugin.access import ReadableDags
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
    """Return a response that the browser keeps and revalidates by its ETag, or 304 if the content is unchanged.

    Args:
        request: The request, whose ``If-None-Match`` header is compared.
    """
    tag = f'W/"{sha256(f"{__version__} {etag}".encode()).hexdigest()[:32]}"'
    headers = {"Cache-Control": "private, no-cache", "ETag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def as_csv(text: str, name: str) -> Response:
    """Return a CSV file as a download."""
    headers = {"Cache-Control": "no-store", "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)
