"""The freshness of a sitemap as an Airflow deadline: the alert, its reference and its notifier. Needs Airflow 3.3."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.airflow_compat import BaseDeadlineReference
from airflow_sitemaps.errors import ConfigurationError, SitemapError
from airflow_sitemaps.http.destinations import AccessRules
from airflow_sitemaps.notifications import message
from airflow_sitemaps.notifications.notifier import SitemapNotifier
from airflow_sitemaps.operators.facts import is_dry_run
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.stores.s3 import S3Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_sitemaps.notifications.message import SitemapMessage
    from airflow_sitemaps.ports import StoreConfig
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


def freshness_deadline(
    sitemap: Sitemap, *, targets: Iterable[Mapping[str, Any]], access: AccessRules | None = None
) -> Any:
    """Return an Airflow deadline alert for a sitemap's DAG: ``DAG(…, deadline=freshness_deadline(…))``.

    The deadline of a run is the end of the DAG's last successful run plus ``Sitemap(freshness=…)``. If no run has
    succeeded by then, Airflow's triggerer requests the index over HTTP, and sends a message if the index is older than
    the objective. Only one run at a time carries the deadline, so several failed runs cause one message.

    Args:
        sitemap: The sitemap, with ``freshness`` set, in an ``S3Store`` or a ``LocalStore``.
        targets: Notifiers, as in ``SitemapNotifier(targets=…)``.
        access: Addresses that may be requested. Default: public https addresses only.

    Raises:
        ConfigurationError: The sitemap has no objective, or another kind of store.
    """
    from airflow.sdk.definitions.callback import AsyncCallback  # noqa: PLC0415 - 3.1 has it elsewhere
    from airflow.sdk.definitions.deadline import DeadlineAlert  # noqa: PLC0415

    if sitemap.freshness is None:
        raise ConfigurationError("freshness_deadline needs the objective: give Sitemap(freshness=timedelta(…))")
    objective_s = sitemap.freshness.total_seconds()
    rules = access or AccessRules()
    served = {
        "store": settings_of(sitemap.store),
        "max_age_s": objective_s,
        "allow_http": rules.allow_http,
        "allow_private": rules.allow_private,
    }
    kwargs = {"sitemap": sitemap.index_url, "targets": [dict(target) for target in targets], "served": served}
    return DeadlineAlert(
        reference=LastSuccessDeadline(objective_s=objective_s),
        interval=sitemap.freshness,
        callback=AsyncCallback(ServedAgeNotifier, kwargs=kwargs),
        name=f"Freshness of {sitemap.index_url}",
    )


@dataclass(frozen=True, eq=False)
class LastSuccessDeadline(BaseDeadlineReference):
    """The end of the DAG's last successful run. Dry runs do not count. Without one, the start of its first run.

    A run has no deadline while another run of the DAG carries the same one.

    Attributes:
        objective_s: Seconds that the deadline is after the reference. Default: 0.
    """

    objective_s: float = 0.0

    required_kwargs = {"dag_id", "run_id"}  # noqa: RUF012 - Airflow's name; without an annotation it is no field

    def serialize_reference(self) -> dict[str, Any]:
        """Return the reference as JSON values."""
        return {"reference_type": type(self).__name__, **asdict(self)}

    @classmethod
    def deserialize_reference(cls, reference_data: dict[str, Any]) -> LastSuccessDeadline:
        """Return the reference of JSON values."""
        return cls(objective_s=float(reference_data["objective_s"]))

    def _evaluate_with(self, *, session: Any, dag_id: str, run_id: str) -> datetime | None:
        """Return the reference for a new run, in Airflow's scheduler."""
        from airflow.models.dagrun import DagRun  # noqa: PLC0415 - only where Airflow's database is
        from airflow.models.deadline import Deadline  # noqa: PLC0415
        from sqlalchemy import select  # noqa: PLC0415

        of_dag = select(DagRun).where(DagRun.dag_id == dag_id)
        succeeded = of_dag.where(DagRun.state == "success", DagRun.end_date.is_not(None))
        ended = session.scalars(succeeded.order_by(DagRun.end_date.desc()).limit(100))
        last = next((run.end_date for run in ended if not is_dry_run(run.conf or {})), None)
        if last is None:
            first = session.scalars(of_dag.order_by(DagRun.id).limit(1)).first()
            last = (first.queued_at if first is not None else None) or datetime.now(timezone.utc)
        pending = (
            select(Deadline.id)
            .join(DagRun, Deadline.dagrun_id == DagRun.id)
            .where(
                DagRun.dag_id == dag_id,
                DagRun.run_id != run_id,
                Deadline.missed.is_(False),
                Deadline.deadline_time == last + timedelta(seconds=self.objective_s),
            )
        )
        return None if session.scalars(pending.limit(1)).first() is not None else last


class ServedAgeNotifier(SitemapNotifier):
    """Send a message if an index is too old as served over HTTP. For deadline alerts; see ``freshness_deadline``.

    Args:
        served: Where the sitemap is published, its largest age in seconds, and the addresses that may be requested.
        **kwargs: Arguments of ``SitemapNotifier``.
    """

    def __init__(self, *, served: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.served = served

    async def async_notify(self, context: Any) -> None:
        """Check the age, and send the message from the triggerer."""
        from asgiref.sync import sync_to_async  # noqa: PLC0415 - a dependency of Airflow

        stale = await sync_to_async(self._stale, thread_sensitive=False)()
        if stale:
            await super().async_notify({**context, "stale_indexes": stale})

    def notify(self, context: Any) -> None:
        """Check the age, and send the message."""
        stale = self._stale()
        if stale:
            super().notify({**context, "stale_indexes": stale})

    def _message(self, context: Any) -> SitemapMessage:
        limit = str(timedelta(seconds=self.served["max_age_s"]))
        return message.of_stale_index(self.sitemap_name, context["stale_indexes"], limit, self.link(context))

    def _stale(self) -> list[str]:
        """Return one line for each index that is too old or cannot be read."""
        from airflow_sitemaps.http.client import HttpClient  # noqa: PLC0415 - not needed to parse a DAG
        from airflow_sitemaps.verification.freshness import served_indexes  # noqa: PLC0415

        rules = AccessRules(allow_http=self.served["allow_http"], allow_private=self.served["allow_private"])
        try:
            indexes = served_indexes(
                store_of(self.served["store"]), HttpClient(rules=rules), datetime.now(timezone.utc)
            )
        except SitemapError as error:
            return [f"Its age is unknown: {type(error).__name__}: {error}"]
        lines = []
        for index in indexes:
            age = "unknown" if index.age_s is None else str(timedelta(seconds=int(index.age_s)))
            log.info("%s: age %s; %s", index.url, age, index.message)
            if index.age_s is None or index.age_s > self.served["max_age_s"]:
                lines.append(f"{index.url}: age {age}; {index.message}")
        return lines


def settings_of(store: StoreConfig) -> dict[str, Any]:
    """Return the settings of a store that reading it needs, as JSON values.

    Raises:
        ConfigurationError: The store is neither an ``S3Store`` nor a ``LocalStore``.
    """
    common = {"base_url": store.base_url, "index_name": store.index_name}
    if isinstance(store, S3Store):
        return {
            **common, "url": store.public.url, "state_url": store.state.url, "conn_id": store.conn_id,
            "expected_bucket_owner": store.expected_bucket_owner,
        }  # fmt: skip
    if isinstance(store, LocalStore):
        state_dir = store.state_dir
        return {
            **common,
            "path": str(store.path.expanduser().absolute()),
            "state_dir": None if state_dir is None else str(state_dir),
        }
    raise ConfigurationError(f"{store.describe()}: freshness_deadline needs an S3Store or a LocalStore")


def store_of(settings: Mapping[str, Any]) -> StoreConfig:
    """Return the store of the settings that ``settings_of`` returned."""
    return S3Store(**settings) if "url" in settings else LocalStore(**settings)
