"""The demonstration as a whole, on fewer places."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.system
@pytest.mark.long
def test_three_runs_are_told_and_the_files_are_left(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "airflow_sitemaps.cli", "demo", "--places", "12000"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "rows: equal" in " ".join(done.stdout.split())
    reports = [json.loads((tmp_path / f".demo/run-{n}.json").read_text())["extra"]["report"] for n in (1, 2, 3)]
    assert [report["result"] for report in reports] == ["published", "published", "unchanged"]
    first, second, third = (report["shards"] for report in reports)
    assert first["created"] == first["total"]
    assert second["kept"] > 0
    assert 0 < second["rewritten"] < first["total"]
    assert (third["kept"], third["rewritten"], third["created"]) == (third["total"], 0, 0)
    assert re.search(rf"shards\W+{first['total']}\W+{second['total']}\W+{third['total']}\W", done.stdout)
    assert len(list((tmp_path / "demo-site").glob("*.xml.gz"))) >= third["total"]
    assert (tmp_path / "demo-site/sitemap.xml").is_file()
