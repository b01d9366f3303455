"""The law of rows, for any value in any column.

One row never ends a run, never changes another row's fate, and never leaves the sitemap without being counted under a
rule, with a sample that carries its key. What is written is valid.
"""

from __future__ import annotations

import os
import re
import sys
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


def raw(values: list[Any]) -> pa.Array:
    """Texts of any bytes: a driver may return some that are not UTF-8."""
    data = [value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value for value in values]
    return pa.array(data, pa.binary()).view(pa.string())


@st.composite
def columns(draw: st.DrawFn, name: str, length: int) -> pa.Array:
    """A column for a field, of one of the types that ``ports.Source.read`` names."""

    def listed(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(st.one_of(values, values, st.none()), min_size=length, max_size=length))

    types = {"lastmod": [pa.timestamp("us", "UTC"), pa.date32()], "priority": [pa.float64()]}
    kind = draw(st.sampled_from(["text"] * 3 + ["bytes", *types.get(name, [])]))
    if kind == "text":
        return raw(listed(SOURCES[name]))
    if kind == "bytes":
        return raw(listed(st.binary(max_size=12)))
    if kind == pa.float64():
        return pa.array(listed(st.floats()), kind)
    if kind == pa.date32():
        return pa.array(listed(st.integers(-(2**31), 2**31 - 1)), pa.int32()).view(kind)
    return pa.array(listed(INT64), pa.int64()).view(kind)


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


@given(batch=batches(), context=CONTEXTS)
@example(batch=batch_of(images=raw([b"\xff", b"{}"])), context=row_context())
@example(batch=batch_of(loc=raw([b"\xff", f"{W}/a".encode()])), context=row_context())
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
