"""Jinja templates in the texts of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable


def rendered_text(render: Callable[[str], str], argument: str, text: str) -> str:
    """Render one argument's text.

    Args:
        render: The function that renders a template.
        argument: The argument's name, for the message.
        text: The template.

    Raises:
        TemplateError: The text cannot be rendered. The message has the argument's name.
    """
    try:
        return render(text)
    except TemplateError as error:
        raise error.within(argument) from error.__cause__


def run_name(run: str) -> str:
    """Return a run's name, or the empty text if the template could not be rendered."""
    return "" if "{{" in run or not run.strip("/ ") else run
