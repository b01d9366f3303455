"""Messages about runs: what happened, why, what to do, and where to look; and the notifier that sends them.

A message is readable in ten seconds. Any of Airflow's notifiers can send it.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import escape
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk.bases.notifier import BaseNotifier

from airflow_sitemaps.airflow_compat import api_base_url
from airflow_sitemaps.errors import (
    ConfigurationError,
    ConflictError,
    PartlyPublishedError,
    RefusedError,
    SitemapError,
    SourceError,
    StoreContentError,
    StoreError,
)
from airflow_sitemaps.operators.facts import FAILED, REFUSED, failure_facts, refusal_facts
from airflow_sitemaps.operators.links import run_page
from airflow_sitemaps.operators.publish import NoPlanError
from airflow_sitemaps.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

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
        sitemap: The sitemap, or its name in the message. Default: the DAG.
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
        self.notifiers: tuple[Any, ...] = (*notifiers, *targets)
        for target in self.notifiers:
            if not isinstance(target, BaseNotifier) and not isinstance(dict(target).get("notifier"), str):
                raise ConfigurationError(
                    f"SitemapNotifier: {target!r} is neither a notifier nor a mapping that names the class of a notifier, like "
                    "{'notifier': 'airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier', …}"
                )
        self.sitemap_name = sitemap if isinstance(sitemap, str) else "" if sitemap is None else sitemap.index_url
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
                    await asyncio.to_thread(notifier, own)

    def message(self, context: Any) -> SitemapMessage | None:
        """Return the message about the run of a context, and log it; None if there is nothing to report."""
        if isinstance(context.get("exception"), NoPlanError):
            return None  # the planning task's own message says why
        text = self._message(context)
        if text.result == "unchanged" and not self.unchanged:
            return None
        log.info("%s", text.text)
        return text

    def _message(self, context: Any) -> SitemapMessage:
        name = self.sitemap_name or f"DAG {_dag_id(context)}"
        link = self.link(context)
        if "deadline" in context:
            return of_deadline(name, str((context["deadline"] or {}).get("deadline_time", "")), link)
        error = context.get("exception")
        stale = _stale(context)
        if stale is not None:
            return of_stale_index(name, stale["stale"], str(stale.get("limit", "")), link)
        if error is not None:
            return of_error(name, error, link)
        report = _report(context)
        if report is not None:
            return of_report(report, link)
        failed, refused = (list(_pulled(context, key)) for key in (FAILED, REFUSED))
        partial = [facts for facts in failed if facts.get("sections")]  # says more than its refusals do
        if partial or (failed and not refused):
            return of_failure_facts(name, (partial or failed)[0], link)
        if refused:
            return of_refusal(name, refused[0], link)
        if _is_failed(context):
            return of_error(name, None, link)
        returned = _pulled(context, "return_value", operators=("SitemapPublishOperator", "SitemapRollbackOperator"))
        ended = SitemapMessage(result="unchanged", title=f"Sitemap run ended: {name}", link=link)
        return next((of_report(reference, link) for reference in returned), ended)

    @staticmethod
    def link(context: Any) -> str:
        """Return the address of the run's page in Airflow's UI; empty if Airflow's address is not configured."""
        base, dag_id, run_id = api_base_url(), _dag_id(context), _run_id(context)
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
    """Log that a notifier failed."""
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


def _stale(context: Any) -> Mapping[str, Any] | None:
    """Return what the freshness task found if the served index is too old; None if another task failed."""
    operator = "SitemapFreshnessOperator"
    if context.get("exception") is not None and type(context.get("task")).__name__ != operator:
        return None
    values = _pulled(context, FAILED, operators=(operator,))
    return next((facts for facts in values if facts.get("stale")), None)


def _pulled(context: Any, key: str, *, operators: tuple[str, ...] = ()) -> Iterator[Mapping[str, Any]]:
    """Yield the XCom values of a key from the sitemap's tasks of the run."""
    dag, ti = context.get("dag"), context.get("ti")
    for task in getattr(dag, "tasks", ()) if ti is not None else ():
        kind = getattr(task, "task_type", type(task).__name__)
        if not kind.startswith("Sitemap") or (operators and kind not in operators):
            continue
        value = None
        with suppress(Exception):  # there may be no XCom, or no access to it
            value = ti.xcom_pull(task_ids=task.task_id, key=key)
        values = value if isinstance(value, list) else [value]
        yield from (each for each in values if isinstance(each, dict))


def _is_failed(context: Any) -> bool:
    state = getattr(context.get("dag_run"), "state", None)
    return "fail" in str(context.get("reason", "")).lower() or str(getattr(state, "value", state)).lower() == "failed"


def _dag_id(context: Any) -> str:
    run = context.get("dag_run")
    return str(run.get("dag_id", "") if isinstance(run, dict) else getattr(run, "dag_id", "") or "")


def _run_id(context: Any) -> str:
    run = context.get("dag_run")
    run_id = run.get("dag_run_id", run.get("run_id", "")) if isinstance(run, dict) else getattr(run, "run_id", "")
    return str(run_id or "")


MAX_LINES: Final = 3

MAX_CHARACTERS: Final = 300

SUBJECT: Final = "{{ sitemap.title }}"
TEXT: Final = "{{ sitemap.text }}"
"""Template of a plain text, for Apprise, Teams, Discord and others."""
SLACK: Final = "{{ sitemap.slack }}"
HTML: Final = "{{ sitemap.html }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SitemapMessage:
    """A message about one run. ``action`` is empty if there is nothing to do, ``link`` if Airflow's address is unknown.

    The result is ``published``, ``partly_published``, ``unchanged``, ``refused``, ``conflict``, ``failed`` or ``late``.
    """

    result: str
    title: str
    lines: tuple[str, ...] = ()
    action: str = ""
    link: str = ""

    @property
    def text(self) -> str:
        """The message as plain text."""
        parts = [self.title, *self.lines]
        if self.action:
            parts.append(f"To do: {self.action}")
        if self.link:
            parts.append(self.link)
        return "\n".join(parts)

    @property
    def slack(self) -> str:
        """The message in Slack's markup."""
        parts = [f"*{_slack(self.title)}*", *(f"• {_slack(line)}" for line in self.lines)]
        if self.action:
            parts.append(f"*To do:* {_slack(self.action)}")
        if self.link:
            parts.append(f"<{self.link}|Open the run in Airflow>")
        return "\n".join(parts)

    @property
    def html(self) -> str:
        """The message as HTML."""
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.lines)
        parts = [f"<p><strong>{escape(self.title)}</strong></p>", f"<ul>{lines}</ul>" if lines else ""]
        if self.action:
            parts.append(f"<p><strong>To do:</strong> {escape(self.action)}</p>")
        if self.link:
            parts.append(f'<p><a href="{escape(self.link)}">Open the run in Airflow</a></p>')
        return "".join(parts)


def of_report(report: Mapping[str, Any], link: str = "") -> SitemapMessage:
    """Return the message of a run that published or found nothing to change, by its report as in the asset event."""
    result, urls = str(report.get("result")), counted(int(report.get("urls", 0)), "URL")
    lines = [] if result == "unchanged" else [_generation(report)]
    dropped = report.get("rows_dropped") or {}
    if dropped:
        number = sum(dropped.values())
        lines.append(f"{counted(number, 'row')} {'is' if number == 1 else 'are'} not listed: {_counts(dropped)}")
    lines += _first([f"Warning: {warning}" for warning in report.get("warnings", ())], "warnings")
    what = "unchanged" if result == "unchanged" else "published"
    return _message(result, f"Sitemap {what}: {_name(report)}, {urls}", lines, "", link)


def of_refusal(name: str, facts: Mapping[str, Any], link: str = "") -> SitemapMessage:
    """Return the message of a run that guards refused, by the facts of ``operators.facts.refusal_facts``."""
    refusals = list(facts.get("refusals", ()))
    reasons = [str(refusal.get("message", "")) for refusal in refusals] or [str(facts.get("message", ""))]
    permits = [str(refusal["permit"]) for refusal in refusals if refusal.get("permit")]
    title = f"Sitemap refused: {name}; the published sitemap is unchanged"
    return _message("refused", title, _first(reasons, "refusals"), "Check the source." + _permission(permits), link)


def of_partial(name: str, facts: Mapping[str, Any], link: str = "") -> SitemapMessage:
    """Return the message of a run that could not publish all sections, by the facts of ``operators.facts.failure_facts``."""
    sections = list(facts.get("sections", ()))
    names = dict.fromkeys(str(section.get("section", "")) for section in sections)
    permits = [str(permit) for section in sections for permit in section.get("permits", ())]
    if facts.get("is_published"):
        result = "partly_published"
        title = f"Sitemap partly published: {name}; {counted(len(names), 'section')} not published"
    else:
        result = "refused" if permits else "failed"
        title = f"Sitemap {result}: {name}; the published sitemap is unchanged"
    action = f"Check the source.{_permission(permits)}" if permits else "Remove the cause, then run the DAG again."
    reasons = [f"{section.get('section', '')}: {section.get('message', '')}" for section in sections]
    return _message(result, title, _first(reasons, "sections"), action, link)


def of_error(name: str, error: BaseException | str | None, link: str = "") -> SitemapMessage:
    """Return the message of a run that failed. Only this package's errors are shown: others may contain a secret."""
    ours = _own_error(error)
    if isinstance(ours, RefusedError):
        return of_refusal(name, refusal_facts(ours), link)
    if isinstance(ours, PartlyPublishedError):
        return of_partial(name, failure_facts(ours), link)
    if ours is not None:
        reason = f"{type(ours).__name__}: {ours}"
    elif isinstance(error, BaseException):
        reason = f"{type(error).__name__}; the task's log has the details"
    else:
        reason = "The task's log has the details"
    return _failed("conflict" if isinstance(ours, ConflictError) else "failed", name, reason, _action(ours), link)


def of_failure_facts(name: str, facts: Mapping[str, Any], link: str = "") -> SitemapMessage:
    """Return the message of a failure that a task stored in XCom, by the facts of ``operators.facts.failure_facts``."""
    if facts.get("sections"):
        return of_partial(name, facts, link)
    reason = str(facts.get("error", "")) + (f": {facts['message']}" if facts.get("message") else "")
    return _failed("failed", name, reason, _action(None), link)


def of_deadline(name: str, deadline: str, link: str = "") -> SitemapMessage:
    """Return the message of a run that missed its deadline."""
    lines = [f"The deadline was {deadline}"] if deadline else []
    action = "Check whether the run waits for its data, a pool or a worker."
    return _message("late", f"Sitemap late: {name} was not published in time", lines, action, link)


def of_stale_index(name: str, ages: Sequence[str], limit: str, link: str = "") -> SitemapMessage:
    """Return the message about index files that are too old as served over HTTP; ``ages`` has one line for each."""
    action = "Check the last run of the sitemap's DAG and the cache in front of the store."
    title = f"Sitemap stale: {name} is older than {limit} as served"
    return _message("late", title, _first(ages, "index files"), action, link)


def _message(result: str, title: str, lines: Sequence[str], action: str, link: str) -> SitemapMessage:
    return SitemapMessage(result=result, title=_line(title), lines=tuple(map(_line, lines)), action=action, link=link)


def _failed(result: str, name: str, reason: str, action: str, link: str) -> SitemapMessage:
    return _message(result, f"Sitemap {result}: {name}; the published sitemap is whole", [reason], action, link)


def _permission(permits: Sequence[str]) -> str:
    """Return how to let a run pass; empty if there is no permit."""
    return f" If the data is right, run the DAG once with allow={permits[:MAX_LINES]!r}." if permits else ""


def _action(error: SitemapError | None) -> str:
    actions = {
        ConflictError: "Run the DAG again; it plans from the result of the other run.",
        ConfigurationError: "Fix the configuration and clear the task. A retry cannot help.",
        StoreContentError: "See docs/operating.md: an object in the store is damaged. A retry cannot help.",
        SourceError: "Check the database and clear the task.",
        StoreError: "Check the store and clear the task.",
    }
    default = "Read the task's log and clear the task."
    return next((action for kind, action in actions.items() if isinstance(error, kind)), default)


def _own_error(error: BaseException | str | None) -> SitemapError | None:
    """Return the error of this package that caused an error; None if there is none."""
    seen = 0
    while isinstance(error, BaseException) and seen < 20:
        if isinstance(error, SitemapError):
            return error
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None


def _generation(report: Mapping[str, Any]) -> str:
    """Return the generation and, if the report has them, the shards that changed."""
    generation, shards = f"Generation {report.get('generation')}", report.get("shards")
    if not shards:
        return generation
    counts = [f"{shards[key]:,} {key}" for key in ("created", "rewritten", "removed", "repaired") if shards.get(key)]
    return f"{generation}: {', '.join(counts) or 'none'} of {counted(int(shards.get('total', 0)), 'shard')}"


def _name(report: Mapping[str, Any]) -> str:
    addresses = list(report.get("index_urls", ()))
    if not addresses:
        return "sitemap"
    return str(addresses[0]) + (f" and {len(addresses) - 1:,} more" if len(addresses) > 1 else "")


def _counts(numbers: Mapping[str, int]) -> str:
    greatest = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    more = len(greatest) - MAX_LINES
    shown = ", ".join(f"{rule} {number:,}" for rule, number in greatest[:MAX_LINES])
    return shown + (f" and {more:,} more rules" if more > 0 else "")


def _first(lines: Sequence[str], what: str) -> list[str]:
    more = len(lines) - MAX_LINES
    return [*lines[:MAX_LINES], *([f"… and {more:,} more {what}"] if more > 0 else [])]


def _line(text: str) -> str:
    """Return a text in one line of limited length, without control characters."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 1] + "…"


def _slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
