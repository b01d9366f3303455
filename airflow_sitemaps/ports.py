"""Protocols that the pipeline depends on: source, store, clock and progress.

Adapters implement these protocols, and tests implement them in memory. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from datetime import datetime

    import pyarrow as pa

    from airflow_sitemaps.shards.digest import Survey
    from airflow_sitemaps.shards.key import Key, KeyRange


# ---------------------------------------------------------------- source


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A URL that several rows share.

    Attributes:
        loc: The URL as the source has it.
        rows: Number of rows with this URL.
    """

    loc: str
    rows: int


class Source(Protocol):
    """The rows of one section, in an open database session.

    Only the database compares keys. Every method raises ``SourceError`` when the database fails, and
    ``SourceConfigurationError`` when a connection, table or column is wrong. The message names the cause.

    Attributes:
        digest_kind: Name and version of the row-hash expression. Digests of different kinds are not compared.
        key_kinds: One text per key column: its name, kind and collation, such as ``id integer`` or
            ``slug text "de-x-icu"``. Boundaries are valid only for the kinds under which they were cut. If this
            differs from the manifest, the section's ranges must be cut again. An empty source may not know the kind
            of a column (``id unknown``).
    """

    digest_kind: str
    key_kinds: Sequence[str]

    def snapshot(self) -> AbstractContextManager[None]:
        """Answer every query except ``read`` from one snapshot of the data until the context ends.

        Some databases have no snapshot over several statements: Snowflake, BigQuery, Databricks, Trino, ClickHouse and
        SQL Server. They answer each query from the data as it is at that moment.
        """
        ...

    def boundaries(self, within: KeyRange, every: int) -> Sequence[Key]:
        """Compute the keys at which to cut a range into pieces of limited size.

        Rows that share a key are never separated, so a key with more than ``every`` rows gives one oversized piece.

        Args:
            within: The range to cut.
            every: Maximum number of rows in a piece.

        Returns:
            Strictly increasing keys inside ``within``, none equal to its lower end. The last piece is not empty.
        """
        ...

    def largest_key(self, within: KeyRange) -> tuple[Key, int] | None:
        """Find the key that the most rows of a range share.

        Returns:
            The key and its number of rows, or None if the range has no rows.
        """
        ...

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        """Compute the digest of each range in one consistent read.

        Args:
            ranges: Disjoint ranges in key order.
        """
        ...

    def rank(self, keys: Sequence[Key]) -> Sequence[int]:
        """Return the position of each key in the database's own order; 0 is the least, and equal keys share a rank."""
        ...

    def read(self, ranges: Sequence[KeyRange]) -> Iterator[pa.RecordBatch]:
        """Read the rows of some ranges, ordered by range, then key, then all emitted columns in binary order.

        Args:
            ranges: Disjoint ranges in key order.

        Yields:
            Record batches of at most about 64 Ki rows, with these columns:

            - ``range``: int32, the index into ``ranges``;
            - ``row_hash``: uint64 or int64; the caller sums it modulo 2**64 to the checksum that ``survey`` gives;
            - ``key``: string, a JSON array of the row's canonical key parts; int64 if the key is one integer;
            - ``loc``: string, the URL as the source has it (a template is expanded, its values percent-encoded);
            - ``lastmod``: ``timestamp[us, UTC]``, ``date32``, or the source's own string, which is parsed row by row;
            - ``changefreq``: string;
            - ``priority``: float64 or string;
            - ``images``, ``videos``, ``news``, ``alternates``: string, JSON;
            - ``title``, ``description``: string, for feeds.

            The first four columns are always present. The others are present only if the section has them.
        """
        ...

    def touched(self, ranges: Sequence[KeyRange], since: datetime) -> Sequence[int]:
        """Find the ranges that hold recently modified rows.

        Args:
            ranges: Disjoint ranges in key order.
            since: Earliest lastmod that counts as recent.

        Returns:
            Positions, in ascending order, of the ranges with a row whose lastmod is ``since`` or later.

        Raises:
            SourceConfigurationError: The source has no lastmod that can be compared.
        """
        ...

    def duplicates(self, most: int) -> Sequence[Duplicate]:
        """Find up to ``most`` URLs that more than one row has, whatever their keys; the most frequent come first."""
        ...

    def now(self) -> datetime:
        """Return the time of the database's clock, in UTC."""
        ...


class SourceConfig(Protocol):
    """Settings of a source: cheap to create, opened only where the rows are read.

    Attributes:
        timezone: IANA name of the time zone of date-times that carry none.
    """

    timezone: str

    def open(self, *, section: str) -> AbstractContextManager[Source]:
        """Connect to the database.

        Args:
            section: Name of the section, for messages and for names of temporary tables.
        """
        ...

    def identity(self) -> Mapping[str, object]:
        """Return, as JSON values, all settings that the rendered shards depend on.

        They are part of the section's fingerprint.
        """
        ...

    def describe(self) -> str:
        """Describe the source in logs: connection id and table, never a secret."""
        ...

    def discard(self, *, section: str) -> None:
        """Remove what the tasks of a run share, such as a materialised table, after the run is published."""
        ...

    def rendered(self, render: Callable[[str], str]) -> SourceConfig:
        """Return a copy with its template fields rendered (by Jinja, in Airflow)."""
        ...


# ---------------------------------------------------------------- store


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """An object without its bytes.

    Attributes:
        key: Key of the object, relative to its area.
        etag: The store's own version token.
        byte_size: Size in bytes.
        metadata: User metadata with lower-case keys. Default: none.
        modified_at: Time of the last write. Default: None, not known.
    """

    key: str
    etag: str
    byte_size: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    modified_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObject:
    """An object with its bytes.

    Attributes:
        info: Key, etag, size and metadata of the object.
        body: Its bytes.
    """

    info: ObjectInfo
    body: bytes


@dataclass(frozen=True, slots=True)
class Create:
    """Put only if no object has the key."""


@dataclass(frozen=True, slots=True)
class Update:
    """Put only over the object with this etag.

    Attributes:
        etag: Version token of the object to replace.
    """

    etag: str


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Put without a condition."""


PutMode = Create | Update | Overwrite


class PutOutcomeError(Exception):
    """A put did not report success.

    Args:
        message: What happened.
        definite: True for a clear refusal (412), False if the answer was lost or unclear.
    """

    def __init__(self, message: str, *, definite: bool) -> None:
        super().__init__(message)
        self.definite = definite


class ObjectStore(Protocol):
    """A mapping of keys to bytes. Keys are relative to the area's own prefix and never contain ``..``."""

    def url(self, key: str) -> str:
        """Return the object's address for messages (``s3://…`` or a path), without secrets."""
        ...

    def get(self, key: str) -> StoredObject | None:
        """Read an object.

        Returns:
            The object, or None if it does not exist.

        Raises:
            StoreError: The store fails.
        """
        ...

    def head(self, key: str) -> ObjectInfo | None:
        """Read an object's info without its bytes.

        Returns:
            The info, or None if the object does not exist.

        Raises:
            StoreError: The store fails.
        """
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
        """Write an object.

        Args:
            key: Where to write.
            body: The bytes.
            mode: Condition of the write: ``Create``, ``Update`` or ``Overwrite``.
            metadata: User metadata.
            content_type: Content-Type header.
            cache_control: Cache-Control header. Default: none.

        Returns:
            The etag of the new object.

        Raises:
            PutOutcomeError: The answer is not a clear success.
        """
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
        """Copy an object that still has its etag.

        Within one store no byte passes through this process.

        Args:
            source: Store of the object to copy.
            found: The object to copy, as ``head`` or ``list`` returned it.
            key: Where to write.
            mode: Condition of the write: ``Create``, ``Update`` or ``Overwrite``.
            metadata: User metadata of the copy.
            content_type: Content-Type header of the copy.
            cache_control: Cache-Control header of the copy. Default: none.

        Returns:
            The etag of the copy.

        Raises:
            PutOutcomeError: The answer is not a clear success, or the etag of the source object changed.
            StoreError: The store fails.
            ConfigurationError: A setting of the store is wrong.
        """
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List every object under a prefix.

        Args:
            prefix: Start of the keys. Default: every object.

        Yields:
            The objects in key order, without their metadata.

        Raises:
            StoreError: The store fails.
        """
        ...

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Delete an object. A missing object is no error.

        Args:
            key: The object to delete.
            etag: Delete only the object with this etag; another one stays, which is no error. A store without
                conditional deletes ignores it. Default: delete whatever object has the key.

        Raises:
            StoreError: The store fails.
        """
        ...


Purge = Callable[[Sequence[str]], None]
"""Remove URLs from the cache of a content delivery network; raise if that fails or the outcome is unknown."""


class Store(Protocol):
    """Destination of a sitemap: a public area that is served, and a private area for manifests, plans and bodies.

    Attributes:
        public: Objects of the public area.
        state: Objects of the private area.
        base_url: Address of the public area, ending in ``/``.
        index_name: File name of the index.
        cache_control: Cache-Control header of indexes and feeds.
        shard_cache_control: Cache-Control header of files that an index lists.
        purge: Removes changed URLs from caches after the shards are public and before the index is. None: no cache.
        enforces_conditions: Whether the store enforces conditional puts. None: it must be probed.
        copies: Whether objects are copied within the store under conditions that it enforces. None: it must be probed.
    """

    public: ObjectStore
    state: ObjectStore
    base_url: str
    index_name: str
    cache_control: str
    shard_cache_control: str
    purge: Purge | None
    enforces_conditions: bool | None
    copies: bool | None

    @property
    def needs_purge(self) -> bool:
        """Whether caches may answer with an old shard unless it is purged; a failed purge then stops the promotion."""
        ...


class StoreConfig(Protocol):
    """Settings of a store: cheap to create, opened only where files are read or written.

    Attributes:
        base_url: Address of the public area.
        index_name: File name of the index.
        single_writer: Whether only one run at a time writes to the store.
    """

    base_url: str
    index_name: str
    single_writer: bool

    def open(self) -> Store:
        """Connect to the store."""
        ...

    def describe(self) -> str:
        """Describe the store in logs: the public address, never a secret."""
        ...


# ---------------------------------------------------------------- the rest


class Clock(Protocol):
    """Source of time and of unique tokens, so that tests control both."""

    def now(self) -> datetime:
        """Return the current time in UTC."""
        ...

    def token(self) -> str:
        """Return a new unguessable token of 16 hexadecimal digits."""
        ...


class Progress(Protocol):
    """Receiver of the progress of a long operation."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage.

        Args:
            stage: Name of the stage.
            total: Number of units in the stage, or None if it is not known.
            unit: Name of a unit, such as ``rows``.
        """
        ...

    def advance(self, number: int) -> None:
        """Add ``number`` completed units."""
        ...

    def finish(self) -> None:
        """End the stage."""
        ...
