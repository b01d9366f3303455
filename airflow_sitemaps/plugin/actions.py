"""What can be done to a sitemap from its page: each a DAG run with the params that the DAG defines."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from airflow.api.common.trigger_dag import trigger_dag
from airflow.exceptions import DagNotFound, DagRunAlreadyExists, ParamValidationError
from airflow.models.dag import DagModel
from airflow.models.dagbag import DBDagBag
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select

from airflow_sitemaps.plugin.runs import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy.orm import Session

Name = Literal["run", "plan", "full", "rebuild", "allow", "verify", "rollback"]

GROUP_PARAMS: Final = ("sections", "full", "rebuild", "dry_run", "allow")
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (),
    "plan": ("dry_run",),
    "full": ("full", "sections"),
    "rebuild": ("rebuild",),
    "allow": ("allow",),
}
"""The DAG params that each action of the publishing DAG sets."""
PARAM: Final = re.compile(r"\{\{[^{}]*\bparams(?:\.([A-Za-z_]\w*)|\[\s*['\"]([A-Za-z_]\w*)['\"]\s*\])[^{}]*\}\}")

ADD_ROLLBACK: Final = (
    "No DAG has a SitemapRollbackOperator for this sitemap. Add a DAG with "
    'SitemapRollbackOperator(task_id="rollback", sitemap=sitemap, generation="{{ params.generation }}") '
    "and the param generation."
)
ADD_VERIFY: Final = (
    "To verify from this page, add a DAG of its own with "
    'SitemapVerifyOperator(task_id="verify", sitemap=sitemap, inlets=[sitemap.asset]).'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One action of a sitemap: the DAG that does it, or why there is none. ``param``: where a generation goes."""

    action: Name
    dag_id: str = ""
    possible: bool = True
    why_not: str = ""
    param: str = ""
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What somebody asks for, checked against an ``Offer`` before anything is triggered."""

    action: Name
    sections: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    permits: tuple[str, ...] = ()
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DagShape:
    """What matters of a serialised DAG: its params, and its sitemap tasks by kind with their templated texts."""

    dag_id: str
    params: frozenset[str] = frozenset()
    tasks: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    paused: bool = False


class ActionRefusedError(Exception):
    """The action cannot be done; the message says why and what to do."""


def offers(publisher: DagShape | None, others: Sequence[DagShape]) -> list[Offer]:
    """What can be done to a sitemap: by the DAG that publishes it, and by others that hold its further operators."""
    found = []
    names: tuple[Name, ...] = ("run", "plan", "full", "rebuild", "allow")
    for action in names:
        if publisher is None:
            found.append(Offer(action=action, possible=False, why_not="The DAG that publishes this sitemap is gone."))
            continue
        missing = [name for name in NEEDS[action] if name not in publisher.params]
        why = f"The DAG has no param {', '.join(missing)}; SitemapTaskGroup defines it." if missing else ""
        found.append(
            Offer(action=action, dag_id=publisher.dag_id, possible=not missing, why_not=why, paused=publisher.paused)
        )
    known = [*others, *([publisher] if publisher else [])]
    return [*found, _verify(known), _rollback(known)]


def _verify(known: Sequence[DagShape]) -> Offer:
    verifying = [dag for dag in known if "verify" in dag.tasks]
    for dag in verifying:
        if "plan" not in dag.tasks:
            return Offer(action="verify", dag_id=dag.dag_id, paused=dag.paused)
    after = f"Each run of {verifying[0].dag_id} verifies what it published. " if verifying else ""
    return Offer(action="verify", possible=False, why_not=after + ADD_VERIFY)


def _rollback(known: Sequence[DagShape]) -> Offer:
    for dag in known:
        for task in dag.tasks.get("rollback", ()):
            match = PARAM.search(task.get("generation", ""))
            if match is None:
                continue
            param = match[1] or match[2]
            if "plan" in dag.tasks:
                why = (
                    f"The DAG {dag.dag_id} rolls back and publishes in one run; move the rollback to a DAG of its own."
                )
                return Offer(action="rollback", possible=False, why_not=why)
            return Offer(action="rollback", dag_id=dag.dag_id, param=param, paused=dag.paused)
    return Offer(action="rollback", possible=False, why_not=ADD_ROLLBACK)


def conf_of(wish: Wish, offer: Offer) -> dict[str, Any]:
    """The DAG run's params. Raises ActionRefusedError when the wish is not whole or not on offer."""
    if not offer.possible:
        raise ActionRefusedError(offer.why_not)
    if wish.action == "plan":
        return {"dry_run": True, **({"sections": list(wish.sections)} if wish.sections else {})}
    if wish.action == "full":
        return {"full": True, "sections": list(wish.sections)}
    if wish.action == "rebuild":
        if not wish.shards:
            raise ActionRefusedError("Name the shards to rebuild.")
        return {"rebuild": list(wish.shards)}
    if wish.action == "allow":
        if not wish.permits:
            raise ActionRefusedError("Name the guards to let pass, like shrink:products.")
        return {"allow": list(wish.permits)}
    if wish.action == "rollback":
        if wish.generation is None:
            raise ActionRefusedError("Name the generation to go back to.")
        return {offer.param: wish.generation}
    return {}


def shapes(session: Session, dag_ids: Sequence[str]) -> dict[str, DagShape]:
    """The shapes of DAGs as last serialised; DAGs that are gone are not in it."""

    columns = select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(list(dag_ids)), ~DagModel.is_stale)
    bag = DBDagBag()
    found = {}
    for dag_id, paused in session.execute(columns):
        dag = bag.get_latest_version_of_dag(dag_id, session=session)
        if dag is None:
            continue
        tasks: dict[str, list[dict[str, str]]] = {}
        for task in dag.task_dict.values():
            kind = KINDS.get(task.task_type)
            if kind is not None:
                generation = getattr(task, "generation", "")
                tasks.setdefault(kind, []).append({"task_id": task.task_id, "generation": str(generation)})
        found[dag_id] = DagShape(dag_id=dag_id, params=frozenset(dag.params), tasks=tasks, paused=bool(paused))
    return found


def trigger(session: Session, dag_id: str, conf: Mapping[str, Any], *, user: str, note: str) -> str:
    """Trigger a DAG run; returns its id. Raises ActionRefusedError when Airflow will not have it."""

    try:
        run = trigger_dag(
            dag_id,
            triggered_by=DagRunTriggeredByType.UI,
            triggering_user_name=user,
            conf=dict(conf),
            note=note,
            session=session,
        )
    except (DagNotFound, DagRunAlreadyExists, ParamValidationError, ValueError) as e:
        raise ActionRefusedError(f"Airflow did not trigger {dag_id}: {e}") from e
    if run is None:
        raise ActionRefusedError(f"Airflow did not trigger {dag_id}.")
    return str(run.run_id)
