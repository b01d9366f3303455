"""What a process of the shell writes to standard error: this package's lines in its own form, nothing of Airflow's."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_sitemaps.protocol.markup import NAMESPACE
from tests.cli.test_commands import Shop

if TYPE_CHECKING:
    import pytest

S3 = """
from airflow_sitemaps import ListSource, S3Store, Section, Sitemap
sitemap = Sitemap(S3Store("s3://bucket/maps", base_url="https://shop.example/"), [Section("pages", ListSource(["/"]))])
"""


def standard_error(*arguments: str, status: int) -> list[str]:
    """The lines that a process wrote, those of the file that it ran left out."""
    command = [sys.executable, "-W", "ignore", "-m", "airflow_sitemaps.cli", *arguments]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return [line for line in done.stderr.splitlines() if "a line that the file itself prints" not in line]


def test_the_hook_of_a_connection_adds_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {
        "endpoint_url": "http://127.0.0.1:9",
        "region_name": "eu-central-1",
        "config_kwargs": {"retries": {"max_attempts": 1}},
    }
    aws = {"conn_type": "aws", "login": "an-access-key", "password": "a-secret-key", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(aws))
    (tmp_path / "s3.py").write_text(S3)

    (line,) = standard_error("status", f"{tmp_path / 's3.py'}:sitemap", status=1)

    assert line.startswith("StoreError: GetObject s3://bucket/maps-state/manifest.json.gz: EndpointConnectionError: ")


def test_a_warning_has_the_form_of_the_shell(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, capfd)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", shop.connection)

    lines = standard_error("build", shop.target, status=0)

    said = "first build (1 URL); there is no earlier one to compare it with"
    assert [line for line in lines if re.fullmatch(rf"\d\d:\d\d:\d\d WARNING section pages: {re.escape(said)}", line)]
    assert not [line for line in lines if "airflow_sitemaps." in line], "Airflow's form names the logger"


def test_a_file_whose_name_is_not_utf_8_is_named(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.xml"
    Path(os.fsdecode(name)).write_text(f'<urlset xmlns="{NAMESPACE}"><url><loc>/</loc></url></urlset>')
    for option in ("--json", "--verbose"):
        command = [sys.executable, "-W", "ignore", "-m", "airflow_sitemaps.cli", "verify", name, option]
        done = subprocess.run(command, capture_output=True, check=False)
        assert b"caf\\udce9.xml" in done.stdout
        assert b"UnicodeEncodeError" not in done.stdout + done.stderr


def test_a_reader_that_wants_no_more_is_no_error() -> None:
    for workers in ("1", ",".join(map(str, range(1, 500)))):  # less than a buffer, and more
        command = [sys.executable, "-m", "airflow_sitemaps.cli", "estimate", "--rows", "1000", "--workers", workers]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.close()
            assert process.stderr is not None
            assert process.stderr.read() == ""
            assert process.wait() == 0


def test_a_failure_without_a_reader_has_its_status(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "airflow_sitemaps.cli", "status", f"{tmp_path}/no.py:sitemap"]
    for redirection, statuses in (("--json", {2}), ("--json 2>&1", {1, 2, 120}), ("2>&1", {1, 2, 120})):
        line = f"{shlex.join(command)} {redirection}"
        with subprocess.Popen(line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert ("there is no file" in process.stderr.read()) == (redirection == "--json")
            assert process.wait() in statuses


def test_closed_streams_are_no_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, capfd)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", shop.connection)

    def run(arguments: str) -> subprocess.CompletedProcess[str]:
        command = f"{shlex.quote(sys.executable)} -W ignore -m airflow_sitemaps.cli {arguments}"
        return subprocess.run(command, shell=True, capture_output=True, text=True, check=False)

    assert run(f"build {shop.target} <&- >&- 2>&-").returncode == 0
    closed = run(f"status {shop.target} >&-")
    assert (closed.returncode, "Traceback" in closed.stderr) == (0, False)
    assert "generation 1 of" in run(f"status {shop.target} 2>&-").stdout
    unanswered = run(f"rollback {shop.target} 1 <&-")
    assert (unanswered.returncode, "pass --yes" in unanswered.stderr) == (2, True)


def test_an_answer_that_its_disk_cannot_hold_is_a_failure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(tmp_path, capfd)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", shop.connection)
    for status, words in ((1, ["status"]), (2, ["find", "--json", "/no"])):
        command = [sys.executable, "-W", "ignore", "-m", "airflow_sitemaps.cli", words[0], shop.target, *words[1:]]
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (status, False), done.stderr
        assert "standard output: No space left on device" in done.stderr
