"""Messages about runs: what happened, why, what to do, and where to look, readable in ten seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Final

from airflow_sitemaps import errors
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
from airflow_sitemaps.operators import failure_facts, refusal_facts
from airflow_sitemaps.quantities import counted

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
        parts = [f"*{escape(self.title, quote=False)}*", *(f"• {escape(line, quote=False)}" for line in self.lines)]
        if self.action:
            parts.append(f"*To do:* {escape(self.action, quote=False)}")
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
    """Return the message of a run that guards refused, by the facts of ``operators.refusal_facts``."""
    refusals = list(facts.get("refusals", ()))
    reasons = [str(refusal.get("message", "")) for refusal in refusals] or [str(facts.get("message", ""))]
    permits = [str(refusal["permit"]) for refusal in refusals if refusal.get("permit")]
    title = f"Sitemap refused: {name}; the published sitemap is unchanged"
    return _message("refused", title, _first(reasons, "refusals"), "Check the source." + _permission(permits), link)


def of_partial(name: str, facts: Mapping[str, Any], link: str = "") -> SitemapMessage:
    """Return the message of a run that could not publish all sections, by the facts of ``operators.failure_facts``."""
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


def with_questions(text: SitemapMessage, sections: Sequence[str]) -> SitemapMessage:
    """Return the message of a refusal about some of whose sections Airflow asks a person."""
    own = [section for section in sections if any(section in line for line in text.lines)]
    answer = f"If the data is right, answer the question about {', '.join(own)} in Airflow's Required Actions"
    if len(own) == len(text.lines):
        return replace(text, action=_line(f"Check the source. {answer}."))
    return replace(text, action=_line(f"{text.action} {answer}; a run with its permit ends it.")) if own else text


def of_error(name: str, error: BaseException | str | None, link: str = "") -> SitemapMessage:
    """Return the message of a run that failed. Only this package's errors are shown: others may contain a secret."""
    ours = own_error(error)
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
    return _failed(name, reason, link, None if ours is None else type(ours))


def of_failure_facts(name: str, facts: Mapping[str, Any], link: str = "") -> SitemapMessage:
    """Return the message of a failure or a refusal that a task stored in XCom, by the facts of ``airflow_sitemaps.operators``."""
    if facts.get("stale"):  # index files, one line for each, that are too old as served over HTTP
        action = "Check the last run of the sitemap's DAG and the cache in front of the store."
        title = f"Sitemap stale: {name} is older than {facts.get('limit', '')} as served"
        return _message("late", title, _first(facts["stale"], "index files"), action, link)
    if "refusals" in facts:
        return of_refusal(name, facts, link)
    if facts.get("sections"):
        return of_partial(name, facts, link)
    reason = str(facts.get("error", "")) + (f": {facts['message']}" if facts.get("message") else "")
    return _failed(name, reason, link, getattr(errors, str(facts.get("kind") or facts.get("error")), None))


def of_sitemaps(messages: Sequence[SitemapMessage]) -> SitemapMessage:
    """Return the message of a DAG with several sitemaps: the first message, with the titles of the others."""
    others = _first([other.title for other in messages[1:]], "sitemaps")
    return replace(messages[0], lines=(*messages[0].lines, *others))


def of_deadline(name: str, deadline: str, link: str = "") -> SitemapMessage:
    """Return the message of a run that missed its deadline."""
    lines = [f"The deadline was {deadline}"] if deadline else []
    action = "Check whether the run waits for its data, a pool or a worker."
    return _message("late", f"Sitemap late: {name} was not published in time", lines, action, link)


def _message(result: str, title: str, lines: Sequence[str], action: str, link: str) -> SitemapMessage:
    return SitemapMessage(result=result, title=_line(title), lines=tuple(map(_line, lines)), action=action, link=link)


def _failed(name: str, reason: str, link: str, kind: type[SitemapError] | None) -> SitemapMessage:
    """Return the message of a failure. Errors that are not this package's may be of a task that checks what is public."""
    whole = "; the published sitemap is whole" if kind else ""
    result = "conflict" if kind is ConflictError else "failed"
    return _message(result, f"Sitemap {result}: {name}{whole}", [reason], _action(kind), link)


def _permission(permits: Sequence[str]) -> str:
    """Return how to let a run pass; empty if there is no permit."""
    more = f" and {len(permits) - MAX_LINES:,} more that the log names" if permits[MAX_LINES:] else ""
    return f" If the data is right, run the DAG once with allow={permits[:MAX_LINES]!r}{more}." if permits else ""


def _action(error: type[SitemapError] | None) -> str:
    actions = {
        ConflictError: "Run the DAG again; it plans from the result of the other run.",
        ConfigurationError: "Fix the configuration and clear the task. A retry cannot help.",
        StoreContentError: "See the page Operating: an object in the store is damaged. A retry cannot help.",
        SourceError: "Check the database and clear the task.",
        StoreError: "Check the store and clear the task.",
    }
    default = "Read the task's log and clear the task."
    return next((action for kind, action in actions.items() if error and issubclass(error, kind)), default)


def own_error(error: BaseException | str | None) -> SitemapError | None:
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
