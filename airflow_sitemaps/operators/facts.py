"""What tasks leave in XCom for the pages in Airflow's UI, which may not be able to read the store.

Small whatever the size of the sitemap: numbers by section, never URLs, and only the first of long lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import SitemapError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.pipeline.stages import Written
    from airflow_sitemaps.pipeline.verification import Verification
    from airflow_sitemaps.shards.plan import Plan

PLAN_FACTS: Final = "sitemap_plan"
"""XCom key of the planning task: what is planned."""
REFUSED: Final = "sitemap_refused"
"""XCom key of a task that a guard refused: which guards, and what lets the run pass."""
WRITTEN: Final = "sitemap_written"
"""XCom key of a mapped writing task: what its batch came to."""
FAILED: Final = "sitemap_failed"
"""XCom key of a task that failed otherwise: why, as far as that can be shown."""
VERIFIED: Final = "sitemap_verified"
"""XCom key of a verifying task, whether it then fails or not: what it read and what it found."""

MAX_LINES: Final = 60
MAX_FAILURES: Final = 20
MAX_SECTIONS: Final = 200
MAX_TEXT: Final = 500
MAX_REASONS: Final = 20


def plan_facts(plan: Plan, key: str | None, lines: Sequence[str]) -> dict[str, Any]:
    """A plan in numbers: targets by action and reason, rows to be read, batches. ``lines``: the plan explained."""
    rows_of: dict[str, int] = {}
    for batch in plan.batches:
        rows_of[batch.section] = rows_of.get(batch.section, 0) + batch.rows
    sections = {}
    for name, section in list(plan.sections.items())[:MAX_SECTIONS]:
        reasons: dict[str, int] = {}
        for target in section.targets:
            if target.reason and (target.reason in reasons or len(reasons) < MAX_REASONS):
                reasons[target.reason] = reasons.get(target.reason, 0) + 1
        sections[name] = {
            "actions": section.count(),
            "reasons": {reason[:MAX_TEXT]: number for reason, number in reasons.items()},
            "rows": section.rows,
            "rows_to_read": rows_of.get(name, 0),
            "gone": len(section.gone),
        }
    return {
        "run": plan.run,
        "key": key,
        "base_generation": plan.base_generation,
        "batches": [batch.rows for batch in plan.batches],
        "rows_to_read": sum(rows_of.values()),
        "sections": sections,
        "changes": plan.changes,
        "warnings": [warning[:MAX_TEXT] for warning in plan.warnings[:MAX_LINES]],
        "lines": [line[:MAX_TEXT] for line in lines[:MAX_LINES]],
        "more_lines": max(0, len(lines) - MAX_LINES),
    }


def refusal_facts(error: Exception) -> dict[str, Any]:
    """What refused, from a ``RefusedError``: a sentence each, and the permit where one lets the run pass."""
    refusals = [
        {
            "guard": getattr(refusal, "guard", ""),
            "section": getattr(refusal, "section", ""),
            "message": getattr(refusal, "message", str(refusal))[:MAX_TEXT],
            "permit": getattr(refusal, "permit", None),
        }
        for refusal in tuple(getattr(error, "refusals", ()))[:MAX_LINES]
    ]
    return {"message": str(error)[:MAX_TEXT], "refusals": refusals}


def failure_facts(error: Exception) -> dict[str, str]:
    """Why a task failed. Only our own errors' words: those of a driver may hold what only the log may show."""
    said = str(error)[:MAX_TEXT] if isinstance(error, SitemapError) else ""
    return {"error": type(error).__name__, "message": said}


def written_facts(written: Written) -> dict[str, Any]:
    """What a batch came to; bytes as stored, seconds of wall time."""
    return {
        "section": written.section,
        "shards": written.shards,
        "rows": written.rows,
        "urls": written.urls,
        "dropped": written.dropped,
        "bytes": written.bytes_written,
        "seconds": round(written.seconds, 3),
    }


def verified_facts(found: Verification) -> dict[str, Any]:
    """What verifying came to, with the first of its failures, errors before warnings."""
    failures = sorted(found.failures, key=lambda failure: failure.severity != "error")
    return {
        "files": found.files,
        "urls": found.urls,
        "sampled": found.sampled,
        "errors": len(found.errors),
        "warnings": len(found.failures) - len(found.errors),
        "failures": [
            {
                "severity": failure.severity,
                "rule": failure.rule[:MAX_TEXT],
                "where": failure.where[:MAX_TEXT],
                "message": failure.message[:MAX_TEXT],
                "count": failure.count,
            }
            for failure in failures[:MAX_FAILURES]
        ],
    }
