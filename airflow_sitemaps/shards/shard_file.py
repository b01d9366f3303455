"""One shard's file while it is written, and what is known of it afterwards."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.arrow import decoded, texts_of
from airflow_sitemaps.protocol.columns import Cleaned, Rendered, render, render_lines
from airflow_sitemaps.protocol.gzip import Compressor
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Tally, Verdict
from airflow_sitemaps.protocol.urlset import FOOTER, header
from airflow_sitemaps.shards.digest import EMPTY, MODULUS, Digest
from airflow_sitemaps.shards.distinct import all_distinct

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_sitemaps.protocol.entry import Judge
    from airflow_sitemaps.protocol.gzip import Preset


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFile:
    """One file of a key range, rendered.

    ``first_key`` is the lower end of its piece of the range (JSON text of its first row's key; None for the first
    piece), ``last_key`` the key of the last row read (None: no row). ``digest`` is of all rows read, dropped ones
    included. ``body`` is the gzip, None where no row was valid: then there is no file, ``urls`` and ``xml_byte_size``
    are 0 and ``xml_sha256`` is empty. ``newest_lastmod`` is of the written entries. At ``recheck_at`` the same rows
    would give another file: a lastmod is no longer in the future, an article leaves its two days.
    """

    first_key: str | None
    last_key: str | None
    digest: Digest
    urls: int
    body: bytes | None
    xml_sha256: str
    xml_byte_size: int
    newest_lastmod: str | None
    recheck_at: datetime | None
    tally: Tally


class _Body:
    """The bytes of one file: counted, hashed and compressed as they come, or kept until the head is known."""

    def __init__(self, judge: Judge, preset: Preset) -> None:
        self._is_text = judge.format == "text"
        self._compressor = Compressor(preset)
        self._sha256 = hashlib.sha256()
        self._kept: list[bytes] = []
        self._begun = False
        self._byte_size = 0
        self._prefixes: frozenset[str] = frozenset()

    def render(self, cleaned: Cleaned) -> Rendered:
        """The bytes of some entries."""
        return render_lines(cleaned) if self._is_text else render(cleaned)

    def fits(self, rendered: Rendered, prefixes: frozenset[str], max_byte_size: int) -> bool:
        """Whether the whole file stays within its bytes with these entries, which use these prefixes."""
        return rendered.fits(max_byte_size - self._byte_size - self._frame(prefixes))

    def write(self, rendered: Rendered, prefixes: frozenset[str], *, keep: bool) -> None:
        """Add entries. With ``keep`` the head, and so everything, waits until all prefixes are known."""
        self._prefixes |= prefixes
        if not keep:
            self._begin()
        for chunk in rendered.chunks():
            self._byte_size += len(chunk)
            if keep:
                self._kept.append(chunk)
            else:
                self._feed(chunk)

    def finish(self) -> tuple[bytes, str, int]:
        """The gzip, the sha256 of the XML in hexadecimal, and the XML's bytes."""
        self._begin()
        for data in self._kept:
            self._feed(data)
        self._kept = []
        if not self._is_text:
            self._feed(FOOTER)
        return self._compressor.finish(), self._sha256.hexdigest(), self._byte_size + self._frame(frozenset())

    def _frame(self, prefixes: frozenset[str]) -> int:
        """Bytes of head and foot."""
        return 0 if self._is_text else len(header(self._prefixes | prefixes)) + len(FOOTER)

    def _begin(self) -> None:
        if not self._begun and not self._is_text:
            self._feed(header(self._prefixes))
        self._begun = True

    def _feed(self, data: bytes) -> None:
        self._sha256.update(data)
        self._compressor.feed(data)


class FileWriter:
    """Collects the entries of one file within its limits."""

    def __init__(self, judge: Judge, preset: Preset, *, first_key: str | None) -> None:
        self._judge = judge
        self._preset: Preset = preset
        self._first_key = first_key
        self._last_key: str | None = None
        self._body = _Body(judge, preset)
        self._pieces: list[Cleaned] = []
        self._digest = EMPTY
        self._tally = Tally()
        self.urls = 0
        """Entries so far, duplicates included."""

    @property
    def is_empty(self) -> bool:
        """Whether the file has no entry yet."""
        return self.urls == 0

    def has_room(self, cleaned: Cleaned) -> bool:
        """Whether these entries still fit."""
        return self._fits(cleaned, self._body.render(cleaned))

    def append(self, rows: pa.RecordBatch, cleaned: Cleaned, tally: Tally) -> bool:
        """Add the entries that ``rows`` became; False, and nothing done, where they do not fit."""
        if self.urls + len(cleaned) > self._judge.max_urls:
            return False
        rendered = self._body.render(cleaned)
        if not self._fits(cleaned, rendered):
            return False
        self._write(self._body, cleaned, rendered)
        self._pieces.append(cleaned)
        self.urls += len(cleaned)
        self._digest = self._digest + digest_of(rows)
        self._tally.add(tally)
        self._last_key = key_text(rows, rows.num_rows - 1)
        return True

    def finish(self) -> ShardFile:
        """The file. Duplicate URLs are left out here, the first of each stays."""
        pieces = self._without_duplicates()
        urls = sum(map(len, pieces))
        body, sha256, byte_size = self._body.finish() if urls else (None, "", 0)
        newest = (piece.lastmods.newest() for piece in pieces if piece.lastmods is not None)
        rechecks = (piece.recheck_at for piece in pieces if piece.recheck_at is not None)
        return ShardFile(
            first_key=self._first_key,
            last_key=self._last_key,
            digest=self._digest,
            urls=urls,
            body=body,
            xml_sha256=sha256,
            xml_byte_size=byte_size,
            newest_lastmod=max((text for text in newest if text is not None), default=None),
            recheck_at=min(rechecks, default=None),
            tally=self._tally,
        )

    def _fits(self, cleaned: Cleaned, rendered: Rendered) -> bool:
        if self.urls + len(cleaned) > self._judge.max_urls:
            return False
        return self._body.fits(rendered, cleaned.prefixes(), self._judge.limits.max_byte_size)

    @staticmethod
    def _write(body: _Body, cleaned: Cleaned, rendered: Rendered) -> None:
        body.write(rendered, cleaned.prefixes(), keep=cleaned.extensions is not None)

    def _without_duplicates(self) -> list[Cleaned]:
        """The pieces without repeated URLs; where there were any, the body is made anew."""
        if all_distinct([piece.loc for piece in self._pieces]):
            return self._pieces
        seen: set[str] = set()
        masks: list[list[bool]] = []
        samples: list[str] = []
        for piece in self._pieces:
            mask: list[bool] = []
            for loc in piece.loc.to_pylist():
                mask.append(loc not in seen)
                seen.add(loc)
                if not mask[-1] and len(samples) < SAMPLES_PER_RULE:
                    samples.append(loc)
            masks.append(mask)
        verdict = self._judge.rulebook["loc-duplicate"]
        self._tally.count(
            "loc-duplicate", verdict, samples, sum(map(len, masks)) - len(seen), where=self._judge.section
        )
        if verdict is Verdict.KEEP:
            return self._pieces
        pieces = [piece.filter(pa.array(m, pa.bool_())) for piece, m in zip(self._pieces, masks, strict=True)]
        self._body = _Body(self._judge, self._preset)
        for piece in pieces:
            self._write(self._body, piece, self._body.render(piece))
        return pieces


def key_text(rows: pa.RecordBatch, number: int) -> str:
    """The key of a row as a JSON array: as it stands, or made of a single integer."""
    key = rows.column("key")[number].as_py()
    return f"[{key}]" if isinstance(key, int) else str(key)


def digest_of(rows: pa.RecordBatch) -> Digest:
    """The digest of rows as they were read: their number, the sum of their hashes, the newest lastmod as it stands."""
    hashes = rows.column("row_hash")
    unsigned = hashes if pa.types.is_uint64(hashes.type) else hashes.cast(pa.int64()).view(pa.uint64())
    checksum = (pc.sum(unsigned).as_py() or 0) % MODULUS
    return Digest(rows=rows.num_rows, newest=_newest(rows), checksum=checksum)


def _newest(rows: pa.RecordBatch) -> str | None:
    if "lastmod" not in rows.schema.names:
        return None
    column = decoded(rows.column("lastmod"))
    newest = pc.max(column)
    if not newest.is_valid:
        return None
    if pa.types.is_timestamp(column.type):
        text = str(newest.cast(pa.string()).as_py())
        return text.replace(" ", "T", 1)
    return str(texts_of(pa.array([newest]).cast(pa.string()))[0])
