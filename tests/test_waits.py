"""What takes long is named in the log, and a task in which nothing moves ends itself."""

from __future__ import annotations

import logging
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models import Connection

from airflow_sitemaps import S3Store, SqlSource, waits
from airflow_sitemaps.errors import SourceError, StoreError
from airflow_sitemaps.http import AccessRules, FetchError, HttpClient
from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources import session as session_module
from airflow_sitemaps.sources.driver import WAIT_BOUND
from airflow_sitemaps.sources.queries import survey
from airflow_sitemaps.stores.s3.client import connections
from tests.support.clients import close_clients
from tests.support.polling import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST_S = 0.1


@contextmanager
def frozen() -> Iterator[int]:
    """A server that accepts connections and never answers; yields its port."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(waits, "watch", waits.Watch(first_s=FIRST_S))
    caplog.set_level(logging.INFO)


def test_a_wait_is_named_again_and_again_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    with waits.waiting("GetObject s3://maps/a", "It ends after 60 s"):
        wait_until(lambda: caplog.text.count("waiting for") >= 3, "a line in the log")
    assert "s: GetObject s3://maps/a. It ends after 60 s" in caplog.text
    assert "GetObject s3://maps/a: ended after" in caplog.text


def test_a_short_wait_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        with waits.waiting("a request", "soon"):
            pass
    assert list(waits.arriving(range(3), "a row", "soon")) == [0, 1, 2]
    time.sleep(FIRST_S * 2)
    assert not caplog.messages


def test_a_row_that_does_not_arrive_is_named(caplog: pytest.LogCaptureFixture) -> None:
    go_on = threading.Event()

    def rows() -> Iterator[int]:
        yield 1
        assert go_on.wait(30)
        yield 2

    arrived: list[int] = []
    reader = threading.Thread(target=lambda: arrived.extend(waits.arriving(rows(), "reading rows", "Never")))
    reader.start()
    wait_until(lambda: "reading rows" in caplog.text, "a line in the log")
    go_on.set()
    reader.join()
    assert arrived == [1, 2]


def test_the_thread_that_watches_ends_and_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    def is_watched() -> bool:
        return any(thread.name == "sitemap-waits" for thread in threading.enumerate())

    for name in ("first", "second"):
        with waits.waiting(name, "soon"):
            wait_until(lambda name=name: f": {name}. soon" in caplog.text, "a line in the log")
        wait_until(lambda: not is_watched(), "a line in the log")


def test_a_child_process_watches_its_own_waits() -> None:
    program = (
        "import os, logging, sys, time\n"
        "from airflow_sitemaps import waits\n"
        "logging.basicConfig(level='INFO', stream=sys.stdout)\n"
        "waits.FIRST_S = 0.1\n"
        "with waits.waiting('parent', 'soon'):\n"
        "    if os.fork() == 0:\n"
        "        waits.watch.first_s = 0.1\n"
        "        with waits.waiting('child', 'soon'):\n"
        "            time.sleep(0.5)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ": child. soon" in ran.stdout


# ------------------------------------------------------------ requests that are not answered


def test_a_frozen_store_is_named_with_its_time_out_and_what_follows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with frozen() as port:
        monkeypatch.setenv(
            "AIRFLOW_CONN_FROZEN",
            Connection(
                conn_id="frozen", conn_type="aws", login="a", password="hunter2",
                extra={
                    "endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1",
                    "config_kwargs": {"read_timeout": 0.5, "retries": {"total_max_attempts": 1}},
                },
            ).as_json(),
        )  # fmt: skip
        area = S3Store("s3://maps/de", base_url="https://www.example.com/", conn_id="frozen").open().public
        try:
            for request in (area.get, area.head, area.delete, lambda key: list(area.list(key))):
                caplog.clear()
                with pytest.raises(StoreError):
                    request("a.xml.gz")
                assert "/maps" in caplog.text
                assert "Each of up to 1 attempts ends after 0.5 s without an answer; then the task fails" in caplog.text
        finally:
            close_clients(connections, "frozen")
    assert "hunter2" not in caplog.text
    assert not waits.watch._waits


def test_a_frozen_web_server_is_named(caplog: pytest.LogCaptureFixture) -> None:
    client = HttpClient(rules=AccessRules(allow_private=True, allow_http=True), wait_s=0.5)
    with frozen() as port, pytest.raises(FetchError, match=r"within 0\.5 s"):
        client.get(f"http://127.0.0.1:{port}/sitemap.xml?key=hunter2")
    assert f"GET 127.0.0.1:{port}. It ends after 0.5 s at the latest" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_name_that_is_not_resolved_is_named(caplog: pytest.LogCaptureFixture) -> None:
    resolved = threading.Event()

    def resolver(*args: Any, **kwargs: Any) -> list[tuple[object, ...]]:
        resolved.wait(0.5)
        raise OSError("no such name")

    with suppress(FetchError):
        HttpClient(resolver=resolver).get("https://slow.example/")
    assert "GET slow.example" in caplog.text


def test_a_frozen_database_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    source = SqlSource("frozen", table="products", key="id", loc="/p/{id}")
    with frozen() as port:
        url = f"postgresql+psycopg://a:hunter2@127.0.0.1:{port}/x?connect_timeout=2"
        frozen_database = Connection(conn_id="frozen", conn_type="postgres", extra={"sqlalchemy_url": url})
        monkeypatch.setenv("AIRFLOW_CONN_FROZEN", frozen_database.as_json())
        with pytest.raises(SourceError):
            source.open(section="pages").__enter__()
    assert f"connecting. {WAIT_BOUND}" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_statement_of_a_survey_and_a_row_that_take_long_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    database = tmp_path / "shop.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE products (id INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO products VALUES (1)")
        connection.commit()
    monkeypatch.setenv(
        "AIRFLOW_CONN_SHOP", Connection(conn_id="shop", conn_type="sqlite", host=str(database)).as_json()
    )
    source = SqlSource("shop", table="products", key="id", loc="/p/{id}")

    def slow(real: Any, text: str) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            wait_until(lambda: text in caplog.text, text)
            return real(*args, **kwargs)

        return called

    monkeypatch.setattr(survey, "take", slow(survey.take, "the survey. "))
    monkeypatch.setattr(session_module, "batches_of", slow(session_module.batches_of, "reading rows. "))
    everything = [KeyRange(lower=None, upper=None)]
    with source.open(section="pages") as session:
        assert session.survey(everything)
        assert sum(batch.num_rows for batch in session.read(everything)) == 1


# ------------------------------------------------------------ tasks in which nothing moves


def test_a_task_in_which_nothing_moves_says_so_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    ended = threading.Event()
    with (
        waits.watch.moving("publish", 0.2, ended.set),
        waits.waiting("PutObject s3://maps/a", "Never"),
    ):
        assert ended.wait(30)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "publish: no request ended and no row arrived for" in line
    assert "PutObject s3://maps/a (for" in line
    assert "a retry continues" in line


def test_a_task_whose_requests_end_goes_on() -> None:
    ended = threading.Event()
    with waits.watch.moving("write", 1.0, ended.set):
        for _ in range(30):
            with waits.waiting("a request", "soon"):
                time.sleep(0.05)
    assert not ended.is_set()


def test_the_process_of_such_a_task_ends_with_a_status_that_airflow_retries(tmp_path: Path) -> None:
    """The wait cannot be interrupted: the main thread is in a call that returns to no Python code."""
    program = (
        "import logging, sys, threading\n"
        "from airflow_sitemaps import waits\n"
        "logging.basicConfig(level='INFO', stream=sys.stdout)\n"
        "waits.watch.first_s, waits.STALL_S = 0.1, 0.2\n"
        "with waits.ended_if_stalled('publish'):\n"
        "    lock = threading.Lock()\n"
        "    lock.acquire()\n"
        "    lock.acquire()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env={**os.environ}, timeout=60
    )
    assert ran.returncode == waits.STALLED
    assert "publish: no request ended" in ran.stdout
