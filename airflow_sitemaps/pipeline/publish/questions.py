"""The questions of a sitemap: which refused changes Airflow asks a person about, and what closes a question.

The manifest records the last question of each section. Whatever changes it replaces the manifest: the answer, a run that
commits the section, a run that looks at the section and refuses nothing. So an answer never publishes a change whose
question was closed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.errors import ConflictError
from airflow_sitemaps.pipeline.state.conditional_put import RefusedPutError
from airflow_sitemaps.shards.guards import Refusal, permitted

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.request import OpenSitemap
    from airflow_sitemaps.shards.manifest import Manifest, Question, SectionManifest
    from airflow_sitemaps.shards.plan import Plan

ASKABLE: Final = frozenset({"shrink", "growth", "empty", "dropped", "churn", "redated", "must_list", "canary"})
"""Guards whose refusals a person may allow by an answer. The others concern more than one section's change."""

AGAIN: Final = timedelta(days=1)
"""Time after which a run asks about an equal change again."""

RACES: Final = 8
"""Number of times that a question is recorded again because another run replaced the manifest first."""

WITHDRAWN: Final = "withdrawn"
"""Answer to a question that Airflow could not ask."""


def to_ask(manifest: Manifest | None, refusals: Sequence[Refusal], now: datetime) -> dict[str, tuple[Refusal, ...]]:
    """Return the refusals by section of each section about which a run is to ask a person.

    A section has one open question. After an answer, or none in time, a run asks about the same change again after a
    day, and about a change beyond the permits of that question at once. A section that was never published has nothing to keep.
    """
    by_section: dict[str, list[Refusal]] = {}
    for refusal in refusals:
        by_section.setdefault(refusal.section, []).append(refusal)
    published = manifest.sections if manifest is not None else {}
    return {
        name: tuple(own)
        for name, own in by_section.items()
        if name in published
        and all(refusal.guard in ASKABLE for refusal in own)
        and is_due(published[name].question, own, now)
    }


def is_due(last: Question | None, refusals: Sequence[Refusal], now: datetime) -> bool:
    """Return whether a run is to ask a person, given the last question about the section."""
    if last is None or last.answer == WITHDRAWN:
        return True
    if last.is_open(now):
        return False
    return now >= last.asked_at + AGAIN or bool(permitted(refusals, last.permits)[0])


def open_questions(manifest: Manifest | None, now: datetime) -> dict[str, Question]:
    """Return the open question of each section that has one."""
    sections = manifest.sections if manifest is not None else {}
    return {n: s.question for n, s in sections.items() if s.question is not None and s.question.is_open(now)}


def check_open(manifest: Manifest | None, plan: Plan, now: datetime) -> None:
    """Refuse a staged plan whose question is closed. Raises ``ConflictError``."""
    opens = open_questions(manifest, now)
    closed = [name for name in plan.sections if name not in opens or opens[name].run != plan.run]
    if closed:
        raise ConflictError(
            f"the question about section {closed[0]!r} is closed: a newer run published the section or had nothing to refuse, or its time "
            "is over. Nothing was published. The next run that a guard refuses asks again.",
            winner=manifest.run if manifest is not None else "",
        )


def close(opened: OpenSitemap, manifest: Manifest | None, names: Collection[str]) -> None:
    """Close the questions about sections of which a run has found that there is nothing to refuse."""
    if manifest is not None and any(s.question for n, s in manifest.sections.items() if n in names):
        replace_sections(opened, dict.fromkeys(names, lambda section: replace(section, question=None)))


def replace_sections(
    opened: OpenSitemap, changes: Mapping[str, Callable[[SectionManifest], SectionManifest | None]]
) -> None:
    """Replace the manifest by one with changed sections, if there is anything to change.

    Every run that has read the manifest before has to commit again, and finds the change.
    """
    for _ in range(RACES):
        current = opened.state.current()
        if current is None:
            return
        sections = dict(current.manifest.sections)
        for name in changes.keys() & sections.keys():
            sections[name] = changes[name](sections[name]) or sections[name]
        if sections == dict(current.manifest.sections):
            return
        with suppress(RefusedPutError):
            opened.state.replace_manifest(
                replace(current.manifest, sections=sections, write_id=opened.clock.token()), current
            )
            return
    raise ConflictError(f"other runs published first, {RACES} times in a row; the question is as it was before")
