"""The ledger parts of the old shards that the ranges of a batch continue, read while the range before is written."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from airflow_sitemaps.errors import InvalidSitemapError
from airflow_sitemaps.pipeline.concurrency import Prefetch
from airflow_sitemaps.protocol import CURRENT, gzip
from airflow_sitemaps.shards import checksum_of

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_sitemaps.ledger.join import EarlierRows, RangeLedger
    from airflow_sitemaps.ports import ObjectStore, Store
    from airflow_sitemaps.shards.manifest import LedgerPart
    from airflow_sitemaps.shards.plan import LedgerPlan, OldShard, SectionPlan

log = logging.getLogger(__name__)

PART_SUFFIX: Final = ".parquet"
PARQUET: Final = "application/vnd.apache.parquet"


@dataclass(slots=True)
class EarlierParts:
    """What is known of the URLs of a batch's ranges, in their order.

    A part that is missing or damaged counts like none: its URLs and dates come from the shard's body. So do they after the
    whole state was lost, from the public files.
    """

    store: Store
    ledger: LedgerPlan
    olds: tuple[tuple[OldShard, ...], ...]
    finds_left: Iterator[bool]
    coming: Iterator[EarlierRows | None] = field(default_factory=lambda: iter(()))
    _intact: dict[str, LedgerPart] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)

    def next_ledger(self) -> RangeLedger:
        """Return the ledger of the next range."""
        from airflow_sitemaps.ledger import Dating  # noqa: PLC0415 - pyarrow is loaded where work is done
        from airflow_sitemaps.ledger.join import RangeLedger, earliest_day  # noqa: PLC0415

        dates, dating = self.ledger.dates, None
        if dates is not None:
            dating = Dating(at=self.ledger.at, since=dates.since, keep=dates.keep)
        compared = self.ledger.compared
        earliest = None if compared is None else earliest_day(compared.since)
        finds_left = next(self.finds_left)
        return RangeLedger(next(self.coming), self.ledger.at, self.ledger.kind, dating, earliest, finds_left=finds_left)

    def same_part(self, number: int, checksum: str, byte_size: int) -> LedgerPart | None:
        """Return the part of an old shard of a range that has the same bytes, or None."""
        parts = (self._intact.get(old.part.body) for old in self.olds[number] if old.part is not None)
        return next((p for p in parts if p is not None and (p.checksum, p.byte_size) == (checksum, byte_size)), None)

    def lost(self, number: int) -> bool:
        """Return whether a part of the range was lost, so that its URLs could not be judged."""
        return bool(self.ledger.adopted) or any(old.body in self._lost for old in self.olds[number])

    def each(self) -> Iterator[EarlierRows | None]:
        """Yield the rows of the old shards of each range. Equal ones, of a section laid out from scratch, are read once."""
        from airflow_sitemaps.ledger.join import EarlierRows  # noqa: PLC0415 - pyarrow is loaded where work is done

        last: tuple[OldShard, ...] = ()
        rows: EarlierRows | None = None
        if names := self.ledger.adopted:
            log.warning(
                "what the ledger recorded of the URLs of %s is lost: their dates come from there", ", ".join(names)
            )
            tables = [rows_of_body(self.store.public, name) for name in names]
            rows = EarlierRows.of(tables, self.ledger.kind, [True] * len(tables) if self.ledger.dates else [])
            yield from repeat(rows, len(self.olds))
            return
        for olds in self.olds:
            if olds != last:
                # A lost part was observed all the same: the body has its dates.
                observed = [old.part is not None and old.part.observed for old in olds if self.ledger.dates is not None]
                rows, last = EarlierRows.of([self._rows(old) for old in olds], self.ledger.kind, observed), olds
            yield rows

    def _rows(self, old: OldShard) -> pa.Table:
        from airflow_sitemaps import ledger as codec  # noqa: PLC0415 - pyarrow is loaded where work is done

        if old.part is not None:
            names = [*codec.JOINED, *(["lastmod"] if self.ledger.dates or self.ledger.compared else [])]
            names += ["key"] if self.ledger.finds_left else []
            rows = read_part(self.store.state, old.part, names)
            if rows is not None:
                self._intact[old.part.body] = old.part
                return rows
            self._lost.add(old.body)
        return rows_of_body(self.store.state, old.body)


@contextmanager
def earlier_parts(
    store: Store, plan: SectionPlan, ledger: LedgerPlan, positions: Sequence[int]
) -> Iterator[EarlierParts]:
    """Read the old parts of the ranges at some positions of a plan with a ledger, one range ahead."""
    olds = tuple(ledger.olds or plan.actions[position].olds for position in positions)
    alone = plan.olds_continued_once
    finds_left = (ledger.finds_left and all(old.body in alone for old in own) for own in olds)
    parts = EarlierParts(store, ledger, olds, finds_left)
    is_read = any(olds) or ledger.adopted
    with Prefetch(parts.each(), ahead=1) if is_read else nullcontext(parts.each()) as parts.coming:
        yield parts


def read_part(state: ObjectStore, part: LedgerPart, columns: list[str] | None = None) -> Any:
    """Return the rows of a part, or None, with a line in the log, if it is missing or damaged."""
    from airflow_sitemaps import ledger as codec  # noqa: PLC0415 - pyarrow is loaded where work is done

    stored = state.get(part.body)
    problem = "is missing"
    if stored is not None and checksum_of(stored.body) == part.checksum:
        try:
            return codec.decode(stored.body, columns)
        except ValueError as error:
            problem = f"cannot be read ({error})"
    elif stored is not None:
        problem = "is damaged: its checksum differs"
    log.warning("the ledger part %s %s: what it recorded of its URLs is lost", state.url(part.body), problem)
    return None


def rows_of_body(objects: ObjectStore, body: str) -> pa.Table:
    """Return the URLs and lastmods of a shard without a part; none, with a line in the log, if its body is damaged too."""
    from airflow_sitemaps import ledger as codec  # noqa: PLC0415 - pyarrow is loaded where work is done

    stored, content = objects.get(body), b""
    try:
        content = b"" if stored is None else gzip.decompress(stored.body, max_byte_size=CURRENT.max_byte_size)
    except InvalidSitemapError as error:
        log.warning("%s is damaged (%s): its URLs count as new", objects.url(body), error)
    return codec.rows_of_body(content, is_text=body.endswith(".txt.gz"))
