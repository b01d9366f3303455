"""Actions on a sitemap from its page. Each action is a DAG run with params that the DAG defines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from airflow.exceptions import DagNotFound, DagRunAlreadyExists, ParamValidationError
from pydantic import Field
from sqlalchemy.orm import Session

from airflow_sitemaps.airflow_compat import trigger_run
from airflow_sitemaps.plugin.dag_profiles import DagProfile, dag_profiles, dags_by_id
from airflow_sitemaps.plugin.pages.overview import Overview
from airflow_sitemaps.plugin.readings import StrictModel

Name = Literal["run", "plan", "full", "rebuild", "allow", "verify", "rollback"]

PUBLISHER_PARAMS: Final[Mapping[Name, tuple[str, ...]]] = {
    "run": (),
    "plan": ("dry_run",),
    "full": ("full", "sections"),
    "rebuild": ("rebuild",),
    "allow": ("allow",),
}
PARAM: Final = re.compile(r"\{\{[^{}]*\bparams(?:\.([A-Za-z_]\w*)|\[\s*['\"]([A-Za-z_]\w*)['\"]\s*\])[^{}]*\}\}")

ADD_ROLLBACK: Final = (
    "No DAG has a SitemapRollbackOperator for this sitemap. Add a DAG with "
    'SitemapRollbackOperator(task_id="rollback", sitemap=sitemap, generation="{{ params.generation }}") '
    "and the param generation."
)
ADD_VERIFY: Final = (
    "To verify from this page, add a separate DAG with "
    'SitemapVerifyOperator(task_id="verify", sitemap=sitemap, inlets=[sitemap.asset]).'
)
ORPHANED: Final = "No DAG publishes this sitemap."


class AvailableAction(StrictModel):
    """An action: whether the DAG can perform it (else why not), and whether the user may trigger it.

    Attributes:
        dag_id: DAG that is triggered; empty if no DAG performs the action.
        param: DAG param that takes the generation of a rollback.
    """

    action: Name
    dag_id: str = ""
    possible: bool = True
    why_not: str = ""
    paused: bool = False
    allowed: bool = False
    param: Annotated[str, Field(exclude=True)] = ""


Texts = Annotated[list[Annotated[str, Field(max_length=500)]], Field(max_length=1_000)]


class ActionRequest(StrictModel):
    """The action to perform. ``shards`` are names for ``rebuild``, ``permits`` are for ``allow``, such as ``shrink:products``."""

    asset: Annotated[str, Field(max_length=1_500)]
    action: Name
    sections: Texts = []
    shards: Texts = []
    permits: Texts = []
    generation: Annotated[int, Field(ge=1)] | None = None


class ActionRefusedError(Exception):
    """The action cannot be performed. The message gives the reason and the next step."""


def available_actions(
    publisher: DagProfile | None, others: Sequence[DagProfile], paused: Mapping[str, bool]
) -> list[AvailableAction]:
    """Return every action of a sitemap, with the DAG that performs it or the reason why no DAG can.

    ``publisher`` is None for an orphaned sitemap. ``others`` contain its verification and rollback tasks.
    """
    profiles = [*others, *([publisher] if publisher else [])]
    publishing = [_of_publisher(action, publisher, paused) for action in PUBLISHER_PARAMS]
    return [*publishing, _verify(profiles, paused), _rollback(profiles, paused)]


def _of_publisher(action: Name, publisher: DagProfile | None, paused: Mapping[str, bool]) -> AvailableAction:
    if publisher is None:
        return AvailableAction(action=action, possible=False, why_not=ORPHANED)
    missing = [name for name in PUBLISHER_PARAMS[action] if name not in publisher.params]
    why = f"The DAG has no param {', '.join(missing)}; SitemapTaskGroup defines it." if missing else ""
    dag_id = publisher.dag_id
    return AvailableAction(
        action=action, dag_id=dag_id, possible=not missing, why_not=why, paused=paused.get(dag_id, False)
    )


def _verify(known: Sequence[DagProfile], paused: Mapping[str, bool]) -> AvailableAction:
    verifying = [dag for dag in known if dag.of_kind("verify")]
    for dag in verifying:
        if not dag.of_kind("plan"):
            return AvailableAction(action="verify", dag_id=dag.dag_id, paused=paused.get(dag.dag_id, False))
    after = f"Each run of {verifying[0].dag_id} verifies what it published. " if verifying else ""
    return AvailableAction(action="verify", possible=False, why_not=after + ADD_VERIFY)


def _rollback(known: Sequence[DagProfile], paused: Mapping[str, bool]) -> AvailableAction:
    for dag in known:
        for task in dag.of_kind("rollback"):
            match = PARAM.search(task.generation)
            if match is None:
                continue
            if dag.of_kind("plan"):
                why = f"The DAG {dag.dag_id} rolls back and publishes in one run; move the rollback to a separate DAG."
                return AvailableAction(action="rollback", possible=False, why_not=why)
            param = match[1] or match[2]
            return AvailableAction(
                action="rollback", dag_id=dag.dag_id, param=param, paused=paused.get(dag.dag_id, False)
            )
    return AvailableAction(action="rollback", possible=False, why_not=ADD_ROLLBACK)


def conf_of(request: ActionRequest, available: AvailableAction) -> dict[str, Any]:
    """Return the params of the run that performs a request, or raise ActionRefusedError."""
    if not available.possible:
        raise ActionRefusedError(available.why_not)
    if request.action == "plan":
        return {"dry_run": True, **({"sections": request.sections} if request.sections else {})}
    if request.action == "full":
        return {"full": True, "sections": request.sections}
    if request.action == "rebuild":
        if not request.shards:
            raise ActionRefusedError("Name the shards to rebuild.")
        return {"rebuild": request.shards}
    if request.action == "allow":
        if not request.permits:
            raise ActionRefusedError("Name the guards to override, like shrink:products.")
        return {"allow": request.permits}
    if request.action == "rollback":
        if request.generation is None:
            raise ActionRefusedError("Name the generation to roll back to.")
        return {available.param: request.generation}
    return {}


def trigger(session: Session, dag_id: str, conf: Mapping[str, Any], *, user: str, note: str) -> str:
    """Trigger a DAG run and return its ID, or raise ActionRefusedError if Airflow refuses the run."""
    try:
        run = trigger_run(dag_id, conf=dict(conf), user=user, note=note, session=session)
    except (DagNotFound, DagRunAlreadyExists, ParamValidationError, ValueError) as e:
        raise ActionRefusedError(f"Airflow did not trigger {dag_id}: {e}") from e
    if run is None:
        raise ActionRefusedError(f"Airflow did not trigger {dag_id}.")
    return str(run.run_id)


def actions_of(session: Session, overview: Overview) -> list[AvailableAction]:
    """Return the actions of a sitemap: of the DAG that publishes it, and of DAGs with its other operators."""
    publishers = [dag.dag_id for dag in overview.snapshot.publishers]
    publisher = overview.dag_id if overview.dag_id in publishers else next(iter(publishers), "")
    profiles = dag_profiles(session, overview.tasks.dags)
    paused = {dag_id: dag.paused for dag_id, dag in dags_by_id(session, profiles).items()}
    others = [profile for dag_id, profile in sorted(profiles.items()) if dag_id != publisher and dag_id in paused]
    return available_actions(profiles.get(publisher), [_own_tasks(p, overview) for p in others], paused)


def _own_tasks(profile: DagProfile, overview: Overview) -> DagProfile:
    """Return a DAG's profile without the verification and rollback tasks of other sitemaps."""
    own = {*overview.tasks.verify, *overview.tasks.rollback}
    tasks = [
        task
        for task in profile.tasks
        if task.kind not in ("verify", "rollback") or (profile.dag_id, task.task_id) in own
    ]
    return replace(profile, tasks=tuple(tasks))
