"""The law of rows, for any value of any type in any column.

One row never ends a run, never changes another row's fate, and never leaves the sitemap without being counted under a
rule, with a sample that carries its key. What is written is valid.
"""

from __future__ import annotations

import os
import re
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lxml import etree

from airflow_sitemaps.errors import RefusedError
from airflow_sitemaps.protocol import CURRENT
from airflow_sitemaps.protocol.gzip import decompress
from airflow_sitemaps.protocol.rules import RULES, SAMPLE_LIMIT, SAMPLES_PER_RULE, Tally
from airflow_sitemaps.shards.stream import ShardStream
from tests.support.file_checks import assert_no_error, assert_valid
from tests.support.hostile_values import SOURCES, TEXTS, W
from tests.support.reference_renderer import row_context

EXAMPLES = int(os.environ.get("SITEMAPS_LAW_EXAMPLES", "100"))
"""Set it higher to search longer; CI's time is for the rest."""

XSD = Path(__file__).parents[2].parent / "shared" / "xsd" / "all.xsd"

# ---------------------------------------------------------------- columns

INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 1_772_300_000, 1_772_300_000_000_000]))
UNITS = ["s", "ms", "us", "ns"]
ZONES = [None, "UTC", "Europe/Berlin", "+05:30", "Nowhere/Unknown"]


def as_ticks(kind: pa.DataType, width: pa.DataType, values: list[int | None]) -> pa.Array:
    return pa.array(values, width).view(kind)


def raw(kind: pa.DataType, values: list[Any]) -> pa.Array:
    data = [value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value for value in values]
    column = pa.array(data, pa.binary())
    if pa.types.is_dictionary(kind):
        return (
            column.dictionary_encode()
            if kind.value_type == pa.binary()
            else column.view(pa.string()).dictionary_encode()
        )
    return (
        column.view(pa.string())
        if kind == pa.string()
        else column.view(pa.string()).cast(kind)
        if kind == pa.large_string()
        else column.cast(kind)
    )


def encoded(shape: str, column: pa.Array) -> pa.Array:
    """The same values in another layout, or the column itself where Arrow has none for its type."""
    length, kind = len(column), column.type
    ends = pa.array(range(1, length + 1), pa.int32())
    if shape == "dictionary" and not pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(pa.array(range(length), pa.int32()), column)
    if shape == "runs":
        layout = pa.run_end_encoded(pa.int32(), kind)
        return pa.Array.from_buffers(layout, length, [None], children=[ends, column])
    if shape == "view" and kind in (pa.string(), pa.binary()):
        return column.view(pa.binary()).cast(pa.binary_view())
    if shape == "list":
        return pa.ListArray.from_arrays(pa.array(range(length + 1), pa.int32()), column)
    if shape == "record":
        return pa.StructArray.from_arrays([column], ["loc"])
    return column


@st.composite
def columns(draw: st.DrawFn, name: str, length: int) -> pa.Array:
    """A column for a field: mostly text, at times of any other type, and in any layout."""
    column = draw(plain_columns(name, length))
    shapes = ["plain"] * 6 + ["dictionary", "runs", "view", "list", "record"]
    for shape in draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=2)):
        column = encoded(shape, column)
    return column


@st.composite
def plain_columns(draw: st.DrawFn, name: str, length: int) -> pa.Array:

    def listed(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(st.one_of(values, values, st.none()), min_size=length, max_size=length))

    shape = draw(st.sampled_from(["text"] * 8 + ["bytes", "time", "number", "nested", "other"]))
    if name == "loc" and shape != "text" and draw(st.booleans()):
        shape = "text"
    if shape == "text":
        kinds = [pa.string()] * 4 + [
            pa.large_string(),
            pa.binary(),
            pa.large_binary(),
            pa.dictionary(pa.int32(), pa.string()),
        ]
        return raw(draw(st.sampled_from(kinds)), listed(SOURCES[name]))
    if shape == "bytes":
        return raw(draw(st.sampled_from([pa.string(), pa.binary()])), listed(st.binary(max_size=12)))
    if shape == "time":
        kind = draw(
            st.sampled_from(
                [
                    *(pa.timestamp(unit, zone) for unit in UNITS for zone in ZONES),
                    *(pa.duration(unit) for unit in UNITS),
                    *(pa.date64(), pa.date64(), pa.time64("us"), pa.time64("ns")),
                ]
            )
        )
        return as_ticks(kind, pa.int64(), listed(INT64))
    if shape == "number":
        kind, values = draw(
            st.sampled_from(
                [
                    (pa.int64(), INT64), (pa.uint64(), st.integers(0, 2**64 - 1)), (pa.float64(), st.floats()),
                    (pa.float32(), st.floats(width=32)), (pa.bool_(), st.booleans()),
                    (pa.float16(), st.floats(width=16)), (pa.decimal32(8, 2), st.sampled_from([Decimal("0.5"), Decimal("-9E5")])),
                    (pa.decimal256(76, 0), st.sampled_from([Decimal(1), Decimal("1E75")])),
                    (pa.decimal128(38, 20), st.sampled_from([Decimal("0.5"), Decimal("1E-20"), Decimal("99999.5")])),
                ]
            )
        )  # fmt: skip
        return pa.array(listed(values), kind)
    if shape == "nested":
        return draw(
            st.sampled_from(
                [
                    pa.array([["a"]] * length), pa.array([{"loc": f"{W}/i.png"}] * length), pa.array([[{"x": None}]] * length),
                    pa.nulls(length), pa.array([[date(2026, 1, 1), None]] * length),
                ]
            )
        )  # fmt: skip
    return as_ticks(
        draw(st.sampled_from([pa.date32(), pa.time32("s"), pa.time32("ms")])),
        pa.int32(),
        listed(st.integers(-(2**31), 2**31 - 1)),
    )


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    length = draw(st.integers(1, 6))
    names = ["loc", *draw(st.lists(st.sampled_from([name for name in SOURCES if name != "loc"]), unique=True))]
    keys = {
        "range": pa.array([0] * length, pa.int32()),
        "row_hash": pa.array(range(length), pa.uint64()),
        "key": pa.array([f"[{number}]" for number in range(1, length + 1)]),
    }
    return pa.record_batch({**keys, **{name: draw(columns(name, length)) for name in names}})


RULE_SETTINGS = st.one_of(
    st.just({}), st.fixed_dictionaries({}, optional={name: st.sampled_from([v.value for v in rule.allowed]) for name, rule in RULES.items()})
)  # fmt: skip
CONTEXTS = st.builds(
    lambda kind, zone, rules: row_context(kind=kind, timezone=zone, rules=rules),
    st.sampled_from(["pages", "pages", "news"]), st.sampled_from(["UTC", "Europe/Berlin"]), RULE_SETTINGS,
)  # fmt: skip

# ---------------------------------------------------------------- the law


def batch_of(**fields: pa.Array) -> pa.RecordBatch:
    """Rows with these fields, each with a URL of its own where none are given."""
    length = len(next(iter(fields.values())))
    numbers = range(1, length + 1)
    given = {
        "range": pa.array([0] * length, pa.int32()),
        "row_hash": pa.array(numbers, pa.uint64()),
        "key": pa.array([f"[{number}]" for number in numbers]),
        "loc": pa.array([f"{W}/{number}" for number in numbers]),
    }
    return pa.record_batch({**given, **fields})


def written(batch: pa.RecordBatch, context: Any) -> list[tuple[bytes, Tally, int]]:
    """The files of a batch: their XML (empty where there is none), what was counted, and the rows read."""
    stream = ShardStream(context, "fast")
    files = [*stream.add(batch), *stream.finish()]
    for file in files:
        if file.body is None:
            assert file.urls == 0
    return [
        (b"" if file.body is None else decompress(file.body, max_byte_size=CURRENT.max_byte_size), file.tally, file.digest.rows)
        for file in files
    ]  # fmt: skip


def assert_counted(tally: Tally, rows: int, urls: int) -> None:
    """Each row is listed, dropped or expired; each of the latter has a rule, and samples that carry keys."""
    assert urls + sum(tally.dropped.values()) + sum(tally.expired.values()) == rows
    for rule in {**tally.dropped, **tally.expired, **tally.fixed}:
        assert rule in RULES
        samples = tally.samples[rule]
        assert 1 <= len(samples) <= SAMPLES_PER_RULE
        for sample in samples:
            assert re.search(r"key \[\d+\]\)$", sample), sample
            assert len(sample) <= SAMPLE_LIMIT
            sample.encode("utf-8")


@given(batch=batches(), context=CONTEXTS)
@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
def test_any_value_in_any_column(batch: pa.RecordBatch, context: Any) -> None:
    is_default = all(context.rulebook[name] is rule.default for name, rule in RULES.items())
    try:
        files = written(batch, context)
    except RefusedError:
        assert not is_default
        return
    assert sum(rows for *_, rows in files) == batch.num_rows
    for body, tally, rows in files:
        urls = assert_valid(body) if body else 0
        assert_counted(tally, rows, urls)
        if body and is_default:
            assert_no_error(body)


DAYS = as_ticks(pa.date64(), pa.int64(), [1, 1_772_236_800_000, -1, -(2**63), 2**63 - 1])
"""Days as milliseconds, most of them not at midnight. Arrow refuses to cast these."""


@given(batch=batches(), context=CONTEXTS)
@example(batch=batch_of(lastmod=DAYS), context=row_context())
@example(batch=batch_of(lastmod=encoded("runs", DAYS)), context=row_context())
@example(batch=batch_of(images=encoded("list", raw(pa.string(), [b"\xff", b"{}"]))), context=row_context())
@example(batch=batch_of(loc=encoded("view", raw(pa.string(), [b"\xff", f"{W}/a".encode()]))), context=row_context())
@settings(
    deadline=None, max_examples=EXAMPLES // 2, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_a_row_never_changes_another_rows_fate(batch: pa.RecordBatch, context: Any) -> None:
    """Each row alone gives what it gives among the others, duplicates of a URL apart."""
    try:
        together = written(batch, context)
        alone = [file for number in range(batch.num_rows) for file in written(batch.slice(number, 1), context)]
    except RefusedError:
        return
    total, parts = Tally(), Tally()
    for files, tally in ((together, total), (alone, parts)):
        for _, counted, _ in files:
            tally.add(counted)
    duplicates = total.dropped.pop("loc-duplicate", 0)
    assert total.dropped == parts.dropped
    assert total.expired == parts.expired
    total.fixed.pop("loc-duplicate", None)
    assert total.fixed == parts.fixed
    elements = [{etree.tostring(url) for url in etree.fromstring(body)} for body, *_ in alone if body]
    listed = [etree.tostring(url) for body, *_ in together if body for url in etree.fromstring(body)]
    assert len(listed) + duplicates == len(elements)
    normal = {re.sub(rb' xmlns(:\w+)?="[^"]*"', b"", url) for one in elements for url in one}
    assert {re.sub(rb' xmlns(:\w+)?="[^"]*"', b"", url) for url in listed} <= normal


@pytest.mark.skipif(not XSD.is_file(), reason="the schemas of sitemaps.org and Google are not beside this checkout")
@given(batch=batches())
@settings(
    deadline=None, max_examples=EXAMPLES // 2, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_what_is_written_passes_the_schemas(batch: pa.RecordBatch) -> None:
    schema = etree.XMLSchema(etree.parse(str(XSD)))
    for body, *_ in written(batch, row_context()):
        assert not body or schema.validate(etree.fromstring(body)), schema.error_log


# ---------------------------------------------------------------- work


def steps(name: str, text: str) -> int:
    """Function calls, Python's and C's, that one row with this text takes."""
    row = {"loc": f"{W}/a", name: text}
    batch = pa.record_batch(
        {
            "key": ["[1]"],
            "range": pa.array([0], pa.int32()),
            "row_hash": pa.array([1], pa.uint64()),
            **{k: [v] for k, v in row.items()},
        }
    )
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    written(batch, row_context())
    sys.setprofile(count)
    try:
        written(batch, row_context())
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("name", list(SOURCES))
@given(unit=st.one_of(TEXTS.filter(len), st.sampled_from(["&amp;", "amp;", "[", '{"a":', "%", "/", "é", "://"])))
@example(unit="&amp;")
@example(unit="amp;")
@settings(deadline=None, max_examples=15)
def test_the_steps_grow_no_faster_than_the_bytes(name: str, unit: str) -> None:
    unit = unit.encode("utf-8", "replace").decode()
    lead = "&" if name == "loc" else ""
    small, large = (steps(name, lead + unit * times) for times in (400, 800))
    assert large <= 2.2 * small + 100
