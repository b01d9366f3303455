"""The meter of a session's surveys: the bytes that BigQuery says each will scan, and the limit above which none begins."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import RefusedError, SourceConfigurationError
from airflow_sitemaps.quantities import size
from airflow_sitemaps.sources.connections.driver_errors import redacted
from airflow_sitemaps.sources.queries import survey

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.shards.key import KeyRange
    from airflow_sitemaps.sources.queries.context import QueryContext

log = logging.getLogger(__name__)


class ScanMeter:
    """The estimates of one session.

    Attributes:
        total: The bytes of all surveys that were admitted. None: none was, or the database cannot tell.
    """

    def __init__(self, context: QueryContext, ceiling: int | None) -> None:
        self._context = context
        self._ceiling = ceiling
        self.total: int | None = None

    def admit(self, connection: sa.Connection, ranges: Sequence[KeyRange]) -> None:
        """Add the estimate of a survey to the total, and log it.

        Raises:
            RefusedError: The surveys would scan more than the ceiling.
            SourceConfigurationError: There is a ceiling, and the database cannot tell what it will scan.
        """
        estimate = self._checked(connection, ranges)
        if estimate is not None:
            self.total = (self.total or 0) + estimate
            log.info("%s: the survey will scan about %s", self._context.name, size(estimate))

    def check(self, connection: sa.Connection, within: KeyRange) -> None:
        """Refuse a range whose survey would scan more than the ceiling, before the range is cut.

        Without a ceiling, query nothing.

        Raises:
            RefusedError: The survey would scan more than the ceiling.
            SourceConfigurationError: There is a ceiling, and the database cannot tell what it will scan.
        """
        if self._ceiling is not None:
            self._checked(connection, [within])

    def _checked(self, connection: sa.Connection, ranges: Sequence[KeyRange]) -> int | None:
        estimate = self._estimate(connection, ranges)
        if self._ceiling is None:
            return estimate
        name = self._context.name
        if estimate is None:
            raise SourceConfigurationError(
                f"{name}: max_scan_bytes={self._ceiling:,}: this database ({self._context.dialect.name}) cannot "
                "estimate the scan of this source's survey, so the limit cannot be enforced; only BigQuery can. Omit "
                "max_scan_bytes, and limit the statements in session=. docs/databases.md lists each database's own limit"
            )
        whole = (self.total or 0) + estimate
        if whole > self._ceiling:
            raise RefusedError(
                f"{name}: the survey would scan about {whole:,} bytes (BigQuery dry run), and the limit is "
                f"max_scan_bytes={self._ceiling:,}. It was not run, and nothing was published. Raise max_scan_bytes, or "
                "read less: fewer columns, a where= on the partition column, or change_detection='watermark'"
            )
        return estimate

    def _estimate(self, connection: sa.Connection, ranges: Sequence[KeyRange]) -> int | None:
        """Return the estimate of all statements of a survey. Return None if the database has no estimate or fails."""
        if not self._context.dialect.estimates_scans:
            return None
        total = 0
        try:
            for statement in survey.statements(self._context, ranges):
                total += self._context.dialect.scanned_bytes(connection, statement)
        except Exception as error:  # of any driver: without an estimate the survey goes on, unless there is a ceiling
            cause = redacted(connection.engine, getattr(error, "orig", None) or error)
            log.info("%s: the database cannot estimate what the survey will scan: %s", self._context.name, cause)
            return None
        return total
