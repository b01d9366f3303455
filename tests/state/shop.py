"""The sitemap whose state a release keeps as test data: `python -m tests.state.shop 0.1.0` writes that of this commit.

Two runs published, and a third has planned and written but not published. Sections use the ledger, observed dates and a
watermark, so that every kind of object is there. A release adds an archive; it never replaces an earlier one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow_sitemaps import Guards, LocalStore, Observed, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.testing import FakeClock

DATA = Path(__file__).parent / "data"
SITE = "https://www.example.com/"
BEGAN = datetime(2026, 11, 25, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
UPDATES = (
    (),
    ("UPDATE t SET price = 99 WHERE id = 3", "DELETE FROM t WHERE id = 5", "INSERT INTO t VALUES (31, 'new', 1, '2026-11-25')"),
    ("UPDATE t SET title = 'other' WHERE id = 7",),
)  # fmt: skip
"""What changed in the table before each run: rows of the first section only, for a watermark follows the real time."""


def sitemap_of(folder: Path) -> Sitemap:
    """Return the sitemap that is published into a folder."""
    address = {"key": "id", "loc": SITE + "{id}/{title}"}
    seen = SqlSource("shop", query="SELECT * FROM t WHERE id % 2 = 1", lastmod=Observed("title", "price"), **address)
    dated = SqlSource("shop", table="t", where="id % 2 = 0", lastmod="updated_at", **address)
    return Sitemap(
        LocalStore(folder / "www", base_url=SITE),
        [Section("seen", seen, ledger=True), Section("dated", dated, ledger=True, change_detection="watermark")],
        shards=ShardPolicy(max_urls=10),
        guards=Guards.disabled(),
    )


def warehouse(folder: Path, runs: int) -> None:
    """Make the table as it is before a run, and Airflow's connection to it."""
    file = folder / "shop.db"
    file.unlink(missing_ok=True)
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, title TEXT, price INTEGER, updated_at TEXT)")
    rows = [(number, f"t{number}", number, "2026-01-01") for number in range(30)]
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    for statement in (each for changes in UPDATES[:runs] for each in changes):
        connection.execute(statement)
    connection.commit()
    connection.close()
    os.environ["AIRFLOW_CONN_SHOP"] = f"sqlite:///{file}"


def write_state(folder: Path, clock: FakeClock) -> None:
    """Publish twice, then plan and write without publishing."""
    sitemap = sitemap_of(folder)
    for runs in (1, 2):
        warehouse(folder, runs)
        build(sitemap, clock=clock)
        clock.advance(HOUR)
    warehouse(folder, 3)
    planned = stages.plan(sitemap, clock=clock)
    for batch in planned.batches:
        stages.write(sitemap, planned.key, batch.number, clock=clock)


def main(release: str) -> None:
    """Write the archive of a release."""
    folder = Path(tempfile.mkdtemp())
    try:
        write_state(folder, FakeClock(BEGAN))
        with tarfile.open(DATA / f"{release}.tar.gz", "x:gz") as archive:
            for name in ("www", "www-state"):
                archive.add(folder / name, name, filter=without_owner)
    finally:
        shutil.rmtree(folder)


def without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return an entry of an archive that says nothing of the machine; None for a lock's file, which is empty."""
    if "/locks/" in member.name:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main(sys.argv[1])
