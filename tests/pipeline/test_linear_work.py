"""Work and memory of a run grow no faster than the rows and bytes that it reads. Calls and bytes are counted, no clock is read."""

from __future__ import annotations

import ctypes
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from airflow_sitemaps import ShardPolicy
from airflow_sitemaps.shards.stream import ShardStream
from tests.support.calls import calls_of
from tests.support.environment import BASE, World, row
from tests.support.reference_renderer import row_context

FIELDS = ("lastmod", "changefreq", "priority", "images", "videos", "news", "alternates")
SLACK_BYTES = 300_000
"""Memory that a stream takes however little it reads: tables, a compressor's window."""
HOSTILE: dict[str, list[Any]] = {
    "loc": [f"{BASE}p/é", "&amp;" * 50, "https://elsewhere.example/", "\ud7ff\x00", f"{BASE}same"],
    "lastmod": ["2026-01-01", "soon", "0001-01-01", "2030-01-01T00:00:00Z"],
    "changefreq": ["daily", "hourly ", "at times"],
    "priority": ["0.5", "1e-400", "NaN"],
    "images": ["[" * 990, '[{"loc": "https://www.example.com/i.png"}]', BASE],
    "videos": ["{}", '{"title": NaN}', None],
    "alternates": [
        '{"group": [{"hreflang": "İd", "href": "/a"}]}',
        '[{"hreflang": "de", "href": "https://x.example/"}]',
    ],
}


def rows_of(number: int) -> list[dict[str, Any]]:
    """Rows of which most break a rule."""
    rows = []
    for key in range(number):
        values = {name: some[(key * 7 + at) % len(some)] for at, (name, some) in enumerate(HOSTILE.items())}
        rows.append(row(key, **(values if key % 2 else {**values, "loc": f"{BASE}p/{key}"})))
    return rows


def test_the_calls_of_a_run_grow_no_faster_than_its_rows() -> None:
    def world(number: int) -> World:
        extensions = {name: name for name in ("images", "videos", "alternates")}
        return World(rows_of(number), policy=ShardPolicy(), source_settings=extensions)

    world(300).build()
    small, large = (calls_of(world(number).build) for number in (300, 1_200))
    assert large <= 4.2 * small


def peak_of(batch: pa.RecordBatch) -> int:
    """The most memory that rendering a batch holds at one time, of Python and of Arrow."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(pool))  # tables that the package keeps until the process ends are of it
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        stream = ShardStream(row_context(base_url=BASE), "fast")
        stream.add(batch)
        stream.finish()
        return tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)


def one_row(name: str, text: str) -> pa.RecordBatch:
    values = {"key": "[1]", "loc": f"{BASE}a", name: text}
    columns = {each: pa.array([value], pa.string()) for each, value in values.items()}
    return pa.record_batch({"range": pa.array([0], pa.int32()), "row_hash": pa.array([1], pa.uint64()), **columns})


@pytest.mark.parametrize("unit", ["&amp;", "amp;", "[", '{"a":', '"', "é", "%", "\u200b", "\x00", "<a>", "0", "/"])
@pytest.mark.parametrize("name", ["loc", *FIELDS])
def test_the_memory_of_a_row_grows_no_faster_than_its_bytes(name: str, unit: str) -> None:
    lead = f"{BASE}?" if name == "loc" else ""
    small, large = (peak_of(one_row(name, lead + unit * (size // len(unit)))) for size in (100_000, 400_000))
    assert large <= 4.2 * small + SLACK_BYTES


def test_the_memory_of_a_section_grows_no_faster_than_its_rows() -> None:
    def batch(number: int) -> pa.RecordBatch:
        rows = rows_of(number)
        columns = {name: pa.array([each[name] for each in rows], pa.string()) for name in HOSTILE}
        keys = pa.array(range(number), pa.int64())
        return pa.record_batch({"range": pa.array([0] * number, pa.int32()), "row_hash": keys, "key": keys, **columns})

    peak_of(batch(100))
    small, large = (peak_of(batch(number)) for number in (2_000, 8_000))
    assert large <= 4.2 * small + SLACK_BYTES
