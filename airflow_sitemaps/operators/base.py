"""What all operators of a sitemap share."""

from __future__ import annotations

import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_sitemaps.errors import ConfigurationError, ConflictError, RefusedError, StoreContentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Context

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.sitemap import Sitemap

log = logging.getLogger(__name__)


class SitemapOperator(BaseOperator):
    """An operator that holds a sitemap. Its sources' texts are Jinja templates, rendered when the task runs."""

    ui_color = "#e0f2f1"

    def __init__(self, *, sitemap: Sitemap, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sitemap = sitemap

    def rendered(self, context: Context) -> Sitemap:
        """The sitemap with the texts of its sources rendered; the operator's own stays as it is."""
        environment = self.get_template_env()
        return self.sitemap.rendered(lambda text: str(self.render_template(text, context, environment)))


@contextmanager
def no_vain_retry(context: Context) -> Iterator[None]:
    """Let fail for good what a retry cannot mend: wrong configuration, a refusal, a lost race, a damaged object.

    Why it failed is left for the pages, whatever it was.
    """
    try:
        with failures_left(context):
            yield
    except RefusedError as error:
        from airflow_sitemaps.operators.facts import REFUSED, refusal_facts

        log.error("Refused; what is published stays as it was. %s", error)
        context["ti"].xcom_push(key=REFUSED, value=refusal_facts(error))
        raise AirflowFailException(str(error)) from error
    except ConflictError as error:
        log.error("Another run was first; trigger the DAG again, it will plan anew. %s", error)
        raise AirflowFailException(str(error)) from error
    except (ConfigurationError, StoreContentError) as error:
        log.error("A retry cannot mend this. %s", error)
        raise AirflowFailException(str(error)) from error


@contextmanager
def failures_left(context: Context) -> Iterator[None]:
    """Leave in XCom why the task failed."""
    try:
        yield
    except RefusedError:
        raise  # which leaves more
    except Exception as error:
        from airflow_sitemaps.operators.facts import FAILED, failure_facts

        with suppress(Exception):  # what went wrong first is what must be told
            context["ti"].xcom_push(key=FAILED, value=failure_facts(error))
        raise


def tell(report: Report) -> None:
    """Say in the task's log what a report says."""
    from airflow_sitemaps import summary

    for line in summary.lines(report):
        log.log(logging.WARNING if line.startswith(("WARNING", "REFUSED")) else logging.INFO, "%s", line)


def emit(operator: SitemapOperator, context: Context, report: Report) -> None:
    """Let the sitemap's asset event carry the report."""
    from airflow_sitemaps.assets import event_extra, store_facts

    ti = context["ti"]
    config = operator.sitemap.store
    group = operator.task_group
    context["outlet_events"][operator.sitemap.asset].extra = event_extra(
        report,
        store=store_facts(config, config.open()),
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        group_id=(group.group_id if group is not None else None) or "",
        task_id=ti.task_id,
    )
