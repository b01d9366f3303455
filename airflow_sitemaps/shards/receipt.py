"""What came of writing a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow_sitemaps.shards.digest import Digest
    from airflow_sitemaps.shards.key import Key, KeyRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One file's worth of a target's range, as rows were really read.

    ``body``: key of the private body; None when the range has no valid row, or when its content equals what the
    carried shard has already (then ``same`` is True and nothing was stored). Sizes in bytes.
    """

    range: KeyRange
    digest: Digest
    urls: int
    body: str | None = None
    same: bool = False
    xml_sha256: str = ""
    xml_byte_size: int = 0
    byte_size: int = 0
    last_key: Key | None = None
    newest_lastmod: str | None = None
    recheck_at: datetime | None = None
    settled: bool = True
    dropped: Mapping[str, int] = field(default_factory=dict)
    mended: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The pieces of every target of a batch, by the target's position in its section's plan.

    ``rows``: read; ``bytes_written``: stored; ``seconds``: wall time.
    """

    run: str
    batch: int
    section: str
    pieces: Mapping[int, tuple[Piece, ...]]
    rows: int
    bytes_written: int
    seconds: float
