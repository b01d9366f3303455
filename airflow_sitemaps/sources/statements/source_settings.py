"""Checks of settings of a ``SqlSource`` that have few valid values, or that exclude other settings."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, get_args
from zoneinfo import ZoneInfo

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.statements.change_log_settings import SINCE, ChangeLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.sources.spec import SourceSpec

Reader = Literal["auto", "cursor"]
LastmodUnit = Literal["s", "ms", "us"]


def check_choices(
    conn_id: str, reader: str, session: Sequence[str], lastmod: str | None, lastmod_unit: str | None, timezone: str
) -> None:
    """Check settings that have few valid values.

    Args:
        reader: The source's ``reader``.
        session: The source's ``session``.
        lastmod: The source's ``lastmod``.
        lastmod_unit: The source's ``lastmod_unit``.
        timezone: The source's ``timezone``.

    Raises:
        SourceConfigurationError: One of them is invalid.
    """
    if reader not in get_args(Reader):
        raise _refusal(conn_id, "reader", reader, "give 'auto' or 'cursor'")
    if isinstance(session, str) or any(not isinstance(sql, str) or not sql.strip() for sql in session):
        raise _refusal(
            conn_id, "session", session, "give a list of statements, like [\"SET statement_timeout = '10min'\"]"
        )
    if lastmod_unit is not None:
        if lastmod_unit not in get_args(LastmodUnit):
            raise _refusal(conn_id, "lastmod_unit", lastmod_unit, "give 's', 'ms' or 'us'")
        if lastmod is None:
            raise _refusal(conn_id, "lastmod_unit", lastmod_unit, "give lastmod= too")
    try:
        ZoneInfo(timezone)
    except (KeyError, ValueError, OSError, TypeError):
        raise _refusal(conn_id, "timezone", timezone, "give an IANA name, like 'Europe/Berlin'") from None


def _refusal(conn_id: str, name: str, value: object, advice: str) -> SourceConfigurationError:
    return SourceConfigurationError(f"SqlSource({conn_id!r}, {name}={value!r}): {advice}")


def check_exclusive(
    conn_id: str, table: str | None, materialize: str | None, ceiling: object = None, as_of: object = None
) -> None:
    """Check ``max_scan_bytes`` and ``as_of``.

    Args:
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
                "is stored before its survey can be estimated. Limit the query in session=, for example with a time-out"
            )
    if as_of is not None:
        if as_of != "plan":
            raise SourceConfigurationError(f"{where}as_of={as_of!r}): give 'plan', or omit it")
        if table is None or materialize is not None:
            raise SourceConfigurationError(
                f"{where}as_of='plan'): it needs table=, because a query cannot be read as of a time. For a query, give "
                "materialize= instead: all tasks of the run then read the same rows"
            )


def check_source(source: SourceSpec) -> None:
    """Check that a source can have its change log.

    Args:
        source: The source, whose ``change_log`` is set.

    Raises:
        SourceConfigurationError: It cannot. The message says what to omit.
    """
    change_log, where = source.change_log, f"SqlSource({source.conn_id!r}, change_log=)"
    if not isinstance(change_log, ChangeLog):
        raise SourceConfigurationError(
            f"{where}: give ChangeLog(table=…, position=…) or ChangeLog(query=…, position=…)"
        )
    if len(change_log.key_columns(source.key)) != len(source.key):
        raise SourceConfigurationError(
            f"{where}: key={change_log.key!r} has another number of columns than the source's key "
            f"({', '.join(source.key)})"
        )
    if SINCE in source.parameters:
        raise SourceConfigurationError(f"{where}: parameters= holds {SINCE!r}, the name of the last position")
    if source.group is not None:
        raise SourceConfigurationError(
            f"{where}: it cannot be used with group=: a change of one row changes the entries of its whole group, which "
            "the change log does not name. Collect the versions in the query, write all their keys to the change log, or omit change_log="
        )
    if source.as_of:
        raise SourceConfigurationError(
            f"{where}: it cannot be used with as_of=: the state that the plan reads is older than the change log. Omit one of the "
            "two"
        )
    if source.materialize is not None:
        raise SourceConfigurationError(
            f"{where}: it cannot be used with materialize=: the stored rows are older than the change log. Omit one of the two"
        )


def change_log_identity(source: SourceSpec, change_log: ChangeLog | None) -> str:
    """Return a hash of all that a position in the change log depends on: the change log, and which rows the source selects.

    The change log's own texts count as they are before they are rendered.

    Args:
        change_log: The change log before its texts were rendered, or None.
    """
    if change_log is None:
        return ""
    parameters = sorted((name, str(value)) for name, value in source.parameters.items())
    rows = [source.conn_id, source.table, source.query, source.where, parameters]
    return sha256(json.dumps([change_log.identity(), rows], default=str).encode()).hexdigest()
