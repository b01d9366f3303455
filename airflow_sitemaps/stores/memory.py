"""A store in memory for tests, examples and simulations, with the semantics of S3."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from blake3 import blake3

from airflow_sitemaps import setting_checks
from airflow_sitemaps.ports import ObjectInfo, PutMode, PutOutcomeError, StoredObject
from airflow_sitemaps.stores import StoreSettings, checked_key, checked_metadata, checked_prefix, read_source, refusal

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from airflow_sitemaps.ports import Headers, ObjectStore, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call that a memory store answered, with its key or prefix, and the condition of a put."""

    area: Literal["public", "state"]
    verb: Literal["get", "head", "put", "list", "delete"]
    key: str
    mode: PutMode | None = None
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryObject(StoredObject):
    """An object in memory, with the headers of its HTTP response."""

    content_type: str
    cache_control: str | None


@dataclass(slots=True)
class MemoryObjects:
    """One area in memory, an ``ObjectStore``. Thread-safe: each call is one atomic step. Both areas share log and lock.

    Etags are hashes of the bodies, as on S3. Equal bytes have equal etags, so tests cover A-B-A changes.
    """

    area: Literal["public", "state"]
    log: list[Operation]
    lock: threading.RLock
    now: Callable[[], datetime]
    objects: dict[str, MemoryObject] = field(default_factory=dict)

    def url(self, key: str) -> str:
        return f"memory://{self.area}/{key}"

    def get(self, key: str) -> StoredObject | None:
        checked_key(key)
        with self.lock:
            self.log.append(Operation(area=self.area, verb="get", key=key))
            return self.objects.get(key)

    def head(self, key: str) -> ObjectInfo | None:
        checked_key(key)
        with self.lock:
            self.log.append(Operation(area=self.area, verb="head", key=key))
            there = self.objects.get(key)
        return None if there is None else there.info

    def put(self, key: str, body: bytes, *, mode: PutMode, **headers: Unpack[Headers]) -> str:
        checked_key(key)
        kept, body = checked_metadata(headers["metadata"]), bytes(body)
        etag = blake3(body).hexdigest()[:32]
        with self.lock:
            there = self.objects.get(key)
            refused = refusal(mode, None if there is None else there.info)
            self.log.append(Operation(area=self.area, verb="put", key=key, mode=mode, refused=bool(refused)))
            if refused:
                raise PutOutcomeError(f"put {self.url(key)}: {refused}", definite=True)
            info = ObjectInfo(key=key, etag=etag, byte_size=len(body), metadata=kept, modified_at=self.now())
            self.objects[key] = MemoryObject(
                info=info, body=body, content_type=headers["content_type"], cache_control=headers.get("cache_control")
            )
        return etag

    def copy(
        self, source: ObjectStore, found: ObjectInfo, key: str, *, mode: PutMode, **headers: Unpack[Headers]
    ) -> str:
        """Copy an object under a condition, and return the etag of the copy."""
        with self.lock:
            return self.put(key, read_source(source, found), mode=mode, **headers)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        checked_prefix(prefix)
        with self.lock:
            self.log.append(Operation(area=self.area, verb="list", key=prefix))
            infos = sorted(
                (o.info for k, o in self.objects.items() if k.startswith(prefix)), key=lambda info: info.key.encode()
            )
        for info in infos:
            yield ObjectInfo(key=info.key, etag=info.etag, byte_size=info.byte_size, modified_at=info.modified_at)

    def delete(self, key: str, *, etag: str | None = None) -> None:
        checked_key(key)
        with self.lock:
            there = self.objects.get(key)
            spared = etag is not None and there is not None and there.info.etag != etag
            self.log.append(Operation(area=self.area, verb="delete", key=key, refused=spared))
            if not spared:
                self.objects.pop(key, None)


@dataclass(kw_only=True, eq=False, repr=False)
class MemoryStore(StoreSettings):
    """A store in the memory of this process. The same config object always opens the same objects.

    The other settings are those of every store: ``StoreSettings``.

    Attributes:
        base_url: Address of the public area, ending in ``/``. Default: ``https://www.example.com/``.
        now: Returns the times of objects; tests pass a simulated clock. Default: this machine's time.
        copies: Whether promotions copy within the store, as on AWS. Default: False.
        log: Every call, in the order of effect.
        public: The public area.
        state: The state area.

    Raises:
        ConfigurationError: A base URL, index name or header is invalid.
    """

    base_url: str = "https://www.example.com/"
    now: Callable[[], datetime] | None = None
    copies: bool = False
    log: list[Operation] = field(default_factory=list, init=False)
    public: MemoryObjects = field(init=False)
    state: MemoryObjects = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        setting_checks.flag("MemoryStore", "copies", self.copies)
        lock, now = threading.RLock(), self.now or partial(datetime.now, timezone.utc)
        self.public = MemoryObjects("public", self.log, lock, now)
        self.state = MemoryObjects("state", self.log, lock, now)

    @property
    def uri(self) -> str:
        """The base URL without a slash at its end: memory has no address."""
        return self.base_url.rstrip("/")

    def open(self) -> Store:
        """Return the areas. No connection is needed."""
        return self._opened(self.public, self.state, enforces_conditions=True, copies=self.copies)

    def describe(self) -> str:
        """Return the public address for logs."""
        return f"memory for {self.base_url}"

    def __deepcopy__(self, memo: dict[int, Any]) -> MemoryStore:
        """Return this store. Schedulers copy operators that have one, and a copy must see the same objects."""
        return self
