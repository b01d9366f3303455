"""Actions on a sitemap from its page. Each action is a DAG run with params that the DAG defines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from sqlalchemy.orm import Session

from airflow_sitemaps.airflow_compat import DagNotFound, DagRunAlreadyExists, ParamValidationError, trigger_run
from airflow_sitemaps.operators import prefix_of
from airflow_sitemaps.plugin.dag_profiles import DagProfile, dag_profiles, dags_by_id
from airflow_sitemaps.plugin.pages.outcomes import of_group
from airflow_sitemaps.plugin.pages.overview import Overview
from airflow_sitemaps.plugin.readings import NO_NUL, StrictModel

Name = Literal["run", "plan", "full", "rebuild", "allow", "keep", "verify", "rollback"]

PUBLISHER_PARAMS: Final[Mapping[Name, tuple[str, ...]]] = {
    "run": (),
    "plan": ("dry_run",),
    "full": ("full", "sections"),
    "rebuild": ("rebuild",),
    "allow": ("allow",),
    "keep": ("keep_lastmods",),
}
PARAM: Final = re.compile(r"\{\{[^{}]*\bparams(?:\.([A-Za-z_]\w*)|\[\s*['\"]([A-Za-z_]\w*)['\"]\s*\])[^{}]*\}\}")

ADD_ROLLBACK: Final = (
    "No DAG has a SitemapRollbackOperator for this sitemap. Add a DAG with "
    'SitemapRollbackOperator(task_id="rollback", sitemap=sitemap, generation="{{ params.generation }}") '
    "and the param generation."
)
ADD_VERIFY: Final = (
    'To verify from this page, add a separate DAG with SitemapVerifyOperator(task_id="verify", sitemap=sitemap).'
)
ORPHANED: Final = "No DAG publishes this sitemap."


class AvailableAction(StrictModel):
    """An action: whether the DAG can perform it (else why not), and whether the user may trigger it.

    ``dag_id`` is empty if no DAG performs it. ``param`` is the DAG param that takes the generation of a rollback.
    """

    action: Name
    dag_id: str = ""
    possible: bool = True
    why_not: str = ""
    paused: bool = False
    allowed: bool = False
    param: Annotated[str, Field(exclude=True)] = ""
    # The task group of the sitemap if the DAG publishes several; None otherwise.
    group: Annotated[str | None, Field(exclude=True)] = None


Texts = Annotated[list[Annotated[str, Field(max_length=500, pattern=NO_NUL)]], Field(max_length=1_000)]


class ActionRequest(StrictModel):
    """The action to perform. ``shards`` are names for ``rebuild``, ``permits`` are for ``allow``, such as ``shrink:products``."""

    asset: Annotated[str, Field(max_length=1_500, pattern=NO_NUL)]
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
    publishing = [_of_publisher(action, publisher) for action in PUBLISHER_PARAMS]
    actions = [*publishing, _verify(profiles), _rollback(profiles)]
    return [action.model_copy(update={"paused": paused.get(action.dag_id, False)}) for action in actions]


def _of_publisher(action: Name, publisher: DagProfile | None) -> AvailableAction:
    if publisher is None:
        return AvailableAction(action=action, possible=False, why_not=ORPHANED)
    missing = [name for name in PUBLISHER_PARAMS[action] if name not in publisher.params]
    why = f"The DAG has no param {', '.join(missing)}; SitemapTaskGroup defines it." if missing else ""
    return AvailableAction(action=action, dag_id=publisher.dag_id, possible=not missing, why_not=why)


def _verify(known: Sequence[DagProfile]) -> AvailableAction:
    verifying = [dag for dag in known if dag.of_kind("verify")]
    for dag in verifying:
        if not dag.of_kind("plan"):
            return AvailableAction(action="verify", dag_id=dag.dag_id)
    after = f"Each run of {verifying[0].dag_id} verifies what it published. " if verifying else ""
    return AvailableAction(action="verify", possible=False, why_not=after + ADD_VERIFY)


def _rollback(known: Sequence[DagProfile]) -> AvailableAction:
    for dag in known:
        for task in dag.of_kind("rollback"):
            match = PARAM.search(task.generation)
            if match is None:
                continue
            if dag.of_kind("plan"):
                why = f"The DAG {dag.dag_id} rolls back and publishes in one run; move the rollback to a separate DAG."
                return AvailableAction(action="rollback", possible=False, why_not=why)
            return AvailableAction(action="rollback", dag_id=dag.dag_id, param=match[1] or match[2])
    return AvailableAction(action="rollback", possible=False, why_not=ADD_ROLLBACK)


def conf_of(request: ActionRequest, available: AvailableAction) -> dict[str, Any]:
    """Return the params of the run that performs a request, or raise ActionRefusedError.

    A name without a task group is every group's. So all names get the sitemap's group where the DAG publishes several
    sitemaps, and a rebuild or plan without names is one of ``group/``, which is every section of this sitemap.
    """
    if available.group is not None:
        own, every = f"{available.group}/", [""] if request.action in ("full", "plan") else []
        changes = {
            "sections": [own + name for name in request.sections or every],
            "shards": [own + name for name in request.shards],
            "permits": [of_group(permit, available.group) for permit in request.permits],
        }
        request = request.model_copy(update=changes)
    if not available.possible:
        raise ActionRefusedError(available.why_not)
    if request.action == "plan":
        return {"dry_run": True, **({"sections": request.sections} if request.sections else {})}
    if request.action == "full":
        return {"full": True, "sections": request.sections}
    needed: dict[Name, tuple[str, Any, str]] = {
        "rebuild": ("rebuild", request.shards, "Name the shards to rebuild."),
        "allow": ("allow", request.permits, "Name the guards to override, like shrink:products."),
        "keep": ("keep_lastmods", request.sections, "Name the sections whose changed URLs keep their dates."),
        "rollback": (available.param, request.generation, "Name the generation to roll back to."),
    }
    if request.action not in needed:
        return {}
    param, value, otherwise = needed[request.action]
    if not value:
        raise ActionRefusedError(otherwise)
    return {param: value}


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
    actions = available_actions(profiles.get(publisher), [_own_tasks(p, overview) for p in others], paused)
    if publisher not in profiles or len(profiles[publisher].of_kind("plan")) < 2:
        return actions
    ids, chains = (task for dag, task in overview.tasks.publish if dag == publisher), profiles[publisher].chains()
    changes = {"group": next((chains.get(task_id, prefix_of(task_id)) for task_id in ids), None)}
    return [each.model_copy(update=changes) if each.dag_id == publisher else each for each in actions]


def _own_tasks(profile: DagProfile, overview: Overview) -> DagProfile:
    """Return a DAG's profile without the verification and rollback tasks of other sitemaps."""
    own = {*overview.tasks.verify, *overview.tasks.rollback}
    tasks = [
        task
        for task in profile.tasks
        if task.kind not in ("verify", "rollback") or (profile.dag_id, task.task_id) in own
    ]
    return replace(profile, tasks=tuple(tasks))
