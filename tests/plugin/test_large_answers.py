"""The list of two hundred sitemaps, and manifests that cannot be read."""

from __future__ import annotations

import gzip
import time
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.errors import ManifestError
from airflow_sitemaps.plugin.shard_map import read_map
from tests.support.plugin_factories import add_history

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


@pytest.mark.parametrize(
    ("body", "why"),
    [(b"", "damaged"), (b"\x1f\x8b rubbish", "damaged"), (gzip.compress(b"{}"), "damaged"), (LATER, "upgrade it")],
    ids=["empty", "rubbish", "nothing in it", "of a later version"],
)
def test_a_manifest_that_cannot_be_read_is_no_empty_one(body: bytes, why: str) -> None:
    with pytest.raises(ManifestError, match=why):
        read_map(body, "the manifest")
