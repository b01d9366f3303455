"""Measurements of runs: values, tags and names; what must never be in a tag."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps import Guards, metrics
from airflow_sitemaps.errors import ConflictError, GuardError, RuleError, StoreError
from airflow_sitemaps.metrics import Measurement
from airflow_sitemaps.protocol.rules import RULES
from tests.support.environment import BASE, World, row

INDEX = f"{BASE}sitemap.xml"
SITEMAP = {"sitemap": "www.example.com_sitemap.xml"}


def values(measured: Any) -> dict[tuple[str, ...], float]:
    """The values by name and tags other than the sitemap; checks that each metric has just the tags it declares."""
    result: dict[tuple[str, ...], float] = {}
    for each in measured:
        assert isinstance(each, Measurement)
        assert set(each.tags) == set(each.metric.tags), each
        assert each.tags["sitemap"] == SITEMAP["sitemap"]
        key = (each.metric.name.removeprefix(metrics.PREFIX), *(each.tags[tag] for tag in each.metric.tags[1:]))
        assert key not in result
        result[key] = each.value
    return result


def test_a_published_run_has_every_value_of_its_report() -> None:
    world = World([row(n, lastmod="2026-01-01T00:00:00Z") for n in range(12)])
    world.rows.append(row(99, loc=None))
    report = world.build()
    now = world.clock.now() + timedelta(hours=2)

    found = values(metrics.of_report(INDEX, report, now))

    section = report.sections["pages"]
    assert found["runs", "published"] == 1
    assert found["generation",] == 1
    assert found["urls", "pages"] == 12
    assert found["rows", "pages"] == found["rows_read", "pages"] == 13
    assert found["shards", "pages"] == found["shards_changed", "pages", "created"] == section.shards.total
    assert found["bytes_written", "pages"] == section.bytes_written > 0
    assert found["file_bytes", "pages"] == section.file_bytes > 0
    assert found["rows_dropped", "pages", "loc-missing"] == 1
    assert {key[2] for key in found if key[0] == "rows_dropped"} == set(RULES)
    assert found["index_age",] >= 7_200
    assert found["data_age", "pages"] > 7_200
    assert found["last_success",] == int(now.timestamp())
    assert {key[1] for key in found if key[0] == "stage_duration"} == {"plan", "write", "publish"}


def test_an_unchanged_run_is_a_success_and_keeps_the_age_of_the_index() -> None:
    world = World([row(n) for n in range(3)])
    world.build()
    world.clock.advance(timedelta(days=1))

    found = values(metrics.of_report(INDEX, world.build(), world.clock.now()))

    assert found["runs", "unchanged"] == 1
    assert found["index_age",] >= 86_400
    assert found["rows_read", "pages"] == 0
    assert ("last_success",) in found
    assert ("data_age", "pages") not in found


def test_drift_is_counted_by_section() -> None:
    world = World([row(n) for n in range(12)])
    world.build()
    name = next(iter(world.shards()))
    world.store.public.delete(name)

    found = values(metrics.of_report(INDEX, world.build(), world.clock.now()))

    assert found["drift", "pages"] == 1


def test_refusals_are_counted_by_guard_and_section() -> None:
    world = World([row(n) for n in range(20)], guards=Guards(min_rows=0))
    world.build()
    del world.rows[5:]
    with pytest.raises(GuardError) as refused:
        world.build()

    found = values(metrics.of_error(INDEX, refused.value))

    assert found == {("runs", "refused"): 1, ("refusals", "pages", "shrink"): 1}


def test_other_errors_are_counted_by_result() -> None:
    assert values(metrics.of_error(INDEX, ConflictError("x"))) == {("runs", "conflict"): 1}
    assert values(metrics.of_error(INDEX, StoreError("x"))) == {("runs", "failed"): 1}
    rule = RuleError("x", rule="loc-missing", section="pages")
    assert values(metrics.of_error(INDEX, rule))["refusals", "pages", "loc-missing"] == 1


def test_an_index_url_gives_no_secret_away() -> None:
    assert metrics.sitemap_tag("https://user:secret@a.example:8080/maps/x.xml?token=secret") == (
        "a.example_8080_maps_x.xml"
    )


@given(st.text(st.characters(codec=None)))
def test_a_tag_is_always_of_characters_that_every_backend_accepts(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_.-]{0,32}", metrics.tag_value(text))


def test_long_values_are_cut_and_stay_different() -> None:
    one, other = (metrics.sitemap_tag(f"{BASE}{'folder/' * 20}{name}.xml") for name in ("a", "b"))

    assert len(one) == len(other) == 80
    assert one != other


def test_data_without_times_is_as_old_as_its_day_in_the_sections_zone() -> None:
    world = World([row(1, lastmod=date(2026, 1, 10))], source_settings={"timezone": "Asia/Tokyo"})
    report, now = world.build(), datetime(2026, 1, 20, tzinfo=timezone.utc)

    found = values(metrics.of_report(INDEX, report, now, world.sitemap().timezone_of))

    assert found["data_age", "pages"] == (9 * 24 + 24 + 9) * 3_600
