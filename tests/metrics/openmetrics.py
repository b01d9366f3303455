"""What a StatsD server received, as samples over time in OpenMetrics' form, which Prometheus imports."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.statsd_server import StatsdServer

Key = tuple[str, str, tuple[tuple[str, str], ...]]
SCRAPE = timedelta(minutes=30)
"""Time between two samples."""


@dataclass
class Recorder:
    """Keeps the value of every metric as an exporter does: counters add up, gauges stay."""

    server: StatsdServer
    values: dict[Key, float] = field(default_factory=dict)
    samples: dict[Key, list[tuple[float, int]]] = field(default_factory=dict)
    _read: int = 0

    def record(self, moment: datetime, until_next: timedelta) -> None:
        """Take over what has come in, and sample all metrics from a time until the next run."""
        self._drain()
        for sample in self.server.samples[self._read :]:
            if sample.name.startswith("airflow.sitemaps."):
                key = (sample.name.replace(".", "_"), sample.kind, tuple(sorted(sample.tags.items())))
                before = self.values.get(key, 0.0) if sample.kind == "c" else 0.0
                self.values[key] = before + sample.value
        self._read = len(self.server.samples)
        for step in range(until_next // SCRAPE):
            at = int((moment + step * SCRAPE).timestamp())
            for key, value in self.values.items():
                self.samples.setdefault(key, []).append((value, at))

    def _drain(self) -> None:
        """Wait until the server has read all that was sent: it reads in order, so a last line is enough."""
        marker = f"marker.{self._read}.{len(self.samples)}"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.sendto(f"{marker}:1|c".encode(), ("127.0.0.1", self.server.port))
        self.server.wait_for(marker)

    def text(self) -> str:
        """Everything that was recorded."""
        lines: list[str] = []
        named = ""
        for name, kind, tags in sorted(self.samples):
            family = name
            if family != named:
                lines.append(f"# TYPE {family} {'counter' if kind == 'c' else 'gauge'}")
                named = family
            labels = ",".join(f'{tag}="{value}"' for tag, value in tags)
            suffix = "_total" if kind == "c" else ""
            lines += [f"{name}{suffix}{{{labels}}} {value} {at}" for value, at in self.samples[name, kind, tags]]
        return "\n".join([*lines, "# EOF", ""])
