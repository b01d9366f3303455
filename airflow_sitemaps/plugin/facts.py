"""What an asset event says of a run. Events are written by tasks, so nothing in them is taken on trust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

EVENT_FORMAT: Final = 1
"""The newest shape of an event's extra that is understood here."""
MAX_TEXT: Final = 2_000
"""Characters of one text that are passed on to a page."""
MAX_ITEMS: Final = 1_000
"""Members of one list or mapping that are passed on to a page."""


def whole(value: object) -> int:
    """A count; 0 for anything that is none."""
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63 else 0


def text(value: object) -> str:
    """A text of bounded length; empty for anything that is none."""
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def mapping(value: object) -> dict[str, Any]:
    """A mapping of bounded length; empty for anything that is none."""
    return {str(k)[:MAX_TEXT]: v for k, v in list(value.items())[:MAX_ITEMS]} if isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """A list of bounded length; empty for anything that is none."""
    return list(value[:MAX_ITEMS]) if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else []


def texts(value: object) -> list[str]:
    """The texts in a list."""
    return [text(v) for v in items(value) if isinstance(v, str)]


def counts(value: object) -> dict[str, int]:
    """A mapping of names to counts."""
    return {name: whole(number) for name, number in mapping(value).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One run in the history, small enough to keep thousands. Sizes in bytes, ``seconds`` of wall time.

    ``event``: id of the asset event; ``at``: its time, ISO 8601 in UTC. ``dag_id`` and ``run_id`` are Airflow's own
    record of the source, not what the event claims; ``group_id`` is a claim.
    """

    event: int
    at: str
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
    mended: int
    seconds: float
    xml_bytes: int
    file_bytes: int
    bytes_written: int
    rows_read: int
    drift: int


def is_report(extra: object) -> bool:
    """Whether an event's extra is a sitemap's, in a shape that is understood here."""
    if not isinstance(extra, Mapping) or not isinstance(extra.get("report"), Mapping):
        return False
    return 1 <= whole(extra.get("format")) <= EVENT_FORMAT and "generation" in extra["report"]


def point_of(extra: Mapping[str, Any], *, event: int, at: str, dag_id: str, run_id: str) -> Point:
    """The small form of an event's report."""
    report = mapping(extra["report"])
    shards = counts(report.get("shards"))
    return Point(
        event=event,
        at=at,
        dag_id=dag_id,
        run_id=run_id,
        group_id=text(extra.get("group_id")),
        result=text(report.get("result")),
        action=text(report.get("action")) or "build",
        generation=whole(report.get("generation")),
        urls=whole(report.get("urls")),
        rows=whole(report.get("rows")),
        shards=shards.get("total", 0),
        created=shards.get("created", 0),
        rewritten=shards.get("rewritten", 0),
        removed=shards.get("dropped", 0),
        repaired=shards.get("repaired", 0),
        dropped=sum(counts(report.get("rows_dropped")).values()),
        mended=sum(counts(report.get("fields_mended")).values()),
        seconds=round(seconds_of(report), 2),
        xml_bytes=whole(report.get("xml_bytes")),
        file_bytes=whole(report.get("file_bytes")),
        bytes_written=whole(report.get("bytes_written")),
        rows_read=whole(report.get("rows_read")),
        drift=len(items(report.get("drift"))),
    )


def seconds_of(report: Mapping[str, Any]) -> float:
    """Wall time of a run: the sum of its stages."""
    stages = mapping(report.get("seconds")).values()
    return sum(float(s) for s in stages if isinstance(s, (int, float)) and 0 <= s < 10**9)


def stage_seconds(report: Mapping[str, Any]) -> dict[str, float]:
    """Wall time by stage."""
    stages = mapping(report.get("seconds")).items()
    return {name: round(float(s), 3) for name, s in stages if isinstance(s, (int, float)) and 0 <= s < 10**9}


def section_of(value: object) -> dict[str, Any]:
    """One section of a report, cleaned."""
    found = mapping(value)
    numbers = ("urls", "rows", "xml_bytes", "file_bytes", "rows_read", "bytes_written")
    return {
        **{name: whole(found.get(name)) for name in numbers},
        "shards": counts(found.get("shards")),
        "rows_dropped": counts(found.get("rows_dropped")),
        "fields_mended": counts(found.get("fields_mended")),
        "samples": {rule: texts(samples) for rule, samples in mapping(found.get("samples")).items()},
        "reasons": counts(found.get("reasons")),
        "newest_lastmod": text(found.get("newest_lastmod")) or None,
        "drift": texts(found.get("drift")),
    }


def report_of(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The whole report of an event, cleaned."""
    report = mapping(extra["report"])
    return {
        "run": text(report.get("run")),
        "result": text(report.get("result")),
        "action": text(report.get("action")) or "build",
        "generation": whole(report.get("generation")),
        "previous_generation": whole(report.get("previous_generation")),
        **{name: text(report.get(name)) or None for name in ("started_at", "finished_at", "committed_at")},
        "index_urls": texts(report.get("index_urls")),
        **{
            n: whole(report.get(n))
            for n in ("urls", "rows", "xml_bytes", "file_bytes", "rows_read", "bytes_written", "swept")
        },
        "shards": counts(report.get("shards")),
        "rows_dropped": counts(report.get("rows_dropped")),
        "fields_mended": counts(report.get("fields_mended")),
        "seconds": stage_seconds(report),
        "sections": {name: section_of(section) for name, section in mapping(report.get("sections")).items()},
        **{name: texts(report.get(name)) for name in ("drift", "warnings", "refusals")},
    }


def store_of(extra: Mapping[str, Any]) -> dict[str, str | None]:
    """Where the event says the sitemap lies."""
    store = mapping(extra.get("store"))
    names = ("kind", "public_url", "state_url", "conn_id", "base_url", "index_name")
    return {name: text(store.get(name)) or None for name in names}
