"""Triggers that poll a probe or the tables of a sitemap in Airflow's triggerer, without a worker slot."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

log = logging.getLogger(__name__)


class SitemapSourceTrigger(BaseTrigger):
    """Wait until a query returns another value than before.

    Args:
        conn_id: Airflow connection.
        sql: The query, which returns one value.
        known: The value of the last start; None fires at once.
        poll_interval: Seconds between two queries.
    """

    def __init__(self, *, conn_id: str, sql: str, known: str | None, poll_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.sql = sql
        self.known = known
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments."""
        arguments = {"conn_id": self.conn_id, "sql": self.sql, "known": self.known, "poll_interval": self.poll_interval}
        return "airflow_sitemaps.triggers.source.SitemapSourceTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the new value, or why the query is wrong. A database that is down is queried again."""
        from asgiref.sync import sync_to_async

        from airflow_sitemaps.errors import SitemapError, SourceError
        from airflow_sitemaps.sensors.polls import query_value

        while True:
            try:
                value = await sync_to_async(query_value, thread_sensitive=False)(self.conn_id, self.sql)
            except SourceError as error:
                log.warning("The next poll is in %s s. %s", self.poll_interval, error)
                await asyncio.sleep(self.poll_interval)
                continue
            except SitemapError as error:
                yield TriggerEvent({"error": f"{type(error).__name__}: {error}"})  # type: ignore[no-untyped-call]
                return
            if value != self.known:
                yield TriggerEvent({"value": value})  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(self.poll_interval)


class SitemapTablesTrigger(BaseTrigger):
    """Wait until the tables of a sitemap differ from what is published.

    Args:
        tables: The published digests, as JSON can hold them.
        recheck_at: Time (ISO 8601, UTC) at which files change though no table does. None: there is no such time.
        poll_interval: Seconds between two comparisons. The first is after this time.
    """

    def __init__(self, *, tables: Sequence[Mapping[str, Any]], recheck_at: str | None, poll_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tables = tables
        self.recheck_at = recheck_at
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments."""
        arguments = {
            "tables": [dict(table) for table in self.tables],
            "recheck_at": self.recheck_at,
            "poll_interval": self.poll_interval,
        }
        return "airflow_sitemaps.triggers.source.SitemapTablesTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: what differs, or why a table cannot be read. A database that is down is polled again."""
        from asgiref.sync import sync_to_async

        from airflow_sitemaps.errors import SitemapError, SourceError
        from airflow_sitemaps.sensors.polls import TableDigest

        tables = [TableDigest(**table) for table in self.tables]
        versions: dict[str, str | None] = {}
        while True:
            left = self._seconds_left()
            await asyncio.sleep(min(self.poll_interval, left))
            if left <= self.poll_interval:
                reason = f"files change at {self.recheck_at}, because rows are then too old or no longer in the future"
                yield TriggerEvent({"value": reason})  # type: ignore[no-untyped-call]
                return
            try:
                for table in tables:
                    poll = sync_to_async(table.poll, thread_sensitive=False)
                    versions[table.section], difference = await poll(versions.get(table.section))
                    if difference:
                        yield TriggerEvent({"value": difference})  # type: ignore[no-untyped-call]
                        return
            except SourceError as error:
                log.warning("The next poll is in %s s. %s", self.poll_interval, error)
            except SitemapError as error:
                yield TriggerEvent({"error": f"{type(error).__name__}: {error}"})  # type: ignore[no-untyped-call]
                return

    def _seconds_left(self) -> float:
        """Return the seconds until files change by age, at least 0."""
        if self.recheck_at is None:
            return float("inf")
        return max(0.0, (datetime.fromisoformat(self.recheck_at) - datetime.now(timezone.utc)).total_seconds())
