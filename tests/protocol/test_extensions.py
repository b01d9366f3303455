"""Extensions: our own cases, the laws of the quick path, verdicts, groups of alternates."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from airflow_sitemaps.errors import RuleError
from airflow_sitemaps.protocol.extensions import (
    ELEMENT_KINDS,
    NAMESPACES,
    DropRow,
    fragment,
    languages,
    media,
    read_extension,
)
from airflow_sitemaps.protocol.extensions.fields import FieldProblems, FieldReader
from airflow_sitemaps.protocol.loc import is_clean, normalise
from airflow_sitemaps.protocol.markup import FORBIDDEN, attribute, escape
from airflow_sitemaps.protocol.rules import Tally
from tests.protocol import cases

OWN = cases.load(cases.ROOT / "tests" / "cases" / "extensions.jsonl")
XSD = cases.SHARED / "xsd" / "all.xsd"
PAGE = "https://example.com/p"
VIDEO = {
    "thumbnail_loc": "https://example.com/t.jpg",
    "title": "T",
    "description": "D",
    "content_loc": "https://example.com/v.mp4",
}


def made(kind: str, value: Any, **rules: str) -> tuple[str, Tally]:
    tally = Tally()
    master = cases.row_context("https://example.com/", rules)
    return fragment(kind, json.dumps(value), context=master, tally=tally, where=PAGE), tally


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in OWN])
def test_our_own_cases(case: dict[str, Any]) -> None:
    content, tally = cases.render(case["records"], cases.row_context("https://example.com/"))
    assert not list(cases.differences(case, cases.urls_of(content)))
    if "counted" in case:
        assert tally.fixed[case["counted"]] == 1
        assert case["said"] in tally.samples[case["counted"]][0]
    else:
        assert set(tally.fixed) <= {"ignored-field"}
    assert not tally.dropped


def test_a_bare_host_has_a_slash_where_it_is_a_page() -> None:
    """A page's own alternate must be its ``loc``; an image keeps the address that its host knows."""
    links, _ = made("alternates", [{"hreflang": "en", "href": "https://example.com"}])
    assert 'href="https://example.com/"' in links
    assert "<image:loc>https://example.com<" in made("images", ["https://example.com"])[0]


@pytest.mark.skipif(not XSD.is_file(), reason="../shared/xsd is not here")
def test_our_own_cases_pass_the_schemas() -> None:
    schema = etree.XMLSchema(etree.parse(str(XSD)))
    for case in OWN:
        content, _ = cases.render(case["records"], cases.row_context("https://example.com/"))
        assert content is not None
        assert schema.validate(etree.fromstring(content)), (case["id"], schema.error_log)


def test_namespaces_are_declared_only_where_used() -> None:
    plain, _ = cases.render([{"loc": PAGE}], cases.row_context("https://example.com/"))
    with_image, _ = cases.render([{"loc": PAGE, "images": [f"{PAGE}.jpg"]}], cases.row_context("https://example.com/"))
    assert plain is not None
    assert with_image is not None
    assert b"xmlns:" not in plain
    assert with_image.count(b"xmlns:") == 1
    assert NAMESPACES["image"].encode() in with_image


# ---------------------------------------------------------------- verdicts


def test_a_fault_counts_once_a_row_and_names_field_reason_and_page() -> None:
    xml, tally = made("images", ["ftp://a.example/1", "ftp://a.example/2", "https://a.example/3.jpg"])
    assert xml.count("<image:image>") == 1
    assert tally.fixed == {"image": 1}
    assert "loc breaks loc-scheme" in tally.samples["image"][0]
    assert PAGE in tally.samples["image"][0]


def test_drop_row_counts_and_tells_the_caller() -> None:
    tally = Tally()
    master = cases.row_context("https://example.com/", {"video": "drop_row"})
    with pytest.raises(DropRow):
        fragment("videos", json.dumps([{**VIDEO, "rating": 9}]), context=master, tally=tally, where=PAGE)
    assert tally.dropped == {"video": 1}


def test_drop_row_leaves_the_row_out_of_the_file() -> None:
    rows = [{"loc": PAGE, "videos": [{"title": "x"}]}, {"loc": f"{PAGE}2"}]
    content, tally = cases.render(rows, cases.row_context("https://example.com/", {"video": "drop_row"}))
    assert content is not None
    assert content.count(b"<url>") == 1
    assert tally.dropped == {"video": 1}


def test_fail_names_the_rule_and_the_page() -> None:
    with pytest.raises(RuleError, match=r"'news'.*publication"):
        made("news", {"title": "T"}, news="fail")


def test_what_is_no_json_is_counted() -> None:
    tally = Tally()
    master = cases.row_context("https://example.com/")
    assert fragment("images", "{not json", context=master, tally=tally, where=PAGE) == ""
    assert fragment("images", "[" * 100_000, context=master, tally=tally, where=PAGE) == ""
    assert tally.fixed == {"extension-json": 2}


def test_fields_without_effect_can_be_left_out() -> None:
    image = [{"loc": f"{PAGE}.jpg", "caption": "C", "license": "https://example.com/l"}]
    kept, tally = made("images", image)
    assert "<image:caption>C</image:caption>" in kept
    assert "image:caption, image:license" in tally.samples["ignored-field"][0]
    left, tally = made("images", image, **{"ignored-field": "omit_field"})
    assert left == f"<image:image><image:loc>{PAGE}.jpg</image:loc></image:image>"
    assert tally.fixed == {"ignored-field": 1}


def test_a_long_title_is_a_setting() -> None:
    video = {**VIDEO, "title": "t" * 101}
    assert made("videos", [video])[0] == ""
    assert f"<video:title>{'t' * 101}</video:title>" in made("videos", [video], **{"video-title": "keep"})[0]


def test_a_url_rule_that_does_not_mend_refuses_the_image() -> None:
    xml, tally = made("images", ["https://example.com/a b.jpg"], **{"loc-encoding": "drop_row"})
    assert xml == ""
    assert tally.fixed == {"image": 1}
    assert not tally.dropped, "the URL of the page is not at fault"


def test_samples_can_be_printed_whatever_the_data_holds() -> None:
    _, tally = made("images", [{"loc": "https://example.com/\ud800", "caption": "\ud800", "\ud800": 1}])
    for sample in tally.samples["image"]:
        sample.encode()


# ---------------------------------------------------------------- laws

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        "loc", "caption", "title", "license", "thumbnail_loc", "description", "content_loc", "player_loc", "duration",
        "rating", "tags", "restriction", "platform", "prices", "id", "tvshow", "live", "publication", "language",
        "publication_date", "genres", "stock_tickers", "hreflang", "href", "media", "rel", "relationship", "value",
    ]
)  # fmt: skip
URLS = st.sampled_from(
    ["https://example.com/a", "https://example.com/ä?b='c'&d", "/x", "//x", "ftp://x", "https://x..y/"]
)
RECORDS = st.lists(st.dictionaries(FIELDS, JSON | URLS, max_size=8) | JSON | URLS, max_size=4)


@given(st.sampled_from(sorted(set(ELEMENT_KINDS.values()))), RECORDS)
def test_whatever_the_json_the_xml_is_well_formed(kind: str, value: Any) -> None:
    xml, _ = made(kind, value)
    declared = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())
    parsed = etree.fromstring(f"<url {declared}>{xml}</url>")
    assert all(ELEMENT_KINDS[child.tag] == kind for child in parsed)


@given(RECORDS)
def test_what_was_written_is_read_back_and_written_alike(value: Any) -> None:
    declared = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())
    for kind in ("images", "alternates"):
        xml, _ = made(kind, value)
        records = [read_extension(child) for child in etree.fromstring(f"<url {declared}>{xml}</url>")]
        again, tally = made(kind, records)
        assert again == xml
        assert set(tally.fixed) <= {"ignored-field"}


@given(st.lists(st.fixed_dictionaries({"loc": URLS}) | URLS, min_size=1, max_size=4))
def test_the_quick_path_of_images_gives_what_the_long_one_gives(found: list[Any]) -> None:
    quick = media.quick_images(found)
    if quick is not None:
        notes = FieldProblems(cases.row_context("https://example.com/"))
        values = [one if isinstance(one, dict) else {"loc": one} for one in found]
        assert media.render_images([FieldReader("image", one, notes) for one in values], notes) == quick
        assert not notes.faults
        assert not notes.fixed


LANGUAGES = st.sampled_from(
    ["de", "DE", "de-CH", "x-default", "X-DEFAULT", "X_Default", "de_CH", " de", "xx", "", "zh-Hant"]
)


@given(st.lists(st.fixed_dictionaries({"hreflang": LANGUAGES, "href": URLS}), min_size=1, max_size=4))
def test_the_quick_path_of_alternates_gives_what_the_long_one_gives(found: list[dict[str, str]]) -> None:
    quick = languages.quick_alternates(found)
    if quick is not None:
        notes = FieldProblems(cases.row_context("https://example.com/"))
        assert languages.render_alternates([FieldReader("alternate", one, notes) for one in found]) == quick
        assert not notes.faults
        assert not notes.fixed


@given(st.from_regex(r"https?://[a-z0-9.-]{1,20}(:[0-9]{1,5})?/[!-~]{0,20}", fullmatch=True))
@example("https://example.com/%ef%BF%bd")
def test_a_clean_url_is_in_normal_form(url: str) -> None:
    if is_clean(url):
        reading = normalise(url, origin="https://example.com")
        assert (reading.loc, reading.faults) == (url, ())


def test_the_quick_path_is_taken_for_plain_data() -> None:
    assert media.quick_images(["https://example.com/a.jpg?x=1&y='2'"]) is not None
    assert languages.quick_alternates([{"hreflang": "de-CH", "href": "https://example.com/a?x=1&y=2"}]) is not None


@given(st.text().filter(lambda value: not FORBIDDEN.search(value)))
def test_a_parser_gives_back_exactly_what_was_escaped(value: str) -> None:
    parsed = etree.fromstring(f'<a b="{attribute(value)}">{escape(value)}</a>')
    assert (parsed.text or "", parsed.get("b")) == (value, value)


# ---------------------------------------------------------------- groups


ROWS = [("https://example.com/en", "en"), ("https://example.com/de", "de"), ("https://example.com/", "x-default")]


def test_every_row_of_a_group_lists_all_of_them() -> None:
    xml, tally = made("alternates", json.loads(languages.alternates_of_group(ROWS)))
    assert [part.split('"')[3] for part in xml.split("<xhtml:link ")[1:]] == ["de", "en", "x-default"]
    assert not tally.fixed


@given(st.permutations(ROWS))
def test_the_order_of_a_groups_rows_makes_no_difference(rows: list[tuple[str, str]]) -> None:
    assert languages.alternates_of_group(rows) == languages.alternates_of_group(ROWS)


def test_of_two_rows_with_one_language_the_first_url_stays() -> None:
    group = json.loads(
        languages.alternates_of_group([("https://b", "de"), ("https://a", "de"), ("", "en"), ("https://c", "")])
    )
    assert group == [{"hreflang": "de", "href": "https://a"}]


@pytest.mark.parametrize("given", ["X-DEFAULT", "x-Default"])
def test_the_version_for_everybody_else_is_written_in_small_letters(given: str) -> None:
    link = {"hreflang": given, "href": "https://example.com/"}
    for found in ([link], [link, {"hreflang": "de", "href": "https://example.com/de", "media": None}]):
        xml, tally = made("alternates", found)
        assert xml.split('"')[3] == "x-default"
        assert not tally.fixed
    xml, _ = made("alternates", json.loads(languages.alternates_of_group([*ROWS[:2], ("https://example.com/", given)])))
    assert [part.split('"')[3] for part in xml.split("<xhtml:link ")[1:]] == ["de", "en", "x-default"]


@pytest.mark.parametrize(
    ("media", "is_written"),
    [
        ("screen", True),
        ("only screen and (max-width: 640px), print", True),
        (",", False),
        ("screen,", False),
        ("a,,b", False),
    ],
)
def test_media_are_written_if_the_schema_takes_them(media: str, is_written: bool) -> None:
    xml, tally = made("alternates", [{"media": media, "href": "https://example.com/m"}])
    assert ("media=" in xml, bool(tally.fixed)) == (is_written, not is_written)


def test_members_that_are_not_listed_are_left_out_unless_they_are_to_be_kept() -> None:
    members = [*json.loads(languages.alternates_of_group(ROWS)), {"hreflang": "fr", "href": "https://example.fr/"}]
    xml, tally = made("alternates", {"group": members})
    assert (xml.count("<xhtml:link "), "example.fr" in xml) == (3, False)
    assert tally.fixed == {"alternate-dropped": 1}
    kept, tally = made("alternates", {"group": members}, **{"alternate-dropped": "keep"})
    assert "https://example.fr/" in kept
    of_any_host, tally = made("alternates", members)
    assert (of_any_host, tally.fixed) == (kept, {})
    allowed, tally = made("alternates", {"group": members}, **{"scope-host": "keep"})
    assert (allowed, tally.fixed) == (kept, {})
    with pytest.raises(RuleError, match="alternate-dropped"):
        made("alternates", {"group": members}, **{"alternate-dropped": "fail"})


def test_a_version_whose_own_row_is_dropped_for_broken_text_is_left_out_too() -> None:
    members = [
        *json.loads(languages.alternates_of_group(ROWS)),
        {"hreflang": "fr", "href": "https://example.com/%EF%BF%BD"},
    ]
    xml, tally = made("alternates", {"group": members})
    assert (xml.count("<xhtml:link "), tally.fixed) == (3, {"alternate-dropped": 1})


def test_a_page_whose_other_versions_are_all_dropped_is_alone() -> None:
    one = {"hreflang": "de", "href": "https://example.com/de"}
    assert made("alternates", {"group": [one, {"hreflang": "en", "href": "ftp://example.com/en"}]})[0] == ""


@pytest.mark.parametrize("group", [None, 7, {}, [None], ["x"], [{"href": 7, "hreflang": "de"}]])
def test_a_group_that_is_none_is_a_fault_of_its_alternates(group: object) -> None:
    xml, tally = made("alternates", {"group": group})
    assert xml == ""
    assert set(tally.fixed) == {"alternate"}


# ---------------------------------------------------------------- news


@pytest.mark.parametrize(
    ("given_json", "expected"),
    [
        ('{"publication_date": "2026-01-01"}', "2026-01-01"),
        ('[{"publication_date": "2026-01-01T00:00:00Z"}]', "2026-01-01T00:00:00Z"),
        ('[null, {"publication_date": "2026-01-01"}, {"publication_date": "2026-01-02"}]', "2026-01-01"),
        ("[]", None), ("{}", None), ("null", None), ("[null]", None), ("{", None), ('{"publication_date": 5}', None),
    ],
)  # fmt: skip
def test_the_publication_date_is_found(given_json: str, expected: str | None) -> None:
    assert languages.publication_date(given_json) == expected
