"""Ranges of keys as people read them: an open end has no sign of its own."""

from __future__ import annotations

import pytest

from airflow_sitemaps.shards.ranges import KeyRange, show


@pytest.mark.parametrize(
    ("key_range", "text"),
    [
        (KeyRange(None, None), "all keys"),
        (KeyRange(None, (42,)), "keys before 42"),
        (KeyRange((42,), None), "keys from 42"),
        (KeyRange(("de", "berlin"), ("de", 7)), "keys from de/berlin to before de/7"),
    ],
)
def test_a_range_is_said_in_words(key_range: KeyRange, text: str) -> None:
    assert str(key_range) == text


def test_a_key_is_its_parts() -> None:
    assert show(("de", 7)) == "de/7"
