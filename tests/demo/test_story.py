"""The demonstration as a whole, on fewer places."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.support.airflow_processes import free_port
from tests.support.polling import wait_until

if TYPE_CHECKING:
    from pathlib import Path

COMMAND = [sys.executable, "-m", "airflow_sitemaps.cli", "demo"]


@pytest.mark.system
@pytest.mark.long
@pytest.mark.timeout(900)
def test_five_runs_are_shown_and_the_page_of_them_can_be_opened(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--places", "12000"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows: equal" in " ".join(done.stdout.split())
    reports = [json.loads(path.read_text()) for path in sorted((tmp_path / ".demo/state/reports").glob("*.json"))]
    assert [report["result"] for report in reports] == ["published", "published", "unchanged", "refused", "unchanged"]
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

    port = free_port()
    serving = subprocess.Popen([*COMMAND, "--page", str(port)], cwd=tmp_path, start_new_session=True)
    try:
        wait_until(lambda: is_open(f"http://127.0.0.1:{port}/plugin/sitemaps"), "the page", seconds=300)
    finally:
        os.killpg(serving.pid, signal.SIGINT)  # as Ctrl-C does
        status = serving.wait()
    assert status == 0


def test_the_page_needs_a_demonstration(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "--page"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "There is no demonstration in demo-site and .demo. Run the command without --page first." in done.stdout


def is_open(url: str) -> bool:
    try:
        with closing(urlopen(url, timeout=30)) as response:
            return bool(response.status == 200)
    except (URLError, OSError):
        return False
