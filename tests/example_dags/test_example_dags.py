"""The example DAGs: each imports without a warning and is serialised by Airflow; those over a folder and S3 run."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

from tests.example_dags.system_tests import FOLDER, get_test_run, load, warehouse
from tests.support.s3 import moto_server

if TYPE_CHECKING:
    from airflow.sdk import DAG

DAG_IDS = {f"example_sitemap_{name}" for name in ("schedule", "load", "asset", "sensor", "queue")}
EXAMPLES = sorted(path.stem for path in FOLDER.glob("example_*.py"))


def dags() -> dict[str, DAG]:
    bag = DagBag(FOLDER, load_op_links=False, bundle_name="examples")
    assert bag.import_errors == {}
    return dict(bag.dags)


def test_airflow_reads_every_example_without_a_warning_and_serialises_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = dags()
    assert set(read) == DAG_IDS
    for dag in read.values():
        again = DagSerialization.from_dict(DagSerialization.to_dict(dag))
        assert set(again.task_dict) == set(dag.task_dict)


def test_airflow_lists_the_examples_of_this_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "True")
    bundles = {bundle.name: bundle.path for bundle in DagBundlesManager().get_all_dag_bundles()}
    assert bundles["airflow-sitemaps-example-dags"] == FOLDER


def test_there_is_one_for_each_store_and_each_start() -> None:
    text = "".join((FOLDER / f"{name}.py").read_text() for name in EXAMPLES)
    for word in ("LocalStore(", "S3Store(", "GCSStore(", "AzureBlobStore("):
        assert text.count(word) == 1
    for word in ('schedule="@daily"', "schedule=[products_loaded]", "SitemapSourceSensor(", "AssetWatcher("):
        assert text.count(word) == 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_of_examples_shows_each(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text()
    tag = name.replace("example", "howto", 1)
    page = (Path(__file__).parents[2] / "docs" / "examples.md").read_text()
    shown = text.partition("[START")[2]
    assert max(map(len, shown.splitlines())) <= 88, "the code fits the column of the site"
    assert re.findall(r"^# \[(?:START|END) (\w+)\]$", text, re.MULTILINE) == [tag, tag]
    assert f"{{literalinclude}} ../airflow_sitemaps/example_dags/{name}.py" in page
    assert f":start-after: '[START {tag}]'" in page
    assert f":end-before: '[END {tag}]'" in page


@pytest.fixture
def _warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", warehouse(tmp_path / "warehouse.db"))


@pytest.mark.usefixtures("_warehouse")
def test_the_schedule_publishes_to_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITEMAPS_EXAMPLE_FOLDER", str(tmp_path / "www"))
    test_run = get_test_run(load("example_sitemap_schedule").dag)

    assert test_run()["verify"] == "success"
    assert "products-00001.xml.gz" in (tmp_path / "www" / "sitemap.xml").read_text()


@pytest.mark.usefixtures("_warehouse")
def test_the_asset_publishes_to_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    with moto_server() as server, server.connection("aws_default"):
        bucket = server.new_bucket()
        monkeypatch.setenv("SITEMAPS_EXAMPLE_BUCKET", bucket)
        example = load("example_sitemap_asset")
        get_test_run(example.loader)()

        assert get_test_run(example.dag)()["sitemap.publish"] == "success"
        client = server.client()
        body = client.get_object(Bucket=bucket, Key="public/sitemap.xml")["Body"].read().decode()
        client.close()
    assert "https://s3.example.com/products-00001.xml.gz" in body
