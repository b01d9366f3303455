"""What a run and a verification found: the report as the pages show it, rows that broke a rule, broken files. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BeforeValidator

from airflow_sitemaps.pipeline.report import Report, SectionReport
from airflow_sitemaps.plugin.dag_runs import TaskState
from airflow_sitemaps.plugin.events import SectionSettings
from airflow_sitemaps.plugin.readings import (
    ForeignModel,
    Moment,
    StrictModel,
    Text,
    Whole,
    integer,
    items,
    mapping,
    model_of,
)
from airflow_sitemaps.protocol.rules import RULES

_LONG_AGO: Final = datetime.min.replace(tzinfo=timezone.utc)


class Finding(ForeignModel):
    """A check that failed ``count`` times in one place."""

    severity: Annotated[
        Literal["error", "warning"], BeforeValidator(lambda value: "error" if value == "error" else "warning")
    ] = "warning"
    rule: Text = ""
    where: Text = ""
    message: Text = ""
    count: Annotated[int, BeforeValidator(lambda value: max(1, integer(value)))] = 1


class VerificationRun(ForeignModel):
    """One run of a verification task.

    Numbers are None if the task pushed none. ``failures`` are the first ones.
    """

    dag_id: str
    run_id: str
    task_id: str
    state: str
    start: Moment | None
    end: Moment | None
    files: Whole | None = None
    urls: Whole | None = None
    errors: Whole = 0
    warnings: Whole = 0
    failures: Annotated[
        list[Finding], BeforeValidator(lambda value: [Finding.read(mapping(each)) for each in items(value)])
    ] = []

    @classmethod
    def of(cls, task: TaskState, pushed: object) -> VerificationRun:
        """Return the run of a verification task, with the numbers that it pushed."""
        names = ("dag_id", "run_id", "task_id", "state", "start", "end")
        run: VerificationRun = cls.read(pushed, **{name: getattr(task, name) for name in names})
        return run

    @property
    def broken(self) -> bool:
        """Whether the verification reported a broken rule of the protocol, or files that differ from the manifest."""
        return self.state == "failed" and self.errors > 0

    def is_of(self, published_at: datetime) -> bool:
        """Return whether the verification read what was published at a given time, or later."""
        return self.end is not None and self.end >= published_at


def newest_ended(tasks: Iterable[TaskState], *, passed: bool = False) -> TaskState | None:
    """Return the verification task that ended last, or None. Skipped tasks and tasks without an end do not count."""
    states = {"success"} if passed else {"success", "failed"}
    ended = [task for task in tasks if task.kind == "verify" and task.state in states]
    return max(ended, key=lambda task: task.end or _LONG_AGO, default=None)


if TYPE_CHECKING:
    PublishedReport = Report
else:
    _sections = model_of(
        SectionReport,
        "One section of a report. ``rows_expired`` are past their age, such as news after two days, and no fault.\n\n"
        "``extensions`` are the numbers of images, videos, articles (``news``) and alternates.",
        without=("samples", "faults_before", "rows_before"),
    )
    PublishedReport = model_of(
        Report,
        "The report of a run, from the asset event.",
        without=("failures", "prefixes", "planned", "format"),
        sections=Mapping[str, _sections],
    )


class Issue(StrictModel):
    """Rows of a section that broke a rule: ``text`` is the rule's, ``result`` the effect on the rows."""

    section: str
    rule: str
    text: str
    result: str
    rows: int
    samples: list[str]


def issues_of(report: Report, settings: Mapping[str, SectionSettings]) -> list[Issue]:
    """Return the rows that broke a rule, by section and rule. Rows past their age are no issue."""
    return [
        Issue(
            section=name,
            rule=rule,
            text=RULES[rule].text if rule in RULES else "",
            result=settings.get(name, SectionSettings())
            .effect_of(rule, dropped=rule in section.rows_dropped)
            .value.capitalize(),
            rows=section.rows_dropped.get(rule, 0) + section.fields_fixed.get(rule, 0),
            samples=list(section.samples.get(rule, ())),
        )
        for name, section in report.sections.items()
        for rule in {**section.rows_dropped, **section.fields_fixed}
    ]


ISSUE_COLUMNS = ("section", "rule", "text", "result", "rows", "sample")


def issue_rows(issues: Sequence[Issue]) -> list[dict[str, object]]:
    """Return the lines of the export: one for each sample, or one for a rule without samples."""
    return [{**issue.model_dump(), "sample": sample} for issue in issues for sample in issue.samples or [""]]
