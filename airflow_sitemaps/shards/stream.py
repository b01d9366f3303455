"""Write the rows of one key range, in order, into one file, or into several if they do not fit.

The source determines the order of the rows; it is never compared here. Rows of one key stay in one file. For this, the
last rows added, as far as they share a key, are held back until another key follows or the stream ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.errors import RefusedError, StoreContentError
from airflow_sitemaps.ledger.join import RangeLedger
from airflow_sitemaps.protocol import RowContext
from airflow_sitemaps.protocol.columnar import key_text
from airflow_sitemaps.protocol.columnar.batch import SLICE_ROWS, clean
from airflow_sitemaps.protocol.columnar.elements import Cleaned
from airflow_sitemaps.protocol.extensions.languages import MAX_NEWS
from airflow_sitemaps.protocol.gzip import Preset
from airflow_sitemaps.protocol.rules import Tally
from airflow_sitemaps.shards.ranges import Digest, total
from airflow_sitemaps.shards.shard_file import FileWriter, ShardFile


class ShardStream:
    """Converts the record batches of one key range, in order, to files.

    Equal rows give equal files, however they are divided into batches. When a file is finished, its duplicate URLs are
    counted and omitted. Until then they count towards ``context.max_urls``.

    ``not_before`` gives, for the digest of all rows that were read, the earliest date that the run may give them. With it,
    files are finished when the range ends.
    """

    def __init__(
        self,
        context: RowContext,
        preset: Preset = "fast",
        level: int = 0,
        must_list: tuple[str, ...] = (),
        ledger: RangeLedger | None = None,
        not_before: Callable[[Digest], datetime | None] | None = None,
    ) -> None:
        self._not_before = not_before
        self._full: list[FileWriter] = []
        self._context = context
        self._ledger = ledger
        self._open = partial(FileWriter, context, preset, level, must_list, ledger)
        self._held: list[pa.RecordBatch] = []
        self._file = self._open(first_key=None)

    def add(self, batch: pa.RecordBatch) -> list[ShardFile]:
        """Add rows with the columns that ``ports.Source.read`` defines, and return the files that became full.

        Raises ``RefusedError`` if the entries of one key do not fit into a file.
        """
        files: list[ShardFile] = []
        if not batch.num_rows:
            return files
        keys = batch.column("key")
        held = self._held[-1] if self._held else None
        goes_on = held is not None and key_text(held.column("key"), held.num_rows - 1) == key_text(keys, 0)
        start = _leading_run(keys) if goes_on else 0
        if start == batch.num_rows:
            self._held.append(batch)
            return files
        if self._held:
            self._place(_joined([*self._held, batch.slice(0, start)]), files)
            self._held = []
        complete = batch.num_rows - _trailing_run(keys)
        while (end := _piece_end(keys, start, complete)) < complete:
            self._place(batch.slice(start, end - start), files)
            start = end
        self._held.append(batch.slice(start))
        return files

    def finish(self) -> list[ShardFile]:
        """Return the remaining files, at least one. Its ``body`` is None if no row was valid."""
        files: list[ShardFile] = []
        if self._held:
            self._place(_joined(self._held), files)
        writers = [*self._full, self._file]
        moment = None if self._not_before is None else self._not_before(total(w.digest for w in writers))
        return [*files, *(writer.finish(moment) for writer in writers)]

    def _too_many(self, rows: pa.RecordBatch) -> RefusedError:
        keys = rows.column("key")
        return RefusedError(
            f"section {self._context.section!r}: {_leading_run(keys):,} rows share the key {key_text(keys, 0)}, and a file holds "
            f"{self._context.max_urls:,} URLs, {MAX_NEWS:,} articles and {self._context.limits.max_byte_size:,} bytes. Rows "
            "of one key stay in one file: add a column to the section's key that distinguishes them"
        )

    # ------------------------------------------------------------ placing complete keys

    def _place(self, rows: pa.RecordBatch, files: list[ShardFile]) -> None:
        """Write rows of complete keys to the open file, and to new files when it is full."""
        while rows.num_rows:
            tally = Tally()
            cleaned = self._cleaned(rows, tally)
            if self._file.append(rows, cleaned, tally):
                return
            fitting = self._fitting(rows, cleaned)
            if fitting:
                head = rows.slice(0, fitting)
                tally = Tally()
                self._file.append(head, self._cleaned(head, tally), tally)
                rows = rows.slice(fitting)
            elif not self._file.urls:
                raise self._too_many(rows)
            if self._not_before is None:
                files.append(self._file.finish())
            else:
                self._full.append(self._file)
            self._file = self._open(first_key=key_text(rows.column("key"), 0))

    def _cleaned(self, rows: pa.RecordBatch, tally: Tally) -> Cleaned:
        cleaned = clean(rows, self._context, tally)
        return cleaned if self._ledger is None else self._ledger.dated(cleaned, rows, self._context.timezone)

    def _fitting(self, rows: pa.RecordBatch, cleaned: Cleaned) -> int:
        """Return how many leading rows still fit into the open file, without separating the rows of a key."""
        numbers = cleaned.numbers
        room = self._context.max_urls - self._file.urls
        limit = (room if numbers is None else numbers[room].as_py()) if room < len(cleaned) else rows.num_rows - 1
        starts = _key_starts(rows.column("key").slice(0, limit + 1))
        low, high = 0, len(starts) - 1
        while low < high:
            middle = (low + high + 1) // 2
            end = starts[middle]
            head = cleaned.filter(_head(cleaned, end))
            low, high = (middle, high) if self._file.has_room(head) else (low, middle - 1)
        return starts[low]


def split_by_range(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split a record batch into pieces of one range each, in order."""
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
            raise StoreContentError(
                f"a source returned the rows of range {number} out of order, which is a bug of its adapter; report it to its maintainers"
            )
        yield number, rows
        start += length


def _head(cleaned: Cleaned, end: int) -> pa.BooleanArray:
    """Return a mask of the entries of the rows before ``end``."""
    if cleaned.numbers is not None:
        return pc.less(cleaned.numbers, end)
    return pa.array([True] * end + [False] * (len(cleaned) - end), pa.bool_())


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    filled = [batch for batch in batches if batch.num_rows] or batches[:1]
    return filled[0] if len(filled) == 1 else pa.concat_batches(filled)


def _trailing_run(keys: pa.Array) -> int:
    """Return the number of rows at the end that share one key."""
    last = keys[len(keys) - 1]
    if len(keys) == 1 or keys[len(keys) - 2] != last:
        return 1
    return int(pc.equal(keys, last).true_count)


def _piece_end(keys: pa.Array, start: int, end: int) -> int:
    """Return the end of a piece: about ``SLICE_ROWS`` rows later, where a key begins. A small rest is not a piece of its own."""
    cut = start + SLICE_ROWS
    if cut + SLICE_ROWS // 4 >= end:
        return end
    if keys[cut] == keys[cut - 1]:
        cut -= _trailing_run(keys.slice(start, cut - start))
        if cut == start:
            cut += _leading_run(keys.slice(start, end - start))
    return cut


def _leading_run(keys: pa.Array) -> int:
    """Return the number of rows at the start that share one key."""
    return int(pc.equal(keys, keys[0]).true_count)


def _key_starts(keys: pa.Array) -> list[int]:
    """Return the row numbers at which a key begins."""
    changes = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    return [0, *pc.add(pc.indices_nonzero(changes), 1).to_pylist()]
