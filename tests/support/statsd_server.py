"""A StatsD server on the loopback: it parses what a client sends over UDP, tags in InfluxDB's form included."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Sample:
    """One line of the StatsD protocol: ``name,tag=value:1|c``."""

    name: str
    kind: str
    value: float
    tags: dict[str, str]


@dataclass
class StatsdServer:
    """A running server; ``samples`` holds what has come in so far."""

    port: int
    samples: list[Sample] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def receive(self, datagram: bytes) -> None:
        with self._changed:
            for line in datagram.decode("ascii").splitlines():
                name, _, rest = line.partition(":")
                value, kind, *_ = rest.split("|")
                name, *tags = name.split(",")
                self.samples.append(Sample(name, kind, float(value), dict(tag.split("=", 1) for tag in tags)))
            self._changed.notify_all()

    def wait_for(self, name: str, **tags: str) -> Sample:
        """The last sample of a name with at least these tags, as soon as there is one."""

        def find() -> Sample | None:
            fitting = (s for s in reversed(self.samples) if s.name == name and tags.items() <= s.tags.items())
            return next(fitting, None)

        with self._changed:
            assert self._changed.wait_for(find, timeout=60), f"no {name} with {tags} in {self.samples}"
            sample = find()
        assert sample is not None
        return sample


@contextmanager
def statsd_server() -> Iterator[StatsdServer]:
    """Serve until the block ends."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        server = StatsdServer(port=udp.getsockname()[1])

        def serve() -> None:
            while datagram := udp.recv(65_536):
                server.receive(datagram)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", ("127.0.0.1", server.port))
            thread.join(10)
