"""The file of a shard, while it is written and afterwards."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from airflow_sitemaps import ledger as dates
from airflow_sitemaps.ledger.join import Judged, RangeLedger, same_print_by_url
from airflow_sitemaps.protocol.columnar import RowKeys, all_distinct, as_texts, key_text, spread_of, texts_of
from airflow_sitemaps.protocol.columnar.batch import recent_texts
from airflow_sitemaps.protocol.columnar.elements import Cleaned, Rendered, render, render_lines
from airflow_sitemaps.protocol.extensions.languages import MAX_NEWS
from airflow_sitemaps.protocol.feeds import FeedText, newest_texts
from airflow_sitemaps.protocol.gzip import Compressor, Preset
from airflow_sitemaps.protocol.lastmod import render as render_lastmod
from airflow_sitemaps.protocol.markup import FOOTER, header
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Tally, Verdict
from airflow_sitemaps.shards.manifest import Content
from airflow_sitemaps.shards.ranges import EMPTY, NEWEST_CHARACTERS, Digest
from airflow_sitemaps.shards.url_sample import sample

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_sitemaps.protocol import RowContext

    Numbers = npt.NDArray[np.uint64]


class ShardFile(Content, frozen=True, kw_only=True):
    """A rendered file that holds the entries of one key range, or of a part of it.

    Attributes:
        first_key: Lower end of the file's key range, as the JSON text of the first row's key. None for the first file.
        body: The gzip file. None if no row was valid; then there is no file, ``urls`` and ``xml_byte_size`` are 0, and
            ``xml_hash``, the BLAKE3 of the uncompressed bytes, is empty.
    """

    first_key: str | None
    body: bytes | None
    xml_hash: str
    xml_byte_size: int
    tally: Tally
    judged: Judged | None = None
    feed_texts: tuple[FeedText, ...] = ()


class _Body:
    """The bytes of one file: kept until the header is known, then counted, hashed and compressed as they are added."""

    def __init__(self, context: RowContext, preset: Preset) -> None:
        self._is_text = context.format == "text"
        self._compressor = Compressor(preset)
        self._hash = blake3()
        self._kept: list[bytes] = []
        self._begun = False
        self._byte_size = 0
        self._prefixes: frozenset[str] = frozenset()

    def render(self, cleaned: Cleaned) -> Rendered:
        """Return the rendered lines of cleaned entries."""
        return render_lines(cleaned) if self._is_text else render(cleaned)

    def fits(self, rendered: Rendered, prefixes: frozenset[str], max_byte_size: int) -> bool:
        """Return whether the whole file stays within its size limit with these entries and their XML prefixes."""
        return rendered.fits(max_byte_size - self._byte_size - self._frame(prefixes))

    def write(self, cleaned: Cleaned, rendered: Rendered) -> None:
        """Add entries. If they have extensions, header and entries are not written until all prefixes are known."""
        self._prefixes |= cleaned.prefixes()
        keep = cleaned.extensions is not None
        if not keep:
            self._begin()
        for chunk in rendered.chunks():
            self._byte_size += len(chunk)
            if keep:
                self._kept.append(chunk)
            else:
                self._feed(chunk)

    def finish(self) -> tuple[bytes, str, int]:
        """Return the gzip file, the BLAKE3 of the XML in hexadecimal, and the size of the XML in bytes."""
        self._begin()
        for data in self._kept:
            self._feed(data)
        self._kept = []
        if not self._is_text:
            self._feed(FOOTER)
        return self._compressor.finish(), self._hash.hexdigest(), self._byte_size + self._frame(frozenset())

    def _frame(self, prefixes: frozenset[str]) -> int:
        """Return the size of header and footer, in bytes."""
        return 0 if self._is_text else len(header(self._prefixes | prefixes)) + len(FOOTER)

    def _begin(self) -> None:
        if not self._begun and not self._is_text:
            self._feed(header(self._prefixes))
        self._begun = True

    def _feed(self, data: bytes) -> None:
        self._hash.update(data)
        self._compressor.feed(data)


@dataclass(slots=True)
class FileWriter:
    """Writes the entries of one file, within its limits.

    It also samples one URL in ``2**level``, and records which of ``must_list`` the file holds. ``digest`` is that of the rows so
    far, ``urls`` the number of entries, duplicates included.
    """

    context: RowContext
    preset: Preset
    level: int
    must_list: tuple[str, ...]
    ledger: RangeLedger | None
    first_key: str | None
    digest: Digest = EMPTY
    urls: int = 0
    _last_key: str | None = None
    _body: _Body = field(init=False)
    _pieces: list[Cleaned] = field(default_factory=list)
    _keys: list[pa.Array] = field(default_factory=list)
    _prints: list[pa.Array] = field(default_factory=list)
    _articles: int = 0
    _feed_texts: list[FeedText] = field(default_factory=list)
    _tally: Tally = field(default_factory=Tally)
    _settled: bool = True

    def __post_init__(self) -> None:
        self._body = _Body(self.context, self.preset)

    def has_room(self, cleaned: Cleaned) -> bool:
        """Return whether these entries still fit."""
        return self._fits(cleaned, self._body.render(cleaned))

    def append(self, rows: pa.RecordBatch, cleaned: Cleaned, tally: Tally) -> bool:
        """Add the entries of ``rows``. If they do not fit, change nothing and return False."""
        if self.urls + len(cleaned) > self.context.max_urls:
            return False
        rendered = self._body.render(cleaned)
        if not self._fits(cleaned, rendered):
            return False
        self._body.write(cleaned, rendered)
        self._pieces.append(cleaned)
        self._keys.append(rows.column("key"))
        if self.ledger is not None:
            self.ledger.saw(rows)
            self._prints.append(self.ledger.prints(rows))
        self._articles += cleaned.articles()
        if self.context.feeds_since is not None:
            texts = recent_texts(rows, cleaned, self.context.feeds_since)
            self._feed_texts = newest_texts([*self._feed_texts, *texts]) if texts else self._feed_texts
        self.urls += len(cleaned)
        self.digest = self.digest + digest_of(rows)
        self._tally.add(tally)
        self._last_key = key_text(rows.column("key"), rows.num_rows - 1)
        return True

    def finish(self, not_before: datetime | None = None) -> ShardFile:
        """Return the file. Of entries with the same URL, only the first is kept.

        ``not_before`` is the earliest date that this run gives. It is known late, so the body is then rendered again.
        """
        if not_before is not None:
            self._pieces = [dates.not_before(piece, not_before) for piece in self._pieces]
            self._render_again(self._pieces)
            moved = {loc for p in self._pieces if p.moved is not None for loc in p.loc.filter(p.moved).to_pylist()}
            later = render_lastmod(not_before)
            self._feed_texts = [replace(t, moment=later) if t.loc in moved else t for t in self._feed_texts]
        spreads = [spread_of(piece.loc) for piece in self._pieces]
        pieces = self._without_duplicates(spreads)
        spreads = spreads if pieces is self._pieces else [spread_of(piece.loc) for piece in pieces]
        urls = sum(map(len, pieces))
        judged = self.ledger.judge(pieces, self._keys, self._prints) if self.ledger is not None and urls else None
        body, xml_hash, byte_size = self._body.finish() if urls else (None, "", 0)
        listed = [piece.lastmods for piece in pieces if piece.lastmods is not None]
        rechecks = (piece.recheck_at for piece in pieces if piece.recheck_at is not None)
        prints, prefixes = sample([piece.loc for piece in pieces], self.level, spreads) if urls else (None, {})
        return ShardFile(
            first_key=self.first_key,
            last_key=None if self._last_key is None else tuple(json.loads(self._last_key)),
            digest=self.digest,
            urls=urls,
            articles=sum(piece.articles() for piece in pieces),
            body=body,
            xml_hash=xml_hash,
            xml_byte_size=byte_size,
            newest_lastmod=max(filter(None, (each.extreme(pc.max) for each in listed)), default=None),
            recheck_at=min(rechecks, default=None),
            sample_level=self.level if urls else 0,
            sample=prints,
            prefixes=prefixes,
            lastmods=sum(len(each.day) - each.day.null_count for each in listed),
            oldest_lastmod=min(filter(None, (each.extreme(pc.min) for each in listed)), default=None),
            must=self._must(pieces),
            settled=self._settled,
            dropped=dict(self._tally.dropped),
            expired=dict(self._tally.expired),
            fixed=dict(self._tally.fixed),
            tally=self._tally,
            feed_texts=tuple(self._feed_texts),
            judged=judged,
            extensions=dict(sum((Counter(piece.extension_counts()) for piece in pieces), Counter())),
        )

    def _must(self, pieces: list[Cleaned]) -> tuple[str, ...]:
        """Return the URLs that must be listed and are in this file."""
        wanted = pa.array(self.must_list, pa.string())
        if not len(wanted):
            return ()
        present = (piece.loc.filter(pc.is_in(piece.loc, wanted)) for piece in pieces)
        return tuple(sorted({loc for locs in present for loc in locs.to_pylist()}))

    def _fits(self, cleaned: Cleaned, rendered: Rendered) -> bool:
        if self.urls + len(cleaned) > self.context.max_urls or self._articles + cleaned.articles() > MAX_NEWS:
            return False
        return self._body.fits(rendered, cleaned.prefixes(), self.context.limits.max_byte_size)

    def _without_duplicates(self, spreads: list[Numbers]) -> list[Cleaned]:
        """Return the pieces without repeated URLs. If there are any, the body is rendered again."""
        if all_distinct([piece.loc for piece in self._pieces], spreads):
            return self._pieces
        seen: set[str] = set()
        masks: list[list[bool]] = []
        samples: list[str] = []
        for piece, keys in zip(self._pieces, self._keys, strict=True):
            mask: list[bool] = []
            rows = RowKeys(keys=keys, numbers=piece.numbers)
            for number, loc in enumerate(piece.loc.to_pylist()):
                mask.append(loc not in seen)
                seen.add(loc)
                if not mask[-1] and len(samples) < SAMPLES_PER_RULE:
                    samples.append(rows.sample(loc, number))
            masks.append(mask)
        self._settled = self._is_equal_by_url() and (
            self.ledger is None or same_print_by_url(self._pieces, self._prints)
        )
        verdict = self.context.rulebook["loc-duplicate"]
        self._tally.count(
            "loc-duplicate", verdict, samples, sum(map(len, masks)) - len(seen), where=self.context.section
        )
        if verdict is Verdict.KEEP:
            return self._pieces
        pieces = [piece.filter(pa.array(m, pa.bool_())) for piece, m in zip(self._pieces, masks, strict=True)]
        self._render_again(pieces)
        return pieces

    def _render_again(self, pieces: list[Cleaned]) -> None:
        self._body = _Body(self.context, self.preset)
        for piece in pieces:
            self._body.write(piece, self._body.render(piece))

    def _is_equal_by_url(self) -> bool:
        """Return whether all rows of one URL give the same entry.

        If they do not, the file depends on which of them has the lowest key, and the digest does not cover keys.
        """
        elements: dict[str, str] = {}
        return all(
            elements.setdefault(loc, element) == element
            for piece in self._pieces
            for loc, element in zip(piece.loc.to_pylist(), self._body.render(piece).elements.to_pylist(), strict=True)
        )


def digest_of(rows: pa.RecordBatch) -> Digest:
    """Return the digest of rows as they were read: their number, the sum of their hashes, and the newest lastmod."""
    hashes = rows.column("row_hash")
    unsigned = hashes if pa.types.is_uint64(hashes.type) else hashes.cast(pa.int64()).view(pa.uint64())
    checksum = pc.sum(unsigned).as_py() or 0
    return Digest.of(rows.num_rows, _newest(rows), checksum)


def _newest(rows: pa.RecordBatch) -> str | None:
    if "lastmod" not in rows.schema.names:
        return None
    column = rows.column("lastmod")
    newest = pc.max(column)
    if not newest.is_valid:
        return None
    text = str(texts_of(as_texts(pa.array([newest], column.type)))[0])
    return text.replace(" ", "T", 1) if pa.types.is_timestamp(column.type) else text[:NEWEST_CHARACTERS]
