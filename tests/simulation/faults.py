"""A store that fails on demand: lost answers, late puts, and crashes before or after a call.

Wrap any store in ``FaultyStore``, and define by rules which calls fail::

    faults = Faults().on("put", "manifest*", Fault.LOST_ANSWER)
    sitemap = Sitemap(store=FaultyStore(MemoryStore(), faults), sections=[...])
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.ports import ObjectInfo, PutMode, PutOutcomeError, Store, StoredObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from random import Random

    from airflow_sitemaps.ports import ObjectStore, StoreConfig

_T = TypeVar("_T")
Verb = Literal["get", "head", "put", "list", "delete"]
READS: Final = ("get", "head", "list")


class Fault(Enum):
    """The way in which a call fails, and whether it takes effect."""

    LOST_REQUEST = "lost request"
    """The call has no effect and gets no answer."""
    LOST_ANSWER = "lost answer"
    """The call takes effect and gets no answer."""
    LATE = "late"
    """The call gets no answer. A put or delete takes effect at ``Faults.land``, if its condition then holds."""
    REFUSED = "412"
    """A put is refused although its condition may hold, as after the client's own retry of a put that took effect."""
    REFUSED_AFTER = "412 after"
    """A put takes effect and is then refused, because the client's own retry met the object of the first attempt."""
    CONFLICT = "409"
    """A put is rejected because another one is in progress. It has no effect."""
    UNAVAILABLE = "503"
    """The store is too busy. The call has no effect."""
    STALE = "stale"
    """A read returns what the last read of the same key or prefix returned, like a replica that is behind."""
    CRASH_BEFORE = "crash before"
    """The process dies before the call takes effect."""
    CRASH_AFTER = "crash after"
    """The process dies after the call took effect."""


class SimulatedCrash(BaseException):
    """The process died at this point. It is a ``BaseException``, so that no ``except Exception`` catches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call to a store.

    Attributes:
        number: Number of the call, counted from 1 over both areas.
        area: Area of the store.
        verb: Name of the method.
        key: Key of the object, or prefix of a listing.
        mode: Condition of a put. None: the call is not a put.
    """

    number: int
    area: Literal["public", "state"]
    verb: Verb
    key: str
    mode: PutMode | None = None


Chooser = Callable[[Call], Fault | None]
"""Returns the fault of a call, or None if the call succeeds."""


@dataclass(slots=True)
class Faults:
    """Rules that decide which calls fail. Both areas of a store and all who open it share them. Thread-safe.

    Attributes:
        before: Called with each call before it. A scheduler waits here, a clock advances, or another run acts.
        after: Called with each call after it.
        calls: All calls so far.
        struck: The calls that failed.
        answers: The last answer to each read.
    """

    chooser: Chooser | None = None
    before: Callable[[Call], None] | None = None
    after: Callable[[Call], None] | None = None
    calls: list[Call] = field(default_factory=list)
    struck: list[tuple[Call, Fault]] = field(default_factory=list)
    answers: dict[tuple[str, str, str], object] = field(default_factory=dict)
    _rules: list[_Rule] = field(default_factory=list)
    _late: list[tuple[Call, Callable[[], object]]] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def on(
        self, verb: Verb | Literal["*"], pattern: str, fault: Fault, *, area: str = "*", after: int = 0, times: int = 1
    ) -> Faults:
        """Let matching calls fail.

        Args:
            verb: Name of the method, or ``*`` for all.
            pattern: Pattern of the keys, as in ``fnmatch``.
            fault: How the calls fail.
            area: Area of the store. Default: ``*``, both.
            after: Number of matching calls that succeed first. Default: 0.
            times: Number of calls that fail. Default: 1.

        Returns:
            This object.
        """
        self._rules.append(_Rule(verb, pattern, fault, area, after, times))
        return self

    def at(self, number: int, fault: Fault) -> Faults:
        """Let the call with this number fail; 1 is the first call. Return this object."""
        earlier = self.chooser
        self.chooser = lambda call: fault if call.number == number else earlier(call) if earlier else None
        return self

    def chosen(
        self, area: Literal["public", "state"], verb: Verb, key: str, mode: PutMode | None
    ) -> tuple[Call, Fault | None]:
        """Count a call and return its fault, or None."""
        with self._lock:
            call = Call(number=len(self.calls) + 1, area=area, verb=verb, key=key, mode=mode)
            self.calls.append(call)
            fault = next((rule.fault for rule in self._rules if rule.strikes(call)), None)
            if fault is None and self.chooser is not None:
                fault = self.chooser(call)
            if fault is not None:
                self.struck.append((call, fault))
            return call, fault

    def hold(self, call: Call, action: Callable[[], object]) -> None:
        """Delay a call until ``land``."""
        with self._lock:
            self._late.append((call, action))

    @property
    def on_the_way(self) -> int:
        """Number of delayed calls that have not taken effect."""
        return len(self._late)

    def land(self, number: int | None = None) -> list[Call]:
        """Let delayed calls take effect, oldest first and at most ``number``. Return those whose condition held."""
        with self._lock:
            arriving = self._late[:number]
            del self._late[: len(arriving)]
        landed = []
        for call, action in arriving:
            try:
                action()
            except PutOutcomeError:  # the store refused it, as it would any other
                continue
            landed.append(call)
        return landed


def seeded(random: Random, rate: float, faults: tuple[Fault, ...] = tuple(Fault)) -> Chooser:
    """Let a fraction ``rate`` (0 to 1) of all calls fail, with faults drawn at random from ``faults``."""
    return lambda _: random.choice(faults) if random.random() < rate else None


@dataclass(slots=True)
class _Rule:
    verb: str
    pattern: str
    fault: Fault
    area: str
    after: int
    times: int

    def strikes(self, call: Call) -> bool:
        """Count a call if it matches, and return whether it fails."""
        if self.verb not in ("*", call.verb) or self.area not in ("*", call.area):
            return False
        if not fnmatchcase(call.key, self.pattern) or self.times <= 0:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultyObjects:
    """One area of a store whose calls fail as ``faults`` decides. It implements ``ports.ObjectStore``."""

    area: Literal["public", "state"]
    inner: ObjectStore
    faults: Faults

    @property
    def place(self) -> str:
        """Key under which the capability probe caches its result, different from that of the wrapped store."""
        return f"faulty:{id(self.faults)}:{self.inner.url('')}"

    def url(self, key: str) -> str:
        """Return the address of an object, for messages."""
        return self.inner.url(key)

    def get(self, key: str) -> StoredObject | None:
        """Return an object, or fail as the faults decide."""
        return self._called("get", key, lambda: self.inner.get(key))

    def head(self, key: str) -> ObjectInfo | None:
        """Return the info of an object, or fail as the faults decide."""
        return self._called("head", key, lambda: self.inner.head(key))

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
        """Store an object, or fail as the faults decide. A late put takes effect at ``Faults.land``."""
        held = dict(metadata)

        def write() -> str:
            return self.inner.put(
                key, body, mode=mode, metadata=held, content_type=content_type, cache_control=cache_control
            )

        return self._called("put", key, write, mode)

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
        """Copy an object as one call, or fail as the faults decide."""
        held = dict(metadata)
        inner = source.inner if isinstance(source, FaultyObjects) else source

        def write() -> str:
            return self.inner.copy(
                inner, found, key, mode=mode, metadata=held, content_type=content_type, cache_control=cache_control
            )

        return self._called("put", key, write, mode)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects under a prefix, or fail as the faults decide."""
        yield from self._called("list", prefix, lambda: tuple(self.inner.list(prefix)))

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Delete an object, or fail as the faults decide."""
        self._called("delete", key, lambda: self.inner.delete(key, etag=etag))

    def _called(self, verb: Verb, key: str, action: Callable[[], _T], mode: PutMode | None = None) -> _T:
        """Perform the call, or fail as its fault says."""
        call, fault = self.faults.chosen(self.area, verb, key, mode)
        if self.faults.before is not None:
            self.faults.before(call)
        try:
            if fault is not None and not (fault is Fault.STALE and verb in READS):
                return self._struck(call, fault, action)
            return action() if verb not in READS else self._read(call, action, stale=fault is Fault.STALE)
        finally:
            if self.faults.after is not None:
                self.faults.after(call)

    def _read(self, call: Call, action: Callable[[], _T], *, stale: bool) -> _T:
        """Answer a read, with the answer of the last one if it is stale."""
        key = (call.area, call.verb, call.key)
        if not stale or key not in self.faults.answers:
            self.faults.answers[key] = action()
        return self.faults.answers[key]  # type: ignore[return-value]

    def _struck(self, call: Call, fault: Fault, action: Callable[[], _T]) -> _T:
        """Perform a call that fails. Every path raises an error."""
        text = f"{call.verb} {self.inner.url(call.key)}: injected: {fault.value}"
        if fault is Fault.LATE and call.verb in ("put", "delete"):
            self.faults.hold(call, action)
        if fault in (Fault.LOST_ANSWER, Fault.REFUSED_AFTER, Fault.CRASH_AFTER):
            with suppress(PutOutcomeError):  # a refusal is an answer too, and as lost as any other
                action()
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            raise SimulatedCrash(text)
        if call.verb == "put":
            raise PutOutcomeError(text, definite=fault in (Fault.REFUSED, Fault.REFUSED_AFTER))
        raise StoreError(text)


class FaultyStore:
    """A store whose areas fail as ``faults`` decides. It implements ``ports.StoreConfig`` and wraps another store."""

    def __init__(self, inner: StoreConfig, faults: Faults) -> None:
        self.inner = inner
        self.faults = faults
        self.base_url = inner.base_url
        self.index_name = inner.index_name
        self.single_writer = inner.single_writer

    def open(self) -> Store:
        """Open the wrapped store."""
        store = self.inner.open()
        return Store(
            public=FaultyObjects(area="public", inner=store.public, faults=self.faults),
            state=FaultyObjects(area="state", inner=store.state, faults=self.faults),
            base_url=store.base_url,
            index_name=store.index_name,
            cache_control=store.cache_control,
            shard_cache_control=store.shard_cache_control,
            purge=store.purge,
            enforces_conditions=store.enforces_conditions,
            copies=store.copies,
        )

    @property
    def uri(self) -> str:
        """Address of the public area."""
        return self.base_url.rstrip("/")

    def console_url(self) -> str:
        """Return an empty text: there is no web console."""
        return ""

    def describe(self) -> str:
        """Return a description for logs."""
        return f"{self.inner.describe()}, with faults"
