"""The trigger that polls a probe in Airflow's triggerer, without a worker slot."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
        return "airflow_sitemaps.sensors.trigger.SitemapSourceTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event: the new value, or why the query is wrong. A database that is down is queried again."""
        from asgiref.sync import sync_to_async

        from airflow_sitemaps.errors import SitemapError, SourceError
        from airflow_sitemaps.sensors.probe import query_value

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
