"""A folder of this machine as the store of a history, with a copy of its content in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.ports import PutOutcomeError, Store
from airflow_sitemaps.stores import read_source
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.stores.memory import MemoryObject, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from airflow_sitemaps.ports import ObjectInfo, ObjectStore, PutMode, StoredObject


@dataclass(slots=True)
class MirroredObjects:
    """One area of a local store.

    Every call goes to the folder; ``objects`` has the content of the folder after the call.

    Attributes:
        area: Which area this is.
        inner: The area in the folder.
        folder: The area's folder.
        log: Every put and delete, in the order of effect; shared by both areas.
        now: Gives the files' times.
        objects: The objects by key.
    """

    area: Any
    inner: ObjectStore
    folder: Path
    log: list[Operation]
    now: Callable[[], datetime]
    objects: dict[str, MemoryObject] = field(default_factory=dict)

    def url(self, key: str) -> str:
        """Return an address without the folder, because the folder differs each time a history runs."""
        return f"local://{self.area}/{key}"

    def get(self, key: str) -> StoredObject | None:
        """Return an object."""
        return self.inner.get(key)

    def head(self, key: str) -> ObjectInfo | None:
        """Return the recorded info of an object."""
        return self.inner.head(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under a prefix."""
        yield from self.inner.list(prefix)

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
        """Write a file, and give it the time of the history."""
        try:
            etag = self.inner.put(
                key, body, mode=mode, metadata=metadata, content_type=content_type, cache_control=cache_control
            )
        except PutOutcomeError:
            self.log.append(Operation(area=self.area, verb="put", key=key, mode=mode, refused=True))
            raise
        moment = self.now().timestamp()
        os.utime(self.folder / key, (moment, moment))
        stored = self.inner.get(key)
        assert stored is not None
        self.objects[key] = MemoryObject(
            info=stored.info, body=stored.body, content_type=content_type, cache_control=cache_control
        )
        self.log.append(Operation(area=self.area, verb="put", key=key, mode=mode))
        return etag

    def copy(self, source: ObjectStore, found: ObjectInfo, key: str, **settings: Any) -> str:
        """Write a file with the bytes of another."""
        return self.put(key, read_source(source, found), **settings)

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Remove a file."""
        self.inner.delete(key, etag=etag)
        spared = self.inner.head(key) is not None
        if not spared:
            self.objects.pop(key, None)
        self.log.append(Operation(area=self.area, verb="delete", key=key, refused=spared))


class MirroredStore:
    """A ``LocalStore`` whose content can be inspected like that of a ``MemoryStore``.

    Args:
        folder: An empty folder.
        base_url: Address of the public area, ending in ``/``.
        now: Gives the files' times.
    """

    def __init__(self, folder: str, *, base_url: str, now: Callable[[], datetime]) -> None:
        self.local = LocalStore(Path(folder) / "maps", base_url=base_url)
        self.base_url, self.index_name = base_url, self.local.index_name
        self.single_writer = False
        self.log: list[Operation] = []
        opened = self.local.open()
        public, state = self.local.folders()
        self.public = MirroredObjects("public", opened.public, public, self.log, now)
        self.state = MirroredObjects("state", opened.state, state, self.log, now)

    def open(self) -> Store:
        """Return the areas."""
        return Store(
            public=self.public,
            state=self.state,
            base_url=self.base_url,
            index_name=self.index_name,
            cache_control=self.local.cache_control,
            shard_cache_control=self.local.shard_cache_control,
            enforces_conditions=True,
        )

    @property
    def uri(self) -> str:
        """Address of the public area."""
        return self.local.uri

    def console_url(self) -> str:
        """Return an empty text: there is no web console."""
        return ""

    def describe(self) -> str:
        """Return the public address for logs."""
        return f"a folder for {self.base_url}"
