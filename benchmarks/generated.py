"""A table of any size that exists only as arithmetic, and receipts of its batches with small real bodies.

The pipeline cannot tell it from a real table, except that a file claims more URLs than its body holds: a thousand million rows
are planned, committed and promoted by the product's own code, and nothing is rendered.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from airflow_sitemaps.ports import Create
from airflow_sitemaps.shards.codec import Receipt, StagedShard
from airflow_sitemaps.shards.ranges import MODULUS, Digest, Survey
from airflow_sitemaps.shards.url_sample import PRINT_BYTES, level_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.ports import ObjectStore
    from airflow_sitemaps.shards.plan import Batch, Plan
    from airflow_sitemaps.shards.ranges import Key, KeyRange

BASE: Final = "https://www.example.com/"
NEWEST: Final = "2026-01-15T00:00:00+00:00"


class GeneratedTable:
    """A source with the keys 0 to ``rows - 1``. It implements ``ports.SourceConfig`` and ``ports.Source``.

    ``changed`` holds the numbers of the shards whose rows differ from those of the first build, and how often.
    """

    digest_kind = "generated"
    key_kinds = ("id integer",)
    timezone = "UTC"
    state = ""
    change_log_interval = None

    def __init__(self, rows: int, max_urls: int) -> None:
        self.rows = rows
        self.max_urls = max_urls
        self.changed: dict[int, int] = {}
        self.surveyed = 0

    @contextmanager
    def open(self, *, section: str) -> Iterator[GeneratedTable]:
        """The same table; ``section`` is not needed."""
        yield self

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Nothing changes meanwhile."""
        yield

    def identity(self) -> dict[str, object]:
        """What its files depend on."""
        return {"source": "generated"}

    def describe(self) -> str:
        """For logs."""
        return f"generated ({self.rows:,} rows)"

    def discard(self, *, section: str) -> None:
        """Nothing is shared."""

    def table_version(self) -> None:
        """It keeps no version."""

    def scan_estimate(self) -> None:
        """Nothing is scanned."""

    def at(self, state: str) -> GeneratedTable:
        """The same table: it has no earlier state."""
        return self

    def now(self) -> datetime:
        """The system's time."""
        return datetime.now(timezone.utc)

    def boundaries(self, within: KeyRange, every: int) -> Sequence[Key]:
        """Every so many keys."""
        keys = self._keys(within)
        return [(key,) for key in range(keys.start + every, keys.stop, every)]

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        """A digest of each range in constant time."""
        self.surveyed += len(ranges)
        return Survey(digests=tuple(map(self.digest, ranges)))

    def rank(self, keys: Sequence[Key]) -> Sequence[int]:
        """The keys are given in order."""
        return range(len(keys))

    def version(self, within: KeyRange) -> int:
        """How often the rows of a shard have changed."""
        return self.changed.get(self._keys(within).start // self.max_urls, 0)

    def digest(self, within: KeyRange) -> Digest:
        """The digest of a range."""
        keys = self._keys(within)
        checksum = hashlib.blake2b(f"{keys.start} {keys.stop} {self.version(within)}".encode(), digest_size=8)
        return Digest(rows=len(keys), newest=NEWEST, checksum=int.from_bytes(checksum.digest(), "big") % MODULUS)

    def _keys(self, within: KeyRange) -> range:
        return range(within.lower[0] if within.lower else 0, within.upper[0] if within.upper else self.rows)  # type: ignore[arg-type]


def receipt_of(table: GeneratedTable, state: ObjectStore, plan: Plan, batch: Batch) -> Receipt:
    """Store a small body for each shard of a batch, as a writing task does with real ones; the batch's receipt."""
    section = plan.sections[batch.section]
    level = level_of(section.rows)
    pieces = {
        position: (_staged(table, state, plan.run, position, section.actions[position].range, level),)
        for position in batch.actions
    }
    return Receipt(
        run=plan.run, batch=batch.number, section=batch.section, pieces=pieces, rows=batch.rows, seconds=1.0,
        bytes_written=sum(piece.byte_size for (piece,) in pieces.values()),
    )  # fmt: skip


def _sample(xml: bytes, number: int, level: int) -> str:
    """Fingerprints in the sample of a level, in order, as a written shard has them."""
    data = hashlib.shake_128(xml).digest(PRINT_BYTES * number)
    drawn = (int.from_bytes(data[at : at + PRINT_BYTES], "big") >> level for at in range(0, len(data), PRINT_BYTES))
    return base64.b64encode(b"".join(each.to_bytes(PRINT_BYTES, "big") for each in sorted(drawn))).decode()


def _staged(
    table: GeneratedTable, state: ObjectStore, run: str, position: int, within: KeyRange, level: int
) -> StagedShard:
    digest = table.digest(within)
    xml = f"<urlset><url><loc>{BASE}{within.lower}/{table.version(within)}</loc></url></urlset>".encode()
    body = gzip.compress(xml, 1, mtime=0)
    xml_hash = blake3(xml).hexdigest()
    key = f"runs/{run}/bodies/pages-{position:05d}-0-{xml_hash[:16]}.xml.gz"
    state.put(key, body, mode=Create(), metadata={"write-id": key}, content_type="application/gzip")
    prints = (digest.rows >> level) + (position % max(1, (1 << level) // max(1, digest.rows)) == 0)
    upper = within.upper[0] if within.upper else table.rows
    return StagedShard(
        range=within, digest=digest, urls=digest.rows, body=key, xml_hash=xml_hash, xml_byte_size=len(xml),
        byte_size=len(body), last_key=(upper - 1,), newest_lastmod=NEWEST, oldest_lastmod=NEWEST,  # type: ignore[operator]
        lastmods=digest.rows, sample_level=level, prefixes={f"{BASE}p/": prints},
        sample=_sample(xml, prints, level),
    )  # fmt: skip
