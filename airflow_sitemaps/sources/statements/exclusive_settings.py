"""Settings of a ``SqlSource`` that limit or fix what it reads, and those that they exclude."""

from __future__ import annotations

from airflow_sitemaps.errors import SourceConfigurationError


def check_exclusive(
    conn_id: str, table: str | None, materialize: str | None, ceiling: object = None, as_of: object = None
) -> None:
    """Check ``max_scan_bytes`` and ``as_of``.

    Args:
        conn_id: The source's connection, for messages.
        table: The source's table, or None.
        materialize: The schema for the rows of its query, or None.
        ceiling: Its ``max_scan_bytes``.
        as_of: Its ``as_of``.

    Raises:
        SourceConfigurationError: One of them is invalid, or another setting excludes it.
    """
    where = f"SqlSource({conn_id!r}, "
    if ceiling is not None:
        if isinstance(ceiling, bool) or not isinstance(ceiling, int) or ceiling < 1:
            raise SourceConfigurationError(f"{where}max_scan_bytes={ceiling!r}): give a whole number of bytes above 0")
        if materialize is not None:
            raise SourceConfigurationError(
                f"{where}max_scan_bytes={ceiling!r}): not with materialize=, whose query runs before there is a survey to "
                "estimate. Limit that query in session=, by a time-out for example"
            )
    if as_of is not None:
        if as_of != "plan":
            raise SourceConfigurationError(f"{where}as_of={as_of!r}): give 'plan', or omit it")
        if table is None or materialize is not None:
            raise SourceConfigurationError(
                f"{where}as_of='plan'): it needs table=, since only a table's name can be given a time. A query reads one "
                "state for the whole run with materialize= and without as_of="
            )
