"""The words that a template may use, and the error for a word that a run does not define.

The same words work in Airflow and in the shell. ``docs/templates.md`` lists them for users.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jinja2 import Environment

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
    "prev_data_interval_start_success": "{{ prev_start_date_success }}",
    "prev_data_interval_end_success": "{{ prev_end_date_success }}",
}
"""Words that Airflow defines only for a run with a logical date, each with what to write instead."""

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
    """Return what renders a text.

    Args:
        environment: The Jinja environment; an undefined word must be an error in it.
        in_shell: Whether there is no Airflow run, which the error then says.

    Returns:
        A function from a template's text to the rendered text. It raises TemplateError.
    """
    from jinja2 import TemplateError as JinjaError  # noqa: PLC0415 - not needed to parse a DAG
    from jinja2 import TemplateSyntaxError, UndefinedError  # noqa: PLC0415

    def render(text: str) -> str:
        try:
            return str(environment.from_string(text).render(words))
        except UndefinedError as error:
            raise TemplateError(_undefined(str(error.message), words, in_shell=in_shell)) from error
        except TemplateSyntaxError as error:
            raise TemplateError(f"this is not a valid Jinja template: {error.message}: {text!r}") from error
        except JinjaError as error:
            raise TemplateError(f"the template cannot be rendered: {error.message}") from error

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
    if word in LOGICAL_DATE:
        return (
            f"the template word {word!r} is not defined: this run has no logical date, as when an asset or a trigger "
            f"without a date starts it. Write {LOGICAL_DATE[word]} instead, which works in every run"
        )
    where = "in the shell" if in_shell else "in this run"
    also = " In Airflow a template knows more words than here." if in_shell else ""
    return f"the template word {word!r} is not defined {where}. These work in every run: {', '.join(EVERY_RUN)}.{also}"
