"""A proxy between us and a store, on loopback, that spoils chosen exchanges at the level of TCP."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Spoil(Enum):
    """What becomes of one exchange of request and answer."""

    RESET_BEFORE = "the connection is reset before the request is passed on"
    RESET_AFTER = "the store gets the request; its answer is dropped and the connection reset"
    HALF_REQUEST = "half of the request's body reaches the store, then both sides are cut off"
    HALF_ANSWER = "half of the answer's body comes back, then the connection ends"
    ANSWER_503 = "503 SlowDown, without asking the store"
    ANSWER_409 = "409 ConditionalRequestConflict, without asking the store"
    ANSWER_429 = "429 ServiceUnavailable, without asking the store, as R2 to a second write of a name within a second"
    ANSWER_500_AFTER = "the store gets the request; 500 InternalError comes back"
    SILENCE = "the store gets the request; no answer comes until the client gives up"
    LATE = "the client is reset; the store gets the request when the proxy is told to let it land"
    HELD = "the request is passed on when the proxy's ``released`` is set"


@dataclass(frozen=True)
class Exchange:
    """A request as the proxy saw it. ``number`` counts from 1."""

    number: int
    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Proxy:
    """Where to reach it, what to spoil, and what has passed. ``choose`` is called once per exchange."""

    endpoint: str = ""
    choose: Callable[[Exchange], Spoil | None] = lambda _: None
    seen: list[Exchange] = field(default_factory=list)
    late: list[bytes] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def spoil(self, method: str, *spoils: Spoil | None) -> None:
        """Spoil the next requests of a method, one after the other; those after them pass."""
        left = list(spoils)
        self.choose = lambda exchange: left.pop(0) if exchange.method == method and left else None

    def count(self, method: str) -> int:
        """How many requests of a method have come."""
        return sum(exchange.method == method for exchange in self.seen)


@contextmanager
def proxy_to(upstream: str) -> Iterator[Proxy]:
    """Run a proxy to an ``http://host:port`` address in a thread of its own."""
    proxy, started = Proxy(), threading.Event()
    loop = asyncio.new_event_loop()
    host, port = urlsplit(upstream).hostname, urlsplit(upstream).port
    stop: asyncio.Event

    async def serve() -> None:
        nonlocal stop
        stop = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                with suppress(ConnectionError, asyncio.IncompleteReadError):
                    await _converse(proxy, reader, writer, (str(host), int(port or 80)))
            finally:
                tasks.discard(task)
                writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        proxy.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        await stop.wait()
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


async def land(proxy: Proxy, upstream: str) -> list[bytes]:
    """Send the late requests on now; their answers' first lines are returned."""
    host, port = urlsplit(upstream).hostname, urlsplit(upstream).port
    waiting, proxy.late = proxy.late, []
    lines = []
    for request in waiting:
        answer = await _ask((str(host), int(port or 80)), request)
        lines.append(answer.partition(b"\r\n")[0])
    return lines


async def _converse(
    proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: tuple[str, int]
) -> None:
    """Requests of one connection, one after the other."""
    while True:
        head, headers = await _head(reader)
        if not head:
            return
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
        body = await _body(reader, headers)
        method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        exchange = Exchange(len(proxy.seen) + 1, method, path, headers)
        proxy.seen.append(exchange)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith((b"expect:", b"connection:"))]
        request = b"\r\n".join([*lines[:-2], b"Connection: close", b"", b""]) + body
        answer = await _answer(proxy, proxy.choose(exchange), request, len(body), upstream)
        if answer is None:
            writer.transport.abort()
            return
        writer.write(answer)
        await writer.drain()
        return  # the store closes after each answer, and so do we


async def _answer(
    proxy: Proxy, spoil: Spoil | None, request: bytes, body_size: int, upstream: tuple[str, int]
) -> bytes | None:
    """What the client gets: bytes, or None for a reset."""
    if spoil is Spoil.RESET_BEFORE:
        return None
    if spoil is Spoil.ANSWER_503:
        return _error(b"503 Service Unavailable", b"SlowDown")
    if spoil is Spoil.ANSWER_409:
        return _error(b"409 Conflict", b"ConditionalRequestConflict")
    if spoil is Spoil.ANSWER_429:
        return _error(b"429 Too Many Requests", b"ServiceUnavailable")
    if spoil is Spoil.LATE:
        proxy.late.append(request)
        return None
    while spoil is Spoil.HELD and not proxy.released.is_set():
        await asyncio.sleep(0.1)
    if spoil is Spoil.HALF_REQUEST:
        await _ask(upstream, request[: len(request) - body_size // 2 - 1], half=True)
        return None
    answer = await _ask(upstream, request)
    if spoil is Spoil.RESET_AFTER:
        return None
    if spoil is Spoil.ANSWER_500_AFTER:
        return _error(b"500 Internal Server Error", b"InternalError")
    if spoil is Spoil.SILENCE:
        await asyncio.sleep(3600)
    if spoil is Spoil.HALF_ANSWER:
        start = answer.index(b"\r\n\r\n") + 4
        return answer[: start + (len(answer) - start) // 2]
    return answer


async def _ask(upstream: tuple[str, int], request: bytes, *, half: bool = False) -> bytes:
    """Send bytes to the store and read until it closes; half a request is cut off after a moment."""
    reader, writer = await asyncio.open_connection(*upstream)
    try:
        writer.write(request)
        await writer.drain()
        if half:
            await asyncio.sleep(0.1)
            writer.transport.abort()
            return b""
        return await reader.read(-1)
    finally:
        writer.close()


async def _head(reader: asyncio.StreamReader) -> tuple[bytes, dict[str, str]]:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b"", {}
    lines = head.decode("latin-1").split("\r\n")[1:-2]
    return head, {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    """The request's body, as it stands on the wire."""
    if headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        body += line
        size = int(line.split(b";")[0], 16)
        body += await reader.readexactly(size + 2) if size else b""
        if size == 0:
            while (trailer := await reader.readuntil(b"\r\n")) != b"\r\n":
                body += trailer
            return body + b"\r\n"


def _error(status: bytes, code: bytes) -> bytes:
    xml = b"<?xml version='1.0'?><Error><Code>" + code + b"</Code><Message>injected</Message></Error>"
    headers = b"Content-Type: application/xml\r\nConnection: close\r\nx-amz-request-id: injected\r\n"
    return b"HTTP/1.1 " + status + b"\r\n" + headers + b"Content-Length: %d\r\n\r\n" % len(xml) + xml
