"""The imports of Airflow that differ between the supported releases 3.1, 3.2 and 3.3. No other module knows them."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

try:
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRuntimeError,
        AirflowSkipException,
        XComNotFound,
    )
except ImportError:  # 3.1 keeps them where Airflow 2 did
    from airflow.exceptions import (  # type: ignore[no-redef,attr-defined,unused-ignore]
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        XComNotFound,
    )
    from airflow.sdk.exceptions import AirflowRuntimeError

try:
    from airflow.sdk.definitions.deadline import BaseDeadlineReference
except ImportError:  # 3.1 and 3.2 know no references of other packages

    class BaseDeadlineReference:  # type: ignore[no-redef]
        """Takes the place of Airflow's class, so that modules can be imported."""


if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG
    from sqlalchemy.orm import Session

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowRuntimeError",
    "AirflowSkipException",
    "BaseDeadlineReference",
    "XComNotFound",
    "api_base_url",
    "dags_defined",
    "is_enabled",
    "stats_client",
    "trigger_run",
]


def trigger_run(dag_id: str, *, conf: dict[str, Any], user: str, note: str, session: Session) -> DagRun | None:
    """Create a run of a DAG for a user of the pages, with a note.

    Args:
        dag_id: The DAG.
        conf: Params of the run.
        user: Name of the user.
        note: Text of the run's note.
        session: Session of Airflow's database.

    Returns:
        The run, or None if Airflow created none.

    Raises:
        Exception: What Airflow's ``trigger_dag`` raises.
    """
    from airflow.api.common.trigger_dag import trigger_dag  # noqa: PLC0415 - Airflow takes seconds to import
    from airflow.utils.types import DagRunTriggeredByType  # noqa: PLC0415

    takes_note = "note" in signature(trigger_dag).parameters
    with_note: dict[str, Any] = {"note": note} if takes_note else {}
    run = trigger_dag(
        dag_id,
        triggered_by=DagRunTriggeredByType.UI,
        triggering_user_name=user,
        conf=conf,
        session=session,
        **with_note,
    )
    if run is not None and not takes_note:  # 3.1 sets the note of a new run as its REST API does
        run.note = (note, user)
        session.flush()
    return run


def stats_client() -> Any:
    """Return Airflow's stats, with the functions ``incr`` and ``gauge``."""
    try:
        from airflow.sdk.observability import stats  # noqa: PLC0415 - Airflow takes seconds to import
    except ImportError:  # 3.1 has it in the core
        return import_module("airflow.stats").Stats
    return stats if hasattr(stats, "incr") else stats.Stats  # 3.2 has the class only


def api_base_url() -> str:
    """Return the address of Airflow's UI without a slash at its end; empty if it is not configured."""
    return (_configuration().get("api", "base_url", fallback="") or "").rstrip("/")


def is_enabled(option: str) -> bool:
    """Return an option of Airflow's configuration section ``[sitemaps]``. Each is true unless it is set.

    Args:
        option: Name of the option.
    """
    return bool(_configuration().getboolean("sitemaps", option, fallback=True))


def _configuration() -> Any:
    try:
        from airflow.sdk.configuration import conf  # noqa: PLC0415 - not needed to parse a DAG
    except ImportError:
        from airflow.configuration import conf  # noqa: PLC0415
    return conf


@contextmanager
def dags_defined(module_name: str) -> Iterator[list[DAG]]:
    """Collect the DAGs that a module defines while it is imported in this context, as Airflow's DAG processor does.

    Args:
        module_name: The module's name in ``sys.modules``.

    Yields:
        A list that is filled when the context ends; empty if Airflow has no such register any more.
    """
    dags: list[DAG] = []
    try:
        from airflow.sdk.definitions._internal.contextmanager import DagContext  # noqa: PLC0415 - needed in the shell only
    except ImportError:
        yield dags
        return
    before, name = set(DagContext.autoregistered_dags), DagContext.current_autoregister_module_name
    DagContext.current_autoregister_module_name = module_name
    try:
        yield dags
    finally:
        dags.extend(dag for dag, _ in DagContext.autoregistered_dags - before)
        DagContext.autoregistered_dags.intersection_update(before)
        DagContext.current_autoregister_module_name = name
