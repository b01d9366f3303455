"""Write a batch: read its rows, render and compress them, and store private bodies. Writes nothing public.

A failed, cleared, repeated or zombie task does no harm: every try stores its bodies and its receipt under unique keys,
and only a commit publishes them.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from airflow_sitemaps.errors import ConfigurationError, IncompleteError, SourceConfigurationError, SourceMovedError
from airflow_sitemaps.pipeline.concurrency import Prefetch, UploadPool
from airflow_sitemaps.pipeline.earlier_parts import PARQUET, PART_SUFFIX, EarlierParts, earlier_parts
from airflow_sitemaps.pipeline.request import OpenSitemap, row_context_of
from airflow_sitemaps.pipeline.state.identity import check_unchanged
from airflow_sitemaps.pipeline.state.repository import GZIP, put_verified, run_directory
from airflow_sitemaps.ports import Create, Source
from airflow_sitemaps.protocol.feeds import FeedText, newest_texts
from airflow_sitemaps.protocol.lastmod import next_second
from airflow_sitemaps.shards import checksum_of
from airflow_sitemaps.shards.codec import Receipt, StagedShard
from airflow_sitemaps.shards.gone import MOST_GONE
from airflow_sitemaps.shards.layout import SUFFIX
from airflow_sitemaps.shards.manifest import LedgerPart
from airflow_sitemaps.shards.plan import Batch, Plan, SectionFailure
from airflow_sitemaps.shards.ranges import Digest, Key, KeyRange, total
from airflow_sitemaps.shards.url_sample import level_of

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_sitemaps.ledger.join import Judged, RangeLedger
    from airflow_sitemaps.shards.shard_file import ShardFile
    from airflow_sitemaps.shards.stream import ShardStream
    from airflow_sitemaps.sitemap import Section

log = logging.getLogger(__name__)

BAD_BYTE: Final = re.compile("\x1a([89A-F][0-9A-F])")
"""How a source writes a byte that is not UTF-8."""

SLACK_ROWS = 1
"""Number of rows that a small range may lose between survey and read without an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Result of a batch, for the log and for XCom: the key of its stored receipt, and numbers of files, rows and URLs."""

    receipt_key: str
    section: str
    shards: int
    rows: int
    urls: int
    dropped: int
    bytes_written: int
    seconds: float
    expired: int = 0


def write_batch(opened: OpenSitemap, plan: Plan, number: int) -> Written:
    """Write one batch of a plan.

    Raises SourceMovedError if a range has suspiciously fewer rows than at the survey, ConfigurationError if the section's
    configuration changed after the plan was made.
    """
    if not 0 <= number < len(plan.batches):
        raise ConfigurationError(
            f"the plan of run {plan.run} has {len(plan.batches)} batches; there is no batch {number}"
        )
    sitemap, clock, progress = opened.sitemap, opened.clock, opened.progress
    batch = plan.batches[number]
    check_unchanged(sitemap, plan, [batch.section])
    section = next(section for section in sitemap.sections if section.name == batch.section)
    planned = plan.sections[section.name]
    ledger = planned.ledger
    config = section.source.at(planned.state) if planned.state else section.source
    started = clock.now()
    progress.start(f"write {section.name}", batch.rows, "rows")
    with (
        system_allocator(),
        nullcontext() if ledger is None else earlier_parts(opened.store, planned, ledger, batch.actions) as earlier,
        config.open(section=section.name) as source,
        UploadPool() as uploads,
    ):
        writer = _BatchWriter(opened, section, plan, batch, uploads, earlier, source)
        with Prefetch(source.read([action.range for action in writer.actions])) as batches:
            for record_batch in batches:
                writer.add(record_batch)
                progress.advance(record_batch.num_rows)
        writer.finish()
        uploads.wait()
    progress.finish()
    receipt = writer.receipt(max(0.0, (clock.now() - started).total_seconds()))  # a clock may be set back
    pieces = [piece for staged in receipt.pieces.values() for piece in staged]
    return Written(
        receipt_key=opened.state.write_receipt(receipt, clock.token()),
        section=section.name,
        shards=sum(piece.body is not None for piece in pieces),
        rows=receipt.rows,
        urls=sum(piece.urls for piece in pieces),
        dropped=sum(number for piece in pieces for number in piece.dropped.values()),
        bytes_written=receipt.bytes_written,
        seconds=receipt.seconds,
        expired=sum(number for piece in pieces for number in piece.expired.values()),
    )


class _BatchWriter:
    """Writer that splits the record batches by range and passes each range to a stream of its own."""

    def __init__(
        self,
        opened: OpenSitemap,
        section: Section,
        plan: Plan,
        batch: Batch,
        uploads: UploadPool,
        earlier: EarlierParts | None,
        source: Source,
    ) -> None:
        planned = plan.sections[section.name]
        self.sitemap = opened.sitemap
        self.store = opened.store
        self.section = section
        self.actions = tuple(planned.actions[position] for position in batch.actions)
        self._plan = plan
        self._batch = batch
        self._uploads = uploads
        self._earlier = earlier
        self._source = source
        self._observes = planned.ledger is not None and planned.ledger.dates is not None
        self._token = opened.clock.token()
        self._context = row_context_of(opened.sitemap, section, opened.clock)
        self._sample_level = level_of(planned.rows)
        self._pieces: dict[int, list[StagedShard]] = {}
        self._current = -1
        self._stream: ShardStream | None = None
        self._ledger: RangeLedger | None = None
        self._bytes_written = 0
        self._feed_texts: list[FeedText] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, which arrive in the order of the ranges."""
        from airflow_sitemaps.shards.stream import split_by_range  # noqa: PLC0415 - pyarrow is loaded where work is done

        for number, rows in split_by_range(batch):
            while self._current < number:
                self._next()
            assert self._stream is not None
            self._store(self._stream.add(rows))

    def finish(self) -> None:
        """End the last range and the ranges without rows."""
        while self._current < len(self.actions):
            self._next()

    def receipt(self, seconds: float) -> Receipt:
        """Return the receipt of the batch."""
        if sum(piece.leaving for own in self._pieces.values() for piece in own) > MOST_GONE:  # then the run names none
            for own in self._pieces.values():
                own[0] = replace(own[0], left=None if own[0].left is None else ())
        pieces = {self._batch.actions[local]: tuple(staged) for local, staged in self._pieces.items()}
        return Receipt(
            run=self._plan.run,
            batch=self._batch.number,
            section=self.section.name,
            pieces=pieces,
            rows=sum(piece.digest.rows for staged in pieces.values() for piece in staged),
            bytes_written=self._bytes_written,
            seconds=seconds,
            feed_texts=tuple(self._feed_texts),
        )

    def _next(self) -> None:
        from airflow_sitemaps.shards.stream import ShardStream  # noqa: PLC0415 - pyarrow is loaded where work is done

        if self._stream is not None:
            self._store(self._stream.finish())
            self._close()
        self._current += 1
        if self._current < len(self.actions):
            ledger = self._ledger = self._earlier.next_ledger() if self._earlier is not None else None
            not_before = self._not_before if self._observes else None
            must_list = self.sitemap.must_urls
            self._stream = ShardStream(
                self._context, self.sitemap.compression, self._sample_level, must_list, ledger, not_before
            )

    def _not_before(self, read: Digest) -> datetime | None:
        """Return the database's time if other rows were read than surveyed: a crawler may have seen the surveyed ones."""
        if read.same_rows(self.actions[self._current].digest):
            return None
        return next_second(self._source.clock())

    def _close(self) -> None:
        """Set the upper ends of the pieces of the range that ends, and compare its rows with the survey."""
        action = self.actions[self._current]
        pieces = self._pieces.get(self._current, [])
        uppers = [*(piece.range.lower for piece in pieces[1:]), action.range.upper]
        pieces[:] = [
            replace(piece, range=KeyRange(piece.range.lower, upper))
            for piece, upper in zip(pieces, uppers, strict=False)
        ]
        if self._ledger is not None and (left := self._ledger.left()) is not None:
            pieces[0] = replace(pieces[0], leaving=len(left), left=tuple(left))
        read = total(piece.digest for piece in pieces).rows
        lost = self.sitemap.guards_of(self.section).max_shrink
        if read < action.digest.rows * (1 - lost) - SLACK_ROWS:
            raise SourceMovedError(
                f"section {self.section.name!r}, {action.range}: {read:,} rows were read and {action.digest.rows:,} "
                f"were counted when this run was planned (more than {lost:.0%} are missing): "
                "the table changed during the run, for example because it is being reloaded. The section was not published; "
                "run again when it is loaded."
            )

    def _store(self, files: Sequence[ShardFile]) -> None:
        action = self.actions[self._current]
        staged = self._pieces.setdefault(self._current, [])
        for file in files:
            same = bool(action.known_hash) and file.xml_hash == action.known_hash and not staged
            key = None
            if file.body is not None and not same:
                key = self._body_key(len(staged), SUFFIX[self.section.format])
                self._put(key, file.body, GZIP)
            piece = StagedShard(
                range=KeyRange(self._first_key(file.first_key) if staged else action.range.lower, None),
                body=key,
                same=same,
                xml_hash=file.xml_hash,
                xml_byte_size=file.xml_byte_size,
                byte_size=len(file.body) if file.body is not None else 0,
                samples={rule: tuple(texts) for rule, texts in file.tally.samples.items()},
                **file.facts(),
            )
            if file.feed_texts:
                own = (dataclasses.replace(text, lower=piece.range.lower) for text in file.feed_texts)
                self._feed_texts = newest_texts([*self._feed_texts, *own])
            staged.append(self._with_part(piece, file.judged, len(staged)) if file.judged is not None else piece)

    def _first_key(self, text: str | None) -> Key | None:
        """Return the key at which a range was cut. The database cannot find one that is not as it stores it."""
        key: Key | None = None if text is None else tuple(json.loads(text))
        for part in key or ():
            shown = BAD_BYTE.sub(r"\\x\1", str(part))
            if shown != str(part):
                raise SourceConfigurationError(
                    f"section {self.section.name!r}: the key holds '{shown}', which is not UTF-8, and no file can begin with "
                    "such a key. Correct the value, or give another column as key="
                )
        return key

    def _with_part(self, piece: StagedShard, judged: Judged, number: int) -> StagedShard:
        """Return a piece with its ledger part, which is stored unless an old shard of the range has the same bytes."""
        assert self._earlier is not None
        checksum, byte_size = checksum_of(judged.data), len(judged.data)
        part = self._earlier.same_part(self._current, checksum, byte_size)
        if part is None:
            key = self._body_key(number, PART_SUFFIX)
            part = LedgerPart(body=key, checksum=checksum, byte_size=byte_size, observed=self._observes)
            self._put(part.body, judged.data, PARQUET)
        unjudged = judged.unjudged if self._earlier.lost(self._current) else 0
        counts = {"fresh": judged.fresh, "changed": judged.changed, "compared": judged.compared}
        return replace(piece, part=part, unjudged=unjudged, trust=judged.trust, **counts)

    def _put(self, key: str, body: bytes, content_type: str) -> None:
        self._bytes_written += len(body)
        put = partial(put_verified, self.store.state, key, body, mode=Create(), write_id=key, content_type=content_type)
        self._uploads.submit(put)

    def _body_key(self, piece: int, suffix: str) -> str:
        number = self._batch.actions[self._current]
        return f"{run_directory(self._plan.run)}bodies/{self.section.name}-{number:05d}-{piece}-{self._token}{suffix}"


@contextmanager
def system_allocator() -> Iterator[None]:
    """Let Arrow use the system's allocator, which returns freed memory.

    Batches are allocated in the reader's thread and freed in the writer's. Arrow's default allocator, mimalloc, retains
    memory that another thread frees: its peak is 40 MB higher, and it is no faster. Arrays that outlive the context
    keep the pool that they come from.
    """
    import pyarrow as pa  # noqa: PLC0415 - heavy; loaded where work is done

    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


UNKNOWN: Final = (
    "the writing task left no receipt and no reason: it was killed or marked, or did not run for this plan. See its log, "
    "and clear it together with the publishing task"
)


def unwritten_sections(
    plan: Plan, receipts: Sequence[Receipt], reasons: Mapping[int, str]
) -> tuple[SectionFailure, ...]:
    """Return one failure for each section that has a batch without a receipt, with the reason where it is known."""
    written = {receipt.batch for receipt in receipts}
    missing: dict[str, list[int]] = {}
    for batch in plan.batches:
        if batch.number not in written:
            missing.setdefault(batch.section, []).append(batch.number)
    failures = []
    for section, numbers in missing.items():
        own = [batch.number for batch in plan.batches if batch.section == section]
        why = next((reasons[number] for number in numbers if reasons.get(number)), "")
        what = f"{len(numbers):,} of its {len(own):,} batches, the first of them batch {own.index(numbers[0]) + 1:,},"
        if len(numbers) == 1:
            what = "its only batch" if len(own) == 1 else f"batch {own.index(numbers[0]) + 1:,} of {len(own):,}"
        message = f"{what} could not be written: {why}" if why else f"{what.rstrip(',')}: {UNKNOWN}"
        failures.append(SectionFailure(section=section, error=IncompleteError.__name__, message=message))
    return tuple(failures)
