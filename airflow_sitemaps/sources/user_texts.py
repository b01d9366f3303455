"""What users write: names of tables, files and columns, and Jinja templates."""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from airflow_sitemaps.errors import SourceConfigurationError, TemplateError
from airflow_sitemaps.protocol.url_template import Template

NAME_PART: Final = re.compile(r'"((?:[^"]|"")+)"|`((?:[^`]|``)+)`|([^".`]+)')


def loc_columns(loc: str) -> tuple[str, ...]:
    """Return the columns that URLs need, each once. ``loc`` is a column's name, or with braces a template."""
    return Template.parse(loc).columns if "{" in loc else (loc,)


class NamePart(NamedTuple):
    """One part of a table's name. If the user wrote it in quotes, the database must not change its case."""

    text: str
    is_quoted: bool


def name_parts(table: str) -> tuple[NamePart, ...]:
    """Split a table's name into its parts, such as project, schema and table.

    Parts may be in double quotes or in backticks. Dots inside one pair of backticks separate parts, as they do in
    BigQuery: ``shop-1.mart.products`` in backticks has three parts.
    """
    parts: list[NamePart] = []
    position = 0
    while True:
        match = NAME_PART.match(table, position)
        if match is None:
            break
        parts += _parts(match)
        position = match.end()
        if position == len(table):
            return tuple(parts)
        if table[position] != ".":
            break
        position += 1
    raise SourceConfigurationError(
        f"table={table!r}: give a name like 'products', 'mart.products' or 'mart.\"my.table\"'"
    )


def _parts(match: re.Match[str]) -> list[NamePart]:
    if match[1]:
        return [NamePart(match[1].replace('""', '"'), is_quoted=True)]
    if match[2]:
        return [NamePart(text, is_quoted=True) for text in match[2].replace("``", "`").split(".")]
    return [NamePart(match[3], is_quoted=False)]


def written_name(parts: Iterable[NamePart]) -> str:
    """Return the parts as a table's name that ``name_parts`` reads back."""
    return ".".join('"' + part.text.replace('"', '""') + '"' if part.is_quoted else part.text for part in parts)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a sentence with a leading space that suggests names for one that does not exist, or "" without any."""
    names = list(dict.fromkeys(known))
    if not names:
        return ""
    folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=5, cutoff=0.5)]
    if close:
        return f" Did you mean {', '.join(map(repr, close))}?"
    shown = ", ".join(map(repr, sorted(names)[:20]))
    return f" There {'is' if len(names) == 1 else 'are'} {shown}{', …' if len(names) > 20 else ''}."


def is_absent_or_text(value: object) -> bool:
    """Return whether an optional argument is None, or a text that is not empty."""
    return value is None or (isinstance(value, str) and bool(value.strip()))


def are_columns(key: object) -> bool:
    """Return whether a key is the name of one column, or of several different ones."""
    names = [key] if isinstance(key, str) else key
    if not isinstance(names, Sequence) or not all(isinstance(name, str) and name.strip() for name in names):
        return False
    return 0 < len(names) == len(set(names))


def is_zone(name: Any) -> bool:
    """Return whether a text is the IANA name of a time zone."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):
        return False
    return True


STANDARD_LIBRARY: Final = ("dataclasses.py", "copy.py")


def callers_folder() -> str:
    """Return the folder of the nearest file on the call stack outside this package and the standard library."""
    package = str(Path(__file__).parent)
    frame = sys._getframe(1)  # noqa: SLF001 - the one way to know the caller without a base class
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<") and not name.startswith(package) and Path(name).name not in STANDARD_LIBRARY:
            return str(Path(name).absolute().parent)
        if frame.f_back is None:
            break
        frame = frame.f_back
    return str(Path.cwd())


def dag_folder() -> list[Path]:
    """Return Airflow's DAG folder if Airflow is loaded or its environment variable is set, otherwise an empty list."""
    folder = os.environ.get("AIRFLOW__CORE__DAGS_FOLDER")
    if folder is None and "airflow.configuration" in sys.modules:
        folder = import_module("airflow.configuration").conf.get("core", "dags_folder", fallback=None)
    return [Path(folder)] if folder else []


def found_file(name: str, folder: str, argument: str, *, hint: str = "") -> Path:
    """Return the first file of a name in a folder (usually the DAG file's), the current one or Airflow's DAG folder.

    ``argument`` names the file, and ``hint`` says how it is made, both for the message.
    """
    paths = dict.fromkeys(each / name for each in (Path(folder), Path.cwd(), *dag_folder()))
    for path in paths:
        if os.path.isfile(path):  # noqa: PTH113 - False in a folder that this user may not enter
            return path
    tried = ", ".join(map(str, paths))
    raise SourceConfigurationError(f"{argument}: there is no such file; tried {tried}{f'. {hint}' if hint else ''}")


def file_text(name: str, folder: str, argument: str) -> str:
    """Return the text of the file that ``found_file`` returns: UTF-8, with or without a byte order mark."""
    path = found_file(name, folder, argument)
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SourceConfigurationError(f"{argument}: {path} cannot be read as UTF-8: {error}") from None


TEMPLATE: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def rendered_text(render: Callable[[str], str], argument: str, text: str) -> str:
    """Render one argument's text. The message of a ``TemplateError`` has the argument's name."""
    try:
        return render(text)
    except TemplateError as error:
        raise error.within(argument) from error.__cause__


def refuse_templates(query: str | None, where: str | None, parameters: Mapping[str, Any] | None) -> None:
    """Refuse texts that still hold a template: a database that compares the template as text selects other rows."""
    texts = {"query=": query, "where=": where}
    texts |= {f"parameters[{name!r}]": value for name, value in (parameters or {}).items() if isinstance(value, str)}
    for argument, text in texts.items():
        if template := TEMPLATE.search(text or ""):
            raise TemplateError(
                f"{argument}: the template {template.group()!r} is not rendered. Airflow's tasks and the shell render it; in "
                "Python pass sitemap.rendered(function), with a function from a template to its text"
            )


RUN_NAMES: Final = ("{{ dag.dag_id }}/{{ run_id }}", "dag={{ dag.dag_id }} task={{ task.task_id }} run={{ run_id }}")
"""Templates of this package: of the run in which stored rows stay, and of the comment before each statement."""


def run_name(render: Callable[[str], str], template: str) -> str:
    """Return a run's name, or the empty text if the template could not be rendered."""
    try:
        run = render(template)
    except Exception:
        return ""
    return "" if "{{" in run or not run.strip("/ ") else run
