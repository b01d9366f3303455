"""What Airflow sees when it parses a DAG file with a SitemapTaskGroup."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Asset, Param, TaskGroup
from airflow.serialization.serialized_objects import DagSerialization

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators.announcements import IndexNowOperator, SitemapPingOperator
from airflow_sitemaps.operators.decisions import Approval
from airflow_sitemaps.operators.plan import SitemapPlanOperator
from airflow_sitemaps.operators.publish import SitemapPublishOperator, SitemapRollbackOperator
from airflow_sitemaps.operators.verify import SitemapVerifyOperator
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.task_group import ConcurrentRunsWarning, SitemapTaskGroup
from airflow_sitemaps.testing import MemorySourceConfig

DAGS = Path(__file__).parents[2] / "dags"


def a_sitemap(name: str = "products", *, folder: str = "site") -> Sitemap:
    rows = [{"id": 1, "loc": "https://shop.example/secret-of-the-source"}]
    store = LocalStore(folder, base_url="https://shop.example/")
    return Sitemap(store, [Section(name, MemorySourceConfig(rows))])


def a_dag(dag_id: str = "d", **kwargs: object) -> DAG:
    return DAG(dag_id, schedule=None, **{"max_active_runs": 1, **kwargs})  # type: ignore[arg-type]


def test_example_dags_import_without_errors_or_warnings() -> None:
    bag = DagBag(str(DAGS))

    assert bag.import_errors == {}
    assert bag.captured_warnings == {}
    assert {"places_sitemap", "load_places", "cities_sitemap"} <= set(bag.dags)


def test_the_group_wires_plan_write_publish() -> None:
    with a_dag() as dag:
        SitemapTaskGroup("sitemap", a_sitemap())

    assert dag.get_task("sitemap.plan").downstream_task_ids == {"sitemap.write", "sitemap.publish"}
    assert dag.get_task("sitemap.write").downstream_task_ids == {"sitemap.publish"}
    assert dag.get_task("sitemap.publish").trigger_rule == "all_done"
    assert dag.get_task("sitemap.write").map_index_template == "{{ task.batch.label }}"


def test_the_group_takes_its_dag_as_an_argument() -> None:
    dag = a_dag()
    SitemapTaskGroup("sitemap", a_sitemap(), dag=dag)
    assert [task.task_id for task in dag.tasks] == ["sitemap.plan", "sitemap.write", "sitemap.publish"]


def test_the_group_has_retries_that_a_dag_a_group_or_a_task_may_replace() -> None:
    minutes = {"retry_delay": timedelta(minutes=5)}
    with a_dag() as plain:
        SitemapTaskGroup("sitemap", a_sitemap())
    with a_dag("own", default_args={"retries": 0, **minutes}) as own:
        SitemapTaskGroup("sitemap", a_sitemap(), plan_kwargs={"retries": 7})
        SitemapTaskGroup("group", a_sitemap("news", folder="news"), default_args={"retries": 1})
        with TaskGroup("outer", default_args={"retries": 2}):
            SitemapTaskGroup("inner", a_sitemap("blog", folder="blog"))

    def settings(dag: DAG, group: str) -> list[tuple[int, timedelta]]:
        tasks = [dag.get_task(f"{group}.{name}") for name in ("plan", "write", "publish")]
        return [(task.retries, task.retry_delay) for task in tasks]

    assert settings(plain, "sitemap") == [(3, timedelta(minutes=2))] * 3
    assert settings(own, "sitemap") == [(7, timedelta(minutes=5))] + [(0, timedelta(minutes=5))] * 2
    assert settings(own, "group") == [(1, timedelta(minutes=5))] * 3
    assert settings(own, "outer.inner") == [(2, timedelta(minutes=5))] * 3


def test_tasks_push_what_the_next_ones_need_in_a_dag_whose_other_tasks_push_nothing() -> None:
    with a_dag(default_args={"do_xcom_push": False}) as dag:
        SitemapTaskGroup("sitemap", a_sitemap())
        SitemapPlanOperator(task_id="own", sitemap=a_sitemap(), do_xcom_push=False)
        mapped = SitemapVerifyOperator.partial(task_id="each").expand(sitemap=[a_sitemap()], do_xcom_push=[False])
        given = SitemapVerifyOperator.partial(task_id="given", do_xcom_push=False).expand(sitemap=[a_sitemap()])

    pushes = {task.task_id: getattr(task, "do_xcom_push", None) for task in dag.tasks if not task.is_mapped}
    assert pushes == {"sitemap.plan": True, "sitemap.publish": True, "own": False}
    parts = [dag.get_task("sitemap.write").unmap({"batch": []})]
    parts += [task.unmap({"sitemap": a_sitemap()}) for task in (mapped, given)]
    assert [part.do_xcom_push for part in parts] == [True, True, False]
    assert mapped.unmap({"sitemap": a_sitemap(), "do_xcom_push": False}).do_xcom_push is False


def test_the_group_passes_on_pool_and_arguments() -> None:
    with a_dag() as dag:
        SitemapTaskGroup(
            "sitemap",
            a_sitemap(),
            pool="warehouse",
            batch_size=7,
            plan_kwargs={"retries": 5},
            write_kwargs={"max_active_tis_per_dagrun": 3},
            publish_kwargs={"priority_weight": 9},
        )

    plan, write, publish = (dag.get_task(f"sitemap.{name}") for name in ("plan", "write", "publish"))
    assert isinstance(plan, SitemapPlanOperator)
    assert (plan.pool, plan.retries, plan.batch_size) == ("warehouse", 5, 7)
    assert (write.pool, write.max_active_tis_per_dagrun) == ("warehouse", 3)
    assert (publish.pool, publish.priority_weight) == ("default_pool", 9)


def test_the_serialised_dag_is_small_stable_and_holds_no_rows() -> None:
    def serialised() -> str:
        with a_dag() as dag:
            SitemapTaskGroup("sitemap", a_sitemap())
        return json.dumps(DagSerialization.to_dict(dag), sort_keys=True)

    first = serialised()

    assert first == serialised()
    assert "secret-of-the-source" not in first
    assert "object at 0x" not in first
    assert '"sitemap": "Sitemap https://shop.example/sitemap.xml of products"' in first
    links = {
        "Sitemap index": "sitemap_index_url",
        "Sitemap page": "sitemap_page_url",
        "Store console": "sitemap_console_url",
    }
    assert f'"_operator_extra_links": {json.dumps(links)}' in first


def test_params_are_defined_and_those_of_the_dag_stay() -> None:
    with a_dag(params={"full": Param(True, type="boolean"), "mine": 1}) as dag:
        SitemapTaskGroup("sitemap", a_sitemap())

    assert dag.params.dump() == {
        "full": True,
        "mine": 1,
        "sections": [],
        "rebuild": [],
        "dry_run": False,
        "check_rows": 0,
        "allow": [],
        "keep_lastmods": [],
    }


def test_two_groups_in_one_dag_share_the_params_and_know_their_own_sections() -> None:
    with a_dag() as dag:
        SitemapTaskGroup("shop", a_sitemap("products", folder="a"))
        SitemapTaskGroup("blog", a_sitemap("posts", folder="b"))
    shop, blog = dag.get_task("shop.plan"), dag.get_task("blog.plan")
    assert isinstance(shop, SitemapPlanOperator)
    assert isinstance(blog, SitemapPlanOperator)

    assert dag.params.get_param("sections").schema["examples"] == ["products", "posts"]
    asked = {"sections": ["posts"]}
    assert shop.request(asked) is None
    request = blog.request(asked)
    assert request is not None
    assert request.sections == ("posts",)
    misspelt = shop.request({"sections": ["prodcts"]})
    assert misspelt is not None, "nobody knows this section: the plan must refuse it"
    assert misspelt.sections == ("prodcts",)


def test_a_dag_that_may_run_twice_at_once_is_warned_of() -> None:
    with a_dag(max_active_runs=4), pytest.warns(ConcurrentRunsWarning, match="max_active_runs=4"):
        SitemapTaskGroup("sitemap", a_sitemap())
    with a_dag(), warnings.catch_warnings():
        warnings.simplefilter("error")
        SitemapTaskGroup("sitemap", a_sitemap())
    with a_dag(max_active_runs=4), warnings.catch_warnings():
        warnings.simplefilter("error")
        SitemapTaskGroup("sitemap", a_sitemap(), plan_kwargs={"sections": "{{ dag_run.partition_key or '' }}"})


def test_what_a_dag_file_imports_is_light() -> None:
    heavy = ["pyarrow", "sqlalchemy", "boto3", "lxml", "duckdb", "adbc_driver_manager"]
    # Airflow itself imports SQLAlchemy when its settings load: what counts is what we add to it.
    code = (
        "import sys, airflow.sdk; from airflow.sdk import BaseOperator, TaskGroup, Param, Asset, XComArg\n"
        "from airflow.sdk.exceptions import AirflowFailException\n"
        "before = set(sys.modules)\n"
        "import airflow_sitemaps; [getattr(airflow_sitemaps, name) for name in airflow_sitemaps.__all__]\n"
        f"print([m for m in {heavy!r} if m in set(sys.modules) - before])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip().splitlines()[-1] == "[]"


@pytest.mark.parametrize("size", [0, -1, "4", True])
def test_a_size_of_batches_that_no_plan_can_use_is_refused(size: Any) -> None:
    with a_dag(), pytest.raises(ConfigurationError, match=rf"\('sitemap.plan'\): batch_size={size!r}; give a whole"):
        SitemapTaskGroup("sitemap", a_sitemap(), batch_size=size)


@pytest.mark.parametrize("value", [1.5, True, None, "1.5", [1]])
def test_a_number_that_is_not_whole_is_no_generation(value: Any) -> None:
    with a_dag():
        rollback = SitemapRollbackOperator(task_id="back", sitemap=a_sitemap(), generation=7)

    assert [rollback.whole_number("generation", number) for number in (7, 7.0, " 7 ", Decimal("7.00"))] == [7] * 4
    with pytest.raises(ConfigurationError, match=r"generation=.*; give a whole number"):
        rollback.whole_number("generation", value)


def test_a_group_refuses_arguments_of_other_types() -> None:
    sections: Any = [Section("products", MemorySourceConfig([]))]
    with a_dag(), pytest.raises(ConfigurationError, match=r"SitemapTaskGroup\('s'\): sitemap=\[.*; give a Sitemap"):
        SitemapTaskGroup("s", sections)
    swapped: Any = (a_sitemap(), "s")
    with a_dag(), pytest.raises(ConfigurationError, match="sitemap='s'; give a Sitemap"):
        SitemapTaskGroup(*swapped)
    wrong: Any = {"plan_kwargs": ["retries"], "approval": True}
    for name, value in wrong.items():
        with a_dag(), pytest.raises(ConfigurationError, match=rf"SitemapTaskGroup\('s'\): {name}=.*; give a"):
            SitemapTaskGroup("s", a_sitemap(), **{name: value})


def test_an_approval_that_asks_no_one_is_refused() -> None:
    with a_dag(), pytest.raises(ConfigurationError, match="approval= without decisions= asks no one"):
        SitemapTaskGroup("sitemap", a_sitemap(), publish_kwargs={"approval": Approval()})


def test_an_answer_is_carried_out_where_publish_runs() -> None:
    with a_dag(default_args={"owner": "shop", "queue": "all", "retries": 1, "pool": "small"}):
        group = SitemapTaskGroup("sitemap", a_sitemap(), approval=Approval(), publish_kwargs={"queue": "bucket"})

    places = {(task.owner, task.queue, task.pool, task.retries) for task in group.decisions.tasks}
    assert places == {("shop", "bucket", "default_pool", 3)}


@pytest.mark.parametrize("is_given", [True, False])
def test_an_answer_emits_the_sections_that_changed_if_its_group_does(is_given: bool) -> None:
    sitemap = a_sitemap()
    given = {"outlets": sitemap.sections_asset} if is_given else {}
    with a_dag():
        group = SitemapTaskGroup("sitemap", sitemap, approval=Approval(), publish_kwargs=given)

    outlets = group.decisions.get_task("publish").outlets
    assert outlets == [sitemap.asset, *given.values()]


def test_the_publisher_has_outlets_as_any_task_of_airflow() -> None:
    other, sitemap = Asset("other"), a_sitemap()
    with a_dag() as dag:
        for number, outlets in enumerate((None, other, [other], (other,))):
            SitemapPublishOperator(task_id=f"p{number}", sitemap=sitemap, plan="", outlets=outlets)
            SitemapRollbackOperator(task_id=f"r{number}", sitemap=sitemap, generation=1, outlets=outlets)

    for number in range(4):
        expected = [sitemap.asset] if number == 0 else [other, sitemap.asset]
        assert dag.get_task(f"p{number}").outlets == dag.get_task(f"r{number}").outlets == expected


def test_a_task_that_works_on_what_is_published_has_its_asset_as_an_inlet_once() -> None:
    other, sitemap = Asset("other"), a_sitemap()
    ping = SitemapPingOperator(task_id="ping", sitemap=sitemap, url="https://cdn.example/{sitemap}", inlets=other)
    verify = SitemapVerifyOperator(task_id="verify", sitemap=sitemap, inlets=[sitemap.asset])

    assert (ping.inlets, verify.inlets, verify.outlets) == ([other, sitemap.asset], [sitemap.asset], [])
    assert IndexNowOperator(task_id="urls", urls=["https://shop.example/1"]).inlets == []
