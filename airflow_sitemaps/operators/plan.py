"""The planning task, and the names in a run's params: sections, shards and guards of one sitemap of the DAG."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_sitemaps import operators, setting_checks
from airflow_sitemaps.airflow_compat import AirflowFailException, api_base_url, configuration
from airflow_sitemaps.errors import GuardError, PartlyPublishedError, RequestError
from airflow_sitemaps.operators import FAILED, MAX_NAMES, PLAN_FACTS, REFUSED, SECTIONS, is_on, prefix_of
from airflow_sitemaps.operators.base import SitemapOperator, chain_of, log_lines, own_xcom, permanent_failures
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards.guards import Permit, refusal_text

if TYPE_CHECKING:
    import jinja2
    from airflow.sdk import Context

    from airflow_sitemaps.pipeline.request import RunRequest
    from airflow_sitemaps.shards.plan import Batch, Plan
    from airflow_sitemaps.sitemap import Sitemap

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "::1"})  # noqa: S104 - nothing listens here
"""Hosts of the UI that name no deployment: any laptop has them."""

log = logging.getLogger(__name__)

PLAN_KEY = "plan"
"""XCom key of the plan's address in the store. The value is empty if there is no plan to publish."""

SETTINGS = ("sections", "full", "rebuild", "dry_run", "check_rows", "allow", "keep_lastmods")
"""Names of the params that are settings of a run."""

MAX_LABEL = 240
"""Largest number of characters in a mapped task's name. Airflow's column holds 250."""


class SitemapPlanOperator(SitemapOperator):
    """Query the warehouse for changes, and store the plan of what to write.

    The task returns one small reference for each task that ``SitemapWriteOperator`` maps over. The XCom ``plan`` is
    the plan's address, for ``SitemapPublishOperator``. If an argument is None, the DAG param of the same name
    applies, if there is one. In a DAG with several sitemaps, a name may be written as ``group/name``; ``group`` is
    the ID of the ``SitemapTaskGroup``, or of the publishing task if several sitemaps have no group. Among the ``sections``,
    ``group/`` is every section of that group.

    Args:
        sitemap: The sitemap.
        sections: Names of the sections to plan; empty means all.
        full: Whether to read and render every shard.
        rebuild: Names of shards to write again, such as ``products-00003``.
        dry_run: Whether to explain the plan in the log and write nothing. The task fails if a build would be refused.
        check_rows: Rows of each section to read and render in a dry run, which says what every rule does to them. A number
            above 0 makes the run a dry run.
        allow: Guards to override once, such as ``shrink:products``.
        keep_lastmods: Names of sections whose changed URLs keep their observed dates.
        batch_size: Approximate number of full shards for each mapped task. By default a task reads half a million rows.
        **kwargs: Arguments of Airflow's ``BaseOperator``.
    """

    template_fields: Sequence[str] = ("sections", "rebuild", "allow", "keep_lastmods", "sql")
    asks: bool = False
    """Whether ``publish`` asks a person about sections that guards refuse. ``SitemapTaskGroup`` sets it."""

    def __init__(
        self,
        *,
        sitemap: Sitemap,
        sections: Sequence[str] | None = None,
        full: bool | None = None,
        rebuild: Sequence[str] | None = None,
        dry_run: bool | None = None,
        check_rows: int | None = None,
        allow: Sequence[str] | None = None,
        keep_lastmods: Sequence[str] | None = None,
        batch_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(sitemap=sitemap, **kwargs)
        for name, number, least in (("batch_size", batch_size, 1), ("check_rows", check_rows, 0)):
            if number is not None:
                setting_checks.whole_number(self.named, name, number, least)
        _is_on("full", full), _is_on("dry_run", dry_run)
        for permit in () if self.is_open(allow) else listed(allow):
            if "/" not in permit:  # which groups there are is known when all are made
                Permit.of(permit)
        self.sections = sections
        self.full = full
        self.rebuild = rebuild
        self.explain_only = dry_run
        self.check_rows = check_rows
        self.allow = allow
        self.keep_lastmods = keep_lastmods
        self.batch_size = batch_size
        self.sql: dict[str, str] = {}
        self.rendered_sitemap: Sitemap | None = None

    def is_part_of_run(self, context: Context) -> bool:
        """Return whether the run is to be published. A dry run is not."""
        return not self._is_dry(context["params"])

    def render_template_fields(self, context: Context, jinja_env: jinja2.Environment | None = None) -> None:
        """Render the template fields, and the SQL of each section for Airflow's page of rendered templates."""
        super().render_template_fields(context, jinja_env)
        with permanent_failures(context):
            self.rendered_sitemap = self.rendered(context)
            self.sql = sql_of(self.rendered_sitemap)

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Plan the run, and return one reference for each mapped task.

        Raises:
            AirflowFailException: A guard refused, or the configuration is unusable.
        """
        from airflow_sitemaps.pipeline import stages
        from airflow_sitemaps.pipeline.request import chosen, with_published_members
        from airflow_sitemaps.report_text import LogProgress
        from airflow_sitemaps.shards.range_actions import MAX_BATCHES, make_tasks

        with permanent_failures(context):
            check_conf(context["dag_run"].conf or {}, getattr(self.get_dag(), "params", ()))
            request = self.request(context["params"])
            if request is None:
                log.info("None of the chosen sections is in this sitemap: nothing to do")
                context["ti"].xcom_push(key=PLAN_KEY, value="")
                return []
            request = replace(request, origin=deployment(), asked_by=f"{self.dag_id} {context['run_id']}")
            sections = [section.name for section in chosen(with_published_members(self.sitemap), request)]
            context["ti"].xcom_push(key=SECTIONS, value=sections[:MAX_NAMES])
            sitemap = self.rendered_sitemap or self.rendered(context)
            for section, sql in sql_of(sitemap).items():
                log.debug("section %s: rendered SQL: %s", section, sql)
            progress = LogProgress(log)
            finished = None
            if not request.dry_run:
                finished = stages.recover(sitemap, origin=request.origin, progress=progress)
            planned = stages.plan(sitemap, request, finished=finished, progress=progress)
            if new := [name for name in planned.sections if name not in sections]:
                context["ti"].xcom_push(key=SECTIONS, value=[*sections, *new][:MAX_NAMES])
        most = configuration().getint("core", "max_map_length", fallback=MAX_BATCHES)
        tasks = make_tasks(planned.batches, request.batch_rows, min(most, MAX_BATCHES))
        _log_plan(context, planned, None if request.dry_run else planned.key, tasks)
        return [] if request.dry_run else references(tasks, planned.key)

    def get_openlineage_facets_on_complete(self, ti: Any) -> Any:
        """Return the tables that were surveyed, for Airflow's OpenLineage provider."""
        from airflow_sitemaps.operators import lineage

        return lineage.of_plan(self.observed(ti), own_xcom(ti, PLAN_FACTS))

    def request(self, params: Mapping[str, Any]) -> RunRequest | None:
        """Return the request of this run; None if it concerns only other sitemaps of the same DAG."""
        from airflow_sitemaps.pipeline.request import RunRequest

        setting, names = partial(_setting, params), Names.of(self)
        chosen = listed(setting("sections", self.sections, ()))
        mine = names.sections(chosen)
        if chosen and not mine:
            return None
        largest = max(self.sitemap.shards_of(section).target_urls for section in self.sitemap.sections)
        return RunRequest(
            sections=() if "" in mine else mine,
            full=_is_on("full", setting("full", self.full, False)),
            rebuild=names.shards(listed(setting("rebuild", self.rebuild, ()))),
            dry_run=self._is_dry(params),
            check_rows=self._check_rows(params),
            allow=names.permits(listed(setting("allow", self.allow, ()))),
            keep_lastmods=names.sections(listed(setting("keep_lastmods", self.keep_lastmods, ()))),
            batch_rows=None if self.batch_size is None else self.batch_size * largest,
            asks=self.asks,
        )

    def _check_rows(self, params: Mapping[str, Any]) -> int | None:
        rows = _setting(params, "check_rows", self.check_rows, 0) or 0
        if (number := self.whole_number("check_rows", rows)) < 0:
            raise RequestError(f"check_rows={number}; give a whole number of at least 0")
        return number or None

    def _is_dry(self, params: Mapping[str, Any]) -> bool:
        is_dry = _is_on("dry_run", _setting(params, "dry_run", self.explain_only, False))
        return is_dry or self._check_rows(params) is not None


def deployment() -> str:
    """Return the address of this Airflow, which distinguishes it from other deployments; empty if it names none."""
    address = api_base_url()
    return "" if urlsplit(address).hostname in LOCAL_HOSTS else address


def check_conf(conf: Mapping[str, Any], params: Collection[str]) -> None:
    """Refuse a key of a run's conf that is a misspelled setting: without ``dry_run``, the run would publish."""
    for key in conf.keys() - {*params, *SETTINGS}:
        if nearest := get_close_matches(str(key).lower(), SETTINGS, n=1, cutoff=0.8):
            raise RequestError(
                f"the run's conf has {key!r}, which nothing reads. Write {nearest[0]!r}, or declare {key!r} in the DAG's "
                "params= if the key is the DAG's own"
            )


def _setting(params: Mapping[str, Any], name: str, own: Any, default: Any) -> Any:
    """Return the operator's own setting; without one, the param of the DAG run."""
    return own if own is not None else params.get(name, default)


def _is_on(name: str, value: Any) -> bool:
    """Return whether a setting is on. Only the texts that a param or a rendered template has for it are accepted."""
    if str(value or "").strip().lower() not in ("true", "false", "1", "0", ""):
        raise RequestError(f"{name}={value!r} is neither true nor false")
    return is_on(value)


def sql_of(sitemap: Sitemap) -> dict[str, str]:
    """Return the SQL of each section that has any."""
    texts = {section.name: getattr(section.source, "sql_text", None) for section in sitemap.sections}
    return {name: text() for name, text in texts.items() if text is not None}


def _log_plan(context: Context, plan: Plan, key: str | None, tasks: Sequence[Sequence[Batch]]) -> None:
    """Write the plan to the log, and its address and numbers to XCom. A dry run fails if a build would fail."""
    from airflow_sitemaps.pipeline.plan.dry_run import explain

    lines = explain(plan)
    if plan.batches:
        lines = [*lines, f"{counted(len(tasks), 'mapped task')} to write them"]
    log_lines(lines)
    ti = context["ti"]
    facts = operators.plan_facts(plan, key, lines, tasks)
    reasons = _reasons_against(context, plan) if key is None else []
    ti.xcom_push(key=PLAN_FACTS, value=facts)  # last: a page that finds the plan reads no more
    if reasons:
        raise AirflowFailException(f"This dry run changed nothing. {' '.join(reasons)}")
    ti.xcom_push(key=PLAN_KEY, value=key or "")


def _reasons_against(context: Context, plan: Plan) -> list[str]:
    """Return why a build by the plan of a dry run would fail, and store it in XCom."""
    ti, reasons = context["ti"], []
    if plan.refusals:
        refused = GuardError(refusal_text(plan.refusals), plan.refusals)
        ti.xcom_push(key=REFUSED, value=operators.refusal_facts(refused))
        reasons.append(f"A build would be refused. {refused}")
    if plan.failures:
        failed = PartlyPublishedError("\n".join(map(str, plan.failures)), failures=plan.failures)
        ti.xcom_push(key=FAILED, value=operators.failure_facts(failed))
        reasons.append(f"A build would not publish every section. {failed}")
    return reasons


def listed(value: Any) -> tuple[str, ...]:
    """Return a param as strings. The param is a list, or one string with commas, of which native rendering makes an int."""
    parts = str(value).split(",") if isinstance(value, str) or type(value) is int else value or ()
    if not isinstance(parts, Collection):
        raise RequestError(f"{value!r} is no list of names; give a list, or a text with commas")
    return tuple(str(part).strip() for part in parts if str(part).strip())


def references(tasks: Sequence[Sequence[Batch]], key: str) -> list[dict[str, Any]]:
    """Return one reference for each mapped task: the plan's address, its batches' numbers, and a label for people."""
    batches = [batch for task in tasks for batch in task]
    total, position = Counter(batch.section for batch in batches), Counter[str]()
    names: dict[int, str] = {}
    for batch in batches:
        position[batch.section] += 1
        names[batch.number] = f"{batch.section} {position[batch.section]}/{total[batch.section]}"
    return [{"plan": key, "batches": [batch.number for batch in task], "label": _label(task, names)} for task in tasks]


def _label(task: Sequence[Batch], names: Mapping[int, str]) -> str:
    """Return a label such as ``products 1/2 (10 shards)`` or ``pages 1/1, posts 1/1 and 28 more (30 shards)``."""
    shards = f"({counted(sum(len(batch.actions) for batch in task), 'shard')})"
    shown = [names[batch.number] for batch in task]
    for end in range(len(shown), 0, -1):
        more = f" and {len(shown) - end:,} more" if end < len(shown) else ""
        label = f"{', '.join(shown[:end])}{more} {shards}"
        if len(label) <= MAX_LABEL and (end <= 3 or not more):
            return label
    return shards


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a sitemap's task group, its sections with retired ones, and those of the DAG's other groups.

    ``files`` matches the names of shards in folders, which may be named like a group.
    """

    groups: Sequence[str]
    own: frozenset[str]
    others: Mapping[str, frozenset[str]]
    files: re.Pattern[str] = re.compile("")

    @classmethod
    def of(cls, operator: SitemapOperator) -> Names:
        """Return the names for a planning task."""
        tasks = [task for task in getattr(operator.get_dag(), "tasks", ()) if isinstance(task, SitemapPlanOperator)]
        others = {
            name: _sections(task)
            for task in tasks
            for name in (_groups(task, tasks) if task.task_id != operator.task_id else ())
        }
        folders = [
            (re.escape(s.path + s.name), "(.+-)?" * (s.split is not None)) for s in operator.sitemap.sections if s.path
        ]
        files = "|".join(rf"{name}-{value}\d+(\..*)?" for name, value in folders)
        return cls(_groups(operator, tasks), _sections(operator), others, re.compile(files))

    def sections(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of sections that concern this sitemap, without their group.

        A name that no sitemap of the DAG has is returned too, so that the plan refuses it.
        """
        split = map(self._split, names)
        return tuple(section for group, section in split if self._concerns(group, section))

    def shards(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the names of shards without this sitemap's group; names with another group are left out."""
        mine = []
        for name in names:
            group, _, shard = name.partition("/")
            is_file = self.files.fullmatch(name) is not None
            if group in self.groups and not is_file:
                mine.append(shard)
            elif group not in self.others or not shard or is_file:
                mine.append(name)
        return tuple(mine)

    def permits(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the permits that concern this sitemap, without their group: ``shrink:shop/products``, ``shop/total``."""
        mine = []
        for name in names:
            guard, colon, rest = name.rpartition(":")
            group, own = self._split(rest)
            if self._concerns(group, own.partition("=")[0] if colon else ""):
                mine.append(f"{guard}{colon}{own}")
        return tuple(mine)

    def _concerns(self, group: str | None, section: str) -> bool:
        """Return whether a section of a group is this sitemap's. Without a group, a name that no sitemap has is, too.

        A written name is stronger than one that a ``Section.each`` may give.
        """
        if group is not None:
            return group in self.groups
        others = self.others.values()
        if section in self.own or any(section in other for other in others):
            return section in self.own
        return _may_have(self.own, section) or not any(_may_have(other, section) for other in others)

    def _split(self, name: str) -> tuple[str | None, str]:
        """Split ``group/name``. Raise RequestError if the DAG has no such group."""
        group, slash, rest = name.rpartition("/")
        if not slash:
            return None, name
        if group not in (*self.groups, *self.others):
            groups = ", ".join(sorted({*self.groups, *self.others} - {""})) or "none"
            raise RequestError(f"{name!r}: this DAG has no group {group!r}; its groups are: {groups}")
        return group, rest


def _groups(operator: SitemapOperator, tasks: Sequence[SitemapOperator]) -> list[str]:
    """Return the ID of a sitemap's task group, and what the pages know it by: the prefix of its tasks' IDs, if only it has it."""
    group, prefix = operator.task_group, prefix_of(operator.task_id)
    is_alone = [prefix_of(task.task_id) for task in tasks].count(prefix) == 1
    known_as = prefix if is_alone else chain_of(operator.get_dag(), operator.task_id)
    return [(group.group_id if group is not None else None) or "", *([known_as] if is_alone or known_as else [])]


def _sections(operator: SitemapOperator) -> frozenset[str]:
    """Return the names of a sitemap's sections. Those that a run makes of a ``Section.each`` are written ``products-*``."""
    sections = operator.sitemap.sections
    families = (f"{section.name}-*" for section in sections if section.split is not None)
    return frozenset({*(section.name for section in sections), *families, *operator.sitemap.retired})


def _may_have(names: Collection[str], section: str) -> bool:
    return any(fnmatchcase(section, name) for name in names if name.endswith("*"))
