"""Distinct URLs found by their ends, compared with a set."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_sitemaps.protocol import columnar
from airflow_sitemaps.protocol.columnar import spread_of

TEXTS = st.one_of(
    st.text(max_size=12),
    st.builds(
        lambda head, middle, tail: head + middle + tail,
        st.sampled_from(["", "https://www.example.com/", "https://www.example.com/a-very-long-way/to/"]),
        st.sampled_from(["1", "2", "33", "é", "product"]),
        st.sampled_from(
            ["", "?utm_source=sitemap&utm_medium=organic&utm_campaign=none", "?page=2", "-1234567890123456"]
        ),
    ),
)


def all_distinct(columns: list[pa.StringArray]) -> bool:
    return columnar.all_distinct(columns, [spread_of(column) for column in columns])


@given(st.lists(st.lists(TEXTS, max_size=20), max_size=4))
@example([["https://www.example.com/1"], ["https://www.example.com/1"]])
@example([[], ["https://www.example.com/1", "https://www.example.com/2"]])
@example([])
def test_equals_a_set(columns: list[list[str]]) -> None:
    every = [text for column in columns for text in column]
    arrays = [pa.array(["x", *column, "y"], pa.string()).slice(1, len(column)) for column in columns]
    assert all_distinct(arrays) == (len(set(every)) == len(every))


@given(st.lists(st.text(min_size=8, max_size=60), min_size=1, max_size=9), st.integers(0, 8))
def test_the_spread_depends_on_the_text_alone(texts: list[str], place: int) -> None:
    alone = spread_of(pa.array([texts[place % len(texts)]]))
    among = spread_of(pa.array(["a", *texts, "é"]).slice(1, len(texts)))
    assert among[place % len(texts)] == alone[0]


@pytest.mark.parametrize("suffix", ["", "?utm_source=sitemap&utm_medium=organic&utm_campaign=none"])
def test_a_shard_of_like_urls(suffix: str) -> None:
    texts = [f"https://www.example.com/products/{n}{suffix}" for n in range(50_000)]
    assert all_distinct([pa.array(texts[:20_000]), pa.array(texts[20_000:])])
    assert not all_distinct([pa.array(texts[:20_000]), pa.array(texts[20_000:]), pa.array(texts[7:8])])
