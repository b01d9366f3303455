"""The problems of a sitemap, each with its next step. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from airflow_sitemaps.pipeline.report import Report, SectionReport
from airflow_sitemaps.plugin.events import SectionSettings
from airflow_sitemaps.plugin.pages import gauges
from airflow_sitemaps.plugin.pages.outcomes import LINKS, AskingRun, FailedTask, RunOutcome
from airflow_sitemaps.plugin.pages.verdict import Snapshot, check_of
from airflow_sitemaps.plugin.readings import StrictModel, attributes
from airflow_sitemaps.protocol.rules import RULES
from airflow_sitemaps.quantities import counted, duration
from airflow_sitemaps.search_engines import fetches

Severity = Literal["error", "warning", "info"]

NEAR: Final = 0.8
"""Fraction of a limit from which usage causes a warning."""
ALLOWED: Final = "allowed: "
"""Prefix of a report's warning about an override. Such a warning is expected, because the user set the override."""
SHOWN: Final = 3
"""Largest number of reasons, files or findings that one problem names."""
READ_LOG: Final = "Read the failed task's log. Then clear the task, or trigger the DAG again."
CHECK_DATA: Final = (
    "Check the source's data. If the change is intended, override the check for one run; otherwise correct the data."
)
ANSWER: Final = "Check the source's data. Then answer whether the change is published, or correct the data."
NO_LOG: Final = (
    "Airflow has no log of that run: it was deleted, or ran in a shell. Correct the cause, and trigger the DAG."
)


class Problem(StrictModel):
    """A condition that needs attention, and the next step.

    ``kind`` is a stable name, for tests and styles; ``title`` is one sentence without a full stop; ``permits`` let one
    run pass; ``failed_tasks`` have logs with details; ``dag_id`` is empty for no link; ``sections`` are those that it
    concerns, none for the whole sitemap; ``questions`` are runs that ask a person; ``store_run`` has what was blocked.
    """

    severity: Severity
    kind: str
    title: str
    detail: str = ""
    next_step: str = ""
    permits: Sequence[str] = ()
    dag_id: str = ""
    run_id: str = ""
    failed_tasks: Sequence[FailedTask] = ()
    questions: Sequence[AskingRun] = ()
    store_run: str = ""
    sections: Annotated[Sequence[str], Field(exclude=True)] = ()


def problems(snapshot: Snapshot) -> list[Problem]:
    """Return every problem, the most severe first."""
    every = [
        *_of_publishers(snapshot),
        *_of_outcomes(snapshot),
        *_of_verification(snapshot),
        *_of_freshness(snapshot),
        *_of_rollback(snapshot),
        *_of_change_outside(snapshot),
        *_of_fetches(snapshot),
        *_of_report(snapshot),
    ]
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(every, key=lambda problem: order[problem.severity])


def is_warned(snapshot: Snapshot, section: str | None = None) -> bool:
    """Return whether the report, or a section's part, has many dropped rows, drift, a limit close by, or a warning."""
    if section is None:
        return any(problem.severity == "warning" for problem in _of_report(snapshot))
    part = snapshot.report.sections.get(section)
    concerns = [] if part is None else [*_of_dropped(snapshot, part, [section]), *_of_drift(part)]
    return any(problem.severity == "warning" for problem in concerns)


def _of_outcomes(snapshot: Snapshot) -> Iterator[Problem]:
    """Yield one problem for each run that failed to publish sections, and that no later run has made good."""
    failing: dict[int, tuple[RunOutcome, list[str]]] = {}
    for section in snapshot.sections:
        if section.outcome is not None and section.result in ("refused", "failed"):
            failing.setdefault(id(section.outcome), (section.outcome, []))[1].append(section.name)
    for outcome, names in failing.values():
        yield (_refused if outcome.result == "refused" else _failed)(snapshot, outcome, names)
    if snapshot.misnamed is not None:
        yield _of_run(
            snapshot.misnamed,
            severity="info",
            kind="misnamed",
            title="The last run's request has a name that does not exist; the run did nothing",
            detail=_joined(snapshot.misnamed.reasons[:SHOWN]),
            next_step="Trigger the DAG again with a name that exists.",
        )


def _refused(snapshot: Snapshot, outcome: RunOutcome, names: Sequence[str]) -> Problem:
    settled = {section.name for section in snapshot.sections}.difference(names)  # by a later run, or an answer
    refusals = [refusal for refusal in outcome.refusals if refusal.section not in settled]
    guards = sorted({refusal.guard for refusal in refusals if refusal.guard})
    named = f" ({', '.join(guards)})" if guards else ""
    said = [*(refusal.message for refusal in refusals), *outcome.reasons[:SHOWN]]
    return _of_run(
        outcome,
        severity="error",
        kind="refused",
        title=_title(snapshot, outcome, names, "blocked by a safety check", named),
        detail=_joined([*said, _live(snapshot, outcome, names)]),
        next_step=ANSWER if outcome.questions else CHECK_DATA,
        **attributes(outcome, "questions", "store_run"),
        permits=[refusal.permit for refusal in refusals if refusal.permit],
        sections=names,
    )


def _of_run(outcome: RunOutcome, **fields: Any) -> Problem:
    return Problem(**attributes(outcome.run, "dag_id", "run_id"), failed_tasks=outcome.failed_tasks[:LINKS], **fields)


def _failed(snapshot: Snapshot, outcome: RunOutcome, names: Sequence[str]) -> Problem:
    tasks = sorted({task.task_id for task in outcome.failed_tasks})
    said = ["A task before the sitemap's own tasks failed"] if not outcome.reasons else []
    if tasks:
        said = [f"The task{'s' if len(tasks) > 1 else ''} {' and '.join(tasks)} failed"]
    return _of_run(
        outcome,
        severity="error",
        kind="failed",
        title=_title(snapshot, outcome, names, "failed"),
        detail=_joined([*said, *outcome.reasons[:SHOWN], _live(snapshot, outcome, names)]),
        next_step=READ_LOG if outcome.run.dag_id else NO_LOG,
        sections=names,
    )


def _title(snapshot: Snapshot, outcome: RunOutcome, names: Sequence[str], what: str, why: str = "") -> str:
    """Return what happened: to the last run, to some sections of it, or to the last run of some sections."""
    of_dag = f" of {outcome.run.dag_id}" if len(snapshot.publishers) > 1 and outcome.run.dag_id else ""
    if outcome.is_partial:
        return f"Last run{of_dag} {what} for {_listed(names)}{why}; the other sections are published"
    of_sections = f" of {_listed(names)}" if len(names) < len(snapshot.sections) else ""
    return f"Last run{of_dag}{of_sections} {what}{why}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"{'section' if len(names) == 1 else 'sections'} {', '.join(names[:SHOWN])}{more}"


def _live(snapshot: Snapshot, outcome: RunOutcome, names: Sequence[str]) -> str:
    if not outcome.is_partial and len(names) == len(snapshot.sections):
        return _still_live(snapshot)
    is_published = any(section.published for section in snapshot.sections if section.name in names)
    return "The files of the last run that succeeded stay public" if is_published else ""


def _still_live(snapshot: Snapshot) -> str:
    if not snapshot.published:
        return "Nothing has been published yet"
    return f"Generation {snapshot.generation:,} is still live"


def _joined(sentences: Sequence[str]) -> str:
    """Join sentences, each ending with exactly one full stop."""
    return " ".join(f"{_sentence(sentence.rstrip('. '))}." for sentence in sentences if sentence.strip(". "))


def _sentence(text: str) -> str:
    """Return a text with a capital letter, if it begins with an ordinary word and not with a name such as an address."""
    word = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text


def _of_verification(snapshot: Snapshot) -> Iterator[Problem]:
    verification, check = snapshot.verification, check_of(snapshot)
    if verification is None or check not in ("incomplete", "invalid", "invalid_before"):
        return
    severity: Severity = "error" if check == "invalid" else "warning"
    if check == "incomplete":
        strict = "Last verification failed because of warnings" if verification.warnings else ""
        title, next_step = strict or "Last verification did not finish", "Read the log of the verifying task."
    elif check == "invalid_before":
        title = "Verification found errors before the last run; that run may have corrected them"
        next_step = "Verify again."
    else:
        title = f"Verification found {counted(verification.errors, 'error')} in the published files"
        next_step = "Trigger the publishing DAG: it restores files that were modified outside Airflow. Rebuild shards that stay invalid. Then verify again."
    said = [f"{finding.where}: {finding.message}" for finding in verification.failures[:2]]
    more = verification.errors + verification.warnings - len(said)
    yield Problem(
        severity=severity,
        kind="unverified" if check == "incomplete" else "invalid",
        title=title,
        detail=_joined([*said, f"{more:,} more" if more > 0 and said else ""]),
        next_step=next_step,
        **attributes(verification, "dag_id", "run_id"),
        failed_tasks=[FailedTask(**attributes(verification, "task_id", "map_index"))],
    )


def _of_publishers(snapshot: Snapshot) -> Iterator[Problem]:
    dags = snapshot.publishers
    if not dags:
        yield Problem(
            severity="info",
            kind="orphaned",
            title="Orphaned: no DAG that you may see publishes this sitemap",
            detail="Its DAG was removed, or now publishes to another address: the published files are no longer updated. Or a DAG that you may not see publishes it.",
            next_step="Restore the DAG if the sitemap is still needed. If no DAG publishes it, archive it here, and remove its files from the store.",
        )
    for dag in (dag for dag in dags if dag.has_import_errors):
        yield Problem(
            severity="error",
            kind="dag-broken",
            title=f"The file of the DAG {dag.dag_id} cannot be imported",
            detail="Airflow runs the last version that it could read.",
            next_step="Read the import error on Airflow's home page and correct the file.",
        )
    if len(dags) > 1:
        yield Problem(
            severity="warning",
            kind="several-publishers",
            title=f"{len(dags)} DAGs publish this sitemap: {', '.join(sorted(dag.dag_id for dag in dags))}",
            detail="Each run replaces what the other DAG published.",
            next_step="Let one DAG publish it, or give each DAG's sitemap an address of its own.",
        )
    if snapshot.paused:  # which is False without a DAG
        yield Problem(
            severity="info",
            kind="paused",
            title="The DAG is paused" if len(dags) == 1 else "All its DAGs are paused",
            detail="The sitemap is not updated, and no next run is planned.",
            next_step="Unpause the DAG to update the sitemap again.",
        )


def _of_freshness(snapshot: Snapshot) -> Iterator[Problem]:
    age = snapshot.age
    if age.state not in ("missed", "behind_schedule", "idle") or not snapshot.publishers:
        return
    oldest = [s.name for s in snapshot.sections if s.published and s.age.state == age.state]
    whose = f" of {_listed(oldest)}" if 0 < len(oldest) < len(snapshot.sections) else ""
    title, detail = f"The data{whose} was last read {duration(age.age_s or 0)} ago", "No freshness objective is set."
    step = "Set Sitemap(freshness=…) to the age that the data may have, or check that runs of the DAG start."
    if age.state != "idle":
        title = f"{title}; the objective is {duration(age.objective_s or 0)}"
        is_set = age.source == "sitemap"
        detail = "The objective is set on the sitemap." if is_set else "The objective comes from the DAG's schedule."
        step = "Check that the scheduler runs, and that runs of the DAG start and succeed."
    yield Problem(
        severity="error" if age.state == "missed" and not snapshot.paused else "warning",
        kind="late",
        title=title,
        detail=detail,
        next_step="Unpause the DAG." if snapshot.paused else step,
        sections=oldest if whose else (),
    )


def _of_rollback(snapshot: Snapshot) -> Iterator[Problem]:
    run = snapshot.rollback_failed
    if run is None:
        return
    yield Problem(
        severity="warning",
        kind="rollback-failed",
        title="The last rollback failed",
        detail=_joined([_still_live(snapshot)]),
        next_step="Read the log of the task that failed, then roll back again.",
        **attributes(run, "dag_id", "run_id"),
    )


def _of_change_outside(snapshot: Snapshot) -> Iterator[Problem]:
    live = snapshot.live
    if live is None or not snapshot.changed_outside:
        return
    what = f"a {live.action}" if live.action.startswith("rollback") else f"a {live.action} in the shell or in a program"
    yield Problem(
        severity="info",
        kind="changed-outside",
        title=f"Changed outside Airflow: generation {live.generation:,} is live",
        detail=f"No DAG run of Airflow made it, but {what}.",
        next_step="Nothing, if this was intended. The next run of the DAG publishes what the source holds then.",
    )


def _of_fetches(snapshot: Snapshot) -> list[Problem]:
    summary = snapshot.live.fetched if snapshot.live is not None else fetches.Fetches()
    return [
        Problem(
            severity="warning",
            kind="not-fetched",
            title=_sentence(title),
            detail=_joined([*urls, f"Read from the access log at {summary.at[:16].replace('T', ' ')} UTC"]),
            next_step=fetches.NEXT_STEP,
            sections=sections,
        )
        for title, sections, urls in fetches.late(summary)
    ]


def _of_report(snapshot: Snapshot) -> list[Problem]:
    report = snapshot.report
    of_warnings = [
        Problem(severity="info", kind="warning", title=f"Override used: {warning.removeprefix(ALLOWED)}")
        if warning.startswith(ALLOWED)
        else Problem(severity="warning", kind="warning", title=_sentence(warning))
        for warning in report.warnings[:20]
    ]
    return [*_of_all_dropped(snapshot), *_of_limits(snapshot), *_of_drift(report), *of_warnings]


def _of_all_dropped(snapshot: Snapshot) -> list[Problem]:
    """Return the dropped rows of the whole sitemap; if these are few, those of each section that drops many of its own."""
    report = snapshot.report
    whole = list(_of_dropped(snapshot, report, list(report.sections)))
    if any(problem.severity == "warning" for problem in whole):
        return whole
    many = [
        problem.model_copy(update={"title": f"Section {name}: {problem.title}", "sections": [name]})
        for name, part in report.sections.items()
        for problem in _of_dropped(snapshot, part, [name])
        if problem.severity == "warning"
    ]
    return many or whole


def _of_dropped(snapshot: Snapshot, report: Report | SectionReport, names: Sequence[str]) -> Iterator[Problem]:
    faulty = report.rows_dropped  # rows past their age are counted apart: nothing is wrong with them
    dropped, rows = sum(faulty.values()), report.rows
    if not rows or not dropped:
        return
    settings = [snapshot.settings[name] for name in names if name in snapshot.settings] or [SectionSettings()]
    limit = max(each.max_dropped for each in settings)
    rule, number = max(faulty.items(), key=lambda item: item[1])
    says = f" ({RULES[rule].text})" if rule in RULES else ""
    share = f"{dropped / rows:.2%}" if dropped * 10_000 >= rows else "< 0.01%"
    yield Problem(
        severity="warning" if dropped > rows * limit else "info",
        kind="dropped",
        title=f"{dropped:,} of {counted(rows, 'row')} {'are' if dropped != 1 else 'is'} not in the sitemap ({share})",
        detail=f"The most frequent reason is the rule {rule}{says}: {counted(number, 'row')}.",
        next_step="Correct these rows in the source; “Validation issues” below shows samples.",
    )


def _of_limits(snapshot: Snapshot) -> list[Problem]:
    return [
        Problem(
            severity="warning",
            kind="limit",
            title=f"{gauge.name}: {gauge.used:,} of {gauge.limit:,} {gauge.unit}",
            detail=gauge.source,
            next_step=gauge.next_step,
        )
        for gauge in gauges(snapshot.report, snapshot.settings)
        if gauge.used >= gauge.limit * NEAR and gauge.warns
    ]


def _of_drift(report: Report | SectionReport) -> Iterator[Problem]:
    drift = report.drift
    if not drift:
        return
    more = f"{len(drift) - SHOWN:,} more" if len(drift) > SHOWN else ""
    yield Problem(
        severity="warning",
        kind="drift",
        title=f"{counted(len(drift), 'file')} {'were' if len(drift) != 1 else 'was'} modified outside Airflow",
        detail=_joined([*drift[:SHOWN], more, "The run restored the files that it found changed"]),
        next_step="Find out what else writes to this address.",
    )
