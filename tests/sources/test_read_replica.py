"""A sitemap that reads a hot standby of PostgreSQL: only reads reach it, and what it has not received yet is found later."""

from __future__ import annotations

import atexit
import json
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing import crawl
from tests.support import databases

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE = "https://www.example.com/"


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[sa.Engine, sa.Engine, str]]:
    """The primary, its standby, and the standby's URL."""
    programs = databases.postgresql_programs()
    if programs is None or not (programs / "pg_basebackup").exists():
        pytest.skip("no pg_basebackup is here (Debian: apt-get install postgresql)")
    url = databases.start_postgresql(programs)
    primary = sa.create_engine(url)
    folder, user = databases.own_folder("standby")
    copy = [str(programs / "pg_basebackup"), "-h", str(primary.url.query["host"]), "-U", "postgres", "-R", "-c", "fast"]
    subprocess.run([*copy, "-D", str(folder / "data")], user=user, check=True, capture_output=True)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [programs / "postgres", "-D", folder / "data", "--listen_addresses=", f"--unix_socket_directories={folder}"],
            user=user, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    atexit.register(databases.stop, process, signal.SIGINT)
    replica_url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
    databases.wait_for(replica_url, process, folder / "log")
    replica = sa.create_engine(replica_url)
    yield primary, replica, replica_url
    primary.dispose()
    replica.dispose()


def run(engine: sa.Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


def catch_up(primary: sa.Engine, replica: sa.Engine) -> None:
    with primary.connect() as connection:
        written = connection.execute(sa.text("SELECT pg_current_wal_lsn()::text")).scalar_one()
    wait_until(replica, f"SELECT pg_last_wal_replay_lsn() >= CAST('{written}' AS pg_lsn)")


def wait_until(engine: sa.Engine, condition: str) -> None:
    while True:
        with engine.connect() as connection:
            if connection.execute(sa.text(condition)).scalar_one():
                return


@pytest.mark.parametrize("reader", ["auto", "cursor"])
def test_a_standby_is_read_and_a_change_that_it_lacks_is_found_by_a_later_run(
    servers: tuple[sa.Engine, sa.Engine, str], monkeypatch: pytest.MonkeyPatch, reader: str
) -> None:
    primary, replica, url = servers
    run(
        primary,
        "DROP TABLE IF EXISTS pages",
        "CREATE TABLE pages (id bigint PRIMARY KEY, slug text)",
        "INSERT INTO pages SELECT n, 'p' || n FROM generate_series(1, 100) n",
    )
    catch_up(primary, replica)
    monkeypatch.setenv("AIRFLOW_CONN_REPLICA", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": url}}))
    config = MemoryStore(base_url=BASE)
    source = SqlSource("replica", table="pages", key="id", loc=BASE + "{slug}", reader=reader)
    sitemap = Sitemap(config, [Section("pages", source)], shards=ShardPolicy(max_urls=20), guards=Guards.disabled())
    assert build(sitemap).urls == 100

    run(replica, "SELECT pg_wal_replay_pause()")
    wait_until(replica, "SELECT pg_get_wal_replay_pause_state() = 'paused'")
    run(primary, "UPDATE pages SET slug = 'new' WHERE id = 50", "DELETE FROM pages WHERE id = 60")
    assert build(sitemap).result == "unchanged"

    run(replica, "SELECT pg_wal_replay_resume()")
    catch_up(primary, replica)
    assert build(sitemap).result == "published"
    assert set(crawl(config.open()).locs()) == {
        BASE + ("new" if n == 50 else f"p{n}") for n in range(1, 101) if n != 60
    }
    assert build(sitemap).result == "unchanged"
