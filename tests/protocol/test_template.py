"""URL templates."""

from __future__ import annotations

from decimal import Decimal
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.url_template import Template


def expand(text: str, **columns: pa.Array) -> list[str | None]:
    return Template.parse(text).expand(columns).to_pylist()


def test_columns_in_order_and_once() -> None:
    template = Template.parse("https://host/{lang}/{slug}?l={lang}&c={user name}")
    assert template.columns == ("lang", "slug", "user name")


def test_values_are_encoded_and_nulls_make_null() -> None:
    assert expand(
        "https://host/p/{slug}?q={n}",
        slug=pa.array(["a b", "ü/ö", None, "x", "~_-."]),
        n=pa.array([1, 2, 3, None, -5]),
    ) == ["https://host/p/a%20b?q=1", "https://host/p/%C3%BC%2F%C3%B6?q=2", None, None, "https://host/p/~_-.?q=-5"]


def test_path_keeps_slashes() -> None:
    given = pa.array(["a/b c", "/x//y", None])
    assert expand("https://host/{p:path}#{p}", p=given) == [
        "https://host/a/b%20c#a%2Fb%20c",
        "https://host//x//y#%2Fx%2F%2Fy",
        None,
    ]


def test_braces() -> None:
    assert expand("https://host/{{{a}}}/{{x}}", a=pa.array(["1"])) == ["https://host/{1}/{x}"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, 2**63 - 1]), ["1", "9223372036854775807"]),
        (pa.array([Decimal("1.50"), Decimal("-2.00")], pa.decimal128(5, 2)), ["1.50", "-2.00"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array(["é"], pa.large_string()), ["%C3%A9"]),
        (pa.array(["é"], pa.string_view()), ["%C3%A9"]),
        (pa.array([19_000], pa.int32()).cast(pa.date32()), ["2022-01-08"]),
        (pa.array([], pa.string()), []),
        (pa.nulls(2), [None, None]),
    ],
)
def test_types(values: pa.Array, expected: list[str | None]) -> None:
    assert expand("{v}", v=values) == expected


def test_surrogates_are_joined_or_left_for_the_rule() -> None:
    raw = pa.array(["a?\ud83d\ude00".encode("utf-8", "surrogatepass"), b"\xed\xa0\xbd"], pa.binary()).view(pa.string())
    expanded = Template.parse("/{v}").expand({"v": raw}).cast(pa.binary()).to_pylist()
    assert expanded == [b"/a%3F%F0%9F%98%80", b"/\xed\xa0\xbd"]


@given(st.lists(st.one_of(st.none(), st.text()), max_size=6))
def test_it_is_urllibs_quote(values: list[str | None]) -> None:
    assert expand("/{v}", v=pa.array(values, pa.string())) == [
        None if not v else f"/{quote(v, safe='')}" for v in values
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("https://host/{slug", r"'\{' at character 14 has no matching brace"),
        ("https://host/slug}", r"'\}' at character 18 has no matching brace"),
        ("https://host/{}", r"\{\} is not a column name"),
        ("https://host/{0}", "is not a column name"),
        ("https://host/{id:05d}", "unknown conversion '05d'"),
        ("https://host/{a{b}}", r"'\{' at character 14"),
    ],
)
def test_malformed_templates(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Template.parse(text)


def test_columns_that_are_not_there() -> None:
    with pytest.raises(ConfigurationError, match="no column 'slug'; there are id"):
        expand("https://host/{slug}", id=pa.array([1]))
    with pytest.raises(ConfigurationError, match=r"it has no \{column\}"):
        expand("https://host/", id=pa.array([1]))
