"""Jinja templates in the texts of a source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def rendered_text(render: Callable[[str], str], argument: str, text: str) -> str:
    """Render one argument's text.

    Raises:
        TemplateError: The text cannot be rendered. The message has the argument's name.
    """
    try:
        return render(text)
    except TemplateError as error:
        raise error.within(argument) from error.__cause__


def refuse_templates(query: str | None, where: str | None, parameters: Mapping[str, Any] | None) -> None:
    """Refuse texts that still hold a template: a database that compares the template as text selects other rows.

    Raises:
        TemplateError: A text holds a template. The message has the argument's name.
    """
    texts = {"query=": query, "where=": where}
    texts |= {f"parameters[{name!r}]": value for name, value in (parameters or {}).items() if isinstance(value, str)}
    for argument, text in texts.items():
        if template := TEMPLATE.search(text or ""):
            raise TemplateError(
                f"{argument}: the template {template.group()!r} is not rendered. Airflow's tasks and the shell render it; in "
                "Python pass sitemap.rendered(function), with a function from a template to its text"
            )


def run_name(run: str) -> str:
    """Return a run's name, or the empty text if the template could not be rendered."""
    return "" if "{{" in run or not run.strip("/ ") else run
