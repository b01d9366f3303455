"""Jinja rendering of a sitemap's SQL in the shell, where no Airflow run defines the template words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from jinja2 import Environment

    from airflow_sitemaps.sitemap import Sitemap


def rendered(sitemap: Sitemap, now: datetime, params: Mapping[str, Any] | None = None) -> Sitemap:
    """Render the SQL of a sitemap's sources as a run of its DAG at ``now`` would.

    Args:
        now: Time of the variables ``run_after`` and ``logical_date``, and of those derived from them.
        params: The variable ``params``. Default: none.

    Raises:
        TemplateError: A text uses a variable that the command line does not define, or is not a template.
    """
    from airflow_sitemaps.template_words import renderer

    return sitemap.rendered(renderer(_environment(), _words(now, dict(params or {})), in_shell=True))


def _words(now: datetime, params: dict[str, Any]) -> dict[str, Any]:
    dates = {
        "logical_date": now,
        "data_interval_start": now,
        "data_interval_end": now,
        "ds": _ds(now),
        "ds_nodash": _ds_nodash(now),
        "ts": _ts(now),
        "ts_nodash": _ts_nodash(now),
        "ts_nodash_with_tz": _ts_nodash_with_tz(now),
    }
    intervals = dict.fromkeys(("run_after", "logical_date", "data_interval_start", "data_interval_end"), now)
    return dates | {
        "run_after": now,
        "params": params,
        "var": SimpleNamespace(value=_Variables(), json=_Variables(as_json=True)),
        "conn": _Connections(),
        "dag_run": SimpleNamespace(**intervals, conf={}, run_type="manual"),
        # There is no run, so each session creates and drops what the tasks of a run share (a materialised table).
        "dag": {"dag_id": ""},
        "task": {"task_id": "shell"},
        "run_id": "",
    }


class _Variables:
    """Airflow's variables by name, as ``var.value`` and ``var.json``."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json

    def __getattr__(self, name: str) -> Any:
        from airflow.sdk import Variable

        from airflow_sitemaps.airflow_compat import AirflowException, AirflowRuntimeError
        from airflow_sitemaps.errors import TemplateError

        try:
            return Variable.get(name, deserialize_json=self._as_json)
        except (AirflowException, AirflowRuntimeError, KeyError):
            raise TemplateError(
                f"the Airflow variable {name!r} is not defined; set it in Airflow, or as AIRFLOW_VAR_{name.upper()}"
            ) from None

    def get(self, name: str, default: Any = None) -> Any:
        """Return a variable, or ``default`` if it is not defined."""
        from airflow.sdk import Variable

        return Variable.get(name, default=default, deserialize_json=self._as_json)


class _Connections:
    """Airflow's connections by id, as ``conn``."""

    def __getattr__(self, name: str) -> Any:
        from airflow.sdk import Connection

        from airflow_sitemaps.airflow_compat import AirflowException, AirflowRuntimeError
        from airflow_sitemaps.errors import TemplateError

        try:
            return Connection.get(name)
        except (AirflowException, AirflowRuntimeError):
            raise TemplateError(
                f"the Airflow connection {name!r} is not defined; set it in Airflow, or as AIRFLOW_CONN_{name.upper()}"
            ) from None


def _environment() -> Environment:
    """Return an environment with Airflow's filters, in which an undefined variable is an error."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=True, extensions=["jinja2.ext.do"]
    )
    environment.filters |= {
        "ds": _ds,
        "ds_nodash": _ds_nodash,
        "ts": _ts,
        "ts_nodash": _ts_nodash,
        "ts_nodash_with_tz": _ts_nodash_with_tz,
    }
    return environment


def _ds(value: datetime) -> str:
    return f"{value:%Y-%m-%d}"


def _ds_nodash(value: datetime) -> str:
    return f"{value:%Y%m%d}"


def _ts(value: datetime) -> str:
    return value.isoformat()


def _ts_nodash(value: datetime) -> str:
    return f"{value:%Y%m%dT%H%M%S}"


def _ts_nodash_with_tz(value: datetime) -> str:
    return value.isoformat().replace("-", "").replace(":", "")
