"""Who may see and do what: Airflow's own auth manager decides, per DAG."""

from __future__ import annotations

from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AssetDetails, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, status


def readable_dags(user: GetUserDep) -> set[str]:
    """Ids of the DAGs whose runs the user may read. Anonymous callers never come this far: 401."""
    allowed = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
    return set(allowed)


def may_read_assets(user: GetUserDep) -> None:
    """403 for users who may not see assets: everything here comes from their events."""
    if not get_auth_manager().is_authorized_asset(method="GET", details=AssetDetails(), user=user):
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Forbidden: seeing sitemaps needs permission to read assets")


def may_trigger(user: Any, dag_id: str) -> bool:
    """Whether the user may trigger runs of a DAG."""
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    allowed = get_auth_manager().is_authorized_dag(
        method="POST", access_entity=DagAccessEntity.RUN, details=details, user=user
    )
    return bool(allowed)


ReadableDags = Annotated[set[str], Depends(readable_dags)]
