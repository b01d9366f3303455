"""A publishing task whose planning task left no plan, or stored one and then failed: without its references."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException, XComNotFound

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapNotifier, SitemapTaskGroup
from airflow_sitemaps.operators.publish import NoPlanError
from airflow_sitemaps.testing import MemorySourceConfig

if TYPE_CHECKING:
    from pathlib import Path


class Ti:
    """The publishing task of a run whose planning task has a state, and pushed the address of a plan or nothing."""

    dag_id, run_id, task_id, map_index = "lost", "manual", "sitemap.publish", -1

    def __init__(self, state: str, stored: str) -> None:
        self.state, self.stored = state, stored

    def xcom_pull(self, key: str = "return_value", **kwargs: Any) -> Any:
        if key == "plan" and not self.stored:
            raise XComNotFound(self.dag_id, "sitemap.plan", key)
        return self.stored if key == "plan" else None

    def get_task_states(self, **kwargs: Any) -> dict[str, dict[str, str]]:
        return {self.run_id: {"sitemap.plan": self.state}}


@pytest.mark.parametrize("stored", ["", "plans/1.json"], ids=["not stored", "stored"])
@pytest.mark.parametrize(
    ("state", "says", "is_sent"), [("success", "left no plan", True), ("failed", "did not succeed", False)]
)
def test_a_lost_plan_is_named_and_reported(state: str, says: str, is_sent: bool, stored: str, tmp_path: Path) -> None:
    source = MemorySourceConfig([{"id": 1, "loc": "https://shop.example/1"}])
    sitemap = Sitemap(LocalStore(tmp_path, base_url="https://shop.example/"), [Section("pages", source)])
    with DAG("lost", schedule=None, max_active_runs=1) as dag:
        group = SitemapTaskGroup("sitemap", sitemap)
    ti: Any = Ti(state, stored)
    context: Any = {
        "ti": ti,
        "dag": dag,
        "run_id": ti.run_id,
        "dag_run": SimpleNamespace(dag_id="lost", run_id="manual"),
    }

    with pytest.raises(AirflowFailException, match=says) as failed:
        group.publish.render_template_fields(context)

    assert isinstance(failed.value, NoPlanError) is not is_sent
    message = SitemapNotifier(sitemap=sitemap).message({**context, "ti": None, "exception": failed.value})
    assert (message is not None) is is_sent
