"""The protocol of an object store: keys to bytes, with conditional writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired, Unpack


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
        """Return the object's address for messages (``s3://…`` or a path), without secrets."""

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
