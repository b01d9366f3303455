"""The group run by Airflow: what it publishes, what it leaves in XCom and events, when it fails permanently."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.taskinstance import TaskInstance
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.python import BranchPythonOperator, PythonOperator
from airflow.sdk import DAG, XComArg, task, task_group
from airflow.utils.session import create_session
from sqlalchemy import select, update

from airflow_sitemaps import Canary, Guards, Website, pipeline
from airflow_sitemaps.airflow_compat import AirflowSkipException
from airflow_sitemaps.assets import EXTRA_LIMIT
from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.operators import FAILED
from airflow_sitemaps.operators.base import SitemapOperator
from airflow_sitemaps.operators.plan import SitemapPlanOperator, deployment
from airflow_sitemaps.operators.publish import SitemapPublishOperator, SitemapRollbackOperator, SitemapWriteOperator
from airflow_sitemaps.operators.verify import SitemapVerifyOperator
from airflow_sitemaps.pipeline import build, status
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.shards.layout import ShardPolicy
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.sources.sql import SqlSource
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.task_group import SitemapTaskGroup
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.airflow_db import events, run, states, xcom
from tests.support.s3 import moto_server
from tests.support.simulated_source import SimulatedSourceConfig
from tests.support.website import Page, serving

if TYPE_CHECKING:
    from pathlib import Path

URL = "https://shop.example/"
MAPS = "https://www.example.com/maps/"


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n, "loc": f"{URL}p/{n}"} for n in numbers]


@pytest.fixture
def products() -> list[dict[str, Any]]:
    return rows(*range(25))


@pytest.fixture
def sitemap(tmp_path: Path, products: list[dict[str, Any]]) -> Sitemap:
    return Sitemap(
        LocalStore(tmp_path / "site", base_url=URL),
        [Section("products", MemorySourceConfig(products)), Section("pages", MemorySourceConfig(rows(1, 2)))],
        shards=ShardPolicy(max_urls=10),
    )


def dag_of(sitemap: Sitemap, dag_id: str, **kwargs: Any) -> DAG:
    with DAG(dag_id, schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", sitemap, batch_size=2, **kwargs)
    return dag


def published(folder: Path) -> dict[str, list[str]]:
    """What the index leads to: URLs by file."""
    index = (folder / "sitemap.xml").read_text()
    names = [loc.removeprefix(URL) for loc in re.findall(r"<loc>(.*?)</loc>", index)]
    return {n: re.findall(r"<loc>(.*?)</loc>", gzip.decompress((folder / n).read_bytes()).decode()) for n in names}


def test_a_first_run_publishes_and_a_second_changes_nothing(sitemap: Sitemap, tmp_path: Path) -> None:
    dag = dag_of(sitemap, "first_and_second")

    first = run(dag)

    assert states(first) == {
        "sitemap.plan": "success",
        "sitemap.write[0]": "success",
        "sitemap.write[1]": "success",
        "sitemap.publish": "success",
    }
    files = published(tmp_path / "site")
    assert sorted(url for urls in files.values() for url in urls) == sorted(
        [f"{URL}p/{n}" for n in range(25)] + [f"{URL}p/1", f"{URL}p/2"]
    )
    before = {path: path.stat() for path in (tmp_path / "site").iterdir()}

    second = run(dag)

    assert states(second) == {"sitemap.plan": "success", "sitemap.write": "skipped", "sitemap.publish": "success"}
    assert {path: path.stat() for path in (tmp_path / "site").iterdir()} == before
    assert [event["report"]["result"] for event in events("first_and_second")] == ["published", "unchanged"]


@pytest.mark.parametrize("key", ["dryrun", "Dry-Run", "section"])
def test_a_misspelled_setting_of_a_run_publishes_nothing(key: str, sitemap: Sitemap, tmp_path: Path) -> None:
    dag = dag_of(sitemap, "misspelled")

    assert states(run(dag, {key: True, "ticket": 7}))["sitemap.plan"] == "failed"
    assert not (tmp_path / "site" / "sitemap.xml").exists()

    dag.params[key] = True
    assert states(run(dag, {key: True, "ticket": 7}))["sitemap.publish"] == "success"


def test_an_event_has_a_partition_for_each_section_that_changed(
    sitemap: Sitemap, products: list[dict[str, Any]]
) -> None:
    if not hasattr(AssetEvent, "partition_key"):
        pytest.skip("this Airflow has no partitions: they came with 3.2")
    dag = dag_of(sitemap, "by_section", publish_kwargs={"outlets": [sitemap.sections_asset]})

    def emitted() -> list[tuple[str, str | None]]:
        """The partitions of the run's events, and what each says of its sections."""
        with create_session() as session:
            of_sections = AssetEvent.asset_id == AssetModel.id, AssetModel.uri == sitemap.sections_asset.uri
            found = select(AssetEvent.partition_key, AssetEvent.extra, AssetEvent.source_run_id).where(*of_sections)
            rows_of_run = [row for row in session.execute(found) if row[2] == ended.run_id]
        return sorted((json.dumps(extra["sections"]), key) for key, extra, _ in rows_of_run)

    ended = run(dag)
    assert emitted() == [('["pages", "products"]', "pages"), ('["pages", "products"]', "products")]
    ended = run(dag)
    assert emitted() == [("[]", None)], "nothing changed"
    products[0]["loc"] += "-renamed"
    ended = run(dag)
    assert emitted() == [('["products"]', "products")]
    products.append({"id": 999, "loc": "ftp://not.listed/1"})
    ended = run(dag)
    assert emitted() == [("[]", None)], "no file changed"
    whole = [event["report"]["result"] for event in events("by_section") if "report" in event]
    assert whole == ["published", "unchanged", "published", "published"], "the sitemap's own event has no partition"


def test_the_next_event_covers_sections_whose_own_run_emitted_none(
    sitemap: Sitemap, products: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[dict[str, Any]] = rows(*range(100, 120))
    sections = [sitemap.sections[0], Section("pages", MemorySourceConfig(pages))]
    sitemap = replace(sitemap, sections=sections)
    outlets, seen = [sitemap.sections_asset], list[Any]()
    dag = dag_of(sitemap, "late_sections", publish_kwargs={"outlets": outlets})

    def emitted(dag_id: str = "late_sections") -> list[Any]:
        return [event["sections"] for event in events(dag_id) if "sections" in event]

    def publishes(*, state: str) -> list[Any]:
        assert states(run(dag))["sitemap.publish"] == state
        new = emitted()[len(seen) :]
        seen.extend(new)
        return [sections for number, sections in enumerate(new) if sections not in new[:number]]

    assert publishes(state="success") == [["pages", "products"]]
    products[0]["loc"] += "-renamed"
    lost, pages[5:] = pages[5:], []
    assert publishes(state="failed") == [], "partly published"
    with create_session() as session:  # a task that a person marks has emitted nothing
        session.execute(
            update(TaskInstance)
            .where(TaskInstance.dag_id == "late_sections", TaskInstance.task_id == "sitemap.publish")
            .values(state="success")
        )
    pages += lost
    assert publishes(state="success") == [["products"]]
    assert publishes(state="success") == [[]]

    products[0]["loc"] += "-again"
    with monkeypatch.context() as broken:
        broken.setattr(SitemapOperator, "emit", lambda *_: 1 / 0)
        assert publishes(state="failed") == [], "it died after its commit"
    assert publishes(state="success") == [["products"]]

    with DAG("late_rollback", schedule=None, default_args={"retries": 0}) as back:
        SitemapRollbackOperator(task_id="back", sitemap=sitemap, generation=1, outlets=outlets)
    assert states(run(back)) == {"back": "success"}
    assert "products" in emitted("late_rollback")[0]
    assert publishes(state="success") == [["products"]], "the run takes the rollback back"


def test_a_section_of_dead_pages_stays_unpublished_until_a_permit_allows_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as shop:
        listed = [{"id": n, "loc": f"{shop.base}/p/{n}"} for n in range(60)]
        shop.pages = {f"/p/{n}": Page(b"<h1>%d" % n) for n in range(30)}
        canary = Canary(site=Website(allow_http=True, allow_private=True), per_second=1e6)
        sections = [
            Section(name, MemorySourceConfig(listed[start:][:30])) for name, start in (("good", 0), ("bad", 30))
        ]
        store = LocalStore(tmp_path / "site", base_url=f"{shop.base}/")
        dag = dag_of(Sitemap(store, sections, guards=Guards(canary=canary)), "canary")
        assert states(run(dag))["sitemap.publish"] == "failed"
        assert "REFUSED Section 'bad': 3 of 3 requested pages, new or changed in this run, are faulty" in caplog.text
        assert "--allow canary:bad" in caplog.text
        assert {path.name.partition("-")[0] for path in (tmp_path / "site").glob("*.gz")} == {"good"}
        assert states(run(dag, {"allow": ["canary:bad"]}))["sitemap.publish"] == "success"
        assert {path.name.partition("-")[0] for path in (tmp_path / "site").glob("*.gz")} == {"bad", "good"}


def test_xcoms_are_small_references_and_names_are_readable(sitemap: Sitemap) -> None:
    done = run(dag_of(sitemap, "references"))

    batches = xcom(done, "sitemap.plan", "return_value")
    assert [batch["label"] for batch in batches] == [
        "products 1/2 (2 shards)",
        "products 2/2, pages 1/1 (2 shards)",
    ]
    assert {batch["plan"] for batch in batches} == {xcom(done, "sitemap.plan", "plan")}
    named = [ti.rendered_map_index for ti in done.get_task_instances() if ti.task_id == "sitemap.write"]
    assert sorted(named) == sorted(batch["label"] for batch in batches)
    assert [len(xcom(done, "sitemap.write", "return_value", number)) for number in (0, 1)] == [1, 2]
    assert all(key.startswith("runs/") for key in xcom(done, "sitemap.write", "return_value", 1))
    summary = xcom(done, "sitemap.publish", "return_value")
    assert summary == {"result": "published", "generation": 1, "urls": 27, "index_urls": [f"{URL}sitemap.xml"]}
    assert xcom(done, "sitemap.publish", "sitemap_index_url") == f"{URL}sitemap.xml"


def test_the_asset_event_tells_report_store_and_origin(sitemap: Sitemap, tmp_path: Path) -> None:
    done = run(dag_of(sitemap, "event"))

    (event,) = events("event")
    assert event["format"] == 1
    assert event["report"]["urls"] == 27
    assert event["report"]["sections"]["products"]["shards"]["created"] == 3
    assert event["store"] == {
        "public_url": event["store"]["public_url"],
        "state_url": event["store"]["state_url"],
        "conn_id": None,
        "base_url": URL,
        "index_name": "sitemap.xml",
    }
    assert str(tmp_path / "site") in event["store"]["public_url"]
    assert {key: event[key] for key in ("dag_id", "run_id", "group_id", "task_id")} == {
        "dag_id": "event",
        "run_id": done.run_id,
        "group_id": "sitemap",
        "task_id": "sitemap.publish",
    }
    assert len(json.dumps(event)) <= EXTRA_LIMIT


def test_the_event_of_a_group_without_a_prefix_is_that_of_its_tasks(sitemap: Sitemap) -> None:
    """The page of a run finds the report of a task by the group in the task's ID."""
    run(dag_of(sitemap, "unprefixed", prefix_group_id=False))

    (event,) = events("unprefixed")
    assert (event["group_id"], event["task_id"]) == ("", "publish")


def test_a_dry_run_explains_and_writes_nothing(
    sitemap: Sitemap, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = run(dag_of(sitemap, "dry"), {"dry_run": True})

    assert states(done) == {"sitemap.plan": "success", "sitemap.write": "skipped", "sitemap.publish": "skipped"}
    assert not list((tmp_path / "site").glob("*.xml*"))
    assert events("dry") == []


def test_only_the_sections_asked_for_are_written(sitemap: Sitemap, products: list[dict[str, Any]]) -> None:
    dag = dag_of(sitemap, "sections")
    run(dag)
    products.extend(rows(30))

    run(dag, {"sections": ["pages"]})
    run(dag, {"sections": ["products"]})

    assert [event["report"]["result"] for event in events("sections")] == ["published", "unchanged", "published"]


def test_the_sections_of_a_column_appear_and_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_OF_LOCALES", f"sqlite:///{tmp_path}/shop.db")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, locale TEXT)")
        shop.executemany("INSERT INTO products VALUES (?, ?)", [(n, "de" if n < 25 else "sv") for n in range(29)])
        shop.commit()
        source = SqlSource("shop_of_locales", table="products", key="id", loc=f"{URL}{{locale}}/{{id}}")
        sitemap = Sitemap(
            LocalStore(tmp_path / "site", base_url=URL),
            [Section.each("locale", source, name="products", least=5), Section("pages", MemorySourceConfig(rows(1)))],
            shards=ShardPolicy(max_urls=10),
        )
        dag = dag_of(sitemap, "sections_of_a_column", publish_kwargs={"outlets": [sitemap.sections_asset]})
        first = run(dag)
        shop.execute("INSERT INTO products VALUES (99, 'sv')")
        shop.commit()
        second = run(dag)

    assert {*states(first).values(), *states(second).values()} == {"success"}
    assert xcom(first, "sitemap.plan", "sitemap_sections") == ["products-other", "pages", "products-de"]
    assert xcom(second, "sitemap.plan", "sitemap_sections") == ["products-de", "products-other", "pages", "products-sv"]
    changed = [event["sections"] for event in events("sections_of_a_column") if "report" not in event]
    assert {*changed[0]} == {"products-de", "products-other", "pages"}
    assert {*changed[-1]} == {"products-other", "products-sv"}
    reports = [event["report"]["sections"] for event in events("sections_of_a_column") if "report" in event]
    assert reports[-1]["products-sv"]["loc"] == f"{URL}{{locale}}/{{id}}"
    assert sum(len(urls) for urls in published(tmp_path / "site").values()) == 31
    assert len(published(tmp_path / "site")["products-sv-00001.xml.gz"]) == 5
    only = run(dag, {"sections": ["products-sv"], "full": True})
    assert xcom(only, "sitemap.plan", "sitemap_sections") == ["products-sv"]


def test_a_plan_names_every_section_that_it_is_to_publish(tmp_path: Path) -> None:
    """A section that is not named keeps the result of an earlier run on the page."""
    sections = [Section(f"s{number}", MemorySourceConfig(rows(number))) for number in range(300)]
    many = Sitemap(LocalStore(tmp_path / "many", base_url=URL), sections)

    planned = run(dag_of(many, "many"), {"dry_run": True})

    assert len(xcom(planned, "sitemap.plan", "sitemap_sections")) == 300


def test_a_refusal_fails_for_good_and_says_what_lets_it_pass(
    sitemap: Sitemap, products: list[dict[str, Any]], tmp_path: Path
) -> None:
    dag = dag_of(sitemap, "refusal", plan_kwargs={"retries": 3})
    run(dag)
    before = published(tmp_path / "site")
    kept, products[:] = list(products), []

    refused = run(dag)

    assert states(refused)["sitemap.plan"] == "failed"
    assert [ti.try_number for ti in refused.get_task_instances() if ti.task_id == "sitemap.plan"] == [1]
    facts = xcom(refused, "sitemap.plan", "sitemap_refused")
    assert [refusal["permit"] for refusal in facts["refusals"]] == ["empty:products"]
    assert published(tmp_path / "site") == before
    products[:] = kept[:1]

    assert states(run(dag, {"allow": ["empty:products", "shrink:products=1"]}))["sitemap.publish"] == "success"
    products[:] = []
    assert states(run(dag, {"allow": ["empty:products"]}))["sitemap.publish"] == "success"
    assert not any(name.startswith("products") for name in published(tmp_path / "site"))


def test_an_unknown_section_is_refused_without_retry(sitemap: Sitemap) -> None:
    failed = run(dag_of(sitemap, "unknown", plan_kwargs={"retries": 3}), {"sections": ["prodcts"]})

    assert states(failed)["sitemap.plan"] == "failed"
    assert states(failed)["sitemap.publish"] == "failed"
    assert xcom(failed, "sitemap.publish", "sitemap_failed") is None, "the plan's own reason is enough"


def test_a_run_has_no_more_mapped_tasks_than_the_deployment_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "2")
    sections = [Section(f"s{number}", MemorySourceConfig(rows(*range(40)))) for number in range(4)]
    sitemap = Sitemap(LocalStore(tmp_path / "few", base_url=URL), sections, shards=ShardPolicy(max_urls=10))

    done = states(run(dag_of(sitemap, "few")))

    assert {task: state for task, state in done.items() if "write" in task} == {
        "sitemap.write[0]": "success",
        "sitemap.write[1]": "success",
    }
    assert done["sitemap.publish"] == "success"


def test_a_check_that_fails_before_write_keeps_the_sitemap(
    sitemap: Sitemap, products: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Files that are only removed need no task that writes."""
    run(dag_of(sitemap, "unchecked"))
    before = published(tmp_path / "site")
    del products[20:]

    @task
    def check() -> None:
        raise ValueError("too many removed")

    with DAG("checked_plan", schedule=None, max_active_runs=1) as dag:
        group = SitemapTaskGroup("sitemap", sitemap)
        group.plan >> check() >> group.write

    ended = run(dag, {"allow": ["shrink:products", "total"]})

    assert (states(ended)["sitemap.plan"], states(ended)["sitemap.publish"]) == ("success", "failed")
    assert published(tmp_path / "site") == before


def test_a_check_that_is_skipped_before_write_keeps_the_sitemap(
    sitemap: Sitemap, products: list[dict[str, Any]], tmp_path: Path
) -> None:
    is_on: list[bool] = []

    @task
    def check() -> None:
        if not is_on:
            raise AirflowSkipException("not today")

    with DAG("gated", schedule=None, max_active_runs=1) as dag:
        group = SitemapTaskGroup("sitemap", sitemap)
        group.plan >> check() >> group.write

    assert states(run(dag))["sitemap.publish"] == "skipped", "there are files to write"
    is_on.append(True)
    assert states(run(dag))["sitemap.publish"] == "success"
    before = published(tmp_path / "site")
    del products[20:]
    is_on.clear()
    assert states(run(dag, {"allow": ["shrink:products", "total"]}))["sitemap.publish"] == "skipped", "only removals"
    assert published(tmp_path / "site") == before


def test_a_branch_that_skips_the_task_before_publish_keeps_the_sitemap(sitemap: Sitemap, tmp_path: Path) -> None:
    chosen = ["alert"]
    with DAG("branched", schedule=None, max_active_runs=1) as dag:
        group = SitemapTaskGroup("sitemap", sitemap)
        branch = BranchPythonOperator(task_id="branch", python_callable=lambda: chosen[0])
        good = EmptyOperator(task_id="good")
        group.write >> branch >> [good, EmptyOperator(task_id="alert")]
        good >> group.publish

    assert states(run(dag))["sitemap.publish"] == "skipped"
    assert not (tmp_path / "site" / "sitemap.xml").exists()
    chosen[0] = "good"
    assert states(run(dag))["sitemap.publish"] == "success"
    unchanged = states(run(dag))
    assert (unchanged["good"], unchanged["sitemap.publish"]) == ("skipped", "success"), "which records that it is fresh"


@pytest.mark.parametrize(("name", "own_rule"), [("check", None), ("2026_01", None), ("check", "all_done")])
def test_a_check_that_fails_before_publish_keeps_the_sitemap(
    sitemap: Sitemap, tmp_path: Path, name: str, own_rule: str | None
) -> None:
    """The rule ``all_done``, without which no section is published after a failed write task, ignores it."""

    @task(task_id=name)
    def check() -> None:
        raise ValueError("too few rows in stock")

    with DAG(f"checked_{name}_{own_rule}", schedule=None, max_active_runs=1) as dag:
        group = SitemapTaskGroup("sitemap", sitemap, publish_kwargs={"trigger_rule": own_rule} if own_rule else {})
        group.write >> check() >> group.publish

    ended = run(dag)

    assert (tmp_path / "site" / "sitemap.xml").exists() == bool(own_rule)
    assert states(ended)["sitemap.publish"] == ("success" if own_rule else "failed")
    if not own_rule:
        assert xcom(ended, "sitemap.publish", FAILED)["message"].startswith(f"{name} did not succeed")


@pytest.mark.parametrize("rule", ["all_success", "none_skipped"])
def test_a_rule_that_skips_publish_without_anything_to_write_is_refused(sitemap: Sitemap, rule: str) -> None:
    """Such as a run that removes a retired section: it would be green, and its files would stay public."""
    with pytest.raises(ConfigurationError, match=f"trigger_rule='{rule}' skips the task .* Give 'none_failed' instead"):
        dag_of(sitemap, "rule", publish_kwargs={"trigger_rule": rule})


def test_the_plans_of_a_mapped_task_are_refused(sitemap: Sitemap) -> None:
    with DAG("mapped_plan", schedule=None, max_active_runs=1):
        plan = SitemapPlanOperator.partial(task_id="plan", sitemap=sitemap).expand(sections=[["products"], ["pages"]])
        with pytest.raises(ConfigurationError, match="plan= has the plans of a mapped task"):
            SitemapPublishOperator(task_id="publish", sitemap=sitemap, plan=XComArg(plan, "plan"))


def test_a_rule_that_skips_nothing_is_allowed(sitemap: Sitemap) -> None:
    with DAG("rules", schedule=None, max_active_runs=1):
        plan = SitemapPlanOperator(task_id="plan", sitemap=sitemap)
        write = SitemapWriteOperator.partial(task_id="write", sitemap=sitemap).expand(batch=plan.output)
        gathered = task(lambda keys: [*keys], task_id="gather", trigger_rule="none_failed")(write.output)
        kept = SitemapPublishOperator(
            task_id="publish", sitemap=sitemap, plan="", receipts=gathered, trigger_rule="all_success"
        )
        mapped = SitemapPublishOperator.partial(task_id="parts", sitemap=sitemap, receipts=write.output).expand(
            plan=["a"]
        )

    assert kept.trigger_rule == "all_success"
    assert mapped.unmap({"plan": "a"}).trigger_rule == "all_success", "Airflow's default, which no one chose"


def test_a_rule_of_its_own_publishes_a_run_without_anything_to_write(sitemap: Sitemap, tmp_path: Path) -> None:
    own = {"trigger_rule": "none_failed"}
    run(dag_of(sitemap, "own_rule", publish_kwargs=own))
    smaller = replace(sitemap, sections=sitemap.sections[:1], retired=["pages"])

    assert states(run(dag_of(smaller, "own_rule", publish_kwargs=own)))["sitemap.publish"] == "success"
    assert not [name for name in published(tmp_path / "site") if name.startswith("pages")]


def test_receipts_may_be_one_list(sitemap: Sitemap, tmp_path: Path) -> None:
    with DAG("gathered", schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        plan = SitemapPlanOperator(task_id="plan", sitemap=sitemap, batch_size=1)
        write = SitemapWriteOperator.partial(task_id="write", sitemap=sitemap).expand(batch=plan.output)

        @task
        def gather(receipts: Any) -> list[str]:
            return [key for keys in receipts for key in keys]

        receipts = gather(write.output)
        SitemapPublishOperator(task_id="publish", sitemap=sitemap, plan=XComArg(plan, "plan"), receipts=receipts)

    assert set(states(run(dag)).values()) == {"success"}
    assert published(tmp_path / "site")


def mapped_group(sitemap: Sitemap, name: str) -> DAG:
    with DAG(name, schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:

        @task
        def whole(references: Any) -> Any:
            return references[0]

        @task_group
        def one(section: Any) -> None:
            plan = SitemapPlanOperator(task_id="plan", sitemap=sitemap, sections=section, batch_size=100)
            write = SitemapWriteOperator(task_id="write", sitemap=sitemap, batch=whole(plan.output))  # type: ignore[arg-type]
            SitemapPublishOperator(
                task_id="publish", sitemap=sitemap, plan=XComArg(plan, "plan"), receipts=write.output
            )

        one.expand(section=[["products"], ["pages"]])
    return dag


def test_a_group_that_is_mapped_over_sections_publishes_each(sitemap: Sitemap, tmp_path: Path) -> None:
    dag = mapped_group(sitemap, "mapped_group")

    assert set(states(run(dag)).values()) == {"success"}
    assert {name.partition("-")[0] for name in published(tmp_path / "site")} >= {"products", "pages"}


@pytest.mark.parametrize("broken", ["products", "pages"])
def test_a_part_of_a_mapped_group_that_fails_stops_no_other_part(tmp_path: Path, broken: str) -> None:
    def fail(_: str) -> None:
        raise PermissionError("no rights on the table")

    tables = {"products": SimulatedSourceConfig(rows(1, 2)), "pages": SimulatedSourceConfig(rows(3))}
    tables[broken] = SimulatedSourceConfig([], before=fail)
    sections = [Section(name, table) for name, table in tables.items()]
    sitemap = Sitemap(LocalStore(tmp_path / "site", base_url=URL), sections)

    done = run(mapped_group(sitemap, f"mapped_group_{broken}"))

    ended = {ti.map_index: ti.state for ti in done.get_task_instances() if ti.task_id == "one.publish"}
    assert ended == {
        index: "failed" if name == broken else "success" for index, name in enumerate(("products", "pages"))
    }
    assert {name.partition("-")[0] for name in published(tmp_path / "site")} == tables.keys() - {broken}


def test_a_task_that_fails_by_chance_is_retried(tmp_path: Path) -> None:
    failures = ["read"]

    def break_once(operation: str) -> None:
        if operation in failures:
            failures.remove(operation)
            raise ConnectionResetError("the database went away")

    source = SimulatedSourceConfig(rows(1, 2, 3), before=break_once)
    flaky = Sitemap(LocalStore(tmp_path / "site", base_url=URL), [Section("products", source)])

    done = run(dag_of(flaky, "flaky", write_kwargs={"retries": 1, "retry_delay": 0}))

    assert states(done)["sitemap.publish"] == "success"
    assert [ti.try_number for ti in done.get_task_instances() if ti.task_id == "sitemap.write"] == [2]


def test_rollback_publishes_an_earlier_generation(
    sitemap: Sitemap, products: list[dict[str, Any]], tmp_path: Path
) -> None:
    dag = dag_of(sitemap, "forward")
    run(dag)
    before = published(tmp_path / "site")
    products.extend(rows(90, 91))
    run(dag)
    assert published(tmp_path / "site") != before
    with DAG("back", schedule=None, max_active_runs=1, default_args={"retries": 0}) as back:
        SitemapRollbackOperator(task_id="rollback", sitemap=sitemap, generation="{{ 1 }}")

    assert states(run(back)) == {"rollback": "success"}

    assert sorted(map(sorted, published(tmp_path / "site").values())) == sorted(map(sorted, before.values()))
    assert events("back")[0]["report"]["action"].startswith("rollback")


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_rollback_that_is_retried_after_its_commit_is_not_repeated(
    sitemap: Sitemap, products: list[dict[str, Any]], tmp_path: Path, is_replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try is killed when all is published, and another run may publish before the second."""
    build(sitemap)
    products.extend(rows(90, 91))
    build(sitemap)
    rollback, tries = pipeline.rollback, []

    def killed(*arguments: Any, **settings: Any) -> Any:
        tries.append(1)
        report = rollback(*arguments, **settings)
        if len(tries) > 1:
            return report
        if is_replaced:
            build(sitemap)
        raise StoreError("the first try ends here")

    monkeypatch.setattr(pipeline, "rollback", killed)
    retrying = {"retries": 1, "retry_delay": 0}
    with DAG(f"back_{is_replaced}", schedule=None, max_active_runs=1, default_args=retrying) as back:
        SitemapRollbackOperator(task_id="rollback", sitemap=sitemap, generation=1)

    assert states(run(back)) == {"rollback": "failed" if is_replaced else "success"}

    assert (len(tries), status(sitemap).generation) == (2, 4 if is_replaced else 3)
    assert any(f"{URL}p/90" in urls for urls in published(tmp_path / "site").values()) == is_replaced


def test_a_rollback_of_another_run_is_no_earlier_try(sitemap: Sitemap, products: list[dict[str, Any]]) -> None:
    """A person rolls back while a long run goes on, which then publishes and rolls back itself."""

    def others() -> None:
        pipeline.rollback(sitemap, 1)
        build(sitemap)

    build(sitemap)
    products.extend(rows(90, 91))
    build(sitemap)
    with DAG("long", schedule=None, max_active_runs=1, default_args={"retries": 0}) as long:
        task = SitemapRollbackOperator(task_id="rollback", sitemap=sitemap, generation=1)
        PythonOperator(task_id="others", python_callable=others) >> task

    assert states(run(long)) == {"others": "success", "rollback": "success"}
    assert status(sitemap).generation == 5


def test_the_operator_keeps_its_own_sitemap_unrendered(sitemap: Sitemap) -> None:
    class Templated(MemorySourceConfig):
        def rendered(self, render: Any) -> Any:
            return replace(self, rows=[{"id": 1, "loc": render(URL + "{{ ds }}")}])

    templated = replace(sitemap, sections=(Section("daily", Templated([])),))
    dag = dag_of(templated, "templated")

    done = run(dag)

    assert states(done)["sitemap.publish"] == "success"
    assert events("templated")[0]["report"]["urls"] == 1
    assert templated.sections[0].source.rows == []  # type: ignore[attr-defined]


def test_verify_succeeds_on_what_we_published_and_fails_on_what_was_spoilt(sitemap: Sitemap, tmp_path: Path) -> None:
    with DAG("verify", schedule=None, max_active_runs=1, default_args={"retries": 0}) as verify:
        SitemapVerifyOperator(task_id="verify", sitemap=sitemap, retries=3)
    early = run(verify)
    assert states(early) == {"verify": "failed"}, "nothing was published yet"
    assert xcom(early, "verify", "sitemap_failed")["message"]
    run(dag_of(sitemap, "to_verify"))

    good = run(verify)

    assert states(good) == {"verify": "success"}
    assert xcom(good, "verify", "return_value") == {"files": 5, "urls": 27, "errors": 0, "warnings": 1}
    assert xcom(good, "verify", "sitemap_verified")["urls"] == 27
    next((tmp_path / "site").glob("products-*")).write_bytes(b"spoilt")
    bad = run(verify)
    assert states(bad) == {"verify": "failed"}
    facts = xcom(bad, "verify", "sitemap_verified")
    assert facts["errors"] >= 1
    assert "products-" in facts["failures"][0]["where"]
    message = xcom(bad, "verify", "sitemap_failed")["message"]
    assert re.match(r"\d errors?, \d warnings?; the first: https://.*/products-\d+\.xml\.gz: ", message)


def test_verify_reads_from_s3_and_says_when_it_cannot(
    products: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """Published there, verified; then one file gone, then the whole bucket."""
    section = Section("products", MemorySourceConfig([{**each, "loc": f"{MAPS}{each['id']}"} for each in products]))
    with moto_server() as server, server.store(prefix="maps") as store:
        sitemap = Sitemap(store, [section], shards=ShardPolicy(max_urls=10))
        with DAG("verify_s3", schedule=None, max_active_runs=1, default_args={"retries": 0}) as verify:
            SitemapVerifyOperator(task_id="verify", sitemap=sitemap, retries=3)
        run(dag_of(sitemap, "to_verify_s3"))
        good = run(verify)
        assert states(good) == {"verify": "success"}
        assert xcom(good, "verify", "return_value") == {"files": 4, "urls": 25, "errors": 0, "warnings": 0}

        client, bucket = server.client(), store.public.bucket
        keys = [found["Key"] for found in client.list_objects_v2(Bucket=bucket)["Contents"]]
        client.delete_object(Bucket=bucket, Key=next(key for key in keys if key.startswith("maps/products-")))
        assert states(run(verify)) == {"verify": "failed"}
        errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert any(line.startswith("unreachable: https://www.example.com/maps/products-") for line in errors)
        for key in keys:
            client.delete_object(Bucket=bucket, Key=key)
        client.delete_bucket(Bucket=bucket)
        client.close()
        assert states(run(verify)) == {"verify": "failed"}
    assert "NoSuchBucket" in caplog.text


def test_a_commit_says_which_deployment_and_which_run_asked_for_it(
    sitemap: Sitemap, products: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/shop/")
    run(dag_of(sitemap, "origin"))
    del products[20:]
    done = run(dag_of(sitemap, "origin"), {"allow": ["shrink:products=0.2"]})
    manifest = StateRepository(sitemap.store.open().state).manifest()
    assert manifest is not None
    assert manifest.origin == "https://airflow.example.com/shop"
    assert manifest.sections["products"].permitted_requests == (f"origin {done.run_id}",)
    assert manifest.sections["pages"].permitted_requests == ()


@pytest.mark.parametrize("address", ["http://localhost:8080", "http://127.0.0.1:8080/", "http://[::1]:8080", ""])
def test_an_address_of_the_own_machine_names_no_deployment(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", address)
    assert deployment() == ""
