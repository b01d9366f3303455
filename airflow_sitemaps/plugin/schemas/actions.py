"""Requests and responses of actions: what a user can start, and what was started."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from airflow_sitemaps.plugin.schemas.strict_model import StrictModel

Text = Annotated[str, Field(max_length=500)]
ActionName = Literal["run", "plan", "full", "rebuild", "allow", "verify", "rollback"]


class ActionState(StrictModel):
    """An action: whether the DAG can perform it (else why not), and whether the user may trigger it."""

    action: ActionName
    dag_id: str
    possible: bool
    why_not: str
    paused: bool
    allowed: bool


class ActionBody(StrictModel):
    """The action to perform. ``shards`` are names for ``rebuild``, ``permits`` are for ``allow``, such as ``shrink:products``."""

    asset: Annotated[str, Field(max_length=1_500)]
    action: ActionName
    sections: list[Text] = Field(default=[], max_length=1_000)
    shards: list[Text] = Field(default=[], max_length=1_000)
    permits: list[Text] = Field(default=[], max_length=1_000)
    generation: Annotated[int, Field(ge=1)] | None = None


class Started(StrictModel):
    """The DAG run that an action triggered."""

    dag_id: str
    run_id: str


class ArchiveBody(StrictModel):
    """Whether to archive an orphaned sitemap, or to show it again."""

    asset: Annotated[str, Field(max_length=1_500)]
    archived: bool
