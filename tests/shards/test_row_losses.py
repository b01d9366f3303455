"""The likely cause of lost rows, by the most frequent rule."""

import pytest

from airflow_sitemaps.shards.guards import RowLosses

BASE = "https://www.example.com/"


@pytest.mark.parametrize(
    ("rule", "sample", "cause"),
    [
        ("loc-missing", "(key [1])", "a column of loc= is NULL or empty in all 3 rows."),
        (
            "loc-relative",
            "'red-shoe' (key [1])",
            f'all 3 values of loc= are only parts of URLs; write a template, such as loc="{BASE}{{slug}}".',
        ),
        (
            "loc-relative",
            "'www.example.com/p/s1' (key [1])",
            'all 3 values of loc= are only parts of URLs; begin the template of loc= with https://, or for a column write loc="https://{slug:path}".',
        ),
        ("loc-scheme", "'ftp://a/b' (key [1])", "all 3 values of loc= begin with neither https:// nor http://."),
        ("key-null", "'a'", "the key is NULL in all 3 rows; use key columns that are never NULL."),
    ],
)
def test_the_cause_says_what_is_wrong_and_what_to_write(rule: str, sample: str, cause: str) -> None:
    losses = RowLosses(rows=3, base_url=BASE, dropped={rule: 3}, samples={rule: (sample,)})
    assert losses.likely_cause() == f"Likely cause: {cause}"
    assert losses.explanation().endswith(f"Rows dropped by rule: {rule} 3, such as {sample!r}.")


def test_the_cause_is_that_of_the_most_frequent_rule() -> None:
    losses = RowLosses(rows=9, base_url=BASE, dropped={"loc-scheme": 1, "loc-missing": 4})
    assert losses.likely_cause() == "Likely cause: a column of loc= is NULL or empty in 4 rows."
