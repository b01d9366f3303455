"""The lines of a report: each fault is a warning when it is new or grows, and part of one line while it stands."""

from __future__ import annotations

import logging
from typing import Any

from airflow_sitemaps import Guards, MemoryStore, Section, Sitemap, report_text
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing import MemorySourceConfig

URL = "https://www.example.com/"


def faulty(number: int) -> dict[str, Any]:
    return {"id": number, "loc": f"https://elsewhere.example/{number}"}


def test_a_fault_is_reported_when_it_is_new_or_grows_and_is_one_line_while_it_stands() -> None:
    rows = [{"id": number, "loc": f"{URL}{number}"} for number in range(50)]
    source = MemorySourceConfig(rows)
    site = Sitemap(MemoryStore(base_url=URL), [Section("pages", source)], guards=Guards.disabled())
    rows += [faulty(100), faulty(101)]

    def lines() -> list[str]:
        return [line for line in report_text.lines(build(site)) if "scope-host" in line]

    (new,) = lines()
    assert new.startswith("WARNING section pages: rows left out by rule scope-host: 2, for example ")
    assert report_text.level(new) == logging.WARNING
    rows.append({"id": 200, "loc": f"{URL}200"})
    (standing,) = lines()
    assert standing == "section pages: faults that are not new, by rule: scope-host 2"
    assert report_text.level(standing) == logging.INFO
    assert lines() == [standing], "an unchanged run says the same one line"
    rows.append(faulty(102))
    (grown,) = lines()
    assert grown.startswith("WARNING section pages: rows left out by rule scope-host: 3, 2 in the generation before")


def test_a_fault_of_every_row_is_one_line_while_the_table_grows() -> None:
    """The files are in another folder than the pages, as in a common layout."""
    rows = [{"id": number, "loc": f"{URL}p/{number}"} for number in range(50)]
    site = Sitemap(MemoryStore(base_url=f"{URL}maps/"), [Section("pages", MemorySourceConfig(rows))])

    def lines() -> list[str]:
        return [line for line in report_text.lines(build(site)) if "scope-path" in line]

    first = lines()[0]
    assert first.startswith("WARNING section pages: values fixed, omitted or kept by rule scope-path: 50, for example ")
    rows.append({"id": 100, "loc": f"{URL}p/100"})
    assert lines() == ["section pages: faults that are not new, by rule: scope-path 51"]
    rows += [{"id": 200 + number, "loc": f"{URL}maps/{number}"} for number in range(49)]
    assert lines() == ["section pages: faults that are not new, by rule: scope-path 51"]
    rows.append({"id": 300, "loc": f"{URL}p/300"})
    rows.append({"id": 301, "loc": f"{URL}p/301"})
    assert lines()[0].startswith(
        "WARNING section pages: values fixed, omitted or kept by rule scope-path: 53, 51 in the generation"
    )


def test_what_was_written_is_not_explained_where_nothing_was() -> None:
    rows = [{"id": number, "loc": f"{URL}{number}"} for number in range(50)]
    site = Sitemap(MemoryStore(base_url=URL), [Section("pages", MemorySourceConfig(rows))])
    assert "section pages: written because: " in "\n".join(report_text.lines(build(site)))

    for again in (build(site, full=True), build(site, rebuild=["pages-00001"])):
        assert (again.result, again.generation, again.rows_read) == ("unchanged", 1, 50), "equal files: no generation"
        assert "written because" not in "\n".join(report_text.lines(again))


def test_levels() -> None:
    assert report_text.level("  refused: Section 'a' …") == logging.ERROR
    assert report_text.level("REFUSED Section 'a' …") == logging.ERROR
    assert report_text.level("  drift: a.xml is gone") == logging.WARNING
    assert report_text.level("section a: 1 URLs") == logging.INFO


def test_a_level_stands_once_in_a_line_of_the_log() -> None:
    assert report_text.logged("WARNING section pages: 2 rows") == (logging.WARNING, "section pages: 2 rows")
    assert report_text.logged("warning: all lastmods are equal") == (logging.WARNING, "all lastmods are equal")
    assert report_text.logged("ERROR loc: pages-1.xml.gz: damaged") == (logging.ERROR, "loc: pages-1.xml.gz: damaged")
    assert report_text.logged("NOT PUBLISHED section a") == (logging.ERROR, "NOT PUBLISHED section a")


def test_a_file_that_was_changed_outside_is_a_warning() -> None:
    rows = [{"id": number, "loc": f"{URL}{number}"} for number in range(50)]
    store = MemoryStore(base_url=URL)
    site = Sitemap(store, [Section("pages", MemorySourceConfig(rows))])
    build(site)
    opened = store.open()
    (name,) = [info.key for info in opened.public.list("pages-")]
    opened.public.delete(name)

    (line,) = [line for line in report_text.lines(build(site)) if name in line]

    assert line.startswith("WARNING section pages: changed outside: ")


def test_the_sections_that_a_run_did_not_check_are_named() -> None:
    """V1: a run of one section says nothing of the others."""
    pages = MemorySourceConfig([{"id": number, "loc": f"{URL}{number}"} for number in range(50)])
    news = MemorySourceConfig([{"id": number, "loc": f"{URL}n/{number}"} for number in range(50)])
    site = Sitemap(MemoryStore(base_url=URL), [Section("pages", pages), Section("news", news)])

    whole, part = build(site), build(site, sections=["news"])

    assert not any("not checked" in line for line in report_text.lines(whole))
    assert "not checked, since this run is of other sections: pages" in list(report_text.lines(part))
