"""A store that counts its calls and the bytes they move, around any other store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.ports import ObjectInfo, ObjectStore, StoreConfig, StoredObject


@dataclass
class Calls:
    """Calls by verb, and bytes sent and received. A copy within the store moves no bytes."""

    verbs: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    received: int = 0
    listed: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"verbs": dict(self.verbs), "sent": self.sent, "received": self.received, "listed": self.listed}


@dataclass
class CountedObjects:
    """One area. It implements ``ports.ObjectStore``."""

    inner: ObjectStore
    calls: Calls

    @property
    def place(self) -> str:
        """Key under which the capability probe keeps its result: that of the wrapped area."""
        return str(getattr(self.inner, "place", self.inner.url("")))

    def url(self, key: str) -> str:
        """The address of an object."""
        return self.inner.url(key)

    def get(self, key: str) -> StoredObject | None:
        """Read an object."""
        self.calls.verbs["get"] += 1
        found = self.inner.get(key)
        self.calls.received += len(found.body) if found is not None else 0
        return found

    def head(self, key: str) -> ObjectInfo | None:
        """Read the info of an object."""
        self.calls.verbs["head"] += 1
        return self.inner.head(key)

    def put(self, key: str, body: bytes, **how: Any) -> str:
        """Write an object."""
        self.calls.verbs["put"] += 1
        self.calls.sent += len(body)
        return self.inner.put(key, body, **how)

    def copy(self, source: Any, found: ObjectInfo, key: str, **how: Any) -> str:
        """Copy an object within the store."""
        self.calls.verbs["copy"] += 1
        return self.inner.copy(getattr(source, "inner", source), found, key, **how)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List objects; a request returns up to 1,000 of them, as on S3."""
        number = 0
        for info in self.inner.list(prefix):
            number += 1
            yield info
        self.calls.listed += number
        self.calls.verbs["list"] += max(1, -(-number // 1_000))

    def delete(self, key: str, **how: Any) -> None:
        """Delete an object."""
        self.calls.verbs["delete"] += 1
        self.inner.delete(key, **how)


class CountedStore:
    """A store whose calls are counted. It implements ``ports.StoreConfig``."""

    def __init__(self, inner: StoreConfig) -> None:
        self.inner = inner
        self.calls = Calls()
        self.base_url = inner.base_url
        self.index_name = inner.index_name
        self.single_writer = inner.single_writer

    def open(self) -> Any:
        """Open the wrapped store."""
        store: Any = self.inner.open()
        public, state = (CountedObjects(area, self.calls) for area in (store.public, store.state))
        return replace(store, public=public, state=state)

    def describe(self) -> str:
        """The wrapped store's description."""
        return self.inner.describe()
