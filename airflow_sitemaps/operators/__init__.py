"""Airflow operators, and the XCom values that their tasks push for the pages in Airflow's UI.

The API server may be unable to read the store. The values are small for a sitemap of any size: numbers by section, URLs only as
samples in messages, and only the first items of long lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import PartlyPublishedError, SitemapError

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.batch_writer import Written
    from airflow_sitemaps.shards.plan import Batch, Plan
    from airflow_sitemaps.verification.result import Verification


PLAN_FACTS: Final = "sitemap_plan"
"""XCom key of the planning task: a summary of the plan."""
REFUSED: Final = "sitemap_refused"
"""XCom key of a refused task: the guards that refused, and the permits that let the run pass."""
WRITTEN: Final = "sitemap_written"
"""XCom key of a mapped writing task: a summary of what it wrote, and why batches are ``unwritten``, by number."""
FAILED: Final = "sitemap_failed"
"""XCom key of a task that failed for another reason: the reason, without possible secrets."""
QUESTIONS: Final = "sitemap_questions"
"""XCom key of the publishing task: the sections about which Airflow asks a person, each with the run that asks."""
SECTIONS: Final = "sitemap_sections"
"""XCom key of the planning task: the sections that the run is to publish."""
UNCHANGED: Final = "sitemap_unchanged"
"""XCom key of a publishing task that ``skip_unchanged`` skipped: the generation that is still current."""
PART_OF: Final = "sitemap_part_of"
"""XCom key of a part of a mapped task that works on what is published: the sitemap's asset."""
VERIFIED: Final = "sitemap_verified"
"""XCom key of a verification task, whether it fails or not: what it read, and its findings."""

MAX_LINES: Final = 60
MAX_FAILURES: Final = 20
MAX_SECTIONS: Final = 200
MAX_NAMES: Final = 1_000
"""Largest number of names of sections in a list: a section that is not named as failed counts as published or unchanged."""
MAX_TEXT: Final = 500
MAX_REASONS: Final = 20


def prefix_of(task_id: str) -> str:
    """Return the ID of the task group in a task's ID; empty for a task without one."""
    return task_id.rpartition(".")[0]


def plan_facts(
    plan: Plan, key: str | None, lines: Sequence[str], tasks: Sequence[Sequence[Batch]] = ()
) -> dict[str, Any]:
    """Summarize a plan: actions by kind and reason, rows to read, and rows of each mapped task."""
    rows_of = Counter[str]()
    for batch in plan.batches:
        rows_of[batch.section] += batch.rows
    sections, largest = {}, {*sorted(plan.sections, key=lambda name: -rows_of[name])[:MAX_SECTIONS]}
    for name, section in ((name, each) for name, each in plan.sections.items() if name in largest):
        reasons = Counter(action.reason for action in section.actions if action.reason)
        sections[name] = {
            "actions": section.count(),
            "reasons": {reason[:MAX_TEXT]: number for reason, number in list(reasons.items())[:MAX_REASONS]},
            "rows": section.rows,
            "rows_to_read": rows_of[name],
            "gone": len(section.gone),
        }
    return {
        "run": plan.run,
        "key": key,
        "base_generation": plan.base_generation,
        "batches": [sum(batch.rows for batch in task) for task in tasks],
        "rows_to_read": sum(rows_of.values()),
        "sections": sections,
        "more_sections": len(plan.sections) - len(sections),
        "changes": plan.changes,
        "warnings": [warning[:MAX_TEXT] for warning in plan.warnings[:MAX_LINES]],
        "lines": [line[:MAX_TEXT] for line in lines[:MAX_LINES]],
        "more_lines": max(0, len(lines) - MAX_LINES),
    }


def is_dry_run(params: Mapping[str, Any]) -> bool:
    """Return whether a DAG run with these params only plans."""
    return is_on(params.get("dry_run")) or is_on(params.get("check_rows"))


def is_on(value: object) -> bool:
    """Return whether a param is on. A DAG's own param may be a text: ``false`` is off."""
    return str(value or "").strip().lower() not in ("", "0", "false")


def refusal_facts(error: SitemapError) -> dict[str, Any]:
    """Return the refusals of a ``RefusedError`` or a ``PartlyPublishedError``.

    Each has the permit that lets the run pass, if any, and the first ``MAX_LINES`` have a sentence. ``run`` identifies
    the run in the store, which holds what it would have published.
    """
    refusals = [
        {"guard": each.guard, "section": each.section, "message": each.message[:MAX_TEXT], "permit": each.permit}
        for each in getattr(error, "refusals", ())[:MAX_NAMES]
    ]
    for refusal in refusals[MAX_LINES:]:
        del refusal["message"]
    return {
        "message": str(error)[:MAX_TEXT],
        "refusals": refusals,
        "run": getattr(error, "run", ""),
        "sections": list(error.sections[:MAX_NAMES]),
    }


def failure_facts(error: BaseException) -> dict[str, Any]:
    """Return why a task failed. Only this package's messages are included: a driver's message may contain secrets.

    ``kind`` is the class of ``airflow_sitemaps.errors`` of an error that another module defines. If only some sections
    failed, ``sections`` names each of them, and the first ``MAX_LINES`` with the reason.
    """
    said = str(error)[:MAX_TEXT] if isinstance(error, SitemapError) else ""
    facts: dict[str, Any] = {"error": type(error).__name__, "message": said}
    kind = next((each.__name__ for each in type(error).__mro__ if each.__module__ == SitemapError.__module__), "")
    if kind not in ("", facts["error"]):
        facts["kind"] = kind
    if isinstance(error, PartlyPublishedError):
        facts["is_published"] = getattr(error.report, "result", "") == "partly_published"
        parts = getattr(error.report, "sections", {})
        facts["unchanged"] = [name for name, part in parts.items() if not part.shards.has_changes()][:MAX_NAMES]
        facts["sections"] = [_section_facts(failure) for failure in error.failures[:MAX_NAMES]]
    elif isinstance(error, SitemapError) and error.sections:
        facts["sections"] = [{"section": name, "message": said, "permits": []} for name in error.sections[:MAX_NAMES]]
    for section in facts.get("sections", ())[MAX_LINES:]:
        del section["message"]
    return facts


def _section_facts(failure: Any) -> dict[str, Any]:
    reasons = [refusal.message for refusal in failure.refusals] or [f"{failure.error}: {failure.message}"]
    return {
        "section": failure.section,
        "message": " ".join(reasons)[:MAX_TEXT],
        "permits": [refusal.permit for refusal in failure.refusals],
    }


def written_facts(batches: Sequence[Written]) -> dict[str, Any]:
    """Summarize what one mapped task wrote, in total and by section, with stored bytes and seconds of wall time."""
    sections = list(dict.fromkeys(written.section for written in batches))
    return {
        "section": ", ".join(sections)[:MAX_TEXT],
        **_totals(batches),
        "seconds": round(sum(written.seconds for written in batches), 3),
        "sections": {
            name: _totals([written for written in batches if written.section == name])
            for name in sections[:MAX_SECTIONS]
        },
    }


def _totals(batches: Sequence[Written]) -> dict[str, int]:
    totals = {name: sum(getattr(each, name) for each in batches) for name in ("shards", "rows", "urls", "dropped")}
    return {**totals, "bytes": sum(written.bytes_written for written in batches)}


def verified_facts(found: Verification) -> dict[str, Any]:
    """Summarize a verification, with the first of its failures, errors before warnings."""
    failures = sorted(found.failures, key=lambda failure: failure.severity != "error")
    return {
        "files": found.files,
        "urls": found.urls,
        "sampled": found.sampled,
        "errors": len(found.errors),
        "warnings": len(found.failures) - len(found.errors),
        "failures": [
            {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in asdict(failure).items()}
            for failure in failures[:MAX_FAILURES]
        ],
    }
