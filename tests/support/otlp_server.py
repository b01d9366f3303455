"""A receiver of OpenTelemetry metrics on the loopback: OTLP over HTTP with protobuf, as a collector receives them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint


@dataclass(frozen=True)
class Point:
    """One data point of a metric."""

    name: str
    kind: str
    value: float
    tags: dict[str, str]


@dataclass
class OtlpServer:
    """A running receiver; ``points`` holds what has come in so far."""

    port: int
    points: list[Point] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def receive(self, body: bytes) -> None:
        request = ExportMetricsServiceRequest.FromString(body)
        with self._changed:
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        kind = metric.WhichOneof("data")
                        if kind in ("gauge", "sum"):
                            self.points += [_point(metric.name, kind, p) for p in getattr(metric, kind).data_points]
            self._changed.notify_all()

    def wait_for(self, name: str, **tags: str) -> Point:
        """The last point of a name with at least these attributes, as soon as there is one."""

        def find() -> Point | None:
            fitting = (p for p in reversed(self.points) if p.name == name and tags.items() <= p.tags.items())
            return next(fitting, None)

        with self._changed:
            assert self._changed.wait_for(find, timeout=120), (
                f"no {name} with {tags}; there are {sorted({p.name for p in self.points})}"
            )
            point = find()
        assert point is not None
        return point


def _point(name: str, kind: str, point: NumberDataPoint) -> Point:
    value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
    return Point(name, kind, float(value), {each.key: each.value.string_value for each in point.attributes})


@contextmanager
def otlp_server() -> Iterator[OtlpServer]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/x-protobuf"
            if self.path == "/v1/metrics":
                receiver.receive(body)
            answer = ExportMetricsServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = OtlpServer(int(server.server_address[1]))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
