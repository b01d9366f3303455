"""Any sequence of calls gives the same answers from a folder as from memory."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from airflow_sitemaps.ports import Create, ObjectInfo, ObjectStore, Overwrite, PutMode, PutOutcomeError, Update
from airflow_sitemaps.stores.local import LocalStore
from airflow_sitemaps.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = "https://www.example.com/"
KEYS = st.sampled_from(["a", "b/c", "b/d", "b-", "é/ü"])
BODIES = st.sampled_from([b"", b"1", b"2"])
WRITERS = st.sampled_from(["w1", "w2", ""])


class StoresAgree(RuleBasedStateMachine):
    """Etags are those of S3, so even these agree."""

    def __init__(self) -> None:
        super().__init__()
        self.exits = ExitStack()
        folder = Path(self.exits.enter_context(tempfile.TemporaryDirectory()))
        self.config = LocalStore(folder / "maps", base_url=BASE)
        self.memory: ObjectStore = MemoryStore(base_url=BASE).open().public
        self.local: ObjectStore = self.config.open().public
        self.etags: list[str] = []

    def teardown(self) -> None:
        self.exits.close()

    def both(self, call: Callable[[ObjectStore], object]) -> None:
        assert self.answer(call, self.local) == self.answer(call, self.memory)

    @staticmethod
    def answer(call: Callable[[ObjectStore], object], area: ObjectStore) -> object:
        try:
            return call(area)
        except PutOutcomeError as e:
            return ("refused", e.definite)

    def put(self, key: str, body: bytes, mode: PutMode, writer: str) -> None:
        metadata = {"write-id": writer}
        self.both(lambda area: area.put(key, body, mode=mode, metadata=metadata, content_type="x"))
        there = self.memory.head(key)
        if there is not None:
            self.etags.append(there.etag)

    @rule(key=KEYS, body=BODIES, writer=WRITERS)
    def create(self, key: str, body: bytes, writer: str) -> None:
        self.put(key, body, Create(), writer)

    @rule(key=KEYS, body=BODIES, writer=WRITERS)
    def overwrite(self, key: str, body: bytes, writer: str) -> None:
        self.put(key, body, Overwrite(), writer)

    @precondition(lambda self: self.etags)
    @rule(key=KEYS, body=BODIES, writer=WRITERS, data=st.data())
    def update(self, key: str, body: bytes, writer: str, data: st.DataObject) -> None:
        self.put(key, body, Update(data.draw(st.sampled_from(self.etags))), writer)

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        self.both(lambda area: area.delete(key))

    @rule()
    def open_again(self) -> None:
        self.local = self.config.open().public

    @rule(prefix=st.sampled_from(["", "b", "b/", "é", "x"]))
    def lists(self, prefix: str) -> None:
        self.both(lambda area: [facts(info) for info in area.list(prefix)])

    @invariant()
    def the_same_lies_in_both(self) -> None:
        for key in ("a", "b/c", "b/d", "b-", "é/ü"):
            self.both(lambda area, key=key: facts(area.head(key)))  # type: ignore[misc]
            self.both(lambda area, key=key: (found := area.get(key)) and (found.body, facts(found.info)))  # type: ignore[misc]


def facts(info: ObjectInfo | None) -> object:
    """All of an info but its time."""
    return info and (info.key, info.etag, info.byte_size, dict(info.metadata))


TestStoresAgree = StoresAgree.TestCase
TestStoresAgree.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
