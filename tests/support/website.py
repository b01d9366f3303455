"""A small web server on the loopback, for tests."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping


@dataclass
class Page:
    """What is answered at a path."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    write: Callable[[Any], None] | None = None


def computed(answer: Callable[[Any], object]) -> Page:
    """A page that answers JSON, computed from the JSON of the request."""

    def write(handler: BaseHTTPRequestHandler) -> None:
        respond(handler, json.dumps(answer(json.loads(handler.body))).encode())  # type: ignore[attr-defined]

    return Page(write=write)


def respond(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, headers: Mapping[str, str] = {}) -> None:
    """Answer a request."""
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


@dataclass
class Site:
    """A running server: ``pages`` by path may be changed at any time; it records the requests.

    The page at a path with ``?*`` is answered for each query that has no page of its own.
    """

    base: str
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    """Serve until the block ends."""
    site = Site("")

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.body = self.rfile.read(length)
            site.asked.append((self.command, self.path, headers, self.body))
            of_any_query = site.pages.get(self.path.partition("?")[0] + "?*")
            page = site.pages.get(self.path) or of_any_query or Page(b"not here", 404)
            if page.write is not None:
                page.write(self)
                return
            respond(self, page.body, page.status, page.headers)

        do_GET = do_POST = do_PUT = answer

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            return

    server = Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    scheme = "http" if tls is None else "https"
    site.base = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
