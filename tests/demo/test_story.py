"""The demonstration as a whole, on fewer places."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from demo.services import DAGS, read_site
from tests.support.airflow_processes import Airflow, first_token, free_port

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-m", "demo"]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """``make demo`` sets it too."""
    monkeypatch.setenv("PYTHONPATH", str(DAGS))


@pytest.mark.system
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_runs_are_shown_and_the_question_of_the_last_can_be_answered(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--places", "12000"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows: equal" in " ".join(done.stdout.split())
    reports = reports_in(tmp_path)
    results = ["published", "published", "unchanged", "refused", "unchanged", "refused"]
    assert [report["result"] for report in reports] == results
    first, second, third, *_ = (report["shards"] for report in reports)
    assert first["created"] == first["total"]
    assert second["kept"] > 0
    assert 0 < second["rewritten"] < first["total"]
    assert (third["kept"], third["rewritten"], third["created"]) == (third["total"], 0, 0)
    assert re.search(rf"files in the sitemap\W+{first['total']}\W+{second['total']}\W+{third['total']}\W", done.stdout)
    assert reports[1]["sections"]["places"]["lastmods_moved"] == 200, "the load dated 1,200 more, which did not change"
    assert "Section 'places' would shrink" in done.stdout
    assert "Files that changed: 0." in done.stdout
    assert len(list((tmp_path / "demo-site").glob("*.xml.gz"))) >= third["total"]
    assert (tmp_path / "demo-site/sitemap.xml").is_file()

    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        done_at_once = subprocess.run(
            [*COMMAND, "--page", taken], cwd=tmp_path, capture_output=True, text=True, check=False
        )
    assert (done_at_once.returncode, f"port {taken} is not free" in done_at_once.stdout) == (1, True)

    port = free_port()
    serving = subprocess.Popen([*COMMAND, "--page", str(port)], cwd=tmp_path, start_new_session=True)
    airflow = Airflow(url=f"http://127.0.0.1:{port}", folder=tmp_path, environment={})
    airflow.processes["demo"] = serving
    try:
        airflow.token = airflow.wait("the API server", lambda: first_token(airflow), seconds=300)
        dag_id, run_id = airflow.wait("the question", lambda: open_question(airflow, tmp_path), seconds=300)
        path = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances/ask/-1/hitlDetails"
        airflow.call("PATCH", path, {"chosen_options": ["Publish this change"], "params_input": {}})
        run = airflow.wait_for_run(dag_id, run_id)
    finally:
        os.killpg(serving.pid, signal.SIGINT)  # as Ctrl-C does
        status = serving.wait()
    assert (status, run["state"]) == (0, "success")
    *_, refused, answered = reports_in(tmp_path)
    assert answered["result"] == "published"
    (given_up,) = re.findall(r"gives up ([\d,]+) small places", done.stdout)
    assert answered["urls"] == refused["urls"] - int(given_up.replace(",", ""))
    assert answered["urls"] == read_site(tmp_path / "demo-site", "https://places.example/").urls


def reports_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((folder / ".demo/state/reports").glob("*.json"))]


def open_question(airflow: Airflow, folder: Path) -> tuple[str, str] | None:
    """The DAG and the run of the only question, once the process that asks has ended: Airflow may lose earlier answers."""
    details = airflow.get("/dags/~/dagRuns/~/hitlDetails")["hitl_details"]
    if not details:
        return None
    (detail,) = details
    dag_id, run_id = (detail["task_instance"][name] for name in ("dag_id", "dag_run_id"))
    key = f"TaskInstanceKey(dag_id='{dag_id}', task_id='ask', run_id='{run_id}'"
    ended = f"Received executor event with state success for task instance {key}"
    return (dag_id, run_id) if ended in (folder / ".demo/airflow.log").read_text() else None


def test_the_page_needs_a_demonstration(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--page"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "There is no demonstration in demo-site and .demo. Run `make demo` first." in done.stdout
