"""What the pipeline needs of the world: a source of entries, a store of objects, a clock, somebody to tell.

Adapters implement these protocols; tests implement them in memory. Nothing here does any I/O.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    import pyarrow as pa

    from airflow_sitemaps.shards.digest import Survey
    from airflow_sitemaps.shards.key import Key, KeyRange


# ---------------------------------------------------------------- source


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A URL, as the source has it, that ``rows`` rows share."""

    loc: str
    rows: int


class Source(Protocol):
    """One section's rows, in an open session with their database.

    Keys are compared by the database alone. All methods raise ``SourceError`` when the database fails and
    ``SourceConfigurationError`` when a connection, table or column is wrong; both name it.
    """

    digest_kind: str
    """Names the row-hash expression and its version; digests of different kinds are not compared."""

    def boundaries(self, within: KeyRange, every: int) -> Sequence[Key]:
        """The keys at which ``within`` is to be cut so that each piece has at most ``every`` rows.

        Strictly increasing, all inside ``within`` (none equal to its lower end), the last piece not empty. Rows of
        one key are never parted: a key with more than ``every`` rows makes one piece that is too large.
        """
        ...

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        """The digest of each range, in one consistent look; the ranges are disjoint and in key order."""
        ...

    def rank(self, keys: Sequence[Key]) -> Sequence[int]:
        """The position of each key in the database's own order (0 for the least; equal keys share a rank)."""
        ...

    def read(self, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
        """The rows of the ranges (disjoint, in key order) as record batches of at most about 64 Ki rows.

        Ordered by range, then key, then all emitted columns in binary order. Columns:

        - ``range``: int32, the index into ``ranges``;
        - ``row_hash``: uint64 or int64, summed by the caller (modulo 2**64) to the checksum that ``survey`` gives;
        - ``key``: string, a JSON array of the row's canonical key parts; or int64, where the key is one integer;
        - ``loc``: string, the URL as the source has it (a template is expanded, its values percent-encoded);
        - ``lastmod``: ``timestamp[us, UTC]``, ``date32``, or string as found (then parsed row by row);
        - ``changefreq``: string; ``priority``: float64 or string;
        - ``images``, ``videos``, ``news``, ``alternates``: string, JSON.

        All columns but the first four are there only when the section has them.
        """
        ...

    def touched(self, ranges: Sequence[KeyRange], since: datetime) -> Sequence[int]:
        """The positions of the ranges that hold a row whose lastmod is ``since`` or later, in order.

        Raises SourceConfigurationError where the source has no lastmod that can be compared.
        """
        ...

    def duplicates(self, most: int) -> Sequence[Duplicate]:
        """Up to ``most`` URLs that more than one row has, whatever their keys; the most frequent first."""
        ...

    def now(self) -> datetime:
        """The database's clock, in UTC."""
        ...


class SourceConfig(Protocol):
    """What a user writes: cheap to make, opened where the work is done."""

    timezone: str
    """The zone in which date-times without one are read (IANA name)."""

    def open(self, *, section: str) -> AbstractContextManager[Source]:
        """Connect. ``section`` is for messages and for names of temporary tables."""
        ...

    def identity(self) -> Mapping[str, object]:
        """What the rendered shards depend on, as JSON values: it goes into the section's fingerprint."""
        ...

    def describe(self) -> str:
        """For logs: connection id and table, never a secret."""
        ...

    def discard(self, *, section: str) -> None:
        """Remove what the tasks of a run have shared (a materialised table), once it is published."""
        ...

    def rendered(self, render: Callable[[str], str]) -> SourceConfig:
        """The same with its templated texts rendered (Jinja, in Airflow)."""
        ...


# ---------------------------------------------------------------- store


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """An object without its bytes. ``etag`` is the store's own version token, ``metadata`` has lower-case keys."""

    key: str
    etag: str
    byte_size: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    modified_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object with its bytes."""

    info: ObjectInfo
    body: bytes


@dataclass(frozen=True, slots=True)
class Create:
    """Put only if nothing is there."""


@dataclass(frozen=True, slots=True)
class Update:
    """Put only over the object with this etag."""

    etag: str


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Put whatever is there."""


PutMode = Create | Update | Overwrite


class PutOutcomeError(Exception):
    """A put did not answer "done". ``definite`` tells a clear no (412) from an answer that was lost or unclear."""

    def __init__(self, message: str, *, definite: bool) -> None:
        super().__init__(message)
        self.definite = definite


class ObjectStore(Protocol):
    """Keys to bytes. Keys are relative to the area's own prefix, never contain ``..``."""

    def url(self, key: str) -> str:
        """The object's address for people (``s3://…``, a path), without secrets."""
        ...

    def get(self, key: str) -> StoredObject | None:
        """The object, or None where there is none. Raises StoreError."""
        ...

    def head(self, key: str) -> ObjectInfo | None:
        """The object's info, or None. Raises StoreError."""
        ...

    def put(
        self,
        key: str,
        body: bytes,
        *,
        mode: PutMode,
        metadata: Mapping[str, str],
        content_type: str,
        cache_control: str | None = None,
    ) -> str:
        """Write, and return the etag. Raises PutOutcomeError when the answer is not a clear success."""
        ...

    def copy(
        self,
        source: ObjectStore,
        found: ObjectInfo,
        key: str,
        *,
        mode: PutMode,
        metadata: Mapping[str, str],
        content_type: str,
        cache_control: str | None = None,
    ) -> str:
        """Put the bytes of ``found``, an object of ``source`` that still has its etag; the headers are those given here.

        Within one store no byte passes through this process. Raises PutOutcomeError as ``put`` does (also where the
        source is no longer what was found), StoreError, ConfigurationError.
        """
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object under a prefix, in key order; metadata is not filled. Raises StoreError."""
        ...

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Delete; an object that is not there is no error. Raises StoreError.

        With an ``etag`` only the object that has it: another one stays, and that is no error. Stores that have no such
        condition delete whatever is there.
        """
        ...


class Store(Protocol):
    """Where sitemaps go: a public area that is served, and a private one for manifests, plans and bodies."""

    public: ObjectStore
    state: ObjectStore
    base_url: str
    """Address of the public area, ending in ``/``."""
    index_name: str
    cache_control: str
    enforces_conditions: bool | None
    """True or False when it is known whether conditional puts are enforced, None when it must be probed."""
    copies: bool | None
    """Whether the public area copies from the private one by itself and enforces conditions on that; None: to be probed."""


class StoreConfig(Protocol):
    """What a user writes: cheap to make, opened where the work is done."""

    base_url: str
    index_name: str
    single_writer: bool

    def open(self) -> Store:
        """Connect."""
        ...

    def describe(self) -> str:
        """For logs: the public address, never a secret."""
        ...


# ---------------------------------------------------------------- the rest


class Clock(Protocol):
    """Time and identity, so that tests decide both."""

    def now(self) -> datetime:
        """The current time in UTC."""
        ...

    def token(self) -> str:
        """A new unguessable token of 16 hexadecimal digits."""
        ...


class Progress(Protocol):
    """Somebody to tell how far a long piece of work is."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """A stage begins, of ``total`` units (None: not known)."""
        ...

    def advance(self, number: int) -> None:
        """So many units more are done."""
        ...

    def finish(self) -> None:
        """The stage is done."""
        ...
