"""The DAG in which Airflow asks a person about what the guards refused, and carries out the answer.

It is a DAG of its own, because a question within the sitemap's DAG would hold its next run. ``SitemapPublishOperator``
starts one run of it for each question.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG, Context

from airflow_sitemaps import errors, setting_checks
from airflow_sitemaps.airflow_compat import AirflowSkipException, start_run
from airflow_sitemaps.operators.base import SitemapOperator, permanent_failures
from airflow_sitemaps.operators.links import SitemapIndexLink, SitemapPageLink

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import Question
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

PUBLISH: Final = "Publish this change"
KEEP: Final = "Keep the published one"

ANSWER: Final = "sitemap_answer"
"""XCom key of the task that carries out an answer: the result in a word or two, and who answered."""

MOST_QUESTIONS: Final = 1_000
"""Number of open questions of a DAG: Airflow's default of 16 active runs would hide the 17th."""

WHERE: Final = ("owner", "queue", "executor", "executor_config", "run_as_user")
"""Arguments that the tasks have in common with ``publish``."""

RETRY_DELAY: Final = timedelta(seconds=30)
"""Time between two tries of a task of the DAG."""

RESULTS: Final[tuple[tuple[type[errors.SitemapError], str], ...]] = (
    (errors.ConflictError, "superseded"),
    (errors.ConfigurationError, "changed"),
    (errors.IncompleteError, "expired"),
    (errors.StoreContentError, "expired"),
    (errors.GuardError, "refused again"),
)
"""Why an answer published nothing, by the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Whom Airflow asks about a section that the guards refuse, and for how long.

    Attributes:
        timeout: How long a question is open. Then the published section is kept. At most the sitemap's ``grace``, or six
            hours if that is longer, from the plan on: what a run wrote is kept for that time. Default: 4 hours.
        assigned_users: Who may answer, each as ``{"id": …, "name": …}`` of Airflow's auth manager. No one else may, not
            even an administrator. Default: everyone whom Airflow lets answer in the DAG.

    Raises:
        ConfigurationError: A setting is not valid.
    """

    timeout: timedelta = timedelta(hours=4)
    assigned_users: Sequence[Any] = ()

    def __post_init__(self) -> None:
        setting_checks.duration("Approval", "timeout", self.timeout, positive=True)
        users = self.assigned_users if isinstance(self.assigned_users, (list, tuple)) else (None,)
        if not all(isinstance(u, dict) and {k: type(u[k]) for k in u} == {"id": str, "name": str} for u in users):
            raise errors.ConfigurationError(
                f"Approval: assigned_users={self.assigned_users!r}; give a list of users, like "
                '[{"id": "1", "name": "ada"}]'
            )

    def check(self, sitemap: Sitemap) -> None:
        """Refuse a sitemap that no question can concern, or whose staged changes are removed before the time is over."""
        from airflow_sitemaps.pipeline.publish.sweep import lifetime

        if sitemap.on_section_failure == "fail_all":
            raise errors.ConfigurationError(
                'approval= and on_section_failure="fail_all" exclude each other: an answer publishes one section. Omit one'
            )
        if self.timeout > lifetime(sitemap.grace):
            raise errors.ConfigurationError(
                f"Approval: timeout={self.timeout}, but what a run wrote is kept for {lifetime(sitemap.grace)} only. Give a "
                "shorter timeout, or Sitemap(grace=…)"
            )


class SitemapAskOperator(HITLOperator):
    """Ask whether the staged change of the run's conf is published. Skipped if the question is closed."""

    def __init__(self, *, sitemap: Sitemap, approval: Approval, **kwargs: Any) -> None:
        users = list(approval.assigned_users) or None
        super().__init__(subject="", options=[PUBLISH, KEEP], defaults=[KEEP], assigned_users=users, **kwargs)
        self.sitemap = sitemap

    def execute(self, context: Context) -> Any:
        """Ask, with the time that is left. Raises ``AirflowSkipException`` if the question is closed."""
        from airflow_sitemaps.pipeline import approvals
        from airflow_sitemaps.pipeline.refusals import open_questions
        from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK, OpenSitemap

        conf = conf_of(context)
        opened, now = OpenSitemap.of(self.sitemap, SYSTEM_CLOCK), datetime.now(timezone.utc)
        question = open_questions(opened.state.manifest(), now).get(conf["section"])
        if question is None or question.run != conf["run"]:
            raise AirflowSkipException("The question is closed: a newer run had nothing to refuse, or its time is over")
        plan, _, _ = approvals.staged_plan(opened, question.run)
        self.subject, self.body = approvals.question_text(plan, question, conf.get("page", ""))
        left = question.deadline - now
        if hasattr(self, "response_timeout"):
            self.response_timeout = left
        else:  # providers before 1.17 take it from here
            self.execution_timeout = left
        return super().execute(context)


class SitemapAnswerOperator(SitemapOperator):
    """Publish the staged change if the answer allows it; else record that the published section is kept, and skip."""

    publishes: ClassVar[bool] = True
    operator_extra_links = (SitemapIndexLink(), SitemapPageLink())

    def __init__(self, *, sitemap: Sitemap, asked_by: str, **kwargs: Any) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.add_outlets([sitemap.asset])
        self.asked_by = asked_by

    def execute(self, context: Context) -> dict[str, Any]:
        """Carry out the answer, and return a reference to the report.

        Raises:
            AirflowFailException: The answer allowed the change and nothing was published; the XCom says why.
            AirflowSkipException: The published section is kept.
        """
        from airflow_sitemaps.pipeline import approvals
        from airflow_sitemaps.report_text import LogProgress
        from airflow_sitemaps.waits import ended_if_stalled

        ti, conf = context["ti"], conf_of(context)
        given = ti.xcom_pull(task_ids=self.asked_by) or {}
        user = given.get("responded_by_user") or {}
        by = str(user.get("name") or user.get("id") or "")
        is_allowed = PUBLISH in (given.get("chosen_options") or ())
        with permanent_failures(context), ended_if_stalled("publish"):
            try:
                report = approvals.answer(
                    self.sitemap, conf["run"], is_allowed=is_allowed, by=by, progress=LogProgress(log)
                )
            except errors.SitemapError as error:
                result = next((word for kind, word in RESULTS if isinstance(error, kind)), "failed")
                ti.xcom_push(key=ANSWER, value={"result": result, "by": by})
                raise
        result = "published" if is_allowed else "kept" if report is not None else "superseded"
        ti.xcom_push(key=ANSWER, value={"result": result, "by": by})
        if not is_allowed or report is None:
            raise AirflowSkipException(f"The published section is kept; answered by {by or approvals.NO_ONE}")
        self.observe(report)
        return self.emit(context, report)


def conf_of(context: Context) -> dict[str, Any]:
    """Return the question of a run. Raises ``AirflowSkipException`` if a person started the run without one."""
    conf = dict(context["dag_run"].conf or {})
    if not {"run", "section"} <= conf.keys():
        raise AirflowSkipException("This run has no question: the sitemap's DAG starts the runs of this DAG")
    return conf


def run_id_of(section: str, question: Question) -> str:
    """Return the ID of the DAG run that asks a question."""
    return f"{section}__{question.run}"


def start(dag_id: str, section: str, question: Question, *, page: str = "", again: bool = False) -> bool:
    """Start the run of a question; return whether Airflow did. ``again`` clears it, so that it finds the question closed."""
    conf = {"section": section, "run": question.run, "page": page}
    if refused := start_run(dag_id, run_id_of(section, question), conf, again=again):
        log.error("section %s: Airflow asks no one, because it starts no run of DAG %s: %s", section, dag_id, refused)
    return not refused


def decisions_dag(dag: DAG, group_id: str, sitemap: Sitemap, approval: Approval, given: Mapping[str, Any]) -> DAG:
    """Define the DAG of a group's questions. Airflow finds it as it finds the DAG of the group.

    Its tasks run where ``publish`` does, whose arguments are ``given``: they read and write the same store.
    """
    setting_checks.instance(f"SitemapTaskGroup({group_id!r})", "approval", approval, Approval)
    approval.check(sitemap)
    decisions = DAG(
        f"{dag.dag_id}__{group_id}__decisions",
        description=f"Asks about changes of {sitemap.index_url} that guards refuse",
        schedule=None,
        catchup=False,
        is_paused_upon_creation=False,  # a paused DAG asks no question
        max_active_runs=MOST_QUESTIONS,
        access_control=dag.access_control,
        tags=dag.tags,
        default_args={name: given[name] for name in WHERE if name in given},
    )
    with decisions:
        # A second try of "ask" asks again: Airflow may lose an answer that comes within a second of the question.
        settings = {"retries": 3, "retry_delay": RETRY_DELAY, "dag": decisions, "task_group": decisions.task_group}
        ask = SitemapAskOperator(task_id="ask", sitemap=sitemap, approval=approval, **settings)
        publish = SitemapAnswerOperator(task_id="publish", sitemap=sitemap, asked_by="ask", **settings)
        ask >> publish
    return decisions
