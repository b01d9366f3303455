"""``lastmod``, one value at a time."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.lastmod import LastmodError, begins, in_utc, is_future, parse, render, zone

UTC = timezone.utc


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-01", "2024-05-01"),
        (" 2024-05-01 ", "2024-05-01"),
        ("2024-05-01T10:30:15Z", "2024-05-01T10:30:15Z"),
        ("2024-05-01t10:30:15z", "2024-05-01T10:30:15Z"),
        ("2024-05-01T10:30:15.999999+02:00", "2024-05-01T08:30:15Z"),
        ("2024-05-01T10:30:15,5-0330", "2024-05-01T14:00:15Z"),
        ("2024-05-01T10:30+02:00", "2024-05-01T08:30:00Z"),
        ("2024-05-01 10:30:15", "2024-05-01T08:30:15Z"),
        ("2024-05-01 10:30:15.123", "2024-05-01T08:30:15Z"),
        ("2024-05-01 10:30:15+00", "2024-05-01T10:30:15Z"),
        ("2024-05-01 10:30:15 +00:00", "2024-05-01T10:30:15Z"),
        ("2024-05-01T10:30", "2024-05-01T08:30:00Z"),
        ("2024-01-01T00:30:00+01:00", "2023-12-31T23:30:00Z"),
        ("0001-01-01", "0001-01-01"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ],
)
def test_what_is_read(text: str, expected: str) -> None:
    value = parse(text, "Europe/Berlin")
    assert value is not None
    assert render(value) == expected


@pytest.mark.parametrize(
    "text",
    ["2024", "2024-05", "not-a-date", "01.05.2024", "2024-5-1", "2024-02-30", "2024-05-01T24:00:00Z", "2021-06-18T112:13:04+00:00", "Tue, 10 Aug 2010 20:43:53 -0000", "2024-05-01T10", "2024-05-01T10:30:60Z", "2024-05-01T10:30:15+24:00", "1714557600", "٢٠٢٤-٠٥-٠١", "2024-05-01T10:30:15 UTC", "2024-05-01T10:30:15+02:60"],
)  # fmt: skip
def test_what_is_no_date(text: str) -> None:
    with pytest.raises(LastmodError, match="lastmod-format"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["0000-00-00", "0000-00-00 00:00:00", "0000-01-01", "10000-01-01", "-0044-03-15", "infinity", "-infinity", "9999-12-31T23:59:59-00:01", "0001-01-01T00:00:00+00:01"],
)  # fmt: skip
def test_what_no_year_can_hold(text: str) -> None:
    with pytest.raises(LastmodError, match="lastmod-range"):
        parse(text)


def test_nothing_is_nothing() -> None:
    assert parse("") is None
    assert parse("  ") is None


@given(st.datetimes(timezones=st.just(UTC)))
def test_what_is_written_is_read_again(moment: datetime) -> None:
    assert parse(render(moment)) == moment.replace(microsecond=0)
    assert parse(render(moment.date())) == moment.date()


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.timezones()))
def test_utc_is_the_same_moment(moment: datetime) -> None:
    assert timedelta() <= moment - in_utc(moment) < timedelta(seconds=1)


def test_the_future() -> None:
    now = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
    assert not is_future(now, now)
    assert is_future(now + timedelta(seconds=1), now)
    assert is_future(date(2026, 3, 2), now)
    assert not is_future(date(2026, 3, 2), now, "Europe/Berlin")
    assert begins(date(2026, 3, 2), "Europe/Berlin") == datetime(2026, 3, 1, 23, tzinfo=UTC)
    assert begins(date(1, 1, 1), "Asia/Tokyo") == datetime(1, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "Europe"])
def test_a_zone_that_is_none(name: str) -> None:
    with pytest.raises(ConfigurationError, match="timezone="):
        zone(name)
