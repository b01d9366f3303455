"""The meter of a session's surveys: the estimated scan of each survey, and the limit above which no survey begins."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import RefusedError, SourceConfigurationError
from airflow_sitemaps.quantities import size
from airflow_sitemaps.sources.connections.driver_errors import redacted
from airflow_sitemaps.sources.queries import survey
from airflow_sitemaps.sources.scans import (
    bigquery_dry_run,
    clickhouse_explain,
    mysql_explain,
    postgresql_explain,
    snowflake_explain,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import KeyRange
    from airflow_sitemaps.shards.scan_estimate import ScanEstimate
    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.statements.binds import Statement

log = logging.getLogger(__name__)

ESTIMATORS: Final[dict[str, Callable[[QueryContext, sa.Connection, Statement], ScanEstimate | None]]] = {
    "bigquery": bigquery_dry_run.estimate,
    "clickhouse": clickhouse_explain.estimate,
    "mysql": mysql_explain.estimate,
    "postgresql": postgresql_explain.estimate,
    "snowflake": snowflake_explain.estimate,
}
"""The estimate of one statement, by dialect. Other databases do not say what a statement will scan."""


class ScanMeter:
    """The estimates of one session.

    Attributes:
        total: The sum of the surveys that were admitted. None: none was, or the database cannot tell.
    """

    def __init__(self, context: QueryContext, ceiling: int | None) -> None:
        """Keep the ceiling.

        Args:
            context: The source.
            ceiling: The largest number of bytes that the surveys of the session may scan, or None.
        """
        self._context = context
        self._ceiling = ceiling
        self.total: ScanEstimate | None = None

    def admit(self, connection: sa.Connection, ranges: Sequence[KeyRange]) -> None:
        """Add the estimate of a survey to the total, and log it.

        Args:
            connection: A connection in a transaction.
            ranges: The ranges to survey.

        Raises:
            RefusedError: The surveys would scan more than the ceiling.
            SourceConfigurationError: There is a ceiling, and the database cannot tell what it will scan.
        """
        estimate = self._checked(connection, ranges)
        if estimate is not None:
            self.total = estimate if self.total is None else self.total + estimate
            log.info(
                "%s: the survey will scan about %s (%s)", self._context.name, size(estimate.byte_size), estimate.basis
            )

    def check(self, connection: sa.Connection, within: KeyRange) -> None:
        """Refuse a range whose survey would scan more than the ceiling, before the range is cut.

        Without a ceiling, query nothing.

        Args:
            connection: A connection in a transaction.
            within: The range.

        Raises:
            RefusedError: The survey would scan more than the ceiling.
            SourceConfigurationError: There is a ceiling, and the database cannot tell what it will scan.
        """
        if self._ceiling is not None:
            self._checked(connection, [within])

    def _checked(self, connection: sa.Connection, ranges: Sequence[KeyRange]) -> ScanEstimate | None:
        estimate = self._estimate(connection, ranges)
        if self._ceiling is None:
            return estimate
        name = self._context.name
        if estimate is None:
            raise SourceConfigurationError(
                f"{name}: max_scan_bytes={self._ceiling:,}: this database ({self._context.dialect.name}) cannot "
                "estimate the scan of this source's survey, so the limit cannot be enforced. Omit max_scan_bytes, and limit "
                "the statements in session=, for example with a time-out. docs/databases.md lists the databases with estimates"
            )
        whole = estimate if self.total is None else self.total + estimate
        if whole.byte_size > self._ceiling:
            raise RefusedError(
                f"{name}: the survey would scan about {whole.byte_size:,} bytes ({whole.basis}), and the limit is "
                f"max_scan_bytes={self._ceiling:,}. It was not run, and nothing was published. Raise max_scan_bytes, or "
                "read less: fewer columns, a where= on the partition column, or change_detection='watermark'"
            )
        return estimate

    def _estimate(self, connection: sa.Connection, ranges: Sequence[KeyRange]) -> ScanEstimate | None:
        """Return the estimate of all statements of a survey. Return None if the database has no estimate or fails."""
        of_statement = ESTIMATORS.get(self._context.dialect.name)
        if of_statement is None:
            return None
        total: ScanEstimate | None = None
        try:
            for statement in survey.statements(self._context, ranges):
                part = of_statement(self._context, connection, statement)
                if part is None:
                    return None
                total = part if total is None else total + part
        except Exception as error:  # of any driver: without an estimate the survey goes on, unless there is a ceiling
            cause = redacted(connection.engine, getattr(error, "orig", None) or error)
            log.info("%s: the database cannot estimate what the survey will scan: %s", self._context.name, cause)
            return None
        return total
