"""Protocols that the pipeline depends on: source, store, clock and progress.

Adapters implement these protocols, and tests implement them in memory. This package does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol, TypedDict

from airflow_sitemaps.ports.source import ChangeReading as ChangeReading
from airflow_sitemaps.ports.source import Duplicate as Duplicate
from airflow_sitemaps.ports.source import Requests as Requests
from airflow_sitemaps.ports.source import SiblingSurvey as SiblingSurvey
from airflow_sitemaps.ports.source import Source as Source
from airflow_sitemaps.ports.source import SourceConfig as SourceConfig

if TYPE_CHECKING:
    from typing_extensions import NotRequired, Unpack

Purge = Callable[[Sequence[str]], None]
"""Remove URLs from the cache of a content delivery network; raise if that fails or the outcome is unknown."""

INDEX_CACHE_CONTROL: Final = "public, max-age=300, must-revalidate"
"""Cache-Control header of indexes and feeds. A copy may be five minutes old."""
SHARD_CACHE_CONTROL: Final = "public, no-cache, max-age=0, must-revalidate"
"""Cache-Control header of shards: cached, and revalidated at each request.

``max-age=0`` is for networks that ignore ``no-cache`` (Fastly).
"""
_LIFETIME: Final = re.compile(r"(?:^|[,\s])(s-maxage|max-age|stale-while-revalidate|stale-if-error)=\"?(\d+)")
_NEVER: Final = re.compile(r"(?:^|[,\s])(no-store|no-cache(?!=)|private)(?:$|[,\s])")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """An object without its bytes.

    Attributes:
        key: Key of the object, relative to its area.
        etag: The store's own version token.
        byte_size: Size in bytes.
        metadata: User metadata with lower-case keys. Default: none.
        modified_at: Time of the last write, with its time zone. Default: None, not known.
    """

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
    """Put only if no object has the key."""


@dataclass(frozen=True, slots=True)
class Update:
    """Put only over the object with this etag."""

    etag: str


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Put without a condition."""


PutMode = Create | Update | Overwrite


class Headers(TypedDict):
    """What an object carries beside its bytes.

    Attributes:
        metadata: User metadata.
        content_type: Content-Type header.
        cache_control: Cache-Control header. Absent or None: none.
    """

    metadata: Mapping[str, str]
    content_type: str
    cache_control: NotRequired[str | None]


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
    """A mapping of keys to bytes. Keys are relative to the area's own prefix and never contain ``..``.

    Every call raises ``StoreError`` if the store fails, and ``ConfigurationError`` if a setting of the store is wrong.
    """

    def url(self, key: str) -> str:
        """Return an object's address (``s3://…`` or a path), without secrets. By that of ``""``, ``open_area`` opens this area."""

    def get(self, key: str) -> StoredObject | None:
        """Read an object, or return None if it does not exist."""

    def head(self, key: str) -> ObjectInfo | None:
        """Read an object's info without its bytes, or return None if it does not exist."""

    def put(self, key: str, body: bytes, *, mode: PutMode, **headers: Unpack[Headers]) -> str:
        """Write an object.

        Args:
            key: Where to write.
            body: The bytes.
            mode: Condition of the write: ``Create``, ``Update`` or ``Overwrite``.
            **headers: Metadata and headers of the object.

        Returns:
            The etag of the new object.

        Raises:
            PutOutcomeError: The answer is not a clear success.
        """

    def copy(
        self, source: ObjectStore, found: ObjectInfo, key: str, *, mode: PutMode, **headers: Unpack[Headers]
    ) -> str:
        """Copy an object that still has its etag.

        Within one store no byte passes through this process.

        Args:
            source: Store of the object to copy.
            found: The object to copy, as ``head`` or ``list`` returned it.
            key: Where to write.
            mode: Condition of the write: ``Create``, ``Update`` or ``Overwrite``.
            **headers: Metadata and headers of the copy.

        Returns:
            The etag of the copy.

        Raises:
            PutOutcomeError: The answer is not a clear success, or the etag of the source object changed.
        """

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List every object under a prefix.

        Args:
            prefix: Start of the keys. Default: every object.

        Yields:
            The objects in key order, without their metadata.
        """

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Delete an object. A missing object is no error.

        Args:
            key: The object to delete.
            etag: Delete only the object with this etag; another one stays, which is no error. A store without
                conditional deletes ignores it. Default: delete whatever object has the key.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Destination of a sitemap: a public area that is served, and a state area for manifests, plans and bodies.

    Attributes:
        base_url: Address of the public area, ending in ``/``.
        cache_control: Cache-Control header of indexes and feeds.
        shard_cache_control: Cache-Control header of files that an index lists.
        purge: Removes changed addresses from caches after the shards and before the index.
        enforces_conditions: Whether conditional puts are enforced. None: it must be probed.
        copies: Whether objects are copied within the store. None: it must be probed.
        records_etags: Whether ``head`` and ``list`` may return an etag that was recorded, without reading the object.
        dataset_url: Address of the public area by OpenLineage's rules. Default: empty, the address of the area.
        headers: Settings of the headers that the store keeps with public files. Default: empty, it keeps none.
    """

    public: ObjectStore
    state: ObjectStore
    base_url: str
    index_name: str
    cache_control: str
    shard_cache_control: str = SHARD_CACHE_CONTROL
    purge: Purge | None = None
    enforces_conditions: bool | None = None
    copies: bool | None = False
    records_etags: bool = False
    dataset_url: str = ""
    headers: str = ""

    @property
    def needs_purge(self) -> bool:
        """Whether caches may answer with an old shard unless it is purged. A failed purge then stops the promotion."""
        return self.purge is not None and not is_revalidated(self.shard_cache_control)


def is_revalidated(cache_control: str) -> bool:
    """Return whether a shared cache asks the origin each time before it uses a copy.

    No crawler may see a new index with an old shard. It reads a shard again when its ``lastmod`` in the index changes. If
    a shared cache answers with a copy of the old shard at that time, the crawler records the new ``lastmod`` and never
    reads what changed. Equal lifetimes of both files do not prevent that, because a cache may have fetched the shard
    after the index. Two settings do:

    - Shards are revalidated at each request (the default). An unchanged shard costs one short answer.
    - Shards are cached, and a purge hook removes the changed ones before the new index is put.
    """
    header = cache_control.lower()
    lifetimes = {name: int(seconds) for name, seconds in _LIFETIME.findall(header)}
    if any(seconds > 0 for seconds in lifetimes.values()):
        return False
    return bool(lifetimes) or bool(_NEVER.search(header))


class StoreConfig(Protocol):
    """Settings of a store: cheap to create, opened only where files are read or written.

    Attributes:
        base_url: Address of the public area.
        index_name: File name of the index.
        single_writer: Whether the user promises that no other process publishes to the store.
    """

    base_url: str
    index_name: str
    single_writer: bool

    @property
    def uri(self) -> str:
        """Address of the public area in the store, such as ``s3://bucket/prefix``, without a slash at its end."""

    def open(self) -> Store:
        """Connect to the store."""

    def console_url(self) -> str:
        """Return the page of the public area in the web console of the store; empty if there is none."""

    def describe(self) -> str:
        """Describe the store in logs: the public address, never a secret."""


class Clock(Protocol):
    """Source of time and of unique tokens, so that tests control both."""

    def now(self) -> datetime:
        """Return the current time in UTC."""

    def token(self) -> str:
        """Return a new unguessable token of 16 hexadecimal digits."""


class Progress(Protocol):
    """Receiver of the progress of a long operation. What has a body here ignores it."""

    def start(self, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage of ``total`` units (None: not known); ``unit`` is their name, such as ``rows``."""
        return

    def advance(self, number: int) -> None:
        """Add ``number`` completed units."""
        return

    def finish(self) -> None:
        """End the stage."""
        return


class Quiet(Progress):
    """Receiver that ignores all progress."""


QUIET: Final = Quiet()
