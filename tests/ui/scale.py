"""Made-up sitemaps behind real DAGs: one at the protocol's limit (50,000 shards, 1,000 generations), one that means harm."""

from __future__ import annotations

import gzip
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.models.asset import AssetModel
from msgspec import structs
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session

from airflow_sitemaps.pipeline.report import ShardCounts
from airflow_sitemaps.protocol.markup import FOOTER, header
from airflow_sitemaps.shards.codec import encode
from airflow_sitemaps.shards.ranges import KeyRange
from tests.support.plugin_factories import add_event, extra, manifest, report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.pipeline.report import Report
    from airflow_sitemaps.shards.manifest import Manifest, Shard
    from tests.ui.site import Site

SHARDS = 50_000
GENERATIONS = 1_000
SEARCHED = 21
"""Position of the shard whose body is there, a nearly full one."""
LIST = 219
"""Sitemaps of the list that is measured."""
MAX_BYTES = {
    "sitemaps": 64 * 1_024,
    "sitemap": 64 * 1_024,
    "sitemap/history": 256 * 1_024,
    "sitemap/shards": 4 * 1_024 * 1_024,
    "sitemap/shards/texts": 128 * 1_024,
}
"""Of each answer, before compression."""
MAX_WIRE_BYTES = 768 * 1_024
"""Of each answer as sent."""


HARM = "<img src=x onerror=\"document.title='broken in'\">"
"""Stands wherever whoever writes an event or a manifest can put a text."""


def state_of(site: Site, dag_id: str, made: Manifest) -> str:
    """Write a manifest into the state area of a DAG's sitemap; returns the area's address."""
    state = site.home / "sites" / f"{dag_id}-state"
    state.mkdir(parents=True, exist_ok=True)
    (state / "manifest.json.gz").write_bytes(encode(made))
    return str(state)


def uri_of(site: Site, dag_id: str) -> str:
    """The URI of a DAG's sitemap."""
    return f"file://{site.home / 'sites' / dag_id / 'sitemap.xml'}"


@contextmanager
def metadata(site: Site, dag_id: str) -> Iterator[tuple[Session, int]]:
    """A session with Airflow's database, and the id of the DAG's asset there."""
    engine = create_engine(site.database)
    with Session(engine) as session:
        asset = session.scalar(select(AssetModel.id).where(AssetModel.uri == uri_of(site, dag_id)))
        assert asset is not None, f"the DAG {dag_id} has not been read yet"
        yield session, asset
        session.commit()
    engine.dispose()


def huge_report(n: int, at: datetime) -> Report:
    """What the ``n``-th run did: it changed a few shards, and once in a while very many."""
    rewritten = 12_000 if n % 180 == 0 else 40 + n * 7_919 % 400
    counts = ShardCounts(total=SHARDS, kept=SHARDS - rewritten, rewritten=rewritten)
    urls = SHARDS * 25_000 + n * 120_000 + n * 1_000_003 % 90_000
    sizes = {"xml_bytes": urls * 140, "file_bytes": urls * 18}
    rows = urls + urls // 2_000
    dropped = {"loc-missing": rows - urls}
    made = report(
        n, urls=urls, rows=rows, shards=SHARDS, at=at, index_urls=("https://huge.example/sitemap.xml",),
        bytes_written=rewritten * 450_000, rows_read=rewritten * 25_000, rows_dropped=dropped,
        seconds={"plan": 20.0 + n % 7, "write": rewritten * 0.3, "publish": 8.0 + n % 3}, **sizes,
    )  # fmt: skip
    section = replace(
        made.sections["products"], rows=rows, rows_dropped=dropped, shards=counts, rows_read=rewritten * 25_000, **sizes,
        samples={"loc-missing": ("NULL",)}, newest_lastmod=at.isoformat(), reasons={"rows changed": rewritten},
    )  # fmt: skip
    return replace(made, shards=counts, sections={"products": section})


def add_huge(site: Site) -> str:
    """Write the history and the manifest; returns the asset's URI."""
    made = manifest(SHARDS, generation=GENERATIONS)
    section = structs.replace(made.sections["products"], key_kinds=("id integer",))
    state = state_of(site, "huge", structs.replace(made, sections={"products": section}))
    add_body(Path(state), section.shards[SEARCHED])
    with metadata(site, "huge") as (session, asset):
        now = datetime.now(timezone.utc)
        for n in range(1, GENERATIONS + 1):
            at = now - timedelta(hours=GENERATIONS - n)
            payload = extra(huge_report(n, at), state_url=state)
            payload["report"]["sections"]["products"]["loc"] = "https://shop.example/p/{id}"
            add_event(session, asset, "huge", payload, at, run=f"made-up-{n}")
    return uri_of(site, "huge")


MANY = """
import os
from pathlib import Path

from airflow.sdk import DAG

from airflow_sitemaps import LocalStore, Section, Sitemap, SitemapTaskGroup, SqlSource

for n in range(%d):
    source = SqlSource("warehouse", table="products", key="id", loc="https://many.example/{slug}")
    store = LocalStore(Path(os.environ["SITEMAPS_UI_SITES"]) / f"many_{n:03d}", base_url=f"https://many-{n:03d}.example/")
    with DAG(f"many_{n:03d}", schedule=None, tags=["many"]) as dag:
        SitemapTaskGroup("sitemap", Sitemap(store, [Section("products", source)]))
    globals()[f"many_{n:03d}"] = dag
"""


def add_many(site: Site, number: int = LIST, runs: int = 30) -> None:
    """Further DAGs, so that the list has ``number`` sitemaps, each with a history of ``runs``."""
    added = number - int(site.request("GET", "/sitemaps-ui/api/sitemaps").json()["total"])
    site.write_dag("many", MANY % added)
    site.wait_for_list(number)
    now = datetime.now(timezone.utc)
    for n in range(added):
        with metadata(site, f"many_{n:03d}") as (session, asset):
            for run in range(1, runs + 1):
                at = now - timedelta(hours=runs - run)
                made = report(run, at=at, index_urls=(f"https://many-{n:03d}.example/sitemap.xml",))
                add_event(session, asset, f"many_{n:03d}", extra(made), at, run=f"made-up-{run}")


def add_body(state: Path, shard: Shard) -> None:
    """Write the private body of a shard: a page for each of its keys, but not for the last one."""
    assert shard.file is not None
    assert shard.range.lower is not None
    first = int(shard.range.lower[0])
    entries = (f"<url><loc>https://shop.example/p/{first + n}</loc></url>\n" for n in range(shard.urls - 1))
    body = state / shard.file.body
    body.parent.mkdir(parents=True, exist_ok=True)
    body.write_bytes(gzip.compress(header() + "".join(entries).encode() + FOOTER, compresslevel=1))


def url_of(position: int) -> str:
    """The URL of a page in the shard that has a body, by its position there."""
    return f"https://shop.example/p/{SEARCHED * 49_900 + position}"


def planted() -> Manifest:
    """A manifest with harmful texts wherever the decoder takes any text."""
    made = manifest(30)
    section = made.sections["products"]
    shards = tuple(
        structs.replace(
            shard, range=KeyRange((f"{n:02}{HARM}",) if n else None, (f"{n + 1:02}{HARM}",)), dropped={HARM: 5}, fixed={HARM: 5},
            newest_lastmod=HARM, file=None if shard.file is None else structs.replace(shard.file, name=f"{HARM}{n}.xml.gz"),
        )
        for n, shard in enumerate(section.shards)
    )  # fmt: skip
    return structs.replace(made, sections={"products": structs.replace(section, shards=shards)})


def add_planted(site: Site) -> str:
    """A history and a manifest that a writer of the store could forge; returns the asset's URI."""
    state = state_of(site, "planted", planted())
    now = datetime.now(timezone.utc)
    made = report(7, at=now, shards=30, index_urls=("javascript:alert(1)", f"https://planted.example/{HARM}"))
    section = replace(
        made.sections["products"], rows_dropped={HARM: 5}, samples={HARM: (HARM, "\u202egpj.exe")},
        reasons={HARM: 1}, newest_lastmod=HARM, drift=(HARM,),
    )  # fmt: skip
    hostile = replace(
        made, sections={HARM: section}, rows_dropped={HARM: 5}, drift=(HARM,), warnings=(HARM,), action=HARM,
        seconds={HARM: 1.0},
    )  # fmt: skip
    with metadata(site, "planted") as (session, asset):
        add_event(session, asset, "planted", extra(hostile, state_url=state, group_id=HARM), now, run=f"planted-{HARM}")
    return uri_of(site, "planted")
