"""A sitemap of 50,000 shards: planned and published again in seconds, in time that grows with the shards and no faster."""

from __future__ import annotations

import itertools
import time
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from blake3 import blake3
from msgspec.structs import replace

from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.pipeline.publish.commit_files import index_settings
from airflow_sitemaps.pipeline.state.identity import fingerprint
from airflow_sitemaps.pipeline.state.repository import MANIFEST
from airflow_sitemaps.ports import Create, Store
from airflow_sitemaps.shards import codec
from airflow_sitemaps.shards.layout import index_contents
from airflow_sitemaps.shards.manifest import GenerationNote, Manifest, PublicFile, SectionManifest, Shard
from airflow_sitemaps.shards.ranges import Digest, KeyRange, Survey, cut
from tests.support.environment import BASE, FREE
from tests.support.repetition import scaled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROWS = 10
NOW = datetime(2026, 1, 15, tzinfo=timezone.utc)


class Numbers:
    """A source that has a row for each number below ``shards * ROWS``; those of ``changed`` shards are others."""

    digest_kind = "numbers"
    key_kinds = ("id integer",)
    timezone = "UTC"
    change_log_interval = None
    state = ""

    def __init__(self, shards: int) -> None:
        self.shards = shards
        self.changed: set[int] = set()

    @contextmanager
    def open(self, *, section: str) -> Iterator[Numbers]:
        yield self

    def identity(self) -> dict[str, object]:
        return {}

    def describe(self) -> str:
        return "numbers"

    def discard(self, *, section: str) -> None:
        """Nothing was shared."""

    def table_version(self) -> None:
        """This table keeps no version."""

    def scan_estimate(self) -> None:
        """This table does not say."""

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        return Survey(digests=tuple(self._digest(self._keys(within)) for within in ranges))

    def rank(self, keys: Sequence[Any]) -> Sequence[int]:
        return range(len(keys))

    def read(self, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
        for number, within in enumerate(ranges):
            keys = self._keys(within)
            columns = {
                "range": pa.array([number] * len(keys), pa.int32()),
                "row_hash": pa.array([self._hash(key) for key in keys], pa.uint64()),
                "key": pa.array(keys, pa.int64()),
                "loc": pa.array([f"{BASE}p/{key}/{key // ROWS in self.changed}" for key in keys]),
            }
            yield pa.RecordBatch.from_pydict(columns)

    def _keys(self, within: KeyRange) -> range:
        lower = within.lower[0] if within.lower else 0
        return range(lower, within.upper[0] if within.upper else self.shards * ROWS)

    def _digest(self, keys: range) -> Digest:
        return Digest.of(len(keys), None, sum(map(self._hash, keys)))

    def _hash(self, key: int) -> int:
        return (key * 2_654_435_761 + (key // ROWS in self.changed)) % (1 << 64)


def published(sitemap: Sitemap, source: Numbers, store: Store) -> None:
    """Put a first generation there, as if it had been published; its files hold something short."""
    section, settings = sitemap.sections[0], index_settings(sitemap)
    ranges = cut(KeyRange(None, None), [(number * ROWS,) for number in range(1, source.shards)])
    shards = [
        Shard(range=within, digest=digest, urls=ROWS, written_in=1, file=file_of(store, number))
        for number, (within, digest) in enumerate(zip(ranges, source.survey(ranges).digests, strict=True), start=1)
    ]
    state = SectionManifest(
        name=section.name, fingerprint=fingerprint(sitemap, section), digest_kind=source.digest_kind, changed_in=1,
        next_serial=len(shards) + 1, shards=tuple(shards), base_url=BASE,
    )  # fmt: skip
    note = GenerationNote(
        generation=1, committed_at=NOW, run="first", urls=ROWS * len(shards), shards=len(shards), byte_size=1
    )
    manifest = Manifest(
        generation=1, write_id="w", run="first", owner="", base_url=BASE, committed_at=NOW,
        sections={section.name: state}, indexes=(), promoted=True, history=(note,),
    )  # fmt: skip
    indexes = [index_of(store, name, xml) for name, xml in index_contents(manifest, settings).items()]
    put(store.state, MANIFEST, codec.encode(replace(manifest, indexes=tuple(indexes))))


def index_of(store: Store, name: str, content: bytes) -> PublicFile:
    body = f"runs/first/bodies/{name}"
    put(store.state, body, content)
    return PublicFile(
        name=name, body=body, xml_hash=blake3(content).hexdigest(), xml_byte_size=len(content), modified_at=NOW,
        byte_size=len(content), etag=put(store.public, name, content), listed=False,
    )  # fmt: skip


def file_of(store: Store, number: int) -> PublicFile:
    name = f"pages-{number:05d}.xml.gz"
    body, content = f"runs/first/bodies/{name}", name.encode()
    put(store.state, body, content)
    return PublicFile(
        name=name, body=body, xml_hash=blake3(content).hexdigest(), xml_byte_size=500, modified_at=NOW,
        byte_size=len(content), etag=put(store.public, name, content),
    )  # fmt: skip


def put(area: Any, key: str, content: bytes) -> str:
    return str(area.put(key, content, mode=Create(), metadata={}, content_type="x"))


def test_a_few_changes_among_very_many_shards() -> None:
    source = Numbers(scaled(2_500, 50_000))
    config = MemoryStore(base_url=BASE)
    sitemap = Sitemap(config, [Section("pages", source)], shards=ShardPolicy(max_urls=ROWS), guards=FREE)
    published(sitemap, source, config.open())
    source.changed = {5, source.shards // 2, source.shards - 1}
    marks = [time.process_time()]
    planned = stages.plan(sitemap)
    marks.append(time.process_time())
    (batch,) = planned.batches
    receipt = stages.write(sitemap, planned.key, batch.number).receipt_key
    marks.append(time.process_time())
    report = stages.publish(sitemap, planned.key, [receipt])
    marks.append(time.process_time())
    plan_s, write_s, publish_s = (after - before for before, after in itertools.pairwise(marks))
    print(f"{source.shards:,} shards: plan {plan_s:.1f} s, write {write_s:.1f} s, publish {publish_s:.1f} s of CPU")
    assert (report.result, report.shards.rewritten) == ("published", 3)
    assert report.shards.kept == source.shards - 3
