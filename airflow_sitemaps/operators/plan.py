"""The planning task."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.operators.base import SitemapOperator, no_vain_retry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_sitemaps.pipeline.stages import Planned, RunRequest
    from airflow_sitemaps.shards.plan import Plan
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)

PLAN_KEY = "plan"
"""The XCom that holds the plan's address in the store; empty when there is none to publish."""


class SitemapPlanOperator(SitemapOperator):
    """Ask the warehouse what changed, and store the plan of what is to be written.

    Returns one small reference a batch, to be mapped over by ``SitemapWriteOperator``; the XCom ``plan`` is the plan's
    address, for ``SitemapPublishOperator``. What an argument leaves open (None) is taken from the DAG param of the
    same name, where there is one: ``sections`` (only these), ``full`` (write everything), ``rebuild`` (write these
    shards), ``dry_run`` (explain only), ``allow`` (let these guards pass, like ``shrink:products``).
    ``batch_size``: so many full shards a mapped task, about; by default a batch has half a million rows.
    """

    template_fields: Sequence[str] = ("sections", "rebuild", "allow")

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        sections: Sequence[str] | None = None,
        full: bool | None = None,
        rebuild: Sequence[str] | None = None,
        dry_run: bool | None = None,
        allow: Sequence[str] | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        self.sections = sections
        self.full = full
        self.rebuild = rebuild
        self.explain_only = dry_run
        self.allow = allow
        self.batch_size = batch_size

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Plan; raises AirflowFailException when a guard refuses."""
        from airflow_sitemaps.pipeline import stages
        from airflow_sitemaps.progress import LogProgress

        request = self.request(context["params"])
        if request is None:
            log.info("None of the sections asked for is in this sitemap: nothing to do")
            context["ti"].xcom_push(key=PLAN_KEY, value="")
            return []
        with no_vain_retry(context):
            planned = stages.plan(self.rendered(context), request, progress=LogProgress(log))
        _tell(context, planned)
        return references(planned.plan, planned.key) if planned.key else []

    def request(self, params: Mapping[str, Any]) -> RunRequest | None:
        """What this run is asked to do; None when it concerns only other sitemaps of the same DAG."""
        from airflow_sitemaps.pipeline.stages import RunRequest

        def setting(name: str, own: Any, default: Any) -> Any:
            return own if own is not None else params.get(name, default)

        asked = listed(setting("sections", self.sections, ()))
        mine = tuple(name for name in asked if name not in self._sections_of_others())
        if asked and not mine:
            return None
        return RunRequest(
            sections=mine,
            full=bool(setting("full", self.full, False)),
            rebuild=listed(setting("rebuild", self.rebuild, ())),
            dry_run=bool(setting("dry_run", self.explain_only, False)),
            allow=listed(setting("allow", self.allow, ())),
            batch_rows=self._batch_rows(),
        )

    def _sections_of_others(self) -> set[str]:
        """Sections of the DAG's other sitemaps: the DAG param names sections of any of them."""
        own = {section.name for section in self.sitemap.sections}
        tasks = getattr(self.get_dag(), "tasks", ())
        others = [task.sitemap for task in tasks if isinstance(task, SitemapPlanOperator)]
        return {section.name for sitemap in others for section in sitemap.sections} - own

    def _batch_rows(self) -> int | None:
        if self.batch_size is None:
            return None
        largest = max(self.sitemap.shards_of(section).target_urls for section in self.sitemap.sections)
        return self.batch_size * largest


def _tell(context: Context, planned: Planned) -> None:
    """The plan in the log, its address and its numbers in XCom."""
    from airflow_sitemaps.operators.facts import PLAN_FACTS, plan_facts
    from airflow_sitemaps.pipeline.stages import explain

    lines = explain(planned.plan)
    for line in lines:
        log.info("%s", line)
    context["ti"].xcom_push(key=PLAN_FACTS, value=plan_facts(planned.plan, planned.key, lines))
    context["ti"].xcom_push(key=PLAN_KEY, value=planned.key or "")


def listed(value: Any) -> tuple[str, ...]:
    """A param as texts: a list, or one text with commas as a person types it."""
    parts = value.split(",") if isinstance(value, str) else value or ()
    return tuple(str(part).strip() for part in parts if str(part).strip())


def references(plan: Plan, key: str) -> list[dict[str, Any]]:
    """One reference a batch: the plan's address, the batch's number, and a label that people can read."""
    of_section: dict[str, int] = {}
    for batch in plan.batches:
        of_section[batch.section] = of_section.get(batch.section, 0) + 1
    seen: dict[str, int] = {}
    result = []
    for batch in plan.batches:
        seen[batch.section] = seen.get(batch.section, 0) + 1
        shards = f"{len(batch.targets):,} shard{'s' if len(batch.targets) != 1 else ''}"
        label = f"{batch.section} {seen[batch.section]}/{of_section[batch.section]} ({shards})"
        result.append({"plan": key, "batch": batch.number, "label": label})
    return result
