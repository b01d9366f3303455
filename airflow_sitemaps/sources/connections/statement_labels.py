"""Labels of statements: a comment that names the DAG run in the warehouse's query history, and a log line."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from airflow_sitemaps.sources.spec import SourceSpec

log = logging.getLogger(__name__)

OPTION: Final = "airflow_sitemaps_label"
QUERIES: Final = ("SELECT", "WITH", "CREATE", "INSERT")
"""The first words of statements that get a comment. Statements that set up a session stay unchanged."""
UNSAFE: Final = re.compile(r"[^\w.:+= -]")
"""Characters that a comment must not contain: they could end it, or a driver could read them as a bind."""


def labelled(engine: sa.Engine, spec: SourceSpec, section: str) -> sa.Engine:
    """Return the engine with a comment before each of its queries. The queries are logged at DEBUG.

    Args:
        spec: The source. Its ``origin`` names DAG, task and run.
    """
    words = " ".join(f"airflow-sitemaps {spec.origin} section={section}".split())
    engine = engine.execution_options(**{OPTION: f"/* {UNSAFE.sub('_', words)} */"})
    sa.event.listen(engine, "before_cursor_execute", _before, retval=True)
    return engine


def with_label(engine: sa.Engine | sa.Connection, statement: str) -> str:
    """Return a statement with its engine's comment, and log it, for cursors that SQLAlchemy does not see.

    Args:
        engine: The engine or connection that ``labelled`` returned.
    """
    if not statement.lstrip().upper().startswith(QUERIES):
        return statement
    log.debug("%s", statement)
    label = engine.get_execution_options().get(OPTION)
    return f"{label} {statement}" if label else statement


def _before(connection: sa.Connection, _cursor: Any, statement: str, parameters: Any, *_: Any) -> tuple[str, Any]:
    return with_label(connection, statement), parameters
