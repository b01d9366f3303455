"""The list of two hundred sitemaps, and the manifest as the search for a URL reads it."""

from __future__ import annotations

import gzip
import time
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from airflow_sitemaps.errors import ManifestError
from airflow_sitemaps.plugin.shard_map import read_map
from airflow_sitemaps.shards.codec import decode_manifest, encode
from airflow_sitemaps.shards.manifest import LedgerPart
from tests.support.plugin_factories import add_history, manifest

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client

LIST = 219
LATER = gzip.compress(b'{"format": 99}')


@pytest.mark.long
def test_a_list_of_two_hundred_sitemaps_is_one_small_answer(admin: Client, session: Session) -> None:
    for n in range(LIST):
        add_history(session, f"s3://bucket-{n:03d}/sitemap.xml", f"dag_{n % 20}", 30)
    session.commit()

    for attempt in ("first", "again"):
        started = time.process_time()
        answer = admin.get("api/sitemaps", limit=100)
        print(f"list of {LIST}, {attempt}: {len(answer.content):,} bytes, {time.process_time() - started:.2f} s CPU")

    assert (len(answer.json()["sitemaps"]), answer.json()["total"]) == (100, LIST)
    assert len(answer.content) < 160 * 1_024


def test_the_search_reads_from_a_manifest_what_the_codec_reads() -> None:
    made = manifest(300)
    section = made.sections["products"]
    part = LedgerPart(body="runs/run-7/bodies/products.parquet", checksum="0" * 16, byte_size=7)
    shards = (replace(section.shards[0], part=part), *section.shards[1:])
    body = encode(replace(made, sections={"products": replace(section, shards=shards)}))

    found, whole = read_map(body, "m").manifest, decode_manifest(body)

    assert (found.generation, found.base_url, list(found.sections)) == (whole.generation, whole.base_url, ["products"])
    for few, every in zip(found.sections["products"].shards, whole.sections["products"].shards, strict=True):
        assert (few.range.lower, few.range.upper, few.urls, few.dropped, few.expired) == (
            every.range.lower,
            every.range.upper,
            every.urls,
            every.dropped,
            every.expired,
        )
        assert (few.written_in, few.part) == (every.written_in, every.part)
        assert (few.file is None) == (every.file is None)
        if few.file is not None and every.file is not None:
            assert (few.file.name, few.file.body) == (every.file.name, every.file.body)
            assert few.file.xml_byte_size == every.file.xml_byte_size


@pytest.mark.parametrize(
    ("body", "why"),
    [(b"", "damaged"), (b"\x1f\x8b rubbish", "damaged"), (gzip.compress(b"{}"), "damaged"), (LATER, "upgrade it")],
    ids=["empty", "rubbish", "nothing in it", "of a later version"],
)
def test_a_manifest_that_cannot_be_read_is_no_empty_one(body: bytes, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        read_map(body, "the manifest")
