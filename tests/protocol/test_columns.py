"""The columnar path against the oracle, byte for byte and count for count."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_sitemaps.errors import RuleError
from airflow_sitemaps.protocol import CHANGEFREQS
from airflow_sitemaps.protocol.columnar.batch import clean
from airflow_sitemaps.protocol.columnar.elements import Cleaned, render, render_lines
from airflow_sitemaps.protocol.rules import RULES, Tally
from tests.support.reference_renderer import RowJudge, render_entry, row_context, small

UTC = timezone.utc
TEXT = {"loc": pa.string(), "lastmod": pa.string(), "changefreq": pa.string(), "priority": pa.string()}
STAMPS = {**TEXT, "lastmod": pa.timestamp("us", "UTC"), "priority": pa.float64()}
DATES = {**TEXT, "lastmod": pa.date32()}


def batch(rows: list[dict[str, Any]], types: dict[str, pa.DataType]) -> pa.RecordBatch:
    names = [name for name in types if name == "loc" or any(name in row for row in rows)]
    arrays = []
    for name in names:
        values = [row.get(name) for row in rows]
        if types[name] == pa.string():
            data = [None if v is None else v.encode("utf-8", "surrogatepass") for v in values]
            arrays.append(pa.array(data, pa.binary()).view(pa.string()))
        elif pa.types.is_timestamp(types[name]):
            arrays.append(pa.array(values, pa.int64()).cast(types[name]))
        else:
            arrays.append(pa.array(values, types[name]))
    return pa.record_batch(arrays, names=names)


def run(data: pa.RecordBatch, context: Any) -> tuple[bytes, Tally, Cleaned]:
    tally = Tally()
    cleaned = clean(data, context, tally)
    return b"".join((render_lines if context.format == "text" else render)(cleaned).chunks()), tally, cleaned


def assert_equal(rows: list[dict[str, Any]], types: dict[str, pa.DataType], context: Any) -> bytes:
    oracle = RowJudge(context)
    try:
        entries = oracle.entries(rows)
    except RuleError:
        with pytest.raises(RuleError):
            run(batch(rows, types), context)
        return b""
    expected = b"".join(map(render_entry, entries))
    if context.format == "text":
        expected = "".join(f"{entry.loc}\n" for entry in entries).encode()
    body, tally, _ = run(batch(rows, types), context)
    assert body == expected
    assert tally.dropped == oracle.tally.dropped
    assert tally.fixed == oracle.tally.fixed
    return body


CHARACTERS = st.one_of(
    st.sampled_from(
        "abcXYZ019-._~!$&'()*+,;=:@/?#[]%<>\"\\^`{|} \t\n\x00\x1f\x7f\x85\xa0éß中ع\u200b\ufeff\ufffe\ud83d\ude00😀"
    ),
    st.characters(),
)
TAILS = st.lists(
    st.one_of(
        CHARACTERS,
        st.sampled_from(
            ["%41", "%zz", "%", "%4", "%C3%A9", "&amp;", "&#38;", "&#x26;", "&copy=", "&oacute;", "&nope;", "//"]
        ),
    ),
    max_size=12,
).map("".join)
PREFIXES = st.sampled_from(
    [
        "https://example.com/",
        "https://example.com/news/",
        "https://example.com/news/2024/",
        "https://example.com",
        "HTTPS://Example.COM/",
        "https://example.com:443/",
        "https://example.com:8443/",
        "https://www.example.com/",
        "http://example.com/",
        "https://münchen.example/",
        "http://[2001:db8::1]/",
        "/",
        "/news/",
        "//example.com/",
        "",
        " https://example.com/",
        "ftp://example.com/",
        "https://user:pw@example.com/",
    ]
)
LOCS = st.one_of(st.none(), st.builds(str.__add__, PREFIXES, TAILS), TAILS)
LONG = st.builds(
    lambda n, c: "https://example.com/" + c * n, st.integers(2_020, 2_030), st.sampled_from(["a", "é", "😀"])
)
SETTINGS = st.fixed_dictionaries(
    {
        name: st.sampled_from([verdict.value for verdict in rule.allowed])
        for name, rule in RULES.items()
        if name.startswith(("loc-", "scope-", "lastmod-", "changefreq", "priority")) and name != "loc-duplicate"
    }
)
JUDGES = st.builds(
    lambda base, cross, rules, form, zone: row_context(
        base, cross_submit=cross, rules=rules, format=form, timezone=zone
    ),
    st.sampled_from(
        ["https://example.com/", "https://example.com/news/", "https://EXAMPLE.com:443/a/../", "http://[2001:db8::1]/"]
    ),
    st.sampled_from(
        [(), ("www.example.com",), ("https://example.com:8443", "münchen.example", "http://[2001:db8::1]")]
    ),
    st.one_of(st.just({}), SETTINGS),
    st.sampled_from(["xml", "xml", "text"]),
    st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Auckland"]),
)


@given(locs=st.lists(st.one_of(LOCS, LONG), max_size=8), context=JUDGES)
@example(locs=["https://example.com/%4", "abc"], context=row_context())
@example(locs=["https://example.com/a?b=1&c='x'"], context=row_context())
@example(
    locs=["https://example.com/é", "https://example.com/a b", "/ü", None, "https://example.com/", "/x", "//x/é é"],
    context=row_context(),
)
@example(locs=["http://[2001:db8::1]/a", "/é [x]", "/"], context=row_context("http://[2001:db8::1]/"))
@example(
    locs=["http://[2001:db8::1]/é", "/[x]"],
    context=row_context("https://example.com/", cross_submit=("http://[2001:db8::1]",)),
)
@settings(max_examples=250, deadline=None)
def test_locs_equal_the_oracle(locs: list[str | None], context: Any) -> None:
    assert_equal([{"loc": loc} for loc in locs], TEXT, context)


MOMENTS = st.one_of(
    st.datetimes(min_value=datetime(1, 1, 1), timezones=st.just(UTC)),
    st.datetimes(datetime(2026, 2, 27), datetime(2026, 3, 3), timezones=st.just(UTC)),
)
DATE_TEXTS = st.one_of(
    st.dates().map(date.isoformat),
    st.builds(
        lambda moment, form: form.format(moment),
        MOMENTS,
        st.sampled_from(
            [
                "{0:%Y-%m-%dT%H:%M:%SZ}",
                "{0:%Y-%m-%d %H:%M:%S}",
                "{0:%Y-%m-%d %H:%M:%S.%f}",
                "{0:%Y-%m-%dT%H:%M+01:00}",
                "{0:%Y-%m-%d %H:%M:%S+00}",
                "{0:%Y-%m-%dT%H:%M:%S.%f-11:30}",
                "{0:%Y-%m}",
                "{0:%Y}",
                "{0:%d.%m.%Y}",
            ]
        ),
    ),
    st.sampled_from(
        [
            "",
            " ",
            "0000-00-00",
            "0000-00-00 00:00:00",
            "2024-02-30",
            "2024-01-01T24:00:00Z",
            "2024-13-01",
            "10000-01-01",
            "infinity",
            "2024-01-01T10:00:60Z",
            "2024-01-01t10:00:00z",
            "Tue, 10 Aug 2010 20:43:53 -0000",
            "2024-1-1",
            "２０２４-01-01",
            "2024-03-31 02:30:00",
            "2024-10-27 02:30:00",
            "0001-01-01T00:00:00+05:00",
            "9999-12-31T23:59:59-05:00",
            "1714557600",
        ]
    ),
    st.text(max_size=12),
)
LOC = "https://example.com/a"


@given(values=st.lists(st.one_of(st.none(), DATE_TEXTS), max_size=6), context=JUDGES)
@settings(max_examples=250, deadline=None)
def test_lastmod_texts_equal_the_oracle(values: list[str | None], context: Any) -> None:
    assert_equal([{"loc": LOC, "lastmod": value} for value in values], TEXT, context)


@given(values=st.lists(st.one_of(st.none(), MOMENTS), max_size=6), context=JUDGES, form=st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_lastmod_texts_of_one_form_equal_the_oracle(values: list[datetime | None], context: Any, form: int) -> None:
    texts = [None if v is None else f"{v:%Y-%m-%dT%H:%M:%SZ}".zfill(20) for v in values]
    texts = [
        t if t is None or form == 0 else t[:19] if form == 1 else t[:10] if form == 2 else t[:19].replace("T", " ")
        for t in texts
    ]
    assert_equal([{"loc": LOC, "lastmod": text} for text in texts], TEXT, context)


FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
TICKS = st.one_of(
    st.integers(FIRST_US, LAST_US),
    st.integers(1_772_000_000_000_000, 1_772_600_000_000_000),
    st.sampled_from([0, -1, 1, FIRST_US, FIRST_US - 1, LAST_US, LAST_US + 1, -(2**62), 2**62]),
)


@given(values=st.lists(st.one_of(st.none(), TICKS), max_size=6), context=JUDGES)
@settings(max_examples=250, deadline=None)
def test_timestamps_equal_the_oracle(values: list[int | None], context: Any) -> None:
    assert_equal([{"loc": LOC, "lastmod": value} for value in values], STAMPS, context)


@given(values=st.lists(st.one_of(st.none(), st.dates()), max_size=6), context=JUDGES)
@settings(max_examples=100, deadline=None)
def test_dates_equal_the_oracle(values: list[date | None], context: Any) -> None:
    assert_equal([{"loc": LOC, "lastmod": value} for value in values], DATES, context)


WORDS = st.one_of(
    st.none(), st.sampled_from([*CHANGEFREQS, "Daily", " weekly ", "", "fortnightly"]), st.text(max_size=5)
)
NUMBERS = st.one_of(st.none(), st.floats(), st.floats(0, 1), st.sampled_from([0.0, -0.0, 0.1, 1.0, 1.1, 0.99995, 1e-9]))
NUMBER_TEXTS = st.one_of(
    st.none(),
    st.floats(-1, 2).map(str),
    st.text(max_size=4),
    st.sampled_from(["", "1", "0.50", ".5", "1.", "1e-1", "0,8", "NaN", "٠.٥"]),
)


@given(st.lists(st.tuples(WORDS, NUMBERS), max_size=8), JUDGES)
@settings(max_examples=150, deadline=None)
def test_hints_equal_the_oracle(values: list[tuple[str | None, float | None]], context: Any) -> None:
    assert_equal([{"loc": LOC, "changefreq": c, "priority": p} for c, p in values], STAMPS, context)


@given(st.lists(st.tuples(WORDS, NUMBER_TEXTS), max_size=8), JUDGES)
@settings(max_examples=150, deadline=None)
def test_hint_texts_equal_the_oracle(values: list[tuple[str | None, str | None]], context: Any) -> None:
    assert_equal([{"loc": LOC, "changefreq": c, "priority": p} for c, p in values], TEXT, context)


EXTENDED = {**TEXT, "images": pa.string(), "alternates": pa.string()}
IMAGES = st.sampled_from(
    [None, "", "[]", "{", '[{"loc": "https://example.com/i.png?a=1&b=\'2\'"}]', '[{"caption": "no loc"}]']
)
ALTERNATES = st.sampled_from(
    [None, '[{"hreflang": "de", "href": "https://example.com/de?a&b"}]', '[{"hreflang": "x_y", "href": "/"}]']
)


@given(
    st.lists(st.tuples(LOCS, IMAGES, ALTERNATES), min_size=1, max_size=6),
    st.fixed_dictionaries(
        {"image": st.sampled_from(["omit_field", "drop_row"]), "alternate": st.sampled_from(["omit_field", "drop_row"])}
    ),
)
@settings(max_examples=150, deadline=None)
def test_extensions_equal_the_oracle(
    values: list[tuple[str | None, str | None, str | None]], rules: dict[str, str]
) -> None:
    rows = [{"loc": loc, "images": images, "alternates": alternates} for loc, images, alternates in values]
    assert_equal(rows, EXTENDED, row_context(rules=rules))


ROWS = st.fixed_dictionaries(
    {"loc": LOCS, "lastmod": st.one_of(st.none(), TICKS), "changefreq": WORDS, "priority": NUMBERS}
)


@given(st.lists(ROWS, max_size=8), JUDGES)
@settings(max_examples=250, deadline=None)
def test_whole_rows_equal_the_oracle(rows: list[dict[str, Any]], context: Any) -> None:
    assert_equal(rows, STAMPS, context)


# ---------------------------------------------------------------- forms of columns


ROW = {
    "loc": "https://example.com/a?x=1&y='2'",
    "lastmod": 1_700_000_000_123_456,
    "changefreq": "daily",
    "priority": 0.8,
}
EXPECTED = (
    b"<url><loc>https://example.com/a?x=1&amp;y=&apos;2&apos;</loc><lastmod>2023-11-14T22:13:20Z</lastmod>"
    b"<changefreq>daily</changefreq><priority>0.8</priority></url>\n"
)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("loc", pa.large_string()),
        ("loc", pa.string_view()),
        ("loc", pa.dictionary(pa.int32(), pa.string())),
        ("loc", pa.binary()),
        ("changefreq", pa.dictionary(pa.uint8(), pa.string())),
        ("changefreq", pa.string_view()),
        ("priority", pa.float32()),
        ("priority", pa.decimal128(3, 2)),
        ("priority", pa.string()),
        ("priority", pa.dictionary(pa.int8(), pa.float64())),
        ("lastmod", pa.timestamp("ms", "UTC")),
        ("lastmod", pa.timestamp("ns", "Europe/Berlin")),
        ("lastmod", pa.timestamp("s")),
    ],
)
def test_every_form_of_a_column(column: str, kind: pa.DataType) -> None:
    data = batch([ROW, ROW], STAMPS)
    index = data.schema.get_field_index(column)
    values = data.column(index)
    if pa.types.is_dictionary(kind):
        changed = values.cast(kind.value_type).dictionary_encode().cast(kind)
    elif pa.types.is_decimal(kind):
        changed = pa.array([Decimal("0.80")] * 2, kind)
    else:
        changed = values.cast(kind, safe=False)
    assert run(data.set_column(index, column, changed), row_context())[0] == EXPECTED * 2


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
@pytest.mark.parametrize("gap", [False, True])
def test_naive_timestamps_are_read_in_the_time_zone(unit: str, gap: bool) -> None:
    """Also a time that occurs twice, and (which Arrow refuses) one that the clock skipped."""
    texts = ["2024-01-01 00:30:00", "2024-10-27 02:30:00", "1890-01-01 00:00:00", None]
    texts += ["2024-03-31 02:30:00"] if gap else []
    values = pa.array(texts).cast(pa.timestamp(unit))
    data = pa.record_batch({"loc": [LOC] * len(texts), "lastmod": values})
    context = row_context(timezone="Europe/Berlin")
    expected = RowJudge(context).entries([{"loc": LOC, "lastmod": text} for text in texts])
    assert run(data, context)[0] == b"".join(map(render_entry, expected))


def test_text_that_is_no_text_costs_a_field_not_the_run() -> None:
    broken = pa.array([b"\xff", b"\xed\xa0\xbd", None], pa.binary()).view(pa.string())
    fields = ("lastmod", "changefreq", "priority", "images", "alternates")
    body, tally, _ = run(pa.record_batch({"loc": [LOC] * 3, **dict.fromkeys(fields, broken)}), row_context())
    assert body == b"<url><loc>https://example.com/a</loc></url>\n" * 3
    assert tally.fixed == {"lastmod-format": 2, "changefreq": 2, "priority": 2, "extension-json": 4}
    assert run(pa.record_batch({"loc": broken}), row_context())[1].dropped == {"loc-characters": 2, "loc-missing": 1}


def test_slices_nulls_and_nothing() -> None:
    other = {"loc": "https://example.com/%", "lastmod": None, "changefreq": None, "priority": None}
    data = batch([other, ROW, other, ROW, other], STAMPS)
    assert run(data.slice(1, 1), row_context())[0] == EXPECTED
    assert run(data.slice(3, 2), row_context())[0] == EXPECTED + b"<url><loc>https://example.com/%25</loc></url>\n"
    assert run(data.slice(5), row_context())[0] == b""
    assert run(batch([], STAMPS), row_context())[0] == b""
    nulls = pa.record_batch({name: pa.nulls(3) for name in ("loc", "lastmod", "changefreq", "priority", "images")})
    body, tally, _ = run(nulls, row_context())
    assert body == b""
    assert tally.dropped == {"loc-missing": 3}


def test_many_years_and_many_priorities() -> None:
    """Beyond the size of the lookup tables the same is written."""
    rows = [
        {
            "loc": f"https://example.com/{n}",
            "lastmod": year * 31_000_000_000_000,
            "changefreq": CHANGEFREQS[n % 7],
            "priority": n / 997,
        }
        for n, year in enumerate(range(-1_900, 56, 2))
    ]
    assert_equal(rows, STAMPS, row_context())


def test_computed_priorities_have_no_more_texts_than_are_written() -> None:
    """Tables of the texts are kept for many batches, so one entry for each value would fill the memory."""
    rows = [{"loc": LOC, "priority": priority} for priority in (0.51234567, 0.51229999, 2.0, None, 0.5123, 3.0)]
    assert_equal(rows, STAMPS, row_context())
    priority = run(batch(rows, STAMPS), row_context())[2].priority
    assert priority is not None
    assert sorted(map(str, priority.dictionary.to_pylist())) == ["0.5123", "None"]


# ---------------------------------------------------------------- futures, news, size


def test_a_future_lastmod_is_left_out_until_its_time() -> None:
    soon, later = datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)
    rows = [{"loc": LOC, "lastmod": int(moment.timestamp()) * 1_000_000} for moment in (later, soon)]
    body, tally, cleaned = run(batch(rows, STAMPS), row_context())
    assert b"lastmod" not in body
    assert tally.fixed == {"lastmod-future": 2}
    assert cleaned.recheck_at == soon
    body, _, cleaned = run(batch(rows, STAMPS), row_context(now=soon))
    assert b"<lastmod>2026-03-01T12:00:01Z</lastmod>" in body
    assert cleaned.recheck_at == later
    assert run(batch(rows, STAMPS), row_context(rules={"lastmod-future": "keep"}))[2].recheck_at is None


def test_a_date_begins_in_its_own_time_zone() -> None:
    rows = [{"loc": LOC, "lastmod": date(2026, 3, 2)}]
    assert b"2026-03-02" in run(batch(rows, DATES), row_context(timezone="Pacific/Auckland"))[0]
    body, _, cleaned = run(batch(rows, DATES), row_context(timezone="Europe/Berlin"))
    assert b"2026-03-02" not in body
    assert cleaned.recheck_at == datetime(2026, 3, 1, 23, tzinfo=UTC)


def news_of(moment: str) -> str:
    publication = {"name": "The Example", "language": "en"}
    return json.dumps({"publication": publication, "publication_date": moment, "title": "It is so"})


def test_news_leave_after_two_days() -> None:
    types = {**TEXT, "news": pa.string()}
    rows = [
        {"loc": "https://example.com/old", "news": news_of("2026-02-27T12:00:00Z"), "lastmod": "2026-03-01"},
        {"loc": "https://example.com/new", "news": news_of("2026-02-27T12:00:01Z"), "lastmod": None},
        {"loc": "https://example.com/by-lastmod", "news": None, "lastmod": "2026-02-26"},
        {"loc": "https://example.com/unknown", "news": None, "lastmod": None},
    ]
    body, tally, cleaned = run(batch(rows, types), row_context(kind="news"))
    assert body.count(b"<url>") == 1
    assert b"/new" in body
    assert tally.expired == {"news-age": 2}
    assert tally.dropped == {"news-missing": 1}
    assert tally.samples["news-missing"] == ["NULL (https://example.com/unknown)"]
    assert not tally.fixed
    assert cleaned.recheck_at == datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC)
    body, _, cleaned = run(
        batch(rows, types), row_context(kind="news", rules={"news-age": "keep", "news-missing": "keep"})
    )
    assert body.count(b"<url>") == 4
    assert cleaned.recheck_at is None
    assert run(batch(rows, types), row_context())[0].count(b"<url>") == 4


@pytest.mark.parametrize("moment", ["9999-12-30T00:00:01Z", "9999-12-30", "9999-12-31"])
def test_an_article_of_a_day_that_means_never_does_not_leave(moment: str) -> None:
    rows = [{"loc": LOC, "news": news_of(moment)}, {"loc": LOC + "b", "news": news_of("2026-03-01T00:00:00Z")}]
    body, _, cleaned = run(batch(rows[:1], {**TEXT, "news": pa.string()}), row_context(kind="news"))
    assert (body.count(b"<url>"), cleaned.recheck_at) == (1, None)
    body, _, cleaned = run(batch(rows, {**TEXT, "news": pa.string()}), row_context(kind="news"))
    assert (body.count(b"<url>"), cleaned.recheck_at) == (2, datetime(2026, 3, 3, tzinfo=UTC))


def test_an_entry_larger_than_a_file_is_dropped() -> None:
    images = json.dumps([{"loc": f"https://example.com/{n}.png"} for n in range(100)])
    types = {**TEXT, "images": pa.string()}
    rows = [{"loc": LOC, "images": images}, {"loc": LOC + "b", "images": None}]
    body, tally, cleaned = run(batch(rows, types), row_context(limits=small(3_000)))
    assert body == b"<url><loc>https://example.com/ab</loc></url>\n"
    assert tally.dropped == {"entry-too-large": 1}
    assert cleaned.numbers.to_pylist() == [1]
    with pytest.raises(RuleError, match="entry-too-large"):
        run(batch(rows, types), row_context(limits=small(3_000), rules={"entry-too-large": "fail"}))


def test_namespaces_are_those_used() -> None:
    types = {**TEXT, "images": pa.string(), "alternates": pa.string()}
    rows = [
        {"loc": LOC, "images": '[{"loc": "https://example.com/x.png", "caption": "<xhtml:link>"}]', "alternates": None}
    ]
    assert run(batch(rows, types), row_context())[2].prefixes() == {"image"}


def test_completing_a_template_that_begins_with_a_slash_is_no_fault() -> None:
    rows = [{"loc": "/p/1"}, {"loc": "/p/ä"}, {"loc": "/p/a%2Gb"}]
    for rules, counted in ((None, set()), ({"loc-relative": "drop_row"}, {"loc-relative"})):
        context = row_context(rules=rules, template="/p/{slug}")
        assert_equal(rows, TEXT, context)
        _, tally, cleaned = run(batch(rows, TEXT), context)
        assert {*tally.fixed, *tally.dropped} & {"loc-relative"} == counted
        assert len(cleaned) == (0 if counted else 3)
