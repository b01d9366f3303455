"""Write a batch: read its rows, render, compress, stage private bodies. Nothing public is touched.

A failed, cleared, repeated or zombie task harms nobody: every try stores bodies and a receipt under names of its own,
and only a commit makes them count.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import ConfigurationError, SourceMovedError, StoreContentError
from airflow_sitemaps.pipeline.fingerprint import check_unchanged
from airflow_sitemaps.pipeline.memory import returned
from airflow_sitemaps.pipeline.prefetch import Prefetch
from airflow_sitemaps.pipeline.putting import put_surely
from airflow_sitemaps.pipeline.state import GZIP, State, run_directory
from airflow_sitemaps.pipeline.uploads import Uploads
from airflow_sitemaps.ports import Create
from airflow_sitemaps.protocol.entry import Judge
from airflow_sitemaps.shards.digest import total
from airflow_sitemaps.shards.key import KeyRange
from airflow_sitemaps.shards.naming import SUFFIX
from airflow_sitemaps.shards.receipt import Piece, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from airflow_sitemaps.ports import Clock, Progress, Store
    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.shards.plan import Batch, Plan, SectionPlan, Target
    from airflow_sitemaps.shards.stream import ShardFile
    from airflow_sitemaps.sitemap import Section, Sitemap

log = logging.getLogger(__name__)

NEWS_URLS = 1_000
"""Entries of one news sitemap (developers.google.com, news sitemaps)."""

SLACK_ROWS = 1
"""Rows that a small range may lose between survey and reading without suspicion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What came of a batch, for the log and for XCom. ``seconds``: wall time."""

    receipt_key: str
    section: str
    shards: int
    rows: int
    urls: int
    dropped: int
    bytes_written: int
    seconds: float


def judge_of(sitemap: Sitemap, section: Section, clock: Clock) -> Judge:
    """What a section's entries are judged by."""
    most = sitemap.shards_of(section).max_urls
    return Judge(
        base_url=sitemap.base_url_of(section),
        cross_submit=tuple(sitemap.cross_submit),
        rulebook=sitemap.rulebook(section),
        limits=sitemap.limits_of(section),
        max_urls=min(most, NEWS_URLS) if section.kind == "news" else most,
        now=clock.now(),
        format=section.format,
        kind=section.kind,
        section=section.name,
        timezone=section.source.timezone,
    )


def write_batch(
    sitemap: Sitemap, store: Store, plan: Plan, number: int, *, clock: Clock, progress: Progress
) -> tuple[Written, Receipt]:
    """Write one batch of a plan.

    Raises:
        SourceMovedError: a range has suspiciously fewer rows than were surveyed.
        SourceError, StoreError: the database or the store failed.
        RuleError: a rule set to ``fail`` met a faulty row.
        ConfigurationError: the section was changed in the code since it was planned.
    """
    batch = _batch(plan, number)
    check_unchanged(sitemap, plan, [batch.section])
    section = next(section for section in sitemap.sections if section.name == batch.section)
    started = clock.now()
    writer = _BatchWriter(sitemap, section, store, plan, batch, clock)
    progress.start(f"write {section.name}", batch.rows, "rows")
    with returned(), section.source.open(section=section.name) as source, Uploads() as uploads:
        with Prefetch(source.read([target.range for target in writer.targets])) as batches:
            for record_batch in batches:
                writer.add(record_batch, uploads)
                progress.advance(record_batch.num_rows)
        writer.finish(uploads)
        uploads.wait()
    progress.finish()
    seconds = max(0.0, (clock.now() - started).total_seconds())  # a clock may be set back
    receipt = writer.receipt(seconds)
    key = State(store.state).write_receipt(receipt, clock.token())
    pieces = [piece for made in receipt.pieces.values() for piece in made]
    written = Written(
        receipt_key=key,
        section=section.name,
        shards=sum(piece.body is not None for piece in pieces),
        rows=receipt.rows,
        urls=sum(piece.urls for piece in pieces),
        dropped=sum(number for piece in pieces for number in piece.dropped.values()),
        bytes_written=receipt.bytes_written,
        seconds=seconds,
    )
    return written, receipt


def _batch(plan: Plan, number: int) -> Batch:
    if not 0 <= number < len(plan.batches):
        raise ConfigurationError(
            f"the plan of run {plan.run} has {len(plan.batches)} batches; there is no batch {number}"
        )
    return plan.batches[number]


@dataclass(slots=True)
class _BatchWriter:
    """Cuts the stream of record batches at range numbers and hands the ranges to streams, one after another."""

    sitemap: Sitemap
    section: Section
    store: Store
    plan: Plan
    batch: Batch
    clock: Clock
    targets: tuple[Target, ...] = ()
    token: str = ""
    judge: Judge | None = None
    _pieces: dict[int, list[Piece]] = field(default_factory=dict)
    _current: int = -1
    _stream: object = None
    _bytes_written: int = 0

    def __post_init__(self) -> None:
        section_plan: SectionPlan = self.plan.sections[self.section.name]
        self.targets = tuple(section_plan.targets[position] for position in self.batch.targets)
        self.token = self.clock.token()
        self.judge = judge_of(self.sitemap, self.section, self.clock)

    def add(self, batch: pa.RecordBatch, uploads: Uploads) -> None:
        """Take rows, which come in the order of the ranges."""
        for number, rows in _runs(batch):
            while self._current < number:
                self._next(uploads)
            self._store(self._stream.add(rows), uploads)  # type: ignore[attr-defined]

    def finish(self, uploads: Uploads) -> None:
        """End the last range, and those that had no row."""
        while self._current < len(self.targets):
            self._next(uploads)

    def receipt(self, seconds: float) -> Receipt:
        """What was made."""
        pieces = {self.batch.targets[local]: tuple(made) for local, made in self._pieces.items()}
        return Receipt(
            run=self.plan.run,
            batch=self.batch.number,
            section=self.section.name,
            pieces=pieces,
            rows=sum(piece.digest.rows for made in pieces.values() for piece in made),
            bytes_written=self._bytes_written,
            seconds=seconds,
        )

    def _next(self, uploads: Uploads) -> None:
        """End the current range, begin the next."""
        from airflow_sitemaps.shards.stream import ShardStream  # noqa: PLC0415 - pyarrow is loaded where work is done

        if self._current >= 0:
            self._store(self._stream.finish(), uploads)  # type: ignore[attr-defined]
            self._close()
        self._current += 1
        if self._current < len(self.targets):
            assert self.judge is not None
            self._stream = ShardStream(self.judge, self.sitemap.compression)

    def _close(self) -> None:
        """Give the pieces of the ended range their upper ends, and compare with what was surveyed."""
        target = self.targets[self._current]
        pieces = self._pieces.get(self._current, [])
        for at in range(len(pieces) - 1):
            upper = pieces[at + 1].range.lower
            pieces[at] = _with_range(pieces[at], KeyRange(pieces[at].range.lower, upper))
        if pieces:
            pieces[-1] = _with_range(pieces[-1], KeyRange(pieces[-1].range.lower, target.range.upper))
        read = total(piece.digest for piece in pieces).rows
        lost = self.sitemap.guards_of(self.section).max_shrink
        if read < target.digest.rows * (1 - lost) - SLACK_ROWS:
            raise SourceMovedError(
                f"section {self.section.name!r}, {target.range}: {read:,} rows were read and {target.digest.rows:,} "
                f"were counted when this run was planned (more than {lost:.0%} are missing): the table moved under the "
                "run, as while it is truncated and loaded again. Nothing was published; run again when it is loaded."
            )

    def _store(self, files: Sequence[ShardFile], uploads: Uploads) -> None:
        target = self.targets[self._current]
        made = self._pieces.setdefault(self._current, [])
        for file in files:
            lower = target.range.lower if not made else _key(file.first_key)
            key = None
            same = bool(target.known_sha256) and file.xml_sha256 == target.known_sha256 and not made
            if file.body is not None:
                key = self._body_key(len(made))
                if not same:
                    self._upload(key, file, uploads)
            made.append(_piece(file, KeyRange(lower, None), None if same else key, same))

    def _upload(self, key: str, file: ShardFile, uploads: Uploads) -> None:
        body = file.body
        assert body is not None
        self._bytes_written += len(body)
        told = {"xml-sha256": file.xml_sha256}

        def upload() -> None:
            put_surely(self.store.state, key, body, mode=Create(), write_id=key, content_type=GZIP, metadata=told)

        uploads.submit(upload)

    def _body_key(self, piece: int) -> str:
        suffix = SUFFIX[self.section.format]
        number = self.batch.targets[self._current]
        directory = run_directory(self.plan.run)
        return f"{directory}bodies/{self.section.name}-{number:05d}-{piece}-{self.token}{suffix}"


def _with_range(piece: Piece, within: KeyRange) -> Piece:
    return replace(piece, range=within)


def _key(text: str | None) -> Key | None:
    return None if text is None else tuple(json.loads(text))


def _piece(file: ShardFile, within: KeyRange, body: str | None, same: bool) -> Piece:
    return Piece(
        range=within,
        digest=file.digest,
        urls=file.urls,
        body=body,
        same=same,
        xml_sha256=file.xml_sha256,
        xml_byte_size=file.xml_byte_size,
        byte_size=len(file.body) if file.body is not None else 0,
        last_key=_key(file.last_key),
        newest_lastmod=file.newest_lastmod,
        recheck_at=file.recheck_at,
        dropped=dict(file.tally.dropped),
        mended=dict(file.tally.mended),
        samples={rule: tuple(texts) for rule, texts in file.tally.samples.items()},
    )


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The pieces of a record batch that belong to one range each, in order."""
    import pyarrow.compute as pc  # noqa: PLC0415 - heavy; loaded where work is done

    if batch.num_rows == 0:
        return
    numbers = batch.column("range")
    if numbers[0].as_py() == numbers[len(numbers) - 1].as_py():
        yield numbers[0].as_py(), batch
        return
    counts = pc.value_counts(numbers)
    start = 0
    for pair in counts.to_pylist():
        number, length = pair["values"], pair["counts"]
        rows = batch.slice(start, length)
        if rows.column("range")[0].as_py() != number:
            raise StoreContentError("a source gave its rows out of order; this is a defect of the source's adapter")
        yield number, rows
        start += length
