"""A mail server on the loopback: it accepts every message and keeps it."""

from __future__ import annotations

import email
import email.policy
import socketserver
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage


@contextmanager
def smtp_server() -> Iterator[tuple[int, list[EmailMessage]]]:
    """Serve until the block ends; yields the port and the messages."""
    messages: list[EmailMessage] = []

    class Session(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.answer("220 loopback")
            for line in self.rfile:
                command = line.decode().strip().upper()
                if command.startswith("DATA"):
                    self.answer("354 go on")
                    lines = []
                    for part in self.rfile:
                        if part == b".\r\n":
                            break
                        lines.append(part.removeprefix(b"."))
                    message = email.message_from_bytes(b"".join(lines), policy=email.policy.default)
                    messages.append(message)  # type: ignore[arg-type]
                self.answer("221 bye" if command.startswith("QUIT") else "250 ok")

        def answer(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1], messages
        finally:
            server.shutdown()
            thread.join(10)
