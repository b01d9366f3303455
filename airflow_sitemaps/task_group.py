"""A task group for a whole sitemap: plan, write (mapped over batches) and publish."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import DAG, Param, TaskGroup, XComArg

from airflow_sitemaps import setting_checks
from airflow_sitemaps.operators.base import delimiters
from airflow_sitemaps.operators.plan import PLAN_KEY, SitemapPlanOperator
from airflow_sitemaps.operators.publish import LABEL, SitemapPublishOperator, SitemapWriteOperator
from airflow_sitemaps.sitemap import Sitemap

if TYPE_CHECKING:
    from airflow_sitemaps.operators.decisions import Approval

RETRIES: Final = {"retries": 3, "retry_delay": timedelta(minutes=2)}
"""Retries of the group's tasks: enough for a database or a store that restarts within six minutes. An error that a
retry cannot fix fails at the first try."""


class ConcurrentRunsWarning(UserWarning):
    """The DAG may run twice at the same time. This is safe, but the run that commits second fails."""


class SitemapTaskGroup(TaskGroup):
    """The tasks ``plan``, ``write`` (mapped over batches) and ``publish`` of a sitemap.

    The group adds the params ``sections``, ``full``, ``rebuild``, ``dry_run``, ``check_rows``, ``allow`` and
    ``keep_lastmods`` to the DAG unless the DAG defines them. Its tasks have three retries, two minutes apart, unless ``retries`` and ``retry_delay`` are in
    the ``default_args`` of the DAG or of the group, or in the arguments of a task.

    Args:
        group_id: ID of the group.
        sitemap: The sitemap.
        pool: Airflow pool of the tasks that query the warehouse (``plan`` and ``write``). Default: Airflow's default.
        approval: Whom Airflow asks, under *Required Actions*, about sections that the guards refuse. The group then defines
            a second DAG, ``<dag>__<group>__decisions``. Default: None, no one.
        batch_size: Approximate number of full shards for each mapped task. By default a task reads half a million rows.
        plan_kwargs: Further arguments of ``SitemapPlanOperator``, such as ``retries``, ``queue`` or
            ``executor_config``.
        write_kwargs: Further arguments of ``SitemapWriteOperator``, such as ``max_active_tis_per_dagrun``.
        publish_kwargs: Further arguments of ``SitemapPublishOperator``.
        **kwargs: Arguments of Airflow's ``TaskGroup``.
    """

    def __init__(
        self,
        group_id: str,
        sitemap: Sitemap,
        *,
        pool: str | None = None,
        batch_size: int | None = None,
        approval: Approval | None = None,
        plan_kwargs: Mapping[str, Any] | None = None,
        write_kwargs: Mapping[str, Any] | None = None,
        publish_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        where = f"SitemapTaskGroup('{group_id}')"
        setting_checks.instance(where, "sitemap", sitemap, Sitemap)
        given = {"plan_kwargs": plan_kwargs, "write_kwargs": write_kwargs, "publish_kwargs": publish_kwargs}
        for name, value in given.items():
            setting_checks.instance(where, name, value or {}, Mapping)
        super().__init__(group_id=group_id, **{"tooltip": f"Publishes {sitemap.index_url}", **kwargs})
        ours = {name: value for name, value in RETRIES.items() if name not in self.dag.default_args}
        self.default_args = {**ours, **self.default_args}
        define_params(self.dag, sitemap)
        # Runs of different sections may run at the same time.
        if not (plan_kwargs or {}).get("sections") and self.dag.max_active_runs != 1:
            warnings.warn(
                f"DAG {self.dag.dag_id!r} has max_active_runs={self.dag.max_active_runs}: two runs of "
                f"{where} at once do no harm, but the second commit fails. Give the DAG max_active_runs=1",
                ConcurrentRunsWarning,
                stacklevel=2,
            )
        asking: dict[str, Any] = {}
        if approval is not None:
            from airflow_sitemaps.operators.decisions import decisions_dag  # noqa: PLC0415 - only with an approval

            given = {**self.dag.default_args, **self.default_args, **(publish_kwargs or {})}
            self.decisions = decisions_dag(self.dag, str(self.group_id), sitemap, approval, given)
            asking = {"approval": approval, "decisions": self.decisions.dag_id}
        querying, marks = {} if pool is None else {"pool": pool}, delimiters(self.dag)
        label = LABEL.replace("{{", marks["variable_start_string"]).replace("}}", marks["variable_end_string"])
        with self.dag, self:  # the DAG too: it may be given as dag=
            self.plan = SitemapPlanOperator(
                task_id="plan", sitemap=sitemap, batch_size=batch_size, **{**querying, **(plan_kwargs or {})}
            )
            self.plan.asks = approval is not None
            self.write = SitemapWriteOperator.partial(
                task_id="write", sitemap=sitemap, **{"map_index_template": label, **querying, **(write_kwargs or {})}
            ).expand(batch=self.plan.output)
            self.publish = SitemapPublishOperator(
                task_id="publish",
                sitemap=sitemap,
                plan=XComArg(self.plan, PLAN_KEY),
                receipts=self.write.output,
                **asking,
                **(publish_kwargs or {}),
            )
        if approval is not None and sitemap.sections_asset in self.publish.outlets:  # an answer publishes too
            self.decisions.get_task("publish").outlets.append(sitemap.sections_asset)


def define_params(dag: DAG, sitemap: Sitemap) -> None:
    """Add a sitemap's run settings, with its sections as examples, to the DAG's params. Existing params are kept."""
    names = [section.name for section in sitemap.sections]
    if "sections" in dag.params:
        examples = dag.params.get_param("sections").schema.get("examples")
        if isinstance(examples, list):
            examples.extend(name for name in names if name not in examples)
    flag, texts = {"type": "boolean"}, {"type": "array", "items": {"type": "string"}}
    of_sections = {**texts, "examples": names}
    rows = "Dry run: render so many rows of each section, and say what every rule does to them."
    settings: dict[str, tuple[Any, dict[str, Any], str]] = {
        "sections": ([], of_sections, "Only these; none means all."),
        "full": (False, flag, "Read and render every shard; equal bytes stay untouched."),
        "rebuild": ([], texts, "Shards to write again, like products-00003."),
        "dry_run": (False, flag, "Explain the plan in the log; write nothing."),
        "check_rows": (0, {"type": "integer", "minimum": 0}, rows),
        "allow": ([], texts, "Guards to let pass this once, like shrink:products; the refusal names them."),
        "keep_lastmods": ([], of_sections, "Changed URLs of these sections keep their observed dates."),
    }
    for name, (default, schema, description) in settings.items():
        if name not in dag.params:
            title = name.replace("_", " ").capitalize()
            dag.params[name] = Param(default, **schema, title=title, description=description)
