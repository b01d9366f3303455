"""The notifier of runs: it sends a message about each by any of Airflow's notifiers."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from airflow.sdk.bases.notifier import BaseNotifier
from asgiref.sync import sync_to_async

from airflow_sitemaps import setting_checks
from airflow_sitemaps.airflow_compat import api_base_url
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.notifications import message
from airflow_sitemaps.notifications.message import SitemapMessage
from airflow_sitemaps.operators import FAILED, QUESTIONS, REFUSED
from airflow_sitemaps.operators.base import own_name
from airflow_sitemaps.operators.links import run_page
from airflow_sitemaps.operators.publish import NoPlanError, SitemapPublishOperator, SitemapRollbackOperator

if TYPE_CHECKING:
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapNotifier(BaseNotifier):
    """Send a short message about a run of a sitemap: what was published, refused or failed, why, and what to do.

    Use it in ``on_success_callback`` and ``on_failure_callback`` of a DAG or task, and in deadline alerts. The message
    is written to the log. The templates of other notifiers receive it as the variable ``sitemap``: ``sitemap.title``,
    ``sitemap.text``, ``sitemap.slack`` and ``sitemap.html``. A notifier that fails does not keep the others from
    sending.

    Args:
        *notifiers: Notifiers that send the message.
        targets: The same notifiers as mappings of a class path (``notifier``) and its arguments. Deadline alerts need
            this form, because Airflow stores their arguments as JSON. Default: none.
        sitemap: The sitemap, or its name in the message. Default: the DAG, with all its sitemaps.
        unchanged: Whether runs that find nothing to change send a message too. Default: False.
        context: Context of a deadline alert, which Airflow passes.

    Raises:
        ConfigurationError: A mapping names no class.
    """

    def __init__(
        self,
        *notifiers: BaseNotifier,
        sitemap: Sitemap | str | None = None,
        unchanged: bool = False,
        targets: Iterable[Mapping[str, Any]] = (),
        context: Any = None,
    ) -> None:
        super().__init__(context)
        self.notifiers: tuple[Any, ...] = (*notifiers, *(targets if isinstance(targets, Iterable) else [targets]))
        for target in self.notifiers:
            path = target.get("notifier") if isinstance(target, Mapping) else None
            if not isinstance(target, BaseNotifier) and not isinstance(path, str):
                raise ConfigurationError(
                    f"SitemapNotifier: {target!r} is neither a notifier nor a mapping that names the class of a notifier, like "
                    "{'notifier': 'airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier', …}"
                )
        self.sitemap_name: Any = getattr(sitemap, "index_url", "" if sitemap is None else sitemap)
        if not isinstance(self.sitemap_name, str):
            raise ConfigurationError(f"SitemapNotifier: sitemap={sitemap!r}; give a Sitemap, or its name as a text")
        setting_checks.flag("SitemapNotifier", "unchanged", unchanged)
        self.unchanged = unchanged

    def notify(self, context: Any) -> None:
        """Send the message through all notifiers."""
        text = self.message(context)
        if text is None:
            return
        for notifier in self._senders():
            with _others_still_send(notifier):
                notifier({**context, "sitemap": text})

    async def async_notify(self, context: Any) -> None:
        """Send the message through all notifiers, from the triggerer."""
        text = self.message(context)
        if text is None:
            return
        for notifier in self._senders():
            notifier.context = own = {**context, "sitemap": text}
            with _others_still_send(notifier):
                try:
                    await notifier
                except NotImplementedError:  # how Airflow's BaseNotifier says that it has only the synchronous form
                    await sync_to_async(notifier, thread_sensitive=False)(own)

    def message(self, context: Any) -> SitemapMessage | None:
        """Return the message about the run of a context, and log it; None if there is nothing to report."""
        if isinstance(context.get("exception"), NoPlanError):
            return None  # the planning task's own message says why
        text = self._message(context)
        if text.result == "unchanged" and not self.unchanged:
            return None
        if text.result in ("refused", "partly_published"):
            sections = [str(question["section"]) for question in self._pulled(context, QUESTIONS)]
            text = message.with_questions(text, sections) if sections else text
        log.info("%s", text.text)
        return text

    def _message(self, context: Any) -> SitemapMessage:
        name = self.sitemap_name or f"DAG {_of_run(context, 'dag_id')}"
        link = self.link(context)
        if "deadline" in context:
            return message.of_deadline(name, str((context["deadline"] or {}).get("deadline_time", "")), link)
        error, report = context.get("exception"), _report(context)
        if error is None and report is not None:
            return message.of_report(report, link)
        failed = list(self._pulled(context, FAILED))
        stale = [facts for facts in failed if facts.get("stale")]
        lost = _lost(context)
        if lost or (error is not None and not stale):
            ours = message.own_error(error)
            said = lost or next((facts for facts in failed if facts.get("message") and not ours), None)
            return message.of_failure_facts(name, said, link) if said else message.of_error(name, error, link)
        partial = [facts for facts in failed if facts.get("sections")]  # says more than its refusals do
        facts = self._by_sitemap([*stale, *partial, *self._pulled(context, REFUSED), *failed], name)
        if facts:
            return message.of_sitemaps([message.of_failure_facts(own, each, link) for own, each in facts.items()])
        if _is_failed(context):
            return message.of_error(name, None, link)
        returned = list(self._pulled(context, "return_value", (SitemapPublishOperator, SitemapRollbackOperator)))
        returned.sort(key=lambda reference: reference.get("result") == "unchanged")
        reports = [message.of_report(reference, link) for reference in self._by_sitemap(returned, name).values()]
        ended = SitemapMessage(result="unchanged", title=f"Sitemap run ended: {name}", link=link)
        return message.of_sitemaps(reports or [ended])

    def _by_sitemap(self, values: Iterable[Mapping[str, Any]], name: str) -> dict[str, Mapping[str, Any]]:
        """Return the first value of each sitemap by address, or by ``name`` if there is only one."""
        first: dict[str, Mapping[str, Any]] = {}
        for value in values:
            first.setdefault(self.sitemap_name or value["sitemap"], value)
        return first if len(first) > 1 else dict(zip([name], first.values(), strict=False))

    def _pulled(self, context: Any, key: str, kinds: type | tuple[type, ...] = object) -> Iterator[Mapping[str, Any]]:
        """Yield the XCom values of a key from the failed task, or else from the run's tasks of the sitemap, or of all.

        What services answered to an announcement counts only if the run failed.
        """
        dag, ti, task = context.get("dag"), context.get("ti"), context.get("task")
        tasks = getattr(dag, "tasks", ()) if task is None or context.get("exception") is None else (task,)
        addresses = {task.task_id: address for task in tasks if (address := _index_url(task))}
        prefix = "" if context.get("exception") is not None or _is_failed(context) else "Sitemap"
        own = {task_id for task_id, address in addresses.items() if address == self.sitemap_name} or addresses
        for task in tasks if ti is not None else ():
            if task.task_id not in own or not issubclass(task.operator_class, kinds):
                continue
            if not own_name(task.operator_class).startswith(prefix):
                continue
            value = None
            with suppress(Exception):  # there may be no XCom, or no access to it
                value = ti.xcom_pull(task_ids=task.task_id, key=key)
            values = value if isinstance(value, list) else [value]
            yield from ({**each, "sitemap": addresses[task.task_id]} for each in values if isinstance(each, dict))

    @staticmethod
    def link(context: Any) -> str:
        """Return the address of the run's page in Airflow's UI; empty if Airflow's address is not configured."""
        base, dag_id, run_id = api_base_url(), _of_run(context, "dag_id"), _of_run(context, "dag_run_id", "run_id")
        return f"{base}{run_page(dag_id, run_id)}" if base and dag_id and run_id else ""

    def _senders(self) -> Iterator[Any]:
        """Yield copies of the notifiers, because a notifier renders its templates in place and may be called again."""
        for target in self.notifiers:
            if isinstance(target, BaseNotifier):
                yield copy.copy(target)
                continue
            arguments = dict(target)
            try:
                yield resolve_name(arguments.pop("notifier"))(**arguments)
            except (ImportError, AttributeError, TypeError, ValueError) as error:
                log.warning("The notifier %s cannot be created: %s", target["notifier"], error)


@contextmanager
def _others_still_send(notifier: Any) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        log.warning("%s could not send the message: %s", type(notifier).__name__, type(error).__name__)


def _report(context: Any) -> Mapping[str, Any] | None:
    """Return the report that the publishing task attached to its asset event."""
    with suppress(Exception):  # the context may have no events
        for asset in context["task"].outlets:
            extra = context["outlet_events"][asset].extra
            if "report" in extra:
                report: Mapping[str, Any] = extra["report"]
                return report
    return None


def _index_url(task: Any) -> str:
    """Return the index URL of a task's sitemap, mapped or not; empty if it has none."""
    sitemap = getattr(task, "sitemap", None) or getattr(task, "partial_kwargs", {}).get("sitemap")
    return getattr(sitemap, "index_url", "")


def _is_failed(context: Any) -> bool:
    state = getattr(context.get("dag_run"), "state", None)
    return "fail" in str(context.get("reason", "")).lower() or str(getattr(state, "value", state)).lower() == "failed"


def _lost(context: Any) -> Mapping[str, Any] | None:
    """Return why a task failed whose callback the DAG processor runs, which does not know when the task started."""
    task, started = context.get("task"), getattr(context.get("ti"), "start_date", None)
    if task is None or started is not None or "reason" in context or "exception" in context:
        return None
    return {"error": f"{task.task_id} ended without a reason, as a task does whose worker is lost; see its log"}


def _of_run(context: Any, *names: str) -> str:
    """Return the first of these fields that the context's run has. In a deadline alert the run is a dictionary."""
    run = context.get("dag_run")
    values = (run.get(name) if isinstance(run, dict) else getattr(run, name, None) for name in names)
    return str(next(filter(None, values), ""))
