"""The data of the pages: the report as all show it, usage of limits, broken rules and files. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from airflow_sitemaps.pipeline.report import Report, SectionReport
from airflow_sitemaps.plugin.dag_runs import ENDED, TaskState
from airflow_sitemaps.plugin.events import SectionSettings
from airflow_sitemaps.plugin.readings import Moment, StrictModel, attributes, model_of, read_as
from airflow_sitemaps.protocol import CURRENT
from airflow_sitemaps.protocol.rules import RULES

LONG_AGO: Final = datetime.min.replace(tzinfo=timezone.utc)


class FailedCheck(StrictModel):
    """A check that failed ``count`` times in one place."""

    severity: Literal["error", "warning"] = "warning"
    rule: str = ""
    where: str = ""
    message: str = ""
    count: int = 1


CLOCKS: Final = timedelta(seconds=5)
"""How far a worker's clock, which gives a task's start, may be behind that of the API server, which gives an event's time."""


class VerificationRun(StrictModel):
    """One run of a verification task.

    Numbers are None if the task pushed none. ``failures`` are the first ones.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    state: str
    start: Moment | None
    end: Moment | None
    sitemap: Annotated[str, Field(exclude=True)] = ""  # the URI of its asset
    files: int | None = None
    urls: int | None = None
    errors: int = 0
    warnings: int = 0
    failures: list[FailedCheck] = []

    @classmethod
    def of(cls, task: TaskState, pushed: object) -> VerificationRun:
        """Return the run of a verification task, with the numbers that it pushed."""
        names = ("dag_id", "run_id", "task_id", "map_index", "state", "start", "end")
        return read_as(cls, pushed, **attributes(task, *names))

    @property
    def task(self) -> tuple[str, str, str]:
        """The task of a DAG run, whose parts a mapped task has."""
        return self.dag_id, self.run_id, self.task_id

    @property
    def broken(self) -> bool:
        """Whether the verification reported a broken rule of the protocol, or files that differ from the manifest."""
        return self.errors > 0  # whatever the task is marked as

    def is_of(self, published_at: datetime) -> bool:
        """Return whether the verification read what was published at a given time, or later."""
        began = self.start or self.end
        return began is not None and began + CLOCKS >= published_at


def newest_ended(runs: Sequence[VerificationRun], *, passed: bool = False) -> VerificationRun | None:
    """Return the verification that ended last, or passed last; None if none did. Of a mapped task, it is the worst part.

    Skipped parts do not count. A mapped task passes when all its parts have.
    """
    bad = [run for run in runs if run.state == "failed" or (run.state == "success" and run.broken)]
    open_or_bad = {run.task for run in (*bad, *(run for run in runs if run.state not in ENDED))}
    good = [run for run in runs if run.state == "success" and run.task not in open_or_bad]
    ended = good if passed else [*bad, *good]
    last = max(ended, key=lambda run: run.end or LONG_AGO, default=None)
    parts = [run for run in ended if last is not None and run.task == last.task]
    return min(parts, key=lambda run: (not run.broken, run.start or LONG_AGO), default=None)


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
        without=("failures", "prefixes", "planned", "urls_gone", "canaries", "format"),
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


class Gauge(StrictModel):
    """Usage of one limit, in ``unit``."""

    name: str
    used: int
    limit: int
    unit: str
    source: str
    next_step: str = ""
    warns: bool = False
    limit_note: str = ""


def gauges(report: Report, settings: Mapping[str, SectionSettings]) -> list[Gauge]:
    """Return the usage of each limit of the protocol that the report contains."""
    totals = [section.shards.total for section in report.sections.values()]
    per_section = len(report.index_urls) > 1 and totals
    usage = [
        Gauge(
            name="Files in the largest index" if per_section else "Files in the index",
            used=max(totals) if per_section else report.shards.total,
            limit=CURRENT.max_sitemaps,
            unit="files",
            source="sitemaps.org: an index lists at most 50,000 sitemaps.",
            next_step="When the index is full, another index file is added: list it in robots.txt (airflow-sitemaps robots). "
            'Larger shards, or index="per_section", postpone that.',
            warns=True,
        )
    ]
    note = "Average over the section's files"
    for name, section in report.sections.items():
        total = section.shards.total
        if not total:
            continue
        source = "ShardPolicy(max_urls=…); sitemaps.org allows 50,000 URLs per file. Full files are intended."
        limit, used = settings.get(name, SectionSettings()).max_urls, round(section.urls / total)
        usage.append(
            Gauge(name=f"{name}: URLs per file", used=used, limit=limit, unit="URLs", source=source, limit_note=note)
        )
        source = "sitemaps.org: a file has at most 52,428,800 bytes, uncompressed."
        limit, used = CURRENT.max_byte_size, round(section.xml_bytes / total)
        usage.append(
            Gauge(name=f"{name}: size per file", used=used, limit=limit, unit="bytes", source=source, limit_note=note)
        )
    return usage
