"""Parser of asset events. Tasks write the events, so this module checks every value and limits its size."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import GuardError
from airflow_sitemaps.protocol.entry import CURRENT
from airflow_sitemaps.protocol.rules import RULES
from airflow_sitemaps.shards.guards import Guards

EVENT_FORMAT: Final = 1
"""The newest format of an event's ``extra`` that this version reads."""
MAX_TEXT: Final = 2_000
"""Largest number of characters of one text in a response."""
MAX_ITEMS: Final = 1_000
"""Largest number of members of one list or mapping in a response."""


def integer(value: object) -> int:
    """Return a count, or 0 if the value is not a number."""
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63 else 0


def fraction(value: object, default: float) -> float:
    """Return a fraction, or the default if the value is not one."""
    is_fraction = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if is_fraction else default  # type: ignore[arg-type]


def text(value: object) -> str:
    """Return a text of limited length, or an empty text if the value is not a text."""
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def mapping(value: object) -> dict[str, Any]:
    """Return a mapping of limited length, or an empty mapping if the value is not a mapping."""
    return {str(k)[:MAX_TEXT]: v for k, v in list(value.items())[:MAX_ITEMS]} if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """Return a list of limited length, or an empty list if the value is not a list."""
    return list(value[:MAX_ITEMS]) if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else []


def texts(value: object) -> list[str]:
    """Return the texts in a list."""
    return [text(v) for v in items(value) if isinstance(v, str)]


def counts(value: object) -> dict[str, int]:
    """Return a mapping of names to counts."""
    return {name: integer(number) for name, number in mapping(value).items()}


def timestamp(value: object) -> str:
    """Return a time as ISO 8601 with a time zone, or an empty text if the value is not a time.

    A time without a zone is in UTC.
    """
    try:
        moment = datetime.fromisoformat(text(value).replace("Z", "+00:00"))
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return zoned.astimezone(timezone.utc).isoformat()
    except (ValueError, OverflowError):
        return ""


def moment_of(text: str) -> datetime:
    """Return the time of an ISO 8601 text."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run in the history, small enough to keep thousands in memory.

    Attributes:
        event: ID of the asset event.
        at: Time of the event, ISO 8601 in UTC.
        data_at: Time at which the run began to read its data, ISO 8601; empty if the event does not contain it.
        dag_id: DAG that emitted the event, as Airflow recorded it.
        run_id: DAG run that emitted the event, as Airflow recorded it.
        group_id: Task group, as the event states it.
        result: ``published`` or ``unchanged``.
        action: ``build``, ``rollback`` or ``adopt``.
        generation: Number of the generation that is current after the run.
        urls: Number of listed URLs.
        rows: Number of rows in the source.
        shards: Number of files that the index lists.
        created: Number of new files.
        rewritten: Number of files whose content changed.
        removed: Number of files that the index no longer lists.
        repaired: Number of files that were modified outside Airflow and written again.
        dropped: Number of rows that a rule keeps out of the sitemap.
        fixed: Number of rows that broke a rule and are in the sitemap.
        seconds: Sum of the stages' wall times in seconds. Airflow's own tables hold the wall time of the DAG run.
        xml_bytes: Uncompressed size of all files in bytes.
        file_bytes: Stored size of all files in bytes.
        bytes_written: Stored size in bytes of the files that the run wrote.
        rows_read: Number of rows that the run read.
        drift: Number of files that were modified outside Airflow.
        planned: Names of the sections that the run planned; empty if the event does not contain them.
        sections: By section, the number of URLs, and whether the run changed the section's files.
        store_run: Identifier of the run in the store; empty if the event does not contain it.
        failed: By section that the run did not publish, whether a guard refused it, and the reason. Default: none.
    """

    event: int
    at: str
    data_at: str
    dag_id: str
    run_id: str
    group_id: str
    result: str
    action: str
    generation: int
    urls: int
    rows: int
    shards: int
    created: int
    rewritten: int
    removed: int
    repaired: int
    dropped: int
    fixed: int
    seconds: float
    xml_bytes: int
    file_bytes: int
    bytes_written: int
    rows_read: int
    drift: int
    planned: tuple[str, ...]
    sections: Mapping[str, tuple[int, bool]]
    store_run: str = ""
    failed: Mapping[str, tuple[bool, str]] = field(default_factory=dict)


def is_report(extra: object) -> bool:
    """Return whether an event's ``extra`` is a sitemap's report in a format that this version reads."""
    if not isinstance(extra, Mapping) or not isinstance(extra.get("report"), Mapping):
        return False
    return 1 <= integer(extra.get("format")) <= EVENT_FORMAT and "generation" in extra["report"]


def summary_of(extra: Mapping[str, Any], *, event: int, at: str, dag_id: str, run_id: str) -> RunSummary:
    """Return the summary of an event's report.

    Args:
        extra: The event's ``extra``; ``is_report`` is true for it.
        at: Time of the event, ISO 8601 in UTC.
    """
    report = report_of(extra)
    shards = report["shards"]
    return RunSummary(
        event=event,
        at=at,
        data_at=report["started_at"] or "",
        dag_id=dag_id,
        run_id=run_id,
        group_id=text(extra.get("group_id")),
        result=report["result"],
        action=report["action"],
        generation=report["generation"],
        urls=report["urls"],
        rows=report["rows"],
        shards=shards.get("total", 0),
        created=shards.get("created", 0),
        rewritten=shards.get("rewritten", 0),
        removed=shards.get("removed", 0),
        repaired=shards.get("repaired", 0),
        dropped=sum(report["rows_dropped"].values()),
        fixed=sum(report["fields_fixed"].values()),
        seconds=round(sum(report["seconds"].values()), 2),
        xml_bytes=report["xml_bytes"],
        file_bytes=report["file_bytes"],
        bytes_written=report["bytes_written"],
        rows_read=report["rows_read"],
        drift=len(report["drift"]),
        planned=tuple(map(sys.intern, texts(extra["report"].get("planned")))),
        sections={sys.intern(name): (part["urls"], _is_changed(part)) for name, part in report["sections"].items()},
        store_run=report["run"],
        failed={
            text(failure.get("section")): (failure.get("error") == GuardError.__name__, text(failure.get("message")))
            for failure in map(mapping, items(extra["report"].get("failures")))
        },
    )


def _is_changed(section: Mapping[str, Any]) -> bool:
    """Return whether a run changed the files of a section."""
    return any(section["shards"].get(name) for name in ("created", "rewritten", "removed", "repaired"))


def stage_seconds(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the wall time of each stage in seconds."""
    stages = mapping(report.get("seconds")).items()
    return {name: round(float(s), 3) for name, s in stages if isinstance(s, (int, float)) and 0 <= s < 10**9}


def section_of(value: object) -> dict[str, Any]:
    """Return one section of a report, checked and limited in size."""
    section = mapping(value)
    settings = {rule: text(verdict) for rule, verdict in mapping(section.get("rules")).items()}
    numbers = ("urls", "rows", "xml_bytes", "file_bytes", "rows_read", "bytes_written")
    dropped, fixed = counts(section.get("rows_dropped")), counts(section.get("fields_fixed"))
    return {
        **{name: integer(section.get(name)) for name in numbers},
        "shards": counts(section.get("shards")),
        "rows_dropped": dropped,
        "rows_expired": counts(section.get("rows_expired")),
        "fields_fixed": fixed,
        "outcomes": {rule: outcome_of(rule, settings, dropped=rule in dropped) for rule in {**dropped, **fixed}},
        "samples": {rule: texts(samples) for rule, samples in mapping(section.get("samples")).items()},
        "reasons": counts(section.get("reasons")),
        "extensions": counts(section.get("extensions")),
        "max_urls": integer(section.get("max_urls")) or CURRENT.max_urls,
        "max_dropped": fraction(section.get("max_dropped"), Guards().max_dropped),
        "newest_lastmod": text(section.get("newest_lastmod")) or None,
        "drift": texts(section.get("drift")),
    }


OUTCOMES: Final[Mapping[str, str]] = {"repair": "Fixed", "omit_field": "Field removed", "keep": "Listed anyway"}


def outcome_of(rule: str, settings: Mapping[str, str], *, dropped: bool) -> str:
    """Return the outcome for the rows that broke a rule: Left out, Fixed, Field removed or Listed anyway.

    Args:
        settings: Verdicts by rule that differ from the default.
    """
    if dropped:
        return "Left out"
    default = RULES[rule].default.value if rule in RULES else ""
    return OUTCOMES.get(settings.get(rule, default), "Fixed")


def report_of(extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole report of an event, checked and limited in size."""
    report = mapping(extra["report"])
    sections = mapping(report.get("sections"))
    return {
        "run": text(report.get("run")),
        "result": text(report.get("result")),
        "action": text(report.get("action")) or "build",
        "generation": integer(report.get("generation")),
        "previous_generation": integer(report.get("previous_generation")),
        **{name: timestamp(report.get(name)) or None for name in ("started_at", "finished_at", "committed_at")},
        "index_urls": texts(report.get("index_urls")),
        "robots_urls": texts(report.get("robots_urls")),
        "extra_urls": texts(report.get("extra_urls")),
        **{
            n: integer(report.get(n))
            for n in ("urls", "rows", "xml_bytes", "file_bytes", "rows_read", "bytes_written", "swept")
        },
        "shards": counts(report.get("shards")),
        "rows_dropped": counts(report.get("rows_dropped")),
        "rows_expired": counts(report.get("rows_expired")),
        "fields_fixed": counts(report.get("fields_fixed")),
        "seconds": stage_seconds(report),
        "sections": {name: section_of(section) for name, section in sections.items()},
        **{name: texts(report.get(name)) for name in ("drift", "warnings", "refusals")},
    }


EMPTY_REPORT: Final = report_of({"report": {}})
"""The report of a sitemap that was never published. Every count is zero."""


def templates_of(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the URL template of each section that has one."""
    sections = mapping(mapping(extra.get("report")).get("sections"))
    return {name: template for name, section in sections.items() if (template := text(mapping(section).get("loc")))}


def hosts_of(extra: Mapping[str, Any]) -> set[str]:
    """Return the hosts of a sitemap's URLs: that of the store, and further ones of its sections."""
    sections = mapping(mapping(extra.get("report")).get("sections")).values()
    further = {host for section in sections for host in texts(mapping(section).get("hosts"))}
    try:
        return {*further, urlsplit(store_of(extra)["base_url"] or "").hostname or ""} - {""}
    except ValueError:
        return further


def store_of(extra: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the location of the sitemap's files, as the event states it."""
    store = mapping(extra.get("store"))
    names = ("public_url", "state_url", "conn_id", "base_url", "index_name")
    return {name: text(store.get(name)) or None for name in names}
