"""The OpenLineage events of a real run, as its file transport writes them."""

from __future__ import annotations

import copy
import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import ValidationError

from tests.lineage import specification

pytest.importorskip("airflow.providers.openlineage", reason="Airflow's OpenLineage provider is not installed")

pytestmark = pytest.mark.long

SECRET = "s3cr3t-passw0rd"


def observed_run(folder: Path, transport: dict[str, Any]) -> str:
    """Run the DAGs in a process of their own, and return the states of their tasks."""
    with sqlite3.connect(folder / "shop.db") as database:
        database.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, slug TEXT, updated_at TEXT)")
        rows = [(n, f"thing-{n}", "2026-01-02T03:04:05Z") for n in range(30)]
        database.executemany("INSERT INTO products VALUES (?, ?, ?)", [*rows, (99, None, None)])
        database.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, url TEXT, listed INTEGER)")
        database.execute("INSERT INTO pages VALUES (1, 'https://shop.example/about', 1)")
    database.close()
    connection = {
        "conn_type": "generic",
        "login": "reader",
        "password": SECRET,
        "extra": {"sqlalchemy_url": f"sqlite:///{folder / 'shop.db'}"},
    }
    down = {
        "conn_type": "generic",
        "extra": {"sqlalchemy_url": f"postgresql+psycopg://reader:{SECRET}@127.0.0.1:1/shop"},
    }
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(folder / "home"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'airflow.db'}",
        "AIRFLOW_CONN_SHOP": json.dumps(connection),
        "AIRFLOW_CONN_DOWN": json.dumps(down),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
        "AIRFLOW__OPENLINEAGE__EXECUTE_IN_THREAD": "True",
    }
    command = [sys.executable, "-m", "tests.lineage.observed_run", str(folder / "site")]
    done = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The events of two runs, of which one fails; they are shared by all tests."""
    folder = tmp_path_factory.mktemp("lineage")
    log = folder / "events.jsonl"
    states = observed_run(folder, {"type": "file", "log_file_path": str(log), "append": True})
    assert "'sitemap.publish': 'success'" in states
    assert "'down.plan': 'failed'" in states
    assert "'shared': {'success'}" in states
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_lineage_server_that_is_down_does_not_fail_the_run(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    states = observed_run(tmp_path, {"type": "http", "url": url, "timeout": 1, "retry": {"total": 0}})

    assert "'sitemap.publish': 'success'" in states
    assert (tmp_path / "site" / "sitemap.xml").exists()


def completed(events: list[dict[str, Any]], task: str, dag: str = "lineage") -> dict[str, Any]:
    (event,) = (e for e in events if e["eventType"] == "COMPLETE" and e["job"]["name"] == f"{dag}.{task}")
    return event


def by_name(datasets: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {dataset["name"]: dataset for dataset in datasets}


def test_publishing_leads_from_the_tables_to_the_index_and_the_files(events: list[dict[str, Any]]) -> None:
    event = completed(events, "sitemap.publish")
    inputs, outputs = by_name(event["inputs"]), by_name(event["outputs"])

    assert set(inputs) == {"products", "pages"}
    assert all(dataset["namespace"].startswith("sqlite:/") for dataset in inputs.values())
    products = inputs["products"]
    assert [field["name"] for field in products["facets"]["schema"]["fields"]] == ["id", "slug", "updated_at"]
    assert products["inputFacets"]["dataQualityMetrics"]["rowCount"] == 31
    (assertion,) = products["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (assertion["assertion"], assertion["success"], assertion["actual"]) == ("loc-missing", False, "1")
    assert "dataQualityAssertions" not in inputs["pages"]["inputFacets"]

    assert [name.rsplit("/", 1)[-1] for name in outputs] == ["sitemap.xml", "products", "pages"]
    assert {dataset["namespace"] for dataset in outputs.values()} == {"file"}
    counts = {name.rsplit("/", 1)[-1]: each["outputFacets"]["outputStatistics"] for name, each in outputs.items()}
    assert {name: each["rowCount"] for name, each in counts.items()} == {"sitemap.xml": 31, "products": 30, "pages": 1}
    assert all(each["size"] > 0 for each in counts.values())


def test_planning_and_writing_name_what_they_read(events: list[dict[str, Any]]) -> None:
    planned = by_name(completed(events, "sitemap.plan")["inputs"])
    written = completed(events, "sitemap.write")

    assert planned["products"]["inputFacets"]["inputStatistics"]["rowCount"] == 31
    assert planned["pages"]["inputFacets"]["inputStatistics"]["rowCount"] == 1
    assert set(by_name(written["inputs"])) == {"products", "pages"}
    assert {
        dataset["name"]: dataset["inputFacets"]["inputStatistics"]["rowCount"] for dataset in written["inputs"]
    } == {"products": 31, "pages": 1}
    statistics = [dataset["outputFacets"]["outputStatistics"] for dataset in written["outputs"]]
    assert [name.rsplit("/", 1)[-1] for name in by_name(written["outputs"])] == ["products", "pages"]
    assert [(each["rowCount"], each["fileCount"]) for each in statistics] == [(30, 1), (1, 1)]
    assert all(each["size"] > 0 for each in statistics)


def test_sections_that_share_a_table_add_up(events: list[dict[str, Any]]) -> None:
    for task in ("sitemap.plan", "sitemap.write", "sitemap.publish"):
        inputs = by_name(completed(events, task, "lineage_shared")["inputs"])

        assert set(inputs) == {"products", "pages"}, "the query in the file is rendered before it is read"
        fields = [field["name"] for field in inputs["products"]["facets"]["schema"]["fields"]]
        assert fields == ["id", "slug", "updated_at"]
        assert inputs["products"]["inputFacets"]["inputStatistics"]["rowCount"] == 31
        assert inputs["pages"]["inputFacets"]["inputStatistics"]["rowCount"] == 1
    (assertion,) = inputs["products"]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert assertion["description"] == "1 row not listed in section rest"


def test_each_index_of_a_section_is_an_output(events: list[dict[str, Any]]) -> None:
    outputs = [d["name"].rsplit("/", 1)[-1] for d in completed(events, "sitemap.publish", "lineage_shared")["outputs"]]

    assert sorted(outputs) == sorted(
        ["sitemap-first.xml", "sitemap-rest.xml", "sitemap-pages.xml", "first", "rest", "pages"]
    )


def test_a_run_that_fails_says_why_without_the_password(events: list[dict[str, Any]]) -> None:
    (failed,) = (
        event for event in events if event["eventType"] == "FAIL" and event["job"]["name"] == "lineage_down.down.plan"
    )

    error = failed["run"]["facets"]["errorMessage"]
    assert error["message"].startswith("section 'products' (down: products): connecting failed")
    assert "SourceError" in error["stackTrace"]


def test_no_event_holds_a_secret(events: list[dict[str, Any]]) -> None:
    assert SECRET not in json.dumps(events)


def test_every_event_is_valid_by_openlineages_own_schemas(events: list[dict[str, Any]]) -> None:
    facets = sum((specification.validate(event) for event in events), Counter())

    assert {event["eventType"] for event in events} == {"START", "COMPLETE", "FAIL"}
    assert {
        "SchemaDatasetFacet",
        "DataQualityMetricsInputDatasetFacet",
        "DataQualityAssertionsDatasetFacet",
        "InputStatisticsInputDatasetFacet",
        "OutputStatisticsOutputDatasetFacet",
        "ErrorMessageRunFacet",
    } <= set(facets)


def test_an_event_that_breaks_a_schema_is_refused(events: list[dict[str, Any]]) -> None:
    broken = copy.deepcopy(completed(events, "sitemap.publish"))
    broken["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] = "31 rows"

    with pytest.raises(ValidationError, match="'31 rows' is not of type 'integer'"):
        specification.validate(broken)
