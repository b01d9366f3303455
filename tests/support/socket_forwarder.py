"""A TCP port that leads to a Unix socket: PostgreSQL of the wheel listens on a socket only."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def forwarded(path: str) -> Iterator[int]:
    """Yield a port on 127.0.0.1 whose connections are passed on to the socket at ``path``."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as server:
                server.connect(path)
                back = threading.Thread(target=_pump, args=(server, self.request), daemon=True)
                back.start()
                _pump(self.request, server)
                back.join()

    class Server(ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        try:
            yield listener.server_address[1]
        finally:
            listener.shutdown()


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until the source ends, then end the target's input."""
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
