"""All that this package imports of Airflow beside its public SDK and its providers; no other module imports it.

Airflow promises stability of ``airflow.sdk`` only. The rest moves: this module knows where each name is in the releases 3.1
to 3.3, and what changes in 3.4. ``tests/compat/`` runs it against a model of the tables of 3.4.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from inspect import signature
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import AssetDetails, DagAccessEntity, DagDetails
    from airflow.api_fastapi.common.db.common import SessionDep
    from airflow.api_fastapi.core_api.security import GetUserDep
    from airflow.api_fastapi.logging.decorators import action_logging
    from airflow.exceptions import DagNotFound, DagRunAlreadyExists, ParamValidationError
    from airflow.models.asset import (
        AssetEvent,
        AssetModel,
        DagScheduleAssetReference,
        TaskInletAssetReference,
        TaskOutletAssetReference,
    )
    from airflow.models.dag import DagModel, DagTag
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagrun import DagRun
    from airflow.models.errors import ParseImportError
    from airflow.models.serialized_dag import SerializedDagModel
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.plugins_manager import AirflowPlugin
    from airflow.sdk import DAG
    from airflow.sdk.definitions.mappedoperator import OperatorPartial
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRuntimeError,
        AirflowSkipException,
        AirflowTaskTimeout,
        XComNotFound,
    )
    from airflow.sdk.execution_time.xcom import XCom
    from airflow.triggers.base import BaseTrigger, TriggerEvent
    from airflow.utils.session import create_session
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

_NAMES: Final = {
    "airflow.api_fastapi.app": "get_auth_manager",
    "airflow.api_fastapi.auth.managers.models.resource_details": "AssetDetails DagAccessEntity DagDetails",
    "airflow.api_fastapi.common.db.common": "SessionDep",
    "airflow.api_fastapi.core_api.security": "GetUserDep",
    "airflow.api_fastapi.logging.decorators": "action_logging",
    "airflow.cli.cli_config": "ActionCommand Arg GroupCommand",
    "airflow.dag_processing.bundles.manager": "DagBundlesManager",
    "airflow.dag_processing.dagbag": "DagBag",
    "airflow.models.asset": (
        "AssetEvent AssetModel DagScheduleAssetReference TaskInletAssetReference TaskOutletAssetReference"
    ),
    "airflow.models.dag": "DagModel DagTag",
    "airflow.models.dag_version": "DagVersion",
    "airflow.models.dagrun": "DagRun",
    "airflow.models.errors": "ParseImportError",
    "airflow.models.serialized_dag": "SerializedDagModel",
    "airflow.models.taskinstance": "TaskInstance",
    "airflow.models.xcom": "XComModel",  # in 3.4 made when it is first used, over the tables of both stores
    "airflow.plugins_manager": "AirflowPlugin",
    "airflow.sdk.definitions.mappedoperator": "OperatorPartial",
    "airflow.sdk.exceptions": (
        "AirflowException AirflowFailException AirflowNotFoundException AirflowRuntimeError AirflowSkipException "
        "AirflowTaskTimeout XComNotFound"
    ),
    "airflow.sdk.execution_time.xcom": "XCom",
    "airflow.exceptions": "DagNotFound DagRunAlreadyExists ParamValidationError",
    "airflow.triggers.base": "BaseTrigger TriggerEvent",
    "airflow.utils.db": "initdb",
    "airflow.utils.session": "create_session",
}
"""The names that other modules import from here, by the module of Airflow 3.3 that has them."""
_HOME: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

_OLD_MODULES: Final = {
    "airflow.dag_processing.dagbag": "airflow.models.dagbag",
    "airflow.sdk.exceptions": "airflow.exceptions",
}
"""Where Airflow 3.1 has the names of a module instead."""
DAG_CONTEXT: Final = "airflow.sdk.definitions._internal.contextmanager"
"""The module in which Airflow records the DAGs that a file defines."""


def __getattr__(name: str) -> Any:
    """Import a name of Airflow when it is first used: Airflow takes more than a second to import."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _HOME[name]
    try:
        value = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        try:
            value = getattr(import_module(_OLD_MODULES.get(module, module)), name)
        except (ImportError, AttributeError) as e:
            raise ImportError(
                f"the installed Airflow has no {name!r} in {module}; this version of airflow-sitemaps is tested on the "
                "releases that the documentation's page Compatibility lists: install one of those, or a newer airflow-sitemaps"
            ) from e
    globals()[name] = value
    return value


def is_last_attempt(model: Any) -> ColumnElement[bool]:
    """Return the condition that a row of ``TaskInstance`` or ``XComModel`` is of the last attempt of a task.

    From 3.4 on, the same tables hold the rows of earlier attempts, without ``working_set``; up to 3.3 they hold no others.
    """
    from sqlalchemy import select, true  # noqa: PLC0415 - DAG files import this module

    task = globals().get("TaskInstance") or __getattr__("TaskInstance")
    if not hasattr(task, "working_set"):
        return true()
    last: ColumnElement[bool] = task.working_set.is_(True)
    return last if model is task else model.task_instance_id.in_(select(task.id).where(last))


def trigger_run(dag_id: str, *, conf: dict[str, Any], user: str, note: str, session: Session) -> DagRun | None:
    """Create a run of a DAG for a user of the pages, with a note. Return None if Airflow creates none."""
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


def start_run(dag_id: str, run_id: str, conf: dict[str, Any], *, again: bool = False) -> str:
    """Create a run of another DAG from a task, as ``TriggerDagRunOperator`` does; return why Airflow refuses, else "".

    A run that exists is cleared if ``again`` is set, and is left as it is otherwise.
    """
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType  # noqa: PLC0415 - only in a task
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun  # noqa: PLC0415
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS  # noqa: PLC0415

    try:
        said = SUPERVISOR_COMMS.send(TriggerDagRun(dag_id=dag_id, run_id=run_id, conf=conf, reset_dag_run=again))
    except AirflowRuntimeError as error:
        said = error.error
    if not isinstance(said, ErrorResponse) or said.error == ErrorType.DAGRUN_ALREADY_EXISTS:
        return ""
    return f"{said.error.value}: {said.detail or ''}"


def stats_client() -> Any:
    """Return Airflow's stats, with the functions ``incr`` and ``gauge``."""
    try:
        from airflow.sdk.observability import stats  # noqa: PLC0415 - Airflow takes seconds to import
    except ImportError:  # 3.1 has it in the core
        return import_module("airflow.stats").Stats
    return stats if hasattr(stats, "incr") else stats.Stats  # 3.2 has the class only


def api_base_url() -> str:
    """Return the address of Airflow's UI without a slash at its end; empty if it is not configured."""
    return (configuration().get("api", "base_url", fallback="") or "").rstrip("/")


def is_enabled(option: str) -> bool:
    """Return an option of Airflow's configuration section ``[sitemaps]``. Each is true unless it is set."""
    return bool(configuration().getboolean("sitemaps", option, fallback=True))


def default_deferrable() -> bool:
    """Return whether operators wait in the triggerer by default: Airflow's ``[operators] default_deferrable``."""
    return bool(configuration().getboolean("operators", "default_deferrable", fallback=False))


def configuration() -> Any:
    """Return Airflow's configuration."""
    try:
        from airflow.sdk.configuration import conf  # noqa: PLC0415 - not needed to parse a DAG
    except ImportError:
        from airflow.configuration import conf  # noqa: PLC0415
    return conf


@contextmanager
def dags_defined(module_name: str) -> Iterator[list[DAG]]:
    """Collect the DAGs that a module of ``sys.modules`` defines while it is imported here, as the DAG processor does.

    Airflow is imported only if the module imports it. The list is filled when the context ends; it is empty if Airflow
    has no such register any more.
    """
    dags: list[DAG] = []
    before: set[Any] = set()
    names: list[str | None] = []

    def record(module: ModuleType) -> None:
        before.update(module.DagContext.autoregistered_dags)
        names.append(module.DagContext.current_autoregister_module_name)
        module.DagContext.current_autoregister_module_name = module_name

    finder = _ImportObserver(DAG_CONTEXT, record)
    loaded = sys.modules.get(DAG_CONTEXT)
    if loaded is None:
        sys.meta_path.insert(0, finder)
    else:
        record(loaded)
    try:
        yield dags
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        if names:
            context = sys.modules[DAG_CONTEXT].DagContext
            dags.extend(dag for dag, _ in context.autoregistered_dags - before)
            context.autoregistered_dags.intersection_update(before)
            context.current_autoregister_module_name = names[0]


class _ImportObserver:
    """A finder of modules that calls a function when one module has been imported."""

    def __init__(self, module_name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = module_name
        self._then = then

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return the specification of the observed module; None for every other module."""
        spec = PathFinder.find_spec(name, path) if name == self._name else None
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_call(module: ModuleType) -> None:
            load(module)
            self._then(module)

        spec.loader.exec_module = load_and_call  # type: ignore[method-assign]
        return spec
