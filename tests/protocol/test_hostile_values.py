"""Values that once ended a run, vanished without a number, or made invalid output: each with the rule that counts it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol import EXTENSIONS
from airflow_sitemaps.protocol.columnar.batch import clean
from airflow_sitemaps.protocol.columnar.elements import render
from airflow_sitemaps.protocol.extensions import languages
from airflow_sitemaps.protocol.extensions.fields import MAX_DEPTH, JsonFault, check_depth, parse, shown
from airflow_sitemaps.protocol.extensions.languages import hreflang_fault
from airflow_sitemaps.protocol.loc import normalise, resolve_entities
from airflow_sitemaps.protocol.rules import RULES, SAMPLE_LIMIT, Effect, Tally, Verdict, sample_text
from airflow_sitemaps.protocol.url_template import Template
from airflow_sitemaps.shards.stream import ShardStream
from tests.support.reference_renderer import NOW, row_context

W = "https://example.com"


def cleaned(rows: list[dict[str, Any]], **settings: Any) -> tuple[bytes, Tally]:
    """The elements of some rows with the keys 1, 2, …, and what was counted."""
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {"key": pa.array([f"[{number}]" for number in range(1, len(rows) + 1)])}
    for name in names:
        data = [row.get(name) for row in rows]
        texts = [value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value for value in data]
        columns[name] = pa.array(texts, pa.binary()).view(pa.string())
    tally = Tally()
    result = clean(pa.record_batch(columns), row_context(**settings), tally)
    return b"".join(render(result).chunks()), tally


# ---------------------------------------------------------------- depth

DEPTHS = [MAX_DEPTH + 1, 500, 970, 975, 982, 990, 100_000]


def nested(depth: int, around: str) -> str:
    """A JSON text with a list of this depth in it."""
    return around.replace("@", "[" * depth + "]" * depth)


@pytest.mark.parametrize("kind", EXTENSIONS)
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    "around",
    ["@", "[@]", '{"a":@}', '[{"loc":@}]', '{"title":@,"publication_date":@}', '{"rel":@,"hreflang":"de"}', '{"group":@}',
     '{"group":[{"href":@,"hreflang":"de"}]}', '{"restriction":{"relationship":@,"countries":@}}'],
)  # fmt: skip
def test_deeply_nested_json_is_counted(kind: str, depth: int, around: str) -> None:
    rows = [{"loc": f"{W}/a", kind: nested(depth, around)}, {"loc": f"{W}/b", kind: None}]
    body, tally = cleaned(rows)
    assert body.count(b"<url>") == 2
    assert tally.fixed == {"extension-json": 1}
    (sample,) = tally.samples["extension-json"]
    assert "nested too deeply" in sample
    assert f"({W}/a; key [1])" in sample


def test_the_unclosed_list_of_a_news_column_is_counted_in_a_news_section() -> None:
    body, tally = cleaned([{"loc": f"{W}/a", "news": "[" * 990}], kind="news")
    assert not body
    assert tally.dropped == {"news-missing": 1}
    assert languages.publication_date("[" * 990) is None


def test_values_are_shown_whatever_their_depth_and_size() -> None:
    assert shown(parse("[" * MAX_DEPTH + "]" * MAX_DEPTH)) == "[" * 32 + "]" * 28 + "…"
    assert shown({"a": {"b": [1, 2, 3, 4, 5, 6]}}) == '{"a": {"b": [1, 2, 3, 4, 5, 6]}}'
    assert len(shown({str(n): [n] * 100 for n in range(1_000)})) <= 61
    assert len(shown("é" * 10**6)) <= 61
    check_depth(parse("[" * MAX_DEPTH + "]" * MAX_DEPTH))
    with pytest.raises(JsonFault, match="nested"):
        check_depth(parse("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)))


# ---------------------------------------------------------------- lone surrogates


@pytest.mark.parametrize(
    "row",
    [
        {"alternates": '{"group":[{"hreflang":"de","href":"https://example.com/\\ud800"},{"hreflang":"en","href":"https://example.com/a"}]}'},
        {"alternates": '[{"hreflang":"\\ud800","href":"https://example.com/a"}]'},
        {"images": '[{"loc":"https://example.com/i.png","\\udfff":1,"title":"\\ud800"}]'},
        {"images": '"\ud800"'},
        {"news": '{"title":"\\ud800","publication":{"name":"\\ud800","language":"\\ud800"}}'},
        {"videos": '{"restriction":{"relationship":"\\ud800","countries":"\\udc00"},"title":"\\ud800"}'},
        {"lastmod": "\ud800"},
        {"changefreq": "\ud800", "priority": "\udfff"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("verdict", ["keep", "omit_field", "drop_row"])
def test_samples_hold_no_lone_surrogate(row: dict[str, Any], verdict: str) -> None:
    rules = {name: verdict for name, rule in RULES.items() if Verdict(verdict) in rule.allowed}
    for loc in (f"{W}/a", f"{W}/\ud800"):
        body, tally = cleaned([{"loc": loc, **row}], rules=rules)
        body.decode("utf-8")
        assert tally.samples
        for samples in tally.samples.values():
            "".join(samples).encode("utf-8")
        json.dumps(tally.samples, ensure_ascii=False).encode("utf-8")


def test_an_unhashable_member_of_a_group_is_counted() -> None:
    group = {"group": [{"hreflang": "de", "href": ["x"]}, {"hreflang": "en", "href": "ftp://x"}, 5, None]}
    body, tally = cleaned([{"loc": f"{W}/a", "alternates": json.dumps(group)}])
    assert body.count(b"<url>") == 1
    assert tally.fixed["alternate-dropped"] == 1


# ---------------------------------------------------------------- samples name the row


def test_each_sample_carries_the_key_of_its_row() -> None:
    rows = [
        {"loc": f"{W}/1"},
        {"loc": None},
        {"loc": "ftp://x/"},
        {"loc": f"{W}/4", "lastmod": "soon", "changefreq": "often", "priority": "9", "images": "{"},
        {"loc": "x" * 5_000},
    ]
    _, tally = cleaned(rows)
    assert tally.samples["loc-missing"] == ["NULL (key [2])"]
    assert tally.samples["loc-scheme"] == ["ftp://x/ (key [3])"]
    for rule in ("lastmod-format", "changefreq", "priority", "extension-json"):
        assert tally.samples[rule][0].endswith(f"({W}/4; key [4])"), rule
    assert tally.samples["loc-relative"][0].endswith("… (key [5])")


def test_samples_of_rows_behind_dropped_ones_carry_their_own_key() -> None:
    rows = [
        {"loc": None, "lastmod": "a"},
        {"loc": f"{W}/2", "lastmod": "b"},
        {"loc": None},
        {"loc": f"{W}/4", "lastmod": "d"},
    ]
    _, tally = cleaned(rows, rules={"lastmod-format": "drop_row"})
    assert tally.samples["lastmod-format"] == [f"b ({W}/2; key [2])", f"d ({W}/4; key [4])"]
    rows = [{"loc": None}, {"loc": f"{W}/2", "lastmod": "b"}, {"loc": f"{W}/3", "priority": "2", "changefreq": "often"}]
    _, tally = cleaned(rows, rules={"lastmod-format": "drop_row", "changefreq": "drop_row"})
    assert tally.samples["changefreq"] == [f"often ({W}/3; key [3])"]


def test_a_duplicate_names_its_own_row() -> None:
    stream = ShardStream(row_context(), "fast")
    stream.add(
        pa.record_batch(
            {
                "range": pa.array([0] * 4, pa.int32()),
                "row_hash": pa.array([1, 2, 3, 4], pa.uint64()),
                "key": pa.array([10, 11, 12, 13], pa.int64()),
                "loc": pa.array([None, f"{W}/a", f"{W}/b", f"{W}/a"]),
            }
        )
    )
    (file,) = stream.finish()
    assert file.tally.samples["loc-duplicate"] == [f"{W}/a (key [13])"]
    assert file.tally.samples["loc-missing"] == ["NULL (key [10])"]


def test_a_sample_shows_each_thing_once_and_stays_short() -> None:
    assert sample_text("v", loc="l", key="[1]") == "v (l; key [1])"
    assert sample_text("https://x/a", key='["https://x/a"]') == "https://x/a"
    assert sample_text("NULL", key='[""]') == 'NULL (key [""])'
    assert len(sample_text("v" * 9_999, loc="l" * 9_999, key="[" + "k" * 9_999)) < SAMPLE_LIMIT


# ---------------------------------------------------------------- U+FFFD


@pytest.mark.parametrize(
    "loc", [f"{W}/\ufffd\ufffd", f"{W}/%EF%BF%BD", f"{W}/%ef%bf%Bd?x", "/a\ufffd", "https://\ufffd.example.com/"]
)
def test_text_decoded_with_the_wrong_encoding_is_no_url(loc: str) -> None:
    body, tally = cleaned([{"loc": loc}, {"loc": f"{W}/b"}, {"loc": f"{W}/é"}])
    assert body.count(b"<url>") == 2
    (rule,) = tally.dropped
    assert rule in ("loc-replacement-character", "loc-host")
    assert tally.samples[rule][0].endswith("(key [1])")


def test_a_user_may_keep_the_replacement_character() -> None:
    body, tally = cleaned([{"loc": f"{W}/\ufffd"}], rules={"loc-replacement-character": "keep"})
    assert b"%EF%BF%BD" in body
    assert tally.fixed == {"loc-replacement-character": 1, "loc-encoding": 1}


# ---------------------------------------------------------------- URLs


@pytest.mark.parametrize("mark", ["\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u200e", "\u202a", "\u2069"])
def test_zero_width_characters_are_stripped_from_the_ends(mark: str) -> None:
    body, tally = cleaned([{"loc": f"{mark}{W}/a{mark}"}, {"loc": f"{W}/b{mark}c"}])
    assert f"<loc>{W}/a</loc>".encode() in body
    assert tally.fixed == {"loc-encoding": 2}
    assert normalise(f"{W}/b{mark}c", origin=W).loc != f"{W}/bc"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("&amp;amp;amp;", "&"), ("&amp;lt;", "<"), ("&a&#109;p;", "&"), ("a&ampsemi;b", "a&ampsemi;b"), ("&amp&semi;x", "&x"),
        ("&nope;", "&nope;"), ("&;", "&;"), (";;&", ";;&"), ("&#38;#38;", "&"), ("&copy=1;", "&copy=1;"), ("&&amp;amp;", "&&"),
        ("&#1114112;", "&#1114112;"), ("&#x26;#x26;lt;", "<"), ("&lt&semi", "&lt&semi"),
    ],
)  # fmt: skip
def test_entities_resolve_to_the_end(text: str, expected: str) -> None:
    assert resolve_entities(text) == expected


def test_the_work_of_nested_entities_grows_with_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts look-ups, not seconds: a text twice as long takes twice as many."""
    from airflow_sitemaps.protocol import loc  # noqa: PLC0415

    calls = 0
    resolve = loc._resolve

    def counted(match: Any) -> Any:
        nonlocal calls
        calls += 1
        return resolve(match)

    monkeypatch.setattr(loc, "_resolve", counted)
    numbers = []
    for length in (5_000, 10_000):
        calls = 0
        assert resolve_entities("&" + "amp;" * length + "x") == "&x"
        numbers.append(calls)
    assert numbers[1] <= 2 * numbers[0] + 1
    assert numbers[1] <= 10_001


def test_a_template_with_an_empty_value_gives_no_url() -> None:
    columns = {"slug": pa.array(["a", "", None, " "])}
    assert Template.parse(W + "/p/{slug}").expand(columns).to_pylist() == [f"{W}/p/a", None, None, f"{W}/p/%20"]
    assert Template.parse(W + "/{slug:path}").expand(columns).to_pylist() == [f"{W}/a", f"{W}/", None, f"{W}/%20"]


def test_an_international_base_url_is_refused_with_the_form_to_write() -> None:
    with pytest.raises(ConfigurationError, match=r"https://xn--mnchen-3ya\.example/"):
        cleaned([{"loc": "/a"}], base_url="https://münchen.example/")


# ---------------------------------------------------------------- lastmod


@pytest.mark.parametrize(
    "text", ["0001-01-01", "0001-01-01T00:00:00Z", "9999-12-31", "9999-12-31T23:59:59Z", "0001-01-01 00:00:00"]
)
def test_a_clamped_lastmod_is_counted(text: str) -> None:
    for other in ("2024-05-01", text):
        body, tally = cleaned([{"loc": f"{W}/a", "lastmod": text}, {"loc": f"{W}/b", "lastmod": other}])
        assert tally.fixed == {"lastmod-range": 1 if other != text else 2}
        assert body.count(b"<lastmod>") == (other != text)
        assert body.count(b"<url>") == 2


@pytest.mark.parametrize("ticks", [-62_135_596_800_000_000, 253_402_300_799_999_999, -(2**63), 2**63 - 1])
def test_a_clamped_timestamp_is_counted(ticks: int) -> None:
    tally = Tally()
    stamps = pa.array([ticks], pa.int64()).view(pa.timestamp("us", "UTC"))
    result = clean(pa.record_batch({"loc": [f"{W}/a"], "lastmod": stamps}), row_context(), tally)
    assert b"<lastmod>" not in b"".join(render(result).chunks())
    assert tally.fixed == {"lastmod-range": 1}


# ---------------------------------------------------------------- extensions


@pytest.mark.parametrize("code", ["İd", "\u212ao", "sv-ſE", "de-\u212aR", "ıd", "zh-Hanſ"])
def test_a_letter_beyond_ascii_is_in_no_language_code(code: str) -> None:
    assert hreflang_fault(code) is not None
    alternates = json.dumps([{"hreflang": code, "href": f"{W}/x"}, {"hreflang": "de", "href": f"{W}/a"}])
    body, tally = cleaned([{"loc": f"{W}/a", "alternates": alternates}])
    assert body.count(b"hreflang=") == 1
    assert tally.fixed == {"alternate": 1}


def test_a_news_language_is_not_made_of_other_letters() -> None:
    record = {"publication": {"name": "P", "language": "\u212ao"}, "publication_date": "2026-03-01", "title": "T"}
    body, tally = cleaned([{"loc": f"{W}/a", "news": json.dumps(record)}])
    assert b"<news:" not in body
    assert tally.fixed == {"news": 1}


@pytest.mark.parametrize(("ticker", "is_written"), [("NASDAQ:A1", True), ("東証:7203", True), ("NASDAQ:A_B", False)])
def test_a_stock_ticker_has_the_characters_of_the_schema(ticker: str, is_written: bool) -> None:
    record = {"publication": {"name": "P", "language": "en"}, "publication_date": "2026-03-01", "title": "T"}
    body, tally = cleaned([{"loc": f"{W}/a", "news": json.dumps({**record, "stock_tickers": ticker})}])
    assert (f"<news:stock_tickers>{ticker}</news:stock_tickers>".encode() in body) is is_written
    assert tally.fixed.get("news", 0) == (0 if is_written else 1)


@pytest.mark.parametrize("title", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_what_is_no_number_is_no_title(title: str) -> None:
    body, tally = cleaned([{"loc": f"{W}/a", "images": f'[{{"loc": "{W}/i.png", "title": {title}}}]'}])
    assert b"<image:title>" not in body
    assert b"<image:loc>" in body
    assert "not text" in tally.samples["image"][0]


@pytest.mark.parametrize("digits", [401, 5_000, 400_000])
def test_a_huge_number_is_counted(digits: int) -> None:
    body, tally = cleaned([{"loc": f"{W}/a", "images": f'[{{"loc": "{W}/i.png", "title": {"9" * digits}}}]'}])
    assert body.count(b"<url>") == 1
    assert "a number of" in tally.samples["extension-json"][0]


def test_a_bare_url_is_named_as_such() -> None:
    _, tally = cleaned([{"loc": f"{W}/a", "images": f"{W}/i.png"}])
    assert "a bare URL is not JSON; write it in double quotes" in tally.samples["extension-json"][0]


VIDEO = {"thumbnail_loc": f"{W}/t.jpg", "title": "T", "description": "D", "content_loc": f"{W}/v.mp4"}


@pytest.mark.parametrize(
    ("countries", "written"),
    [("GB", b">GB<"), ("de at", b">DE AT<"), ("UK", None), (["GB", "UK"], None), ("ß", None), ("XX", None), ([["GB"]], None), (5, None)],
)  # fmt: skip
def test_countries_of_a_video_are_those_of_hreflang(countries: Any, written: bytes | None) -> None:
    video = {**VIDEO, "restriction": {"relationship": "allow", "countries": countries}}
    body, tally = cleaned([{"loc": f"{W}/a", "videos": json.dumps(video)}])
    assert (written in body) if written else (b"<video:" not in body)
    if written is None:
        assert "restriction" in tally.samples["video"][0]


@pytest.mark.parametrize(
    "given",
    [
        {"relationship": "deny", "country": ["DE"]},
        {"relationship": "deny", "countries": None},
        [{"relationship": "deny", "countries": ["DE"]}, {"relationship": "deny", "countries": ["FR"]}],
    ],
)
def test_a_video_whose_restriction_is_unclear_is_left_out(given: Any) -> None:
    body, tally = cleaned([{"loc": f"{W}/a", "videos": json.dumps({**VIDEO, "restriction": given})}])
    assert b"<video:" not in body
    assert "restriction" in tally.samples["video"][0]


def test_a_video_that_is_denied_nowhere_stays() -> None:
    body, tally = cleaned(
        [{"loc": f"{W}/a", "videos": json.dumps({**VIDEO, "restriction": {"relationship": "deny", "countries": []}})}]
    )
    assert body.count(b"<video:restriction") == 1
    assert not tally.samples


def test_an_uploader_has_a_limit() -> None:
    for length, written in ((255, 1), (256, 0)):
        body, _ = cleaned([{"loc": f"{W}/a", "videos": json.dumps({**VIDEO, "uploader": "u" * length})}])
        assert body.count(b"<video:uploader>") == written
        assert body.count(b"<video:video>") == 1


def test_why_a_row_of_a_group_has_no_alternates_is_counted() -> None:
    given = json.dumps({"group": [], "fault": "its language 'English' is none"})
    body, tally = cleaned([{"loc": f"{W}/a", "alternates": given}])
    assert body.count(b"<url>") == 1
    assert tally.samples["alternate"] == [f"its language 'English' is none ({W}/a; key [1])"]


# ---------------------------------------------------------------- news


def article(moment: str | None, **fields: Any) -> str:
    record = {"publication": {"name": "P", "language": "en"}, "publication_date": moment, "title": "T", **fields}
    return json.dumps(record)


@pytest.mark.parametrize(
    "given", [None, "", "{", "{}", article(None), article("soon"), article("2026-03-01", title="")]
)
def test_a_news_section_lists_articles_only(given: str | None) -> None:
    rows = [
        {"loc": f"{W}/a", "news": given, "lastmod": None},
        {"loc": f"{W}/b", "news": article("2026-03-01"), "lastmod": None},
    ]
    body, tally = cleaned(rows, kind="news")
    assert body.count(b"<url>") == body.count(b"<news:news>") == 1
    assert tally.dropped == {"news-missing": 1}
    assert "key [1]" in tally.samples["news-missing"][0]
    kept, tally = cleaned(rows, kind="news", rules={"news-missing": "keep"})
    assert kept.count(b"<url>") == 2
    assert tally.fixed["news-missing"] == 1


def test_without_a_news_column_the_lastmod_dates_an_entry() -> None:
    rows = [
        {"loc": f"{W}/a", "lastmod": "2026-03-01"},
        {"loc": f"{W}/b", "lastmod": None},
        {"loc": f"{W}/c", "lastmod": "2026-02-01"},
    ]
    body, tally = cleaned(rows, kind="news")
    assert body.count(b"<url>") == 1
    assert (tally.dropped, tally.expired) == ({"news-missing": 1}, {"news-age": 1})


def test_an_expired_article_is_no_fault() -> None:
    assert RULES["news-age"].effect(Verdict.OMIT_FIELD) is Effect.EXPIRED
    assert RULES["news-age"].effect(Verdict.KEEP) is Effect.LISTED_ANYWAY
    assert RULES["loc-encoding"].effect(RULES["loc-encoding"].default) is Effect.FIXED
    assert {rule.name for rule in RULES.values() if rule.expires} == {"news-age"}


@pytest.mark.parametrize("kind", ["news", "pages"])
def test_a_file_holds_a_thousand_articles(kind: Any) -> None:
    number = 2_500
    stream = ShardStream(row_context(kind=kind), "fast")
    files = stream.add(
        pa.record_batch(
            {
                "range": pa.array([0] * number, pa.int32()),
                "row_hash": pa.array([1] * number, pa.uint64()),
                "key": pa.array(range(number), pa.int64()),
                "loc": [f"{W}/{n}" for n in range(number)],
                "news": [article(f"{NOW:%Y-%m-%d}") if n % 2 else None for n in range(number)]
                if kind == "pages"
                else [article(f"{NOW:%Y-%m-%d}")] * number,
            }
        )
    )
    files += stream.finish()
    assert [file.urls for file in files] == ([2_001, 499] if kind == "pages" else [1_000, 1_000, 500])
    assert sum(file.digest.rows for file in files) == number
