"""Permissions: Airflow's auth manager decides, for each DAG, what a user may see and do."""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AssetDetails, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, status


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
