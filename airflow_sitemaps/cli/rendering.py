"""Jinja in a sitemap's texts, where no Airflow run gives the words: the dates of today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.errors import SourceConfigurationError

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_sitemaps.sitemap import Sitemap


def rendered(sitemap: Sitemap, now: datetime) -> Sitemap:
    """The sitemap with its sources' texts rendered, as a run of a DAG at ``now`` would.

    Known: ``ds``, ``ds_nodash``, ``ts``, ``logical_date``, ``data_interval_start``, ``data_interval_end``.

    Raises:
        SourceConfigurationError: a text uses another name, or is no template.
    """
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    words: dict[str, object] = {
        "ds": f"{now:%Y-%m-%d}",
        "ds_nodash": f"{now:%Y%m%d}",
        "ts": now.isoformat(),
        "logical_date": now,
        "data_interval_start": now,
        "data_interval_end": now,
    }
    # No run: what tasks of a run would share (a materialised table) each session makes and drops for itself.
    nobody = {"dag": {"dag_id": ""}, "run_id": ""}

    def render(text: str) -> str:
        try:
            return environment.from_string(text).render(words | nobody)
        except TemplateError as error:
            raise SourceConfigurationError(
                f"cannot render {text!r}: {error}. In the shell a template knows {', '.join(words)}; what else a DAG "
                "run knows (params, variables, macros) it knows only in Airflow"
            ) from error

    return sitemap.rendered(render)
