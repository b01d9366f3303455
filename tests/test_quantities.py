"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from airflow_sitemaps.quantities import counted


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (2_000, "range", "2,000 ranges"),
        (1, "batch", "1 batch"),
        (2, "batch", "2 batches"),
        (3, "index file", "3 index files"),
    ],
)
def test_a_noun_takes_its_form_from_the_number(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text
