"""Checks of the settings ``max_scan_bytes`` and ``as_of`` of a ``SqlSource``, which exclude other settings."""

from __future__ import annotations

from airflow_sitemaps.errors import SourceConfigurationError


def check_exclusive(
    conn_id: str, table: str | None, materialize: str | None, ceiling: object = None, as_of: object = None
) -> None:
    """Check ``max_scan_bytes`` and ``as_of``.

    Args:
        conn_id: The source's connection, for messages.
        table: The source's table, or None.
        materialize: The schema for the rows of the source's query, or None.
        ceiling: The source's ``max_scan_bytes``.
        as_of: The source's ``as_of``.

    Raises:
        SourceConfigurationError: One of them is invalid, or another setting excludes it.
    """
    where = f"SqlSource({conn_id!r}, "
    if ceiling is not None:
        if isinstance(ceiling, bool) or not isinstance(ceiling, int) or ceiling < 1:
            raise SourceConfigurationError(f"{where}max_scan_bytes={ceiling!r}): give a whole number of bytes above 0")
        if materialize is not None:
            raise SourceConfigurationError(
                f"{where}max_scan_bytes={ceiling!r}): cannot be combined with materialize=, because the query "
                "is stored before its survey can be estimated. Limit the query in session=, for example by a time-out"
            )
    if as_of is not None:
        if as_of != "plan":
            raise SourceConfigurationError(f"{where}as_of={as_of!r}): give 'plan', or omit it")
        if table is None or materialize is not None:
            raise SourceConfigurationError(
                f"{where}as_of='plan'): it needs table=, because a query cannot be read as of a time. For a query, give "
                "materialize= instead: all tasks of the run then read the same rows"
            )
