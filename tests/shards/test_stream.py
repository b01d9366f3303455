"""The stream of shard files: limits, keys that stay together, equal bytes however the rows are cut."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_sitemaps.errors import RefusedError, RuleError
from airflow_sitemaps.protocol.gzip import decompress
from airflow_sitemaps.protocol.markup import FOOTER, header
from airflow_sitemaps.protocol.rules import Tally
from airflow_sitemaps.shards.ranges import MODULUS, total
from airflow_sitemaps.shards.shard_file import ShardFile
from airflow_sitemaps.shards.stream import ShardStream
from tests.support.reference_renderer import row_context, small

if TYPE_CHECKING:
    from airflow_sitemaps.protocol import RowContext

BASE = "https://example.com/"


def rows_of(
    keys: list[int], *, bad: frozenset[int] = frozenset(), locs: list[str] | None = None
) -> list[dict[str, Any]]:
    """One row a key; rows whose number is in ``bad`` have no URL."""
    return [
        {
            "range": 0,
            "row_hash": (number * 0x9E3779B97F4A7C15 + key) % MODULUS,
            "key": json.dumps([key]),
            "loc": None if number in bad else locs[number] if locs else f"{BASE}{number}",
            "lastmod": 1_700_000_000_000_000 + number * 1_000_000,
        }
        for number, key in enumerate(keys)
    ]


SCHEMA = pa.schema(
    [
        ("range", pa.int32()),
        ("row_hash", pa.uint64()),
        ("key", pa.string()),
        ("loc", pa.string()),
        ("lastmod", pa.timestamp("us", "UTC")),
    ]
)


def table(rows: list[dict[str, Any]], **more: list[Any]) -> pa.RecordBatch:
    columns = [pa.array([row[f.name] for row in rows], pa.int64() if f.name == "lastmod" else f.type) for f in SCHEMA]
    columns[4] = columns[4].cast(SCHEMA.field("lastmod").type)
    batch = pa.record_batch(columns, schema=SCHEMA)
    for name, values in more.items():
        batch = batch.append_column(name, pa.array(values, pa.string()))
    return batch


def stream(data: pa.RecordBatch, context: RowContext, cuts: list[int], preset: Any = "fast") -> list[ShardFile]:
    target = ShardStream(context, preset)
    files: list[ShardFile] = []
    edges = sorted({0, data.num_rows, *(cut % (data.num_rows + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        files += target.add(data.slice(start, end - start))
    return files + target.finish()


def xml(file: ShardFile) -> bytes:
    assert file.body is not None
    return decompress(file.body, max_byte_size=10**8)


def locs(file: ShardFile) -> list[str]:
    return [] if file.body is None else re.findall(r"<loc>([^<]*)</loc>", xml(file).decode())


def greedy(data: pa.RecordBatch, context: RowContext) -> list[list[str]]:
    """The URLs of each file by the rule said simply: groups of one key, in order, while the file has room."""
    groups: dict[str, list[str]] = {}
    for row in data.to_pylist():
        groups.setdefault(row["key"], []).extend([row["loc"]] if row["loc"] else [])
    files: list[list[str]] = [[]]
    frame, entry = len(header()) + len(FOOTER), len("<url><loc></loc><lastmod>2023-11-14T22:13:20Z</lastmod></url>\n")
    for group in groups.values():
        both = files[-1] + group
        size = frame + sum(entry + len(loc) for loc in both)
        if len(both) > context.max_urls or size > context.limits.max_byte_size:
            files.append(list(group))
        else:
            files[-1] = both
    return files


KEYS = st.lists(st.integers(1, 5), max_size=40).map(
    lambda runs: [n for n, length in enumerate(runs) for _ in range(length)]
)


@given(
    keys=KEYS,
    bad=st.frozensets(st.integers(0, 60), max_size=30),
    cuts=st.lists(st.integers(0, 200), max_size=6),
    other_cuts=st.lists(st.integers(0, 200), max_size=6),
    max_urls=st.integers(5, 30),
    max_byte_size=st.sampled_from([800, 1_200, 2_500, 10**6]),
    piece_rows=st.sampled_from([1, 3, 7, 8_192]),
)
@settings(max_examples=250, deadline=None)
def test_the_law_of_cutting(
    keys: list[int],
    bad: frozenset[int],
    cuts: list[int],
    other_cuts: list[int],
    max_urls: int,
    max_byte_size: int,
    piece_rows: int,
) -> None:
    context = row_context(max_urls=max_urls, limits=small(max_byte_size))
    rows = rows_of(keys, bad=bad)
    data = table(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_sitemaps.shards.stream.SLICE_ROWS", piece_rows)
        files = stream(data, context, cuts)
    others = stream(data, context, other_cuts)

    assert [f.body for f in files] == [f.body for f in others]
    assert [(f.first_key, f.last_key, f.digest) for f in files] == [(f.first_key, f.last_key, f.digest) for f in others]
    assert [locs(f) for f in files] == greedy(data, context)
    assert total(f.digest for f in files).rows == len(rows)
    assert total(f.digest for f in files).checksum == sum(row["row_hash"] for row in rows) % MODULUS
    assert sum(f.tally.dropped.get("loc-missing", 0) for f in files) == sum(1 for n in range(len(rows)) if n in bad)
    assert files[0].first_key is None
    for left, right in pairwise(files):
        assert right.first_key is not None
        assert left.last_key != right.first_key
    for file in files:
        assert (file.body is None) == (file.urls == 0)
        if file.body is not None:
            content = xml(file)
            assert len(content) == file.xml_byte_size <= max_byte_size
            assert blake3(content).hexdigest() == file.xml_hash
            assert len(locs(file)) == file.urls <= max_urls


def test_a_range_without_rows_gives_one_empty_file() -> None:
    files = ShardStream(row_context(), "fast").finish()
    assert [(f.first_key, f.last_key, f.body, f.urls, f.xml_hash) for f in files] == [(None, None, None, 0, "")]
    assert files[0].digest.rows == 0


@pytest.mark.parametrize("cuts", [[], [3], list(range(60))])
def test_a_key_with_more_rows_than_a_file_is_refused(cuts: list[int]) -> None:
    data = table(rows_of([1, 2, *[7] * 21, 8]))
    with pytest.raises(RefusedError, match=r"section 'products': .*21 rows share the key \[7\].* holds 20 URLs"):
        stream(data, row_context(max_urls=20), cuts)


@pytest.mark.parametrize("cuts", [[], [3], [30], list(range(60))])
def test_rows_that_are_left_out_do_not_make_a_key_too_large(cuts: list[int]) -> None:
    data = table(rows_of([1, *[7] * 40, 8], bad=frozenset(range(10, 35))))
    files = stream(data, row_context(max_urls=20), cuts)
    assert [file.urls for file in files] == [17]
    assert sum(file.tally.dropped["loc-missing"] for file in files) == 25


def test_a_key_that_is_too_large_in_bytes_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"5 rows share the key \[7\]"):
        stream(table(rows_of([1, *[7] * 5, 8])), row_context(limits=small(500)), [])


def test_a_key_over_many_batches_stays_whole() -> None:
    data = table(rows_of([*range(95), *[1_000] * 90, *range(2_000, 2_010)]))
    files = stream(data, row_context(max_urls=100), list(range(0, 195, 10)))
    assert [f.urls for f in files] == [95, 100]
    assert files[1].first_key == "[1000]"


DOUBLED = [f"{BASE}{n % 40}" for n in range(100)]


def test_duplicates_within_a_file_are_left_out() -> None:
    data = table(rows_of(list(range(100)), locs=DOUBLED))
    whole, *rest = stream(data, row_context(), [33, 77])
    assert not rest
    assert locs(whole) == DOUBLED[:40]
    assert whole.urls == 40
    assert whole.digest.rows == 100
    assert whole.tally.dropped == {"loc-duplicate": 60}
    assert whole.tally.samples["loc-duplicate"] == [f"{loc} (key [{n}])" for n, loc in enumerate(DOUBLED[:5], 40)]
    assert whole.newest_lastmod == "2023-11-14T22:13:59Z"
    unique = stream(table(rows_of(list(range(40)))), row_context(), [])[0]
    assert whole.body == unique.body
    assert whole.xml_hash == unique.xml_hash


def test_duplicates_in_other_files_are_not_seen() -> None:
    files = stream(table(rows_of(list(range(100)), locs=DOUBLED)), row_context(max_urls=40), [])
    assert [f.urls for f in files] == [40, 40, 20]
    assert not any(f.tally.dropped for f in files)


def test_duplicates_by_other_verdicts() -> None:
    data = table(rows_of(list(range(100)), locs=DOUBLED))
    kept = stream(data, row_context(rules={"loc-duplicate": "keep"}), [])[0]
    assert kept.urls == 100
    assert kept.tally.fixed == {"loc-duplicate": 60}
    with pytest.raises(RuleError, match="loc-duplicate"):
        stream(data, row_context(rules={"loc-duplicate": "fail"}), [])


def test_namespaces_only_where_a_file_uses_them() -> None:
    images: list[str | None] = [None] * 30
    images[25] = '[{"loc": "https://example.com/i.png?a&b"}]'
    files = stream(table(rows_of(list(range(30))), images=images), row_context(max_urls=20), [7])
    assert b"xmlns:image" not in xml(files[0])
    assert b'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"' in xml(files[1])
    assert b"i.png?a&amp;b<" in xml(files[1])
    without = stream(table(rows_of(list(range(30)))), row_context(max_urls=20), [])
    assert files[0].body == without[0].body


def test_text_files() -> None:
    data = table(rows_of(list(range(5)), locs=[f"{BASE}ä?a={n}&b='" for n in range(5)]))
    only = stream(data, row_context(format="text"), [2])[0]
    assert xml(only) == "".join(f"{BASE}%C3%A4?a={n}&b='\n" for n in range(5)).encode()
    assert only.urls == 5
    assert only.newest_lastmod is None
    twice = stream(table(rows_of([1, 2], locs=[BASE, BASE])), row_context(format="text"), [])[0]
    assert xml(twice) == f"{BASE}\n".encode()
    cut = stream(data, row_context(format="text", limits=small(100)), [])
    assert [len(xml(f)) for f in cut] == [70, 70, 35]


def test_presets_hold_the_same_xml() -> None:
    data = table(rows_of(list(range(2_000))))
    fast, small_ = (stream(data, row_context(), [], preset)[0] for preset in ("fast", "small"))
    assert fast.body != small_.body
    assert fast.xml_hash == small_.xml_hash
    assert len(small_.body or b"") < len(fast.body or b"")


def test_what_a_file_says_of_itself() -> None:
    data = table(rows_of([3, 4]), changefreq=["daily", "often"])
    future = int(datetime(2026, 3, 2, tzinfo=timezone.utc).timestamp()) * 1_000_000
    data = data.set_column(4, "lastmod", pa.array([future, 1_700_000_000_999_999]).cast(pa.timestamp("us", "UTC")))
    file = stream(data, row_context(), [1])[0]
    assert file.newest_lastmod == "2023-11-14T22:13:20Z"
    assert file.digest.newest == "2026-03-02T00:00:00.000000Z"
    assert file.recheck_at == datetime(2026, 3, 2, tzinfo=timezone.utc)
    assert file.tally == Tally(
        fixed={"lastmod-future": 1, "changefreq": 1},
        samples={
            "lastmod-future": ["2026-03-02 00:00:00.000000Z (https://example.com/0; key [3])"],
            "changefreq": ["often (https://example.com/1; key [4])"],
        },
    )


def test_signed_hashes_sum_as_unsigned() -> None:
    data = table(rows_of([1, 2]))
    signed = data.set_column(1, "row_hash", pa.array([-1, 2], pa.int64()))
    assert stream(signed, row_context(), [])[0].digest.checksum == 1


def test_count_limit_at_the_protocols_number() -> None:
    files = stream(table(rows_of(list(range(50_001)))), row_context(), [12_345, 40_000])
    assert [f.urls for f in files] == [50_000, 1]
    assert files[1].first_key == "[50000]"


def test_a_newest_lastmod_that_is_no_text() -> None:
    data = table(rows_of([1, 2])).drop_columns(["lastmod"])
    broken = pa.array([b"2024-01-01", b"\xff"], pa.binary()).view(pa.string())
    file = stream(data.append_column("lastmod", broken), row_context(), [])[0]
    assert file.digest.newest == "\ufffd"
    assert file.newest_lastmod == "2024-01-01"
