"""Checks of settings of a ``SqlSource`` that have few valid values, or that exclude other settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, get_args
from zoneinfo import ZoneInfo

from airflow_sitemaps.errors import SourceConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

Reader = Literal["auto", "cursor"]
LastmodUnit = Literal["s", "ms", "us"]


class ChoosingSource(Protocol):
    """The settings of a source that have few valid values."""

    @property
    def conn_id(self) -> str:
        """The id of the Airflow connection."""

    @property
    def reader(self) -> Reader:
        """How rows are read."""

    @property
    def session(self) -> Sequence[str]:
        """Statements that begin each session."""

    @property
    def lastmod(self) -> str | None:
        """The column with the time of the last change."""

    @property
    def lastmod_unit(self) -> LastmodUnit | None:
        """The unit of a ``lastmod`` that is a number."""

    @property
    def timezone(self) -> str:
        """The time zone of local times."""


def check_choices(source: ChoosingSource) -> None:
    """Check ``reader``, ``session``, ``lastmod_unit`` and ``timezone``.

    Args:
        source: The source.

    Raises:
        SourceConfigurationError: One of them is invalid.
    """
    if source.reader not in get_args(Reader):
        raise _refusal(source, "reader", "give 'auto' or 'cursor'")
    if isinstance(source.session, str) or any(not isinstance(sql, str) or not sql.strip() for sql in source.session):
        raise _refusal(source, "session", "give a list of statements, like [\"SET statement_timeout = '10min'\"]")
    if source.lastmod_unit is not None:
        if source.lastmod_unit not in get_args(LastmodUnit):
            raise _refusal(source, "lastmod_unit", "give 's', 'ms' or 'us'")
        if source.lastmod is None:
            raise _refusal(source, "lastmod_unit", "give lastmod= too")
    try:
        ZoneInfo(source.timezone)
    except (KeyError, ValueError, OSError, TypeError):
        raise _refusal(source, "timezone", "give an IANA name, like 'Europe/Berlin'") from None


def _refusal(source: ChoosingSource, name: str, advice: str) -> SourceConfigurationError:
    return SourceConfigurationError(f"SqlSource({source.conn_id!r}, {name}={getattr(source, name)!r}): {advice}")


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
