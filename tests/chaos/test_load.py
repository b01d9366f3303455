"""Many pipelines at once, a very long manifest, a very long life."""

from __future__ import annotations

import gc
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.errors import ConflictError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.shards import codec
from airflow_sitemaps.shards.manifest import Manifest, PublicFile, SectionManifest, Shard
from airflow_sitemaps.shards.ranges import Digest, KeyRange
from airflow_sitemaps.testing import crawl
from tests.chaos.test_kills import expected
from tests.chaos.zygote import sitemap_of
from tests.support.environment import World, row
from tests.support.repetition import scaled

if TYPE_CHECKING:
    from tests.support.s3 import S3Server

pytestmark = pytest.mark.long

NOW = datetime(2026, 1, 15, tzinfo=timezone.utc)


def test_ten_pipelines_at_once_against_one_store(moto: S3Server) -> None:
    """Five sitemaps, each by two rivals, side by side in one bucket."""
    bucket = moto.new_bucket()
    with moto.connection("s3_load") as conn_id:

        def run(number: int) -> str:
            job = {"url": f"s3://{bucket}/{number % 5}/maps", "conn_id": conn_id}
            for version in range(scaled(2, 10)):
                for _ in range(20):
                    try:
                        build(sitemap_of({**job, "version": version}))
                    except ConflictError:
                        continue
                    break
                else:
                    return f"{number}: version {version} lost every race"
            return ""

        with ThreadPoolExecutor(10) as pool:
            assert [said for said in pool.map(run, range(10)) if said] == []
        for number in range(5):
            last = scaled(2, 10) - 1
            job = {"url": f"s3://{bucket}/{number}/maps", "conn_id": conn_id, "version": last}
            build(sitemap_of(job))
            found = crawl(sitemap_of(job).store.open()).entries()
            assert found.keys() == expected(last)
            assert all(len(facts) == 1 for facts in found.values())


def test_a_manifest_of_50_000_shards() -> None:
    """2.5 billion URLs: the manifest is read and written in seconds."""
    shards = tuple(
        Shard(
            range=KeyRange((n * 50_000,) if n else None, ((n + 1) * 50_000,) if n < 49_999 else None),
            digest=Digest(rows=50_000, newest="2026-01-01T00:00:00Z", checksum=n * 7_919_000_003),
            urls=50_000,
            last_key=((n + 1) * 50_000 - 1,),
            file=PublicFile(
                name=f"pages-{n:05d}.xml.gz", body=f"runs/x/bodies/pages-{n:05d}-0-{n:016x}.xml.gz",
                xml_hash=f"{n:064x}", xml_byte_size=5_000_000, byte_size=500_000, modified_at=NOW, etag=f"{n:032x}",
            ),
        )
        for n in range(50_000)
    )  # fmt: skip
    section = SectionManifest(
        name="pages", fingerprint="f", digest_kind="d", changed_in=1, next_serial=50_000, shards=shards
    )
    manifest = Manifest(
        generation=1, write_id="w", run="r", owner="", base_url="https://www.example.com/", committed_at=NOW,
        sections={"pages": section}, indexes=(),
    )  # fmt: skip
    started = time.process_time()
    body = codec.encode(manifest)
    encoded = time.process_time()
    assert codec.decode_manifest(body) == manifest
    decoded = time.process_time()
    print(f"{len(body):,} bytes; encoded in {encoded - started:.1f} s, decoded in {decoded - encoded:.1f} s")
    assert len(body) < 12_000_000


def test_a_thousand_runs_leave_nothing_behind() -> None:
    """No growth of objects, manifest or memory over successive incremental runs."""
    world = World([row(10 * n) for n in range(1, 41)], settings={"history": 5})
    marks = []
    rounds = scaled(90, 1_000)
    tracemalloc.start()
    try:
        for number in range(rounds):
            world.rows[number % 40]["priority"] = number % 10 / 10
            if number % 3 == 0:
                world.rows.append(row(5 + 10 * (number % 50), loc=f"https://www.example.com/q/{number}"))
            if number % 3 == 2:
                del world.rows[-1]
            world.clock.advance(timedelta(hours=6))
            world.build()
            world.config.log.clear()
            if number % (rounds // 3) == rounds // 3 - 1:
                gc.collect()
                objects = {key: o for key, o in world.config.state.objects.items() if not key.startswith("reports/")}
                size = len(world.config.state.objects["manifest.json.gz"].body)
                marks.append((len(objects), len(world.config.public.objects), size, tracemalloc.get_traced_memory()[0]))
                for key in [key for key in world.config.state.objects if key.startswith("reports/")][:-10]:
                    world.store.state.delete(key)
    finally:
        tracemalloc.stop()
    print(marks)
    (_, first, last) = marks
    for early, late in zip(first, last, strict=True):
        assert late <= early * 1.3 + 20_000 * (early > 100_000)
    assert world.crawl().entries() == world.rebuilt().entries()
