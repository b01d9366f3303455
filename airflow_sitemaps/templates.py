"""Templates: the words that a run and the shell define alike (docs/templates.md), and the error for all others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import TemplateError, TemplateValueError
from airflow_sitemaps.sources.user_texts import RUN_NAMES

if TYPE_CHECKING:
    from jinja2 import Environment

    from airflow_sitemaps.sitemap import Sitemap

EVERY_RUN: Final = ("run_after", "params", "var", "conn")
"""Words that work in every kind of run and in the shell."""

LOGICAL_DATE: Final[Mapping[str, str]] = {
    "ds": "{{ run_after | ds }}",
    "ds_nodash": "{{ run_after | ds_nodash }}",
    "ts": "{{ run_after | ts }}",
    "ts_nodash": "{{ run_after | ts_nodash }}",
    "ts_nodash_with_tz": "{{ run_after | ts_nodash_with_tz }}",
    "logical_date": "{{ run_after }}",
    "data_interval_start": "{{ run_after }}",
    "data_interval_end": "{{ run_after }}",
}
"""Words that Airflow defines only for a run with a logical date, each with what to write instead."""

EARLIER_RUN: Final = re.compile(r"prev_(start_date|end_date|data_interval_start|data_interval_end)_success")
"""Words of the last successful run with an earlier logical date. Each is a proxy, which calls Airflow when it is used."""

ENDS_TASK: Final = frozenset({"AirflowSkipException", "AirflowFailException"})
"""Airflow's errors that say how the task ends."""

_UNDEFINED: Final = re.compile(r"'(\w+)' is undefined")
_ATTRIBUTE: Final = re.compile(r"has no attribute '(\w+)'")


def words_of_run(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of an Airflow run: its context, and ``run_after``.

    A word that needs a logical date and is None is left out: as text it would put ``None`` into the SQL.
    """
    words = {name: context[name] for name in context if name not in LOGICAL_DATE or context[name] is not None}
    run = words.get("dag_run")
    if run is not None and "run_after" not in words:
        words["run_after"] = run.run_after
    return words


def renderer(environment: Environment, words: Mapping[str, Any], *, in_shell: bool = False) -> Callable[[str], str]:
    """Return a function that renders a template or raises TemplateError. A word without a value is an error."""
    from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError  # noqa: PLC0415 - not for a DAG
    from jinja2 import TemplateError as JinjaError  # noqa: PLC0415
    from jinja2.runtime import Context  # noqa: PLC0415

    class NoEarlierRun(StrictUndefined):
        __bool__ = Undefined.__bool__  # type: ignore[assignment]  # false like None, for {% if word %}

    class Words(Context):
        def resolve_or_missing(self, key: str) -> Any:
            value = super().resolve_or_missing(key)
            is_none = EARLIER_RUN.fullmatch(key) and getattr(value, "__wrapped__", value) is None
            return NoEarlierRun(name=key) if is_none else value

    environment = environment.overlay(undefined=StrictUndefined)
    environment.context_class = Words
    plain = environment.overlay(variable_start_string="{{", variable_end_string="}}")  # a DAG may have other delimiters

    def render(text: str) -> str:
        try:
            return str((plain if text in RUN_NAMES else environment).from_string(text).render(words))
        except UndefinedError as error:
            raise TemplateError(_undefined(str(error.message), words, in_shell=in_shell)) from error
        except TemplateSyntaxError as error:
            raise TemplateError(f"this is not a valid Jinja template: {error.message}: {text!r}") from error
        except JinjaError as error:
            raise TemplateError(f"the template cannot be rendered: {error.message}") from error
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError) as error:
            raise TemplateError(f"the template cannot be rendered: {type(error).__name__}: {error}") from error
        except Exception as error:
            kinds = {kind.__name__ for kind in type(error).__mro__}  # a macro may skip the task
            if type(error).__module__.partition(".")[0] != "airflow" or kinds & ENDS_TASK:
                raise
            raise TemplateValueError(f"the template cannot be rendered: {error}") from error

    return render


def _undefined(message: str, words: Mapping[str, Any], *, in_shell: bool) -> str:
    """Say which word is not defined, why, and what to write instead."""
    if (match := _UNDEFINED.search(message)) is None:
        attribute = _ATTRIBUTE.search(message)
        params = words.get("params")
        if attribute is not None and attribute[1] not in (params or {}):
            names = ", ".join(params or {}) or "none"
            return f"the template word {attribute[1]!r} is not defined ({message}). The params are: {names}"
        return f"the template cannot be rendered: {message}"
    word = match[1]
    if EARLIER_RUN.fullmatch(word) and not in_shell:
        return (
            f"the template word {word!r} has no value: no run with an earlier logical date succeeded, or this run has no "
            f"logical date. Write {{% if {word} is defined %}} around the part that uses it"
        )
    if word in LOGICAL_DATE:
        return (
            f"the template word {word!r} is not defined: this run has no logical date, as when an asset or a trigger "
            f"without a date starts it. Write {LOGICAL_DATE[word]} instead, which works in every run"
        )
    where = "in the shell" if in_shell else "in this run"
    also = " In Airflow a template knows more words than here." if in_shell else ""
    return f"the template word {word!r} is not defined {where}. These work in every run: {', '.join(EVERY_RUN)}.{also}"


def rendered(sitemap: Sitemap, now: datetime, params: Mapping[str, Any] | None = None) -> Sitemap:
    """Render the SQL of a sitemap's sources in the shell, as a run of its DAG at ``now`` would."""
    return sitemap.rendered(renderer(shell_environment(), _words(now, dict(params or {})), in_shell=True))


def shell_environment() -> Environment:
    """Return an environment with Airflow's filters."""
    from jinja2.sandbox import SandboxedEnvironment  # noqa: PLC0415 - not needed to parse a DAG

    environment = SandboxedEnvironment(keep_trailing_newline=True, extensions=["jinja2.ext.do"])
    environment.filters |= _FILTERS
    return environment


def _words(now: datetime, params: dict[str, Any]) -> dict[str, Any]:
    moments = dict.fromkeys(("run_after", "logical_date", "data_interval_start", "data_interval_end"), now)
    return {
        **moments,
        **{name: text(now) for name, text in _FILTERS.items()},
        "params": params,
        "var": SimpleNamespace(
            value=_Defined("variable", lambda sdk, name: sdk.Variable.get(name)),
            json=_Defined("variable", lambda sdk, name: sdk.Variable.get(name, deserialize_json=True)),
        ),
        "conn": _Defined("connection", lambda sdk, name: sdk.Connection.get(name)),
        "dag_run": SimpleNamespace(**moments, conf={}, run_type="manual"),
    }


_NO_DEFAULT: Final = object()


class _Defined:
    """Airflow's variables or connections by name, as ``var.value``, ``var.json`` and ``conn``."""

    def __init__(self, what: str, look_up: Callable[[Any, str], Any]) -> None:
        self._what = what
        self._look_up = look_up

    def __getattr__(self, name: str) -> Any:
        from airflow import sdk  # noqa: PLC0415 - Airflow takes seconds to import

        from airflow_sitemaps.airflow_compat import AirflowException, AirflowRuntimeError  # noqa: PLC0415

        try:
            return self._look_up(sdk, name)
        except (AirflowException, AirflowRuntimeError, KeyError):
            variable = f"AIRFLOW_{'VAR' if self._what == 'variable' else 'CONN'}_{name.upper()}"
            raise TemplateError(
                f"the Airflow {self._what} {name!r} is not defined; set it in Airflow, or as {variable}"
            ) from None

    def get(self, name: str, default: Any = _NO_DEFAULT, *, default_conn: Any = _NO_DEFAULT) -> Any:
        """Return a value, or the default, of which each of Airflow's look-ups has its own name, if there is none."""
        given = default if default_conn is _NO_DEFAULT else default_conn
        try:
            return self.__getattr__(name)
        except TemplateError:
            if given is _NO_DEFAULT:
                raise
            return given


_FILTERS: Final[Mapping[str, Callable[[datetime], str]]] = {
    "ds": lambda moment: f"{moment:%Y-%m-%d}",
    "ds_nodash": lambda moment: f"{moment:%Y%m%d}",
    "ts": lambda moment: moment.isoformat(),
    "ts_nodash": lambda moment: f"{moment:%Y%m%dT%H%M%S}",
    "ts_nodash_with_tz": lambda moment: moment.isoformat().replace("-", "").replace(":", ""),
}
"""Airflow's filters of times, which are also words of a logical date."""
