"""Entries with three images and five alternates beside plain ones: URLs per CPU second of rendering and compressing.

    python -m benchmarks.rich [ROWS]

Both kinds run in turn in one process, five times after a warm-up; medians are printed, and their ratio.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timezone
from statistics import median

import pyarrow as pa

from airflow_sitemaps.protocol import CURRENT, RowContext
from airflow_sitemaps.protocol.rules import rulebook_of
from airflow_sitemaps.shards.stream import ShardStream
from airflow_sitemaps.shards.url_sample import level_of

REPETITIONS = 5
SECTION_ROWS = 1_000_000
"""Rows of the section that the rows are taken from; the sample of a smaller one holds more of its URLs."""
LANGUAGES = ("de", "en", "fr", "es", "it")


def batch(rows: int, *, rich: bool) -> pa.RecordBatch:
    """Rows as a source gives them."""
    locs = [f"https://www.acme.example/product/{n}/a-thing-with-a-slug-{n % 97}?ref=1&lang=de" for n in range(rows)]
    columns = {
        "range": pa.array([0] * rows, pa.int32()),
        "row_hash": pa.array(range(rows), pa.uint64()),
        "key": pa.array([f"[{n}]" for n in range(rows)]),
        "loc": pa.array(locs),
        "lastmod": pa.array([1_700_000_000_000_000 + n * 10**6 for n in range(rows)], pa.timestamp("us", "UTC")),
    }
    if rich:
        columns["images"] = pa.array(
            [json.dumps([{"loc": f"https://img.acme.example/{n}-{i}.jpg"} for i in range(3)]) for n in range(rows)]
        )
        columns["alternates"] = pa.array(
            [
                json.dumps([{"hreflang": code, "href": f"https://www.acme.example/{code}/{n}"} for code in LANGUAGES])
                for n in range(rows)
            ]
        )
    return pa.RecordBatch.from_pydict(columns)


def cpu_s(rows: pa.RecordBatch, judge: RowContext) -> float:
    """CPU seconds to render and compress the rows, cut into files where they do not fit into one."""
    begun = time.process_time()
    stream = ShardStream(judge, "fast", level_of(SECTION_ROWS))
    for start in range(0, rows.num_rows, 16_384):
        stream.add(rows.slice(start, 16_384))
    stream.finish()
    return time.process_time() - begun


def main() -> None:
    """Measure and print."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    judge = RowContext(
        base_url="https://www.acme.example/",
        rulebook=rulebook_of(),
        limits=CURRENT,
        max_urls=50_000,
        now=datetime.now(timezone.utc),
    )
    batches = {name: batch(rows, rich=name == "rich") for name in ("plain", "rich")}
    times: dict[str, list[float]] = {name: [] for name in batches}
    for repetition in range(REPETITIONS + 1):
        for name, made in batches.items():
            spent = cpu_s(made, judge)
            if repetition:
                times[name].append(spent)
    speeds = {name: rows / median(found) for name, found in times.items()}
    for name, speed in speeds.items():
        print(f"{name:>6}: {speed:>10,.0f} URLs per CPU second")
    print(
        f" ratio: {speeds['plain'] / speeds['rich']:.1f} plain entries in the time of one with 3 images and 5 alternates"
    )


if __name__ == "__main__":
    main()
