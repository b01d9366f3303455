"""The join of a range's entries with what is known of its URLs, and the Parquet file that holds the result."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps import ledger as part
from airflow_sitemaps.ledger.join import EarlierRows, RangeLedger
from airflow_sitemaps.protocol import CURRENT, RowContext
from airflow_sitemaps.protocol.columnar.batch import clean
from airflow_sitemaps.protocol.columnar.elements import elements, lastmod_texts
from airflow_sitemaps.protocol.rules import Tally, rulebook_of

NOW = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
PAST = [NOW - timedelta(days=days) for days in (1, 2, 30)]
BASE = "https://www.example.com/"
CONTEXT = RowContext(
    base_url=BASE,
    cross_submit=(),
    rulebook=rulebook_of(),
    limits=CURRENT,
    max_urls=50_000,
    now=NOW,
    format="xml",
    kind="pages",
    section="pages",
    timezone="UTC",
    feeds_since=None,
    template="",
)
NAMES = st.sampled_from("abcdefghij&'é")
PRINTS = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
LASTMODS = st.sampled_from((None, "2026-01-02", "2026-01-02T03:04:05Z", "1999-12-31T23:59:59Z"))


def batch(rows: list[tuple[str, int, str | None]], start: int = 0) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "loc": pa.array([BASE + name for name, _, _ in rows], pa.string()),
            "key": pa.array(range(start, start + len(rows)), pa.int64()),
            "row_hash": pa.array([fingerprint for _, fingerprint, _ in rows], pa.int64()),
            "lastmod": pa.array([lastmod for _, _, lastmod in rows], pa.string()),
        }
    )


def judged(rows: list[tuple[str, int, str | None]], earlier: EarlierRows | None, cut: int = 1_000) -> Any:
    batches = [batch(rows[start : start + cut], start) for start in range(0, len(rows), cut)]
    pieces = [clean(each, CONTEXT, Tally()) for each in batches]
    ledger = RangeLedger(earlier, NOW, "a kind")
    return ledger.judge(pieces, [b["key"] for b in batches], [b["row_hash"] for b in batches])


@given(
    now=st.lists(st.tuples(NAMES, PRINTS, LASTMODS), min_size=1, max_size=12, unique_by=lambda row: row[0]),
    old=st.lists(
        st.tuples(NAMES, st.one_of(st.none(), PRINTS), st.sampled_from([None, *PAST]), st.sampled_from([None, *PAST])),
        max_size=12,
    ),
    cut=st.integers(min_value=1, max_value=5),
    same_kind=st.booleans(),
    same_prints=st.booleans(),
)
def test_the_join_equals_a_look_up_of_each_url(now, old, cut, same_kind, same_prints):
    if same_prints:
        prints = {name: fingerprint for name, fingerprint, _ in now}
        old = [(name, prints.get(name, fingerprint), *rest) for name, fingerprint, *rest in old]
    locs = {name: clean(batch([(name, 0, None)]), CONTEXT, Tally()).loc[0].as_py() for name, *_ in (*now, *old)}
    rows = pa.table(
        [[locs[each[0]] for each in old], *([each[n] for each in old] for n in (1, 2, 3))],
        schema=pa.schema([part.SCHEMA.field(name) for name in part.JOINED]),
    ).replace_schema_metadata({b"airflow_sitemaps.fingerprint": b"a kind" if same_kind else b"another"})
    result = judged(now, EarlierRows.of([rows.slice(0, 3), rows.slice(3)], "a kind"), cut)
    known: dict[str, Any] = {}
    for name, fingerprint, first, changed in old:
        known.setdefault(locs[name], (fingerprint if same_kind else None, first, changed))
    wanted, counts = [], {"fresh": 0, "changed": 0, "unjudged": 0}
    for number, (name, fingerprint, lastmod) in enumerate(now):
        before, first, changed = known.get(locs[name], ("new", NOW, None))
        if before == "new":
            counts["fresh"] += 1
        elif before is None:
            counts["unjudged"] += 1
        elif before != fingerprint:
            counts["changed"] += 1
            changed = NOW
        wanted.append((locs[name], f"[{number}]", lastmod, fingerprint, first, changed))
    written = part.decode(result.data)
    assert [tuple(row.values()) for row in written.to_pylist()] == wanted
    assert {name: getattr(result, name) for name in counts} == counts
    assert part.kind_of(written) == "a kind"


@given(st.lists(LASTMODS, max_size=9))
def test_lastmods_are_recorded_as_they_are_listed(lastmods):
    cleaned = clean(batch([(str(n), 0, lastmod) for n, lastmod in enumerate(lastmods)]), CONTEXT, Tally())
    assert lastmod_texts(cleaned.lastmods).to_pylist() == lastmods
    if lastmods:
        body = "".join(elements(cleaned, escape_loc=True).to_pylist()).encode()
        rebuilt = part.rows_of_body(body, is_text=False)
        assert rebuilt.column("loc").to_pylist() == cleaned.loc.to_pylist()
        assert rebuilt.column("lastmod").to_pylist() == lastmods


def test_a_body_gives_the_urls_of_a_missing_part_as_they_are_listed():
    rows = [("a?b=1&c='2'", 0, None), ("é", 0, "2026-01-02")]
    cleaned = clean(batch(rows), CONTEXT, Tally())
    body = "".join(elements(cleaned, escape_loc=True).to_pylist()).encode()
    body = b'<?xml version="1.0" encoding="UTF-8"?>\n<urlset>\n' + body.replace(
        b"</url>", b"<image:image><image:loc>https://cdn.example.com/i.png</image:loc></image:image></url>"
    )
    rebuilt = part.rows_of_body(body, is_text=False)
    assert rebuilt.column("loc").to_pylist() == cleaned.loc.to_pylist()
    assert rebuilt.column("fingerprint").null_count == 2
    lines = part.rows_of_body(b"https://www.example.com/a&b\nhttps://www.example.com/c\n", is_text=True)
    assert lines.column("loc").to_pylist() == ["https://www.example.com/a&b", "https://www.example.com/c"]


def test_equal_rows_give_equal_bytes_that_any_reader_of_parquet_understands():
    rows = [(f"p/{n}", n, "2026-01-02") for n in range(1_000)]
    data = judged(rows, None).data
    assert data == judged(rows, None, cut=77).data
    read = pq.read_table(pa.BufferReader(data))
    assert read.schema.names == part.SCHEMA.names
    assert [str(field.type) for field in read.schema][3:] == ["int64", "timestamp[ms, tz=UTC]", "timestamp[ms, tz=UTC]"]


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet" * 10])
def test_damaged_bytes_are_no_part(data):
    with pytest.raises(ValueError, match="no ledger part"):
        part.decode(data)


def test_a_parquet_file_of_other_columns_is_no_part():
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"loc": ["a"]}), sink)
    with pytest.raises(ValueError, match="no ledger part"):
        part.decode(sink.getvalue().to_pybytes())
