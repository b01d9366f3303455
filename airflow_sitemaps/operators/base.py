"""The base class of all operators: errors that no retry can fix, metrics of runs and failures, the asset event."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from airflow.sdk import BaseOperator, Context

from airflow_sitemaps import errors, setting_checks
from airflow_sitemaps.airflow_compat import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    AirflowTaskTimeout,
    OperatorPartial,
)
from airflow_sitemaps.operators import FAILED, MAX_TEXT, PART_OF, REFUSED, failure_facts, prefix_of, refusal_facts
from airflow_sitemaps.sitemap import Sitemap

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.report import Report

log = logging.getLogger(__name__)

PUSHES: Final = {"do_xcom_push": True}
"""Goes before the ``default_args`` of a DAG: the tasks and the pages need what tasks return."""


def own_name(operator: type) -> str:
    """Return the name of this package's class that an operator is, or of which it is a subclass; empty for any other."""
    return next((kind.__name__ for kind in operator.__mro__ if kind.__module__.startswith("airflow_sitemaps.")), "")


def delimiters(dag: Any) -> dict[str, str]:
    """Return the delimiters of a DAG's templates, which may be its own."""
    own = getattr(dag, "jinja_environment_kwargs", None) or {}
    return {"variable_start_string": "{{", "variable_end_string": "}}", "block_start_string": "{%", **own}


class _Partial(OperatorPartial):
    """A task to map. Before Airflow maps it, it has the inlets and the type of a task that is not mapped."""

    __slots__ = ()

    def _expand(self, expand_input: Any, **options: Any) -> Any:
        over, inlets = expand_input.value, self.kwargs.get("inlets") or []  # of default_args too
        rows = [over] if isinstance(over, Mapping) else over if isinstance(over, (list, tuple)) else []
        given = [row.get("sitemap") for row in (self.kwargs, *rows) if isinstance(row, Mapping)]
        inlets = [*inlets] if isinstance(inlets, (list, tuple)) else [inlets]
        follows = getattr(self.operator_class, "follows", False)
        for sitemap in (part for each in given for part in (each if isinstance(each, (list, tuple)) else [each])):
            if follows and isinstance(sitemap, Sitemap) and sitemap.asset not in inlets:
                inlets.append(sitemap.asset)
        self.kwargs.update({"inlets": inlets} if inlets else {})
        mapped = super()._expand(expand_input, **options)
        mapped.task_type = own_name(self.operator_class)
        return mapped


class SitemapOperator(BaseOperator):
    """An operator that holds a sitemap. The SQL of its sources is a Jinja template, rendered when the task runs."""

    ui_color = "#e0f2f1"
    takes_urls: ClassVar[bool] = False
    """Whether the task can do without a sitemap."""
    publishes: ClassVar[bool] = False
    """Whether the task is part of a run that publishes, so that the metrics count its failure as one of the run."""
    follows: ClassVar[bool] = False
    """Whether the task works on what is published. The sitemap's asset is its inlet, by which the pages find it."""

    def __init__(self, *, sitemap: Sitemap, **kwargs: Any) -> None:
        super().__init__(**{**PUSHES, **kwargs})
        if not (self.takes_urls and sitemap is None):
            setting_checks.instance(self.named, "sitemap", sitemap, Sitemap)
        self.sitemap = sitemap
        if self.follows and sitemap is not None and sitemap.asset not in self.inlets:
            self.add_inlets([sitemap.asset])

    def pre_execute(self, context: Any) -> None:
        """Say which sitemap a part of a mapped task is about, for the pages."""
        super().pre_execute(context)
        if self.follows and self.sitemap is not None and context["ti"].map_index >= 0:
            context["ti"].xcom_push(key=PART_OF, value={"sitemap": str(self.sitemap.asset.uri)})

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Return a task to map."""
        mapped = super().partial(**{**PUSHES, **kwargs})
        if "do_xcom_push" not in kwargs:  # each part has it anyhow, and expand() may name it
            mapped.kwargs.pop("do_xcom_push", None)
        mapped.__class__ = _Partial
        return mapped

    @property
    def task_type(self) -> str:
        """Return the name of this package's class, for a subclass too: the pages know the task by it."""
        return own_name(type(self))

    @property
    def named(self) -> str:
        """Return what messages call the task."""
        return f"{type(self).__name__}({self.task_id!r})"

    def check_sections(self, setting: str, names: Iterable[Any]) -> None:
        """Refuse names of sections in a setting that the sitemap does not have."""
        if unknown := sorted(str(name) for name in names if not self.sitemap.has_section(name)):
            sections = ", ".join(section.name for section in self.sitemap.sections)
            raise errors.ConfigurationError(
                f"{self.named}: {setting} names {', '.join(unknown)}, which is no section; the sections are {sections}"
            )

    @property
    def operator_name(self) -> str:
        """Return the name that Airflow's UI shows."""
        return str(getattr(self, "custom_operator_name", type(self).__name__))

    def is_open(self, value: Any) -> bool:
        """Return whether Airflow replaces an argument, or a part of it, when the task runs: a template, a function, an XComArg."""
        parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
        marks = delimiters(self.get_dag())
        is_template = any(marks[f"{kind}_start_string"] in str(value) for kind in ("variable", "block"))
        return callable(value) or hasattr(value, "resolve") or is_template or any(map(self.is_open, parts))

    def whole_number(self, name: str, value: Any) -> int:
        """Return an argument, which may be a rendered template, as a whole number, or raise ConfigurationError."""
        try:
            # A DAG with native templates makes 1.5 and True of such texts; a whole number of a param or a query may be 7.00.
            number, _, fraction = str(value).partition(".")
            return int(number if not fraction.strip("0") else "")
        except ValueError:
            raise errors.ConfigurationError(f"{self.named}: {name}={value!r}; give a whole number") from None

    def is_part_of_run(self, context: Context) -> bool:
        """Return whether the metrics count a failure of this task as one of the sitemap's run."""
        return self.publishes

    def ends_run(self, context: Context) -> bool:
        """Return whether the sitemap's run ends if this task fails and is not retried."""
        return True

    def rendered(self, context: Context) -> Sitemap:
        """Return the sitemap with the SQL of its sources rendered. The operator's own sitemap stays unrendered."""
        return self.sitemap.rendered(self.renderer(context))

    def renderer(self, context: Context) -> Callable[[str], str]:
        """Return the function that renders SQL, as text even in a DAG with ``render_template_as_native_obj``."""
        from airflow_sitemaps.templates import renderer, words_of_run

        dag = self.get_dag()
        environment = self.get_template_env() if dag is None else dag.get_template_env(force_sandboxed=True)
        return renderer(environment, words_of_run(context))

    def observed(self, ti: Any) -> Sitemap:
        """Return the sitemap for lineage: with the SQL of its sources rendered, so that the tables in it are found."""
        try:
            return self.rendered(ti.get_template_context())
        except Exception:  # lineage must never fail a run
            return self.sitemap

    def observe(self, report: Report) -> None:
        """Log a report, and send its metrics."""
        from airflow_sitemaps import metrics, report_text

        log_lines(report_text.lines(report))
        now, zone_of = datetime.now(timezone.utc), self.sitemap.timezone_of
        metrics.send(metrics.of_report(self.sitemap.index_url, report, now, zone_of))

    def emit(self, context: Context, report: Report) -> dict[str, Any]:
        """Attach a report to the sitemap's asset events, and return what XCom keeps of it."""
        from airflow_sitemaps import assets
        from airflow_sitemaps.pipeline.request import with_published_members

        if self.sitemap.sections_asset in self.outlets:
            with permanent_failures(context):
                self._emit_sections(context, report)

        ti, config = context["ti"], self.sitemap.store
        context["outlet_events"][self.sitemap.asset].extra = assets.event_extra(
            report,
            store=assets.store_facts(config, config.open()),
            settings=assets.section_settings(with_published_members(self.sitemap)),
            dag_id=ti.dag_id,
            run_id=ti.run_id,
            # as the pages see it; a group may have no prefix
            group_id=chain_of(self.get_dag(), getattr(self, "planner_id", "")) or prefix_of(ti.task_id),
            task_id=ti.task_id,
        )
        return reference(report)

    def _emit_sections(self, context: Context, report: Report) -> None:
        """Give the event of ``Sitemap.sections_asset`` a partition for each section that changed since the last event.

        The record of an event counts once its task has succeeded: Airflow emits no event of another task. Without a record,
        it is the first event, and names every published section.
        """
        from airflow_sitemaps.pipeline.state.repository import StateRepository, announcement, record_announced

        ti, who, state = context["ti"], "sections", StateRepository(self.sitemap.store.open().state)
        since, last, manifest = 0, announcement(state.objects, who), state.manifest()
        if {"dag", "run", "task", "place", "since", "generation"} <= last.keys():
            states = ti.get_task_states(
                dag_id=last["dag"], task_ids=[last["task"]], run_ids=[last["run"]], map_index=last["place"]
            )
            is_emitted = "success" in states.get(last["run"], {}).values()
            since = last["generation" if is_emitted else "since"]
        until = report.generation - (report.result != "unchanged")  # the report says what this run changed
        present = {} if manifest is None else manifest.sections
        own = {name for name, section in report.sections.items() if section.shards.has_changes()}
        changed = sorted({*own, *(name for name, section in present.items() if since < section.changed_in <= until)})
        event: Any = context["outlet_events"][self.sitemap.sections_asset]
        event.extra = {**reference(report), "sections": changed}
        if changed and hasattr(event, "add_partitions"):  # from Airflow 3.3 on
            event.add_partitions(changed)
        elif changed:
            log.warning("the event of sections_asset has no partitions, which need Airflow 3.3")
        reached = (
            since if report.failures else report.generation
        )  # a task that fails emits nothing, whatever it is marked
        made_by = {"dag": ti.dag_id, "run": ti.run_id, "task": ti.task_id, "place": ti.map_index}
        record_announced(state.objects, who, reached, since=since, **made_by)


def chain_of(dag: Any, planner_id: str) -> str:
    """Return the publishing task of a plan's sitemap if several plans of the DAG have one prefix; empty otherwise."""
    tasks = getattr(dag, "tasks", ())
    prefixes = [prefix_of(task.task_id) for task in tasks if task.task_type == "SitemapPlanOperator"]
    if not planner_id or prefixes.count(prefix_of(planner_id)) < 2:
        return ""
    return next((task.task_id for task in tasks if getattr(task, "planner_id", "") == planner_id), "")


def reference(report: Report) -> dict[str, Any]:
    """Return the part of a report that XCom keeps. The store and the asset event hold the whole report."""
    return {
        "result": report.result,
        "generation": report.generation,
        "urls": report.urls,
        "index_urls": list(report.index_urls[:10]),
    }


@contextmanager
def permanent_failures(context: Context) -> Iterator[None]:
    """Turn non-retryable errors into ``AirflowFailException``, and log the reason in one line.

    Unusable configuration, a refusal, a lost race, a missing receipt and a damaged object are permanent. An undefined connection and
    missing credentials are not: a secrets backend or a metadata service may respond to the next attempt. The reason is
    stored in XCom for the pages in Airflow's UI.
    """
    try:
        yield
    except AirflowSkipException:
        raise
    except (Exception, AirflowTaskTimeout) as error:
        said, is_permanent = _explanation(error)
        if said:
            log.error("%s. %s", said, error)
        with suppress(Exception):  # an error here must not hide the original one
            _push_reason(context["ti"], error)
        with suppress(Exception):
            _measure(context, error, is_permanent=is_permanent)
        if is_permanent and not isinstance(error, AirflowFailException):
            raise AirflowFailException(str(error)) from error
        raise


def fail(context: Context, reason: str, kind: type[AirflowException] = AirflowFailException, **facts: Any) -> NoReturn:
    """Fail the task for what it found, and store the reason in XCom."""
    context["ti"].xcom_push(key=FAILED, value={"error": kind.__name__, "message": reason[:MAX_TEXT], **facts})
    raise kind(reason)


_EXPLANATIONS: Final = (
    (errors.RefusedError, "Refused; the published sitemap is unchanged", True),
    (errors.ConflictError, "Another run published first; run the DAG again to plan on its result", True),
    ((errors.ConfigurationError, errors.IncompleteError, errors.StoreContentError), "A retry cannot fix this", True),
    (errors.SourceError, "The database failed; a retry may succeed", False),
    (errors.StoreError, "The store failed; a retry may succeed", False),
)


def _explanation(error: BaseException) -> tuple[str, bool]:
    """Return what the log says of an error before its message, and whether a retry cannot fix it."""
    if isinstance(error, errors.ConfigurationError) and error.retryable:
        return "The connection or its credentials are missing; a retry may find them", False
    if isinstance(error, errors.PartlyPublishedError):
        is_published = getattr(error.report, "result", "") == "partly_published"
        return "Partly published" if is_published else "Not published", True
    rows = ((said, is_permanent) for kinds, said, is_permanent in _EXPLANATIONS if isinstance(error, kinds))
    return next(rows, ("", isinstance(error, AirflowFailException)))


def _push_reason(ti: Any, error: BaseException) -> None:
    """Store in XCom why the task failed, and what guards refused."""
    if isinstance(error, errors.RefusedError) or (isinstance(error, errors.PartlyPublishedError) and error.refusals):
        ti.xcom_push(key=REFUSED, value=refusal_facts(error))
    if not isinstance(error, errors.RefusedError):
        ti.xcom_push(key=FAILED, value=failure_facts(error))


def _measure(context: Context, error: BaseException, *, is_permanent: bool) -> None:
    """Send the metrics of a run that an error ends.

    A try that Airflow repeats ends no run. Neither does a batch that is not written if the other sections are published.
    Errors of dry runs, and of tasks that are not part of a run, are not counted.
    """
    from airflow_sitemaps import metrics

    task: Any = context.get("task")
    if task.is_part_of_run(context):
        ti = context["ti"]
        is_repeated = getattr(ti, "max_tries", 0) > 0 and ti.try_number <= ti.max_tries
        ends_run = (is_permanent or not is_repeated) and task.ends_run(context)
        metrics.send(metrics.of_error(task.sitemap.index_url, error, ends_run=ends_run))


def own_xcom(ti: Any, key: str) -> Any:
    """Return an XCom value that the task itself pushed; empty if there is none."""
    return ti.xcom_pull(task_ids=ti.task_id, key=key, map_indexes=ti.map_index) or {}


def log_lines(lines: Iterable[str]) -> None:
    """Write the lines of a plan, a report or a verification to the task's log, each at its level."""
    from airflow_sitemaps.report_text import logged

    for line in lines:
        level, text = logged(line)
        log.log(level, "%s", text)
