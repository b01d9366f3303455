"""The ledger of a world, read from its state area, and the check that it lists what is published."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from airflow_sitemaps import ledger
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.protocol.reader import read
from airflow_sitemaps.shards import checksum_of

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_sitemaps.shards.manifest import Manifest
    from tests.simulation.machine import IncrementalMachine
    from tests.support.environment import World


class Line(NamedTuple):
    """What a part says of one URL."""

    key: str
    lastmod: str | None
    fingerprint: int | None
    first_listed: datetime | None
    changed_at: datetime | None


def manifest_of(world: World | IncrementalMachine) -> Manifest:
    manifest = StateRepository(world.store.state).manifest()
    assert manifest is not None
    return manifest


def lines(world: World | IncrementalMachine) -> dict[str, Line]:
    """Return the ledger by URL, after a check that each part lists the URLs and dates of its shard, in their order."""
    found: dict[str, Line] = {}
    for section in manifest_of(world).sections.values():
        for shard in section.shards:
            if shard.file is None:
                assert shard.part is None
                continue
            if shard.part is None:
                continue
            stored = world.config.state.objects[shard.part.body]
            assert (checksum_of(stored.body), len(stored.body)) == (shard.part.checksum, shard.part.byte_size)
            rows = ledger.decode(stored.body).to_pylist()
            body = world.config.state.objects[shard.file.body]
            listed = [(entry.loc, entry.lastmod) for entry in read(body.body).entries]
            assert [(row["loc"], row["lastmod"]) for row in rows] == listed
            found |= {row.pop("loc"): Line(**row) for row in rows}
    return found


def parts_read(world: World) -> list[str]:
    return [call.key for call in world.config.log if call.verb == "get" and call.key.endswith(".parquet")]
