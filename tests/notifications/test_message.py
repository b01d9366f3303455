"""Messages: what a person reads about each result, and what they must never hold."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps import Guards
from airflow_sitemaps.errors import (
    ConfigurationError,
    ConflictError,
    GuardError,
    ManifestError,
    PartlyPublishedError,
    SourceError,
    StoreError,
)
from airflow_sitemaps.http import FetchError
from airflow_sitemaps.notifications import message
from airflow_sitemaps.operators import failure_facts
from airflow_sitemaps.pipeline.state.repository import RefusedPutError
from airflow_sitemaps.shards.guards import Refusal
from airflow_sitemaps.shards.plan import SectionFailure, failures_of
from tests.support.environment import World, row

LINK = "https://airflow.example/dags/shop/runs/1/plugin/sitemap-run"


def test_a_published_run_says_what_was_published_and_what_is_not_listed() -> None:
    world = World([row(n) for n in range(12)])
    world.rows += [row(90, loc=None), row(91, loc="ftp://x")]

    text = message.of_report(world.build().to_dict(), LINK)

    assert text.title == "Sitemap published: https://www.example.com/sitemap.xml, 12 URLs"
    assert text.lines[0] == f"Generation 1: {len(world.shards())} created of {len(world.shards())} shards"
    assert "2 rows are not listed: loc-missing 1, loc-scheme 1" in text.lines
    assert text.text.endswith(LINK)


def test_more_permits_than_a_message_names_are_counted() -> None:
    refusals = [{"message": "fewer rows", "permit": f"shrink:s{n}=0.5"} for n in range(5)]

    text = message.of_refusal("shop", {"refusals": refusals})

    assert text.action.endswith(
        "allow=['shrink:s0=0.5', 'shrink:s1=0.5', 'shrink:s2=0.5'] and 2 more that the log names."
    )


def test_an_unchanged_run_is_one_line() -> None:
    world = World([row(1)])
    world.build()

    text = message.of_report(world.build().to_dict())

    assert (text.result, text.text) == (
        "unchanged",
        "Sitemap unchanged: https://www.example.com/sitemap.xml, 1 URL",
    )


def test_a_refusal_says_why_and_what_lets_it_pass() -> None:
    world = World([row(n) for n in range(20)], guards=Guards(min_rows=0))
    world.build()
    del world.rows[5:]
    with pytest.raises(GuardError) as refused:
        world.build()
    wrapped = RuntimeError("the task failed")
    wrapped.__cause__ = refused.value

    text = message.of_error("shop", wrapped, LINK)

    assert text.title == "Sitemap refused: shop; the published sitemap is unchanged"
    assert "20" in text.lines[0]
    assert text.action == "Check the source. If the data is right, run the DAG once with allow=['shrink:pages=0.75']."


@pytest.mark.parametrize(
    ("error", "title", "action"),
    [
        (ConflictError("generation 4 was committed"), "Sitemap conflict", "Run the DAG again"),
        (ConfigurationError("no column 'id'"), "Sitemap failed", "Fix the configuration"),
        (SourceError("the connection was lost"), "Sitemap failed", "Check the database"),
        (StoreError("503"), "Sitemap failed", "Check the store"),
        (RefusedPutError("403"), "Sitemap failed", "Check the store"),
        (FetchError("timed out"), "Sitemap failed", "Read the task's log"),
        (ManifestError("not JSON"), "Sitemap failed", "See the page Operating"),
    ],
)
def test_a_failure_says_why_and_what_to_do(error: Exception, title: str, action: str) -> None:
    text = message.of_error("shop", error)

    assert text.title == f"{title}: shop; the published sitemap is whole"
    assert text.lines == (f"{type(error).__name__}: {error}",)
    assert text.action.startswith(action)
    assert message.of_failure_facts("shop", failure_facts(error)) == text, "the callback of the DAG says the same"


def test_a_partly_published_run_says_which_sections_are_missing_and_what_lets_them_pass() -> None:
    guard = Refusal(guard="shrink", section="pages", message="Section 'pages' has 5 rows now, 20 before", value=0.75)
    down = SectionFailure(section="news", error="SourceError", message="the database is down")
    world = World([row(n) for n in range(20)])
    report = replace(world.build(), result="partly_published")
    error = PartlyPublishedError("2 sections not published", report=report, failures=(*failures_of([guard]), down))

    for text in (
        message.of_error("shop", error, LINK),
        message.of_failure_facts("shop", failure_facts(error), LINK),
    ):
        assert text.result == "partly_published"
        assert text.title == "Sitemap partly published: shop; 2 sections not published"
        assert text.lines == (
            "pages: Section 'pages' has 5 rows now, 20 before",
            "news: SourceError: the database is down",
        )
        assert text.action == (
            "Check the source. If the data is right, run the DAG once with allow=['shrink:pages=0.75']."
        )


def test_a_message_counts_every_section_that_failed() -> None:
    failures = tuple(SectionFailure(section=f"s{n}", error="SourceError", message="down") for n in range(100))
    report = replace(World([row(1)]).build(), result="partly_published")
    error = PartlyPublishedError("100 sections not published", report=report, failures=failures)

    text = message.of_failure_facts("shop", failure_facts(error), LINK)

    assert text.title == "Sitemap partly published: shop; 100 sections not published"
    assert text.lines == (*(f"s{n}: SourceError: down" for n in range(3)), "… and 97 more sections")


def test_a_refused_section_beside_unchanged_ones_is_a_refusal() -> None:
    world = World([row(n) for n in range(20)])
    down = SectionFailure(section="news", error="SourceError", message="the database is down")
    guard = Refusal(guard="shrink", section="pages", message="Section 'pages' has 5 rows now", value=0.75)
    unchanged = replace(world.build(), result="refused")

    for failures, result in ((failures_of([guard]), "refused"), ((down,), "failed")):
        text = message.of_error("shop", PartlyPublishedError("", report=unchanged, failures=failures))
        assert (text.result, text.title) == (
            result,
            f"Sitemap {result}: shop; the published sitemap is unchanged",
        )


def test_the_text_of_a_foreign_error_is_not_shown() -> None:
    text = message.of_error("shop", RuntimeError("postgres://user:secret@db"))

    assert "secret" not in text.text + text.slack + text.html
    assert text.lines == ("RuntimeError; the task's log has the details",)


def test_long_lists_are_cut_and_counted() -> None:
    refusals = [{"message": f"section {n}", "permit": f"empty:{n}"} for n in range(10)]

    text = message.of_refusal("shop", {"refusals": refusals})

    assert text.lines == ("section 0", "section 1", "section 2", "… and 7 more refusals")


def test_the_other_sitemaps_of_a_dag_are_cut_and_counted() -> None:
    text = message.of_sitemaps([message.of_error(f"s{n}", SourceError("down")) for n in range(6)])

    whole = "; the published sitemap is whole"
    titles = [f"Sitemap failed: s{n}{whole}" for n in range(4)]
    assert (text.title, *text.lines) == (titles[0], "SourceError: down", *titles[1:], "… and 2 more sitemaps")


class Tags(HTMLParser):
    """Collects the elements of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)


@given(st.text(), st.lists(st.text(), max_size=5))
def test_no_text_can_add_markup_or_lines(name: str, reasons: list[str]) -> None:
    text = message.of_refusal(name, {"refusals": [{"message": reason, "permit": reason} for reason in reasons]})
    parser = Tags()
    parser.feed(text.html)

    assert parser.tags <= {"p", "strong", "ul", "li", "a"}
    assert len(text.text.split("\n")) <= 2 + len(text.lines)
    assert all(len(line) <= message.MAX_CHARACTERS for line in (text.title, *text.lines))
    assert "<" not in text.slack
