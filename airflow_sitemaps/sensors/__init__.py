"""The sensor that waits until the data of a sitemap has changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, Context

from airflow_sitemaps import setting_checks
from airflow_sitemaps.airflow_compat import AirflowFailException, default_deferrable
from airflow_sitemaps.errors import ConfigurationError, ConnectionNotFoundError, SourceConfigurationError, SourceError
from airflow_sitemaps.operators.base import SitemapOperator, permanent_failures
from airflow_sitemaps.operators.plan import listed

if TYPE_CHECKING:
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapSourceSensor(SitemapOperator, BaseSensorOperator):
    """Wait until a sitemap's data differs from what is published.

    Without ``probe``, the sensor plans a dry run. It succeeds if a build would change something, or would finish the
    promotion of an earlier run. In deferrable mode the triggerer then compares the digest of each whole table with that of
    the published rows, without a worker slot. It also wakes the sensor when files change only because time passes. If the
    engine has an exact version of a table, the table is read only when its version has moved.

    The triggerer cannot compare every source: a ``ListSource``, a source of your own, ``materialize=``, ``change_log=``,
    ``rewrite_after=``, parameters such as dates, and any ``change_detection`` but ``"digest"`` need a plan. If a section has
    one of these, the sensor plans at each poke, in a worker. In the default mode ``reschedule``, it holds no worker slot between two pokes.

    With ``probe``, it compares the first row of a query, such as ``SELECT max(updated_at) FROM products`` or the
    engine's own version of a table. It succeeds when a value differs from the last start, or when a section
    has not been published or found unchanged since. In deferrable mode the triggerer polls, without a worker slot.

    Args:
        sitemap: The sitemap.
        sections: Sections that the DAG publishes: a list, or one text with commas; empty means all. Without ``probe`` the
            sensor plans these. With it, a run of other sections does not count as a run since the last start.
        probe: A query that returns one row, mostly of one value; a Jinja template. Default: none.
        conn_id: Connection of the probe. Default: that of the sitemap's first section.
        deferrable: Whether the triggerer polls. Default: Airflow's ``[operators] default_deferrable``.
        **kwargs: Arguments of Airflow's ``BaseSensorOperator``, such as ``poke_interval`` and ``timeout`` in seconds. With
            ``soft_fail``, the task is skipped at the timeout; it still fails if a query or a setting is wrong.

    Raises:
        ConfigurationError: A section does not exist, or a probe has no connection.
    """

    template_fields: Sequence[str] = ("sections", "probe", "conn_id")

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        sections: Sequence[str] | str = (),
        probe: str | None = None,
        conn_id: str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        defaults = {"mode": "reschedule", "poke_interval": 300, **kwargs.pop("default_args")}
        super().__init__(sitemap=sitemap, default_args=defaults, **kwargs)
        if not self.is_open(sections):
            self.check_sections("sections", listed(sections))
        first = getattr(sitemap.sections[0].source, "conn_id", None)
        if probe is not None and not str(probe).strip():
            raise ConfigurationError(f"{self.named}: probe={probe!r}; give a query that returns one value")
        if probe is not None and not (conn_id or first):
            raise ConfigurationError(
                f"{self.named}: probe= needs conn_id=, because the first section has no connection"
            )
        self.sections = sections
        self.probe = probe
        self.conn_id = conn_id or first
        self.deferrable = default_deferrable() if deferrable is None else deferrable
        setting_checks.flag(self.named, "deferrable", self.deferrable)

    def execute(self, context: Context) -> Any:
        """Wait for a change. In deferrable mode, the triggerer polls."""
        if not self.deferrable:
            return super().execute(context)
        if self.probe is None:
            return self._wait_for_tables(context)
        from airflow_sitemaps.triggers import SitemapSourceTrigger, last_mark

        with permanent_failures(context):
            mark = last_mark(self.sitemap, self._mark_name(context), listed(self.sections))
        trigger = SitemapSourceTrigger(
            conn_id=str(self.conn_id),
            sql=self.probe,
            known=mark.value if mark is not None else None,
            poll_interval=float(self.poke_interval),
        )
        return self.defer(trigger=trigger, method_name="moved", timeout=timedelta(seconds=self.timeout))

    def _wait_for_tables(self, context: Context) -> Any:
        from airflow_sitemaps.triggers import SitemapTablesTrigger, in_worker, published

        with permanent_failures(context):
            sitemap = self.rendered(context)
            reason = in_worker(sitemap, listed(self.sections))
        if reason:
            log.info("The sensor plans at each poke, in a worker: %s", reason)
            return super().execute(context)
        if self.poke(context):
            return None
        with permanent_failures(context):
            tables, recheck_at = published(sitemap, listed(self.sections))
        trigger = SitemapTablesTrigger(
            tables=[asdict(table) for table in tables],
            recheck_at=recheck_at.isoformat() if recheck_at is not None else None,
            poll_interval=float(self.poke_interval),
        )
        return self.defer(trigger=trigger, method_name="differs", timeout=timedelta(seconds=self.timeout))

    def differs(self, context: Context, event: dict[str, Any]) -> str:
        """Return how the tables differ from what is published, by the trigger's event; fail if one cannot be read."""
        with self._failures(context):
            value = _value_of(event)
        log.info("The run starts: %s", value)
        return value

    def moved(self, context: Context, event: dict[str, Any]) -> str:
        """Record the new value of the trigger's event, at which the run starts, and return it; fail if the query did."""
        with self._failures(context):
            value = _value_of(event)
        self._record(context, value)
        return value

    def poke(self, context: Context) -> bool:
        """Return whether the data has changed. While the database is down, the sensor continues to wait."""
        with self._failures(context):
            try:
                return self._has_moved(context) if self.probe is not None else self._plan_changes(context)
            except SourceError as error:
                log.warning("The sensor continues to wait. %s", error)
                return False

    @contextmanager
    def _failures(self, context: Context) -> Iterator[None]:
        """Treat errors as ``permanent_failures`` does, and fail the task in spite of ``soft_fail``."""
        try:
            with permanent_failures(context):
                yield
        except AirflowFailException:
            self.soft_fail = False  # Airflow reads it after the error, and would skip the task
            raise

    def _plan_changes(self, context: Context) -> bool:
        from airflow_sitemaps.pipeline import stages
        from airflow_sitemaps.pipeline.request import RunRequest
        from airflow_sitemaps.pipeline.state.repository import StateRepository

        manifest = StateRepository(self.sitemap.store.open().state).manifest()
        if manifest is not None and not manifest.promoted:
            log.info("%s: generation %d is not completely public; a run finishes it", self.sitemap, manifest.generation)
            return True
        plan = stages.plan(self.rendered(context), RunRequest(sections=listed(self.sections), dry_run=True))
        log.info("%s: a build would %s", self.sitemap, "change something" if plan.changes else "find nothing to change")
        return bool(plan.changes)

    def _has_moved(self, context: Context) -> bool:
        from airflow_sitemaps.triggers import last_mark, query_value

        value = query_value(str(self.conn_id), str(self.probe))
        mark = last_mark(self.sitemap, self._mark_name(context), listed(self.sections))
        if mark is not None and mark.value == value:
            log.info("The probe still returns %r, as at %s", value, mark.at)
            return False
        self._record(context, value)
        return True

    def _record(self, context: Context, value: str) -> None:
        from airflow_sitemaps.triggers import ProbeMark, record_mark

        log.info("The probe returns %r; the run starts", value)
        now = datetime.now(timezone.utc).isoformat()
        record_mark(self.sitemap, self._mark_name(context), ProbeMark(value=value, at=now), listed(self.sections))

    def _mark_name(self, context: Context) -> str:
        number = getattr(context["ti"], "map_index", -1)
        return f"{context['ti'].dag_id}.{self.task_id}" + (f".{number}" if number >= 0 else "")


def _value_of(event: dict[str, Any]) -> str:
    """Return the value of a trigger's event, or raise its error."""
    if "error" in event:
        raise (ConnectionNotFoundError if event.get("retryable") else SourceConfigurationError)(event["error"])
    return str(event["value"])
