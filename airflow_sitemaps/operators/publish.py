"""The tasks after the plan: writing, mapped over its batches, publishing, and publishing an earlier generation again."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, ClassVar, Final

from airflow_sitemaps import setting_checks
from airflow_sitemaps.airflow_compat import AirflowFailException, AirflowSkipException, XComNotFound, api_base_url
from airflow_sitemaps.errors import ConfigurationError, GuardError, IncompleteError, SitemapError, TransientError
from airflow_sitemaps.operators import FAILED, MAX_TEXT, QUESTIONS, REFUSED, UNCHANGED, WRITTEN, written_facts
from airflow_sitemaps.operators.base import SitemapOperator, own_xcom, permanent_failures
from airflow_sitemaps.operators.links import SitemapConsoleLink, SitemapIndexLink, SitemapPageLink, comparison_page

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context, XComArg

    from airflow_sitemaps.operators.decisions import Approval
    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.shards.manifest import Question
    from airflow_sitemaps.shards.plan import SectionFailure
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

LABEL: Final = "{{ task.batch.label }}"
"""Template for ``partial(map_index_template=…)``. It names a mapped task ``products 3/12 (10 shards)``."""

MAX_REASONS: Final = 100
"""Largest number of batches whose reason is kept or read; for further ones the message names the log."""


class SitemapWriteOperator(SitemapOperator):
    """Read, render and stage the shards of one or several batches. Nothing public changes, and repeating it is safe.

    Args:
        sitemap: The sitemap.
        batch: A reference that ``SitemapPlanOperator`` returned.
        **kwargs: Arguments of Airflow's ``BaseOperator``.
    """

    template_fields: Sequence[str] = ("batch",)
    publishes: ClassVar[bool] = True

    def __init__(self, *, sitemap: Sitemap, batch: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.batch = batch

    def ends_run(self, context: Context) -> bool:
        """Return whether ``publish`` does not run after this failure, and no other batch has failed before."""
        if self.sitemap.on_section_failure == "publish_others":
            return False
        ti = context["ti"]
        states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id])
        return "failed" not in states.get(ti.run_id, {}).values()

    def execute(self, context: Context) -> list[str]:
        """Write the batches, and return the addresses of their receipts. If a section fails, those of the others are stored."""
        from airflow_sitemaps.pipeline import stages
        from airflow_sitemaps.pipeline.plan.sections import OF_ONE_SECTION
        from airflow_sitemaps.report_text import LogProgress, written_line
        from airflow_sitemaps.waits import ended_if_stalled

        ti, numbers, batches, errors = context["ti"], self.batch["batches"], [], dict[int, SitemapError]()
        with permanent_failures(context), ended_if_stalled("write"):
            sitemap = self.rendered(context)
            goes_on = len(numbers) > 1 and sitemap.on_section_failure == "publish_others"
            for number in numbers:
                try:
                    written = stages.write(sitemap, self.batch["plan"], number, progress=LogProgress(log))
                    log.info("section %s: %s", written.section, written_line(written))
                    batches.append(written)
                except OF_ONE_SECTION as error:
                    heals = getattr(error, "retryable", isinstance(error, TransientError))
                    if not goes_on or (heals and ti.try_number <= ti.max_tries):
                        raise  # a retry writes every batch again
                    log.error("%s: %s", type(error).__name__, error)
                    errors[number] = error
                    clear_frames(error.__traceback__)  # their variables hold rows
            receipts = [written.receipt_key for written in batches]
            reasons = {str(number): str(error)[:MAX_TEXT] for number, error in [*errors.items()][:MAX_REASONS]}
            ti.xcom_push(key=WRITTEN, value={**written_facts(batches), "unwritten": reasons})
            if errors:
                ti.xcom_push(key="return_value", value=receipts)
                log.error("%d of %d batches not written; complete sections can be published", len(errors), len(numbers))
                raise next(iter(errors.values()))
        return receipts

    def get_openlineage_facets_on_complete(self, ti: Any) -> Any:
        """Return the tables that were read and the files that were staged, for Airflow's OpenLineage provider."""
        from airflow_sitemaps.operators import lineage

        return lineage.of_write(self.observed(ti), own_xcom(ti, WRITTEN))


class SitemapPublishOperator(SitemapOperator):
    """Commit what was written and make it public, the index last. Then emit the sitemap's asset event.

    An empty plan is published as well: files may have been removed, and the event records that nothing changed. The
    task begins when all writing tasks have ended and used up their retries. If some of them failed, the sections
    that they did not write stay as published, the others are published, and this task then fails. With
    ``Sitemap(on_section_failure="fail_all")`` it does not run if a writing task failed. It fails if the planning task
    failed. It is skipped if the planning task was skipped or made no plan (a dry run). Without a ``trigger_rule`` of its
    own, it also fails if another task that the DAG puts before it failed, and is skipped if all of those were skipped.

    Args:
        sitemap: The sitemap.
        plan: Address of the plan: the planning task's XCom ``plan``.
        receipts: Addresses of the receipts: the output of the mapped writing task.
        skip_unchanged: Whether to skip the task after a run that changed nothing. The run then emits no asset event,
            and the tasks that follow are skipped. Default: False.
        approval: Whom Airflow asks about sections that the guards refuse. Default: None, no one.
        decisions: ID of the DAG that asks, if ``approval`` is given.
        **kwargs: Arguments of Airflow's ``BaseOperator``. If ``outlets`` has ``sitemap.sections_asset``, the task also
            emits an event of it with a partition for each section that changed since the last such event.
    """

    template_fields: Sequence[str] = ("plan", "receipts")
    publishes: ClassVar[bool] = True
    operator_extra_links = (SitemapIndexLink(), SitemapPageLink(), SitemapConsoleLink())

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        plan: str | XComArg,
        receipts: Sequence[str] | XComArg = (),
        skip_unchanged: bool = False,
        approval: Approval | None = None,
        decisions: str = "",
        **kwargs: Any,
    ) -> None:
        rule = "all_done" if getattr(sitemap, "on_section_failure", "") == "publish_others" else "none_failed"
        super().__init__(sitemap=sitemap, **{"trigger_rule": rule, **kwargs})
        self.add_outlets([sitemap.asset])
        self.has_own_rule = "trigger_rule" in kwargs
        own, writer = kwargs.get("trigger_rule"), getattr(receipts, "operator", None)
        is_part = getattr(self, "_BaseOperator__from_mapped", False)  # a mapped task has a rule that no one chose
        if own in ("all_success", "none_skipped") and getattr(writer, "is_mapped", False) and not is_part:
            raise ConfigurationError(
                f"{self.named}: trigger_rule={str(own)!r} skips the task where no row is to be "
                "read, because the writing task is skipped then: removed files stay public. Give 'none_failed' instead"
            )
        if getattr(getattr(plan, "operator", None), "is_mapped", False):
            raise ConfigurationError(
                f"{self.named}: plan= has the plans of a mapped task, but a run publishes one. Give "
                "the planning task all sections at once, or map a task group with the three tasks"
            )
        self.plan: Any = plan
        self.receipts: Any = receipts
        self.planner_id = task_id_of(plan)
        self.writer_id = task_id_of(receipts)
        setting_checks.flag(self.named, "skip_unchanged", skip_unchanged)
        self.skip_unchanged = skip_unchanged
        if approval is not None and not decisions:
            raise ConfigurationError(
                f"{self.named}: approval= without decisions= asks no one. Give approval= to the "
                "SitemapTaskGroup, which defines the DAG that asks"
            )
        self.approval = approval
        self.decisions = decisions

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render the template fields, unless there is no plan.

        Raises:
            AirflowSkipException: The planning task was skipped.
            NoPlanError: The planning task did not succeed.
        """
        ti, missing = context["ti"], XComNotFound(context["ti"].dag_id, self.planner_id, "return_value")
        states = self._states(ti, [self.planner_id]) if self.planner_id else {}
        state = states.get(f"{self.planner_id}_{ti.map_index}", states.get(self.planner_id))
        try:  # before Airflow does it, which logs a missing XCom with a traceback
            if state in ("skipped", "failed", "upstream_failed"):  # XCom may have the plan of an earlier try
                raise missing
            self.plan = self.plan.resolve(context) if hasattr(self.plan, "resolve") else self.plan
            if self.planner_id and ti.xcom_pull(task_ids=self.planner_id) is None:  # it failed after it stored the plan
                raise missing
        except XComNotFound as error:
            if state == "skipped":
                raise AirflowSkipException("The planning task was skipped: there is nothing to publish") from error
            if state == "success":
                raise AirflowFailException(
                    "The planning task succeeded but left no plan: a person marked it, or its XCom was removed. Clear it too"
                ) from error
            raise NoPlanError(
                "The planning task did not succeed, so there is nothing to publish. The published sitemap is unchanged; "
                "see the planning task for the cause"
            ) from error
        super().render_template_fields(context, jinja_env)

    def execute(self, context: Context) -> dict[str, Any]:
        """Publish, and return a reference to the report.

        Raises:
            AirflowFailException: A guard refused, another run committed first, or some sections failed and only the
                others were published. Airflow emits no asset event for a failed task.
            AirflowSkipException: There is no plan, or nothing changed and ``skip_unchanged`` is set.
        """
        from airflow_sitemaps.pipeline.report import raise_failures
        from airflow_sitemaps.waits import ended_if_stalled

        if not self.plan:
            raise AirflowSkipException(
                "There is no plan to publish: this is a dry run, or the chosen sections are of another sitemap"
            )
        with permanent_failures(context):
            before = sorted(self.upstream_task_ids - {self.planner_id})
            states = self._states(context["ti"], before) if before else {}
            writes = {state for task, state in states.items() if self._is_write(task)} - {"removed"}
            # one call to the API server instead of one per task; skipped tasks have the receipts of an earlier try
            pulled = self.receipts[:] if writes != {"skipped"} else ()
            receipts = [key for keys in pulled for key in ([keys] if isinstance(keys, str) else keys)]
            skipped = self._skipped_before(context["ti"], states, is_written=bool(receipts))
        if skipped:
            raise AirflowSkipException(f"{', '.join(skipped)} skipped before this task: nothing is published")
        with permanent_failures(context), ended_if_stalled("publish"):
            unwritten = reasons_of(context["ti"], self.planner_id, self.writer_id, receipts)
            sitemap = self.rendered(context)
            report = self._publish(context, sitemap, receipts, unwritten)
        self.observe(report)
        if self.skip_unchanged and report.result == "unchanged":
            context["ti"].xcom_push(key=UNCHANGED, value=report.generation)
            raise AirflowSkipException("Nothing changed: no asset event is emitted (skip_unchanged)")
        kept = self.emit(context, report)
        with permanent_failures(context):
            raise_failures(report)
        return kept

    def _states(self, ti: Any, tasks: Sequence[str]) -> dict[str, Any]:
        """Return the states of tasks in this run, mapped ones by ``<task>_<place>``; in a mapped group, those of its part."""
        states: dict[str, Any] = ti.get_task_states(dag_id=ti.dag_id, task_ids=tasks, run_ids=[ti.run_id])
        group = self.get_closest_mapped_task_group()
        grouped = set() if group is None else {f"{task.task_id}_" for task in group.iter_tasks()}
        return {
            key: state
            for key, state in (states.get(ti.run_id) or {}).items()
            if key.rstrip("0123456789") not in grouped or key.endswith(f"_{ti.map_index}")
        }

    def _is_write(self, task: str) -> bool:
        """Return whether a key of ``_states`` is of the writing task: ``write`` or ``write_3``."""
        return bool(self.writer_id) and re.fullmatch(rf"{re.escape(self.writer_id)}(_\d+)?", task) is not None

    def _skipped_before(self, ti: Any, states: Mapping[str, Any], *, is_written: bool) -> list[str]:
        """Return the tasks that the DAG puts before this one, such as a check, if all of them are skipped.

        If one failed, nothing is published: the rule ``all_done`` ignores both. If nothing is written, a check after
        "write" is skipped because that is; then those before it count.
        """
        if self.has_own_rule:
            return []
        bad = [task for task, state in states.items() if state in ("failed", "upstream_failed")]
        # a failed "write" or "write_3" concerns its own sections only
        stops = (task for task in bad if states[task] != "failed" or not self._is_write(task))
        failed = sorted({self.writer_id if self._is_write(task) else task for task in stops})
        if failed:
            raise IncompleteError(
                f"{', '.join(failed)} did not succeed, which the DAG puts before this task: nothing is published. Clear it "
                "together with this task, or give publish_kwargs={'trigger_rule': 'all_done'} to publish without it"
            )
        others = sorted(task for task in states if not (is_written and self._is_write(task)))
        if {states[task] for task in others} != {"skipped"}:
            return []
        write = None if is_written or (dag := self.get_dag()) is None else dag.task_dict.get(self.writer_id)
        before = sorted(write.upstream_task_ids - {self.planner_id}) if write is not None else []
        skipped = [task for task, state in self._states(ti, before).items() if state == "skipped"] if before else []
        return others if is_written else skipped

    def _publish(
        self, context: Context, sitemap: Sitemap, receipts: Sequence[str], unwritten: Mapping[int, str] | None
    ) -> Report:
        """Publish. Then ask about the sections that guards refused, and end the questions that the run closes."""
        from airflow_sitemaps.pipeline import approvals, stages
        from airflow_sitemaps.report_text import LogProgress
        from airflow_sitemaps.shards.plan import failures_of

        before = {} if self.approval is None else approvals.questions_of(sitemap)
        refused: Sequence[SectionFailure] = ()
        try:
            report = stages.publish(sitemap, self.plan, receipts, unwritten=unwritten, progress=LogProgress(log))
            refused = report.failures
        except GuardError as error:
            refused = failures_of(error.refusals)
            raise
        finally:
            if self.approval is not None and (refused or before):
                self._ask(context, sitemap, receipts, refused, before, self.approval)
        return report

    def _ask(
        self,
        context: Context,
        sitemap: Sitemap,
        receipts: Sequence[str],
        refused: Sequence[SectionFailure],
        before: Mapping[str, Question],
        approval: Approval,
    ) -> None:
        """Start a run of the DAG of decisions for each question. An error is logged: it must not hide the refusal."""
        from airflow_sitemaps.operators.decisions import run_id_of, start
        from airflow_sitemaps.pipeline import approvals

        asked = []
        try:
            questions = approvals.ask(sitemap, self.plan, receipts, refused, approval.timeout)
            for section, question in questions.items():
                page = api_base_url() + comparison_page(str(sitemap.asset.uri), question.run)
                if start(self.decisions, section, question, page=page):
                    run_id = run_id_of(section, question)
                    asked.append({"section": section, "dag_id": self.decisions, "run_id": run_id})
                    until = f"{question.deadline:%Y-%m-%d %H:%M} UTC"
                    log.info("section %s: DAG %s asks a person until %s", section, self.decisions, until)
                else:
                    approvals.withdraw(sitemap, question.run)
            context["ti"].xcom_push(key=QUESTIONS, value=asked)
            for section in before.keys() - approvals.questions_of(sitemap).keys():
                start(self.decisions, section, before[section], again=True)
        except Exception as error:
            log.error("Airflow asks no one about what the guards refused: %s: %s", type(error).__name__, error)

    def get_openlineage_facets_on_complete(self, ti: Any) -> Any:
        """Return all tables, the index and the files of each section, for Airflow's OpenLineage provider."""
        from airflow_sitemaps.operators import lineage

        extra = ti.get_template_context()["outlet_events"][self.sitemap.asset].extra
        return lineage.of_publish(self.observed(ti), extra.get("report", {}))


class NoPlanError(AirflowFailException):
    """The planning task failed and logged the reason, so this task logs nothing more."""


def task_id_of(argument: Any) -> str:
    """Return the task whose XCom an argument refers to; empty if the argument is no XCom."""
    return str(getattr(getattr(argument, "operator", None), "task_id", ""))


def reasons_of(ti: Any, planner_id: str, writer_id: str, receipts: Sequence[str]) -> dict[int, str] | None:
    """Return the known reasons why batches have no receipt, by number; None if no mapped task wrote the receipts."""
    from airflow_sitemaps.pipeline.state.repository import batch_of

    if not planner_id or not writer_id:
        return None
    written = {batch_of(key) for key in receipts}
    reasons: dict[int, str] = {}
    plans = (ti.xcom_pull(task_ids=planner_id, map_indexes=place) for place in dict.fromkeys((ti.map_index, -1)))
    for number, planned in enumerate(next(filter(None, plans), ())):
        index = number if ti.map_index < 0 else ti.map_index  # in a mapped group, each plan has one writing task
        missing = [number for number in planned["batches"] if number not in written]
        if not missing or len(reasons) >= MAX_REASONS:
            continue
        pulled = (ti.xcom_pull(task_ids=writer_id, key=key, map_indexes=index) for key in (FAILED, REFUSED))
        ended = "it ended with {}; see its log, and clear it together with the publishing task"
        message = next((str(facts.get("message") or ended.format(facts.get("error"))) for facts in pulled if facts), "")
        own = (ti.xcom_pull(task_ids=writer_id, key=WRITTEN, map_indexes=index) or {}).get("unwritten", {})
        reasons.update({number: own.get(str(number), message) for number in missing})
    return reasons


class SitemapRollbackOperator(SitemapOperator):
    """Publish an earlier generation again, as a new generation. The DAG param ``allow`` may hold the permit ``moved``.

    Args:
        sitemap: The sitemap.
        generation: Number of the earlier generation. It may be a Jinja template.
        **kwargs: Arguments of Airflow's ``BaseOperator``.
    """

    template_fields: Sequence[str] = ("generation",)
    operator_extra_links = (SitemapIndexLink(),)
    publishes: ClassVar[bool] = True

    def __init__(self, *, sitemap: Sitemap, generation: int | str, **kwargs: Any) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.add_outlets([sitemap.asset])
        self.generation = generation

    def execute(self, context: Context) -> dict[str, Any]:
        """Roll back, and return a reference to the report.

        Raises:
            AirflowFailException: The generation is no longer kept, or another deployment published last.
        """
        from airflow_sitemaps.operators.plan import deployment, listed
        from airflow_sitemaps.pipeline import rollback

        with permanent_failures(context):
            generation = self.whole_number("generation", self.generation)
            allow = listed(context["params"].get("allow"))
            # An earlier try may have been killed after its commit. A first try has none: the rollback is of another run.
            since = context["dag_run"].start_date if context["ti"].try_number > 1 else None
            report = rollback(self.sitemap, generation, origin=deployment(), allow=allow, since=since)
        self.observe(report)
        return self.emit(context, report)
