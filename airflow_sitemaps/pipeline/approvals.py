"""Approvals: a person decides whether a run publishes the change of a section that guards refused.

``ask`` stages the refused change under a run of its own, with the permits that it needs. ``answer`` publishes exactly what
was staged, or records that the published section is kept.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.errors import SitemapError, StoreContentError
from airflow_sitemaps.pipeline.changes import compare
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.publish.commit_files import commit_facts
from airflow_sitemaps.pipeline.publish.new_pages import Canaries
from airflow_sitemaps.pipeline.publish.publisher import commit
from airflow_sitemaps.pipeline.publish.sweep import lifetime
from airflow_sitemaps.pipeline.refusals import (
    ASKABLE,
    WITHDRAWN,
    at_commit,
    is_due,
    open_questions,
    replace_sections,
    to_ask,
)
from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK, OpenSitemap
from airflow_sitemaps.pipeline.stages import finished, reported
from airflow_sitemaps.pipeline.state.identity import check_unchanged
from airflow_sitemaps.pipeline.state.repository import new_run, receipts_directory, receipts_of
from airflow_sitemaps.ports import QUIET, Clock, Progress
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards.commit import next_manifest
from airflow_sitemaps.shards.manifest import Manifest, Question, SectionManifest
from airflow_sitemaps.shards.plan import plan_key

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.shards.codec import Receipt
    from airflow_sitemaps.shards.guards import Refusal
    from airflow_sitemaps.shards.plan import Plan, SectionFailure
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

SAMPLES: Final = 5
"""Number of URLs that a question names."""

MOST: Final = 200_000
"""Number of URLs that may differ for a question to name some of them."""

KEPT: Final = "kept"
"""Answer by which the published section is kept."""

NO_ONE: Final = "no one in time"
"""Who answered a question that was open until its deadline."""


def ask(
    sitemap: Sitemap,
    key: str,
    receipt_keys: Sequence[str],
    failures: Sequence[SectionFailure],
    timeout: timedelta,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> dict[str, Question]:
    """Open a question about each section whose change the guards refused, after ``publish``.

    A repeated try of the run returns the questions that the first one opened. ``receipt_keys`` name the receipts of all
    batches, those of refused sections included. Return the open questions of this run by section.
    """
    opened = OpenSitemap.of(sitemap, clock)
    state = opened.state
    run_plan, now = state.read_plan(key), clock.now()
    opened = opened.of_members(run_plan.members)
    receipts = [state.read_receipt(key) for key in receipts_of(run_plan.run, receipt_keys)]
    tied = {name for group in run_plan.tied for name in group}
    refusals = [r for failure in failures for r in failure.refusals if r.section not in tied]
    for name, own in to_ask(state.manifest(), refusals, now).items():
        try:
            _ask_about(opened, run_plan, [r for r in receipts if r.section == name], own, timeout)
        except SitemapError as error:  # the run says what was refused; the question is an addition to it
            log.error("section %s: Airflow asks no one: %s: %s", name, type(error).__name__, error)
    opens = open_questions(state.manifest(), now)
    return {name: question for name, question in opens.items() if question.refused == run_plan.run}


def _ask_about(
    opened: OpenSitemap, plan: Plan, receipts: Sequence[Receipt], refusals: Sequence[Refusal], timeout: timedelta
) -> None:
    name, state = refusals[0].section, opened.state
    staged, own = _staged(opened, plan, receipts, name)
    check_unchanged(opened.sitemap, staged, [name])
    staged = _judged(opened, staged, own, state.published(), refusals)
    now = opened.clock.now()
    deadline = min(now + timeout, plan.created_at + lifetime(opened.sitemap.grace))
    permits = tuple(refusal.permit for refusal in staged.refusals)
    question = Question(run=staged.run, refused=plan.run, permits=permits, asked_at=now, deadline=deadline)
    for receipt in own:
        state.write_receipt(receipt, opened.clock.token())
    state.write_plan(staged)

    def opens(section: SectionManifest) -> SectionManifest | None:
        if section.changed_in != staged.sections[name].base or not is_due(section.question, refusals, now):
            return None
        return replace(section, question=question)

    replace_sections(opened, {name: opens})


def _staged(
    opened: OpenSitemap, plan: Plan, receipts: Sequence[Receipt], name: str
) -> tuple[Plan, tuple[Receipt, ...]]:
    """Return the plan of a refused section under a run of its own, with its receipts."""
    run, section = new_run(opened.clock), plan.refused.get(name) or plan.sections[name]
    batches = [batch for batch in plan.batches if batch.section == name]
    numbers = {batch.number: number for number, batch in enumerate(batches)}
    staged = replace(
        plan,
        run=run,
        sections={name: replace(section, refresh=True)},
        batches=tuple(replace(batch, number=numbers[batch.number]) for batch in batches),
        retired=(), index_drift=(), adopted=(), extras_due=False, refusals=(), warnings=(), allow=(), failures=(),
        rebases=False, notes=(), refused={}, checks=(), repairs=(), asked_by=f"question {run}", staged=True,
    )  # fmt: skip
    return staged, tuple(replace(each, run=run, batch=numbers[each.batch]) for each in receipts)


def _judged(
    opened: OpenSitemap, staged: Plan, receipts: Sequence[Receipt], old: Manifest, refusals: Sequence[Refusal]
) -> Plan:
    """Return a staged plan with what the guards of its commit refuse, the permits for that, and the question's text.

    Raise StoreContentError if a guard refuses what no answer may allow, and the errors of ``next_manifest``.
    """
    ((name, _),) = staged.sections.items()
    new = next_manifest(old, staged, receipts, commit_facts(opened, old))
    own = tuple(refusal for refusal in at_commit(opened, staged, receipts, old, new)[0] if refusal.section == name)
    canary = [refusal for refusal in refusals if refusal.guard == "canary"]
    canary = canary or list(Canaries(opened).refusals(staged, receipts, old, ()))
    judged = {refusal.guard: refusal for refusal in (*refusals, *own, *canary)}  # as rendered, where it was rendered
    if foreign := judged.keys() - ASKABLE:
        raise StoreContentError(f"the guard {', '.join(sorted(foreign))} refuses it, and only a permit may allow that")
    allow = [refusal.permit for refusal in judged.values()]
    if "canary" not in judged:  # it has judged these pages; the answer publishes exactly what was judged
        allow.append(f"canary:{name}")
    return replace(
        staged, refusals=tuple(judged.values()), allow=tuple(allow), notes=_differences(opened, old, new, name)
    )


def _differences(opened: OpenSitemap, old: Manifest, new: Manifest, name: str) -> tuple[str, ...]:
    before, after = (replace(each, sections={name: each.sections[name]}) for each in (old, new))
    sizes = f"{before.sections[name].urls:,} URLs are listed now, {after.sections[name].urls:,} would be."
    try:
        compared = compare(opened.state, before, after, most=MOST)
    except SitemapError as error:
        return (sizes, f"The URLs that differ are not named: {error}")
    lines = [sizes]
    for what, urls in (("no longer be listed", compared.removed), ("be new", compared.added)):
        if urls:
            lines.append(f"{counted(len(urls), 'URL')} would {what}, such as {', '.join(islice(urls, SAMPLES))}.")
    return tuple(lines)


def answer(
    sitemap: Sitemap,
    run: str,
    *,
    is_allowed: bool,
    by: str = "",
    clock: Clock = SYSTEM_CLOCK,
    progress: Progress = QUIET,
) -> Report | None:
    """Publish a staged change exactly as it was compared, or record that the published section is kept.

    ``by`` is empty if no one answered in time.

    Returns:
        The report; None if the question was closed before. A repeated try reports a kept section again.

    Raises:
        ConflictError: The question is closed, or another run changed the section.
        ConfigurationError: The section's configuration changed.
        GuardError: A guard refuses the change for another reason than that of the question.
        IncompleteError: The staged change is too old.
        StoreContentError: It was swept.
    """
    started, opened = clock.now(), OpenSitemap.of(sitemap, clock, progress)
    staged, keys, stored_at = staged_plan(opened, run)
    opened = opened.of_members(staged.members)
    who = by or NO_ONE
    if not is_allowed:
        _decide(opened, staged, KEPT, by)
        manifest = opened.state.published()
        questions = [section.question for section in manifest.sections.values() if section.question]
        if not any((each.run, each.answer) == (staged.run, KEPT) for each in questions):
            return None
        said = replace(staged, warnings=(f"the published section is kept; answered by {who}",))
        refusals = tuple(refusal.message for refusal in staged.refusals)
        return reported(opened, said, (), old=manifest, new=manifest, result="refused", refusals=refusals)
    allowed = tuple(f"allowed: {refusal.message} (answered by {who})" for refusal in staged.refusals)
    receipts = list(mapped(opened.state.read_receipt, keys, "sitemap-receipts"))
    canaries = Canaries(opened)
    committed = commit(canaries, replace(staged, warnings=allowed), receipts, stored_at)
    return finished(canaries, committed, receipts, started)


def _decide(opened: OpenSitemap, plan: Plan, answer: str, by: str = "") -> None:
    """Record that a staged change is not published, if its question is still open."""

    def kept(section: SectionManifest) -> SectionManifest | None:
        question = section.question
        if question is None or question.run != plan.run or question.answer:
            return None
        return replace(section, question=replace(question, answer=answer, answered_by=by))

    replace_sections(opened, dict.fromkeys(plan.sections, kept))


def withdraw(sitemap: Sitemap, run: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
    """Close a question that Airflow could not ask, so that the next refused run asks."""
    opened = OpenSitemap.of(sitemap, clock)
    _decide(opened, staged_plan(opened, run)[0], WITHDRAWN)


def questions_of(sitemap: Sitemap, *, clock: Clock = SYSTEM_CLOCK) -> dict[str, Question]:
    """Return the open question of each section that has one."""
    return open_questions(OpenSitemap.of(sitemap, clock).state.manifest(), clock.now())


def staged_plan(opened: OpenSitemap, run: str) -> tuple[Plan, list[str], datetime | None]:
    """Read a staged change: its plan, the keys of its receipts, and the store's time at which the plan was stored."""
    plan, stored_at = opened.state.stored_plan(plan_key(run))
    return plan, [info.key for info in opened.state.objects.list(receipts_directory(run))], stored_at


def question_text(plan: Plan, question: Question, page: str = "") -> tuple[str, str]:
    """Return the subject and the body, in Markdown, of the question about a staged change."""
    (name,) = plan.sections
    lines = [f"The guards refused the change of section **{name}**; the sitemap stays as published."]
    lines += [f"- {refusal.message}" for refusal in plan.refusals]
    lines += ["", *plan.notes, ""]
    lines.append(
        "*Publish this change* publishes exactly what was compared here. *Keep the published one* changes nothing, and so does "
        f"no answer until {question.deadline:%Y-%m-%d %H:%M} UTC."
    )
    if page:
        lines += ["", f"[The refused run]({page})"]
    return f"Publish the change of section {name!r}?", "\n".join(lines)
