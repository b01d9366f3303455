"""The imports of Airflow that differ between the supported releases 3.1, 3.2 and 3.3. No other module knows them."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from airflow.models.dagrun import DagRun
    from airflow.sdk import DAG
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRuntimeError,
        AirflowSkipException,
        XComNotFound,
    )
    from sqlalchemy.orm import Session

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowRuntimeError",
    "AirflowSkipException",
    "XComNotFound",
    "api_base_url",
    "dags_defined",
    "default_deferrable",
    "is_enabled",
    "stats_client",
    "trigger_run",
]


ERRORS: Final = frozenset(name for name in __all__ if name.startswith(("Airflow", "XCom")))
DAG_CONTEXT: Final = "airflow.sdk.definitions._internal.contextmanager"
"""The module in which Airflow records the DAGs that a file defines."""


def __getattr__(name: str) -> Any:
    """Import a class of Airflow when it is first used: Airflow takes more than a second to import."""
    if name not in ERRORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("airflow.sdk.exceptions"), name, None)
    if value is None:  # 3.1 keeps it where Airflow 2 did
        value = getattr(import_module("airflow.exceptions"), name)
    globals()[name] = value
    return value


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
    """Return an option of Airflow's configuration section ``[sitemaps]``. Each is true unless it is set."""
    return bool(_configuration().getboolean("sitemaps", option, fallback=True))


def default_deferrable() -> bool:
    """Return whether operators wait in the triggerer by default: Airflow's ``[operators] default_deferrable``."""
    return bool(_configuration().getboolean("operators", "default_deferrable", fallback=False))


def _configuration() -> Any:
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
