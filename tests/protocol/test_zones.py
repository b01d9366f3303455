"""Columns of local times against ``zoneinfo``, value by value."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.columnar.lastmod import PER_SECOND, to_utc

ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "Pacific/Auckland", "America/St_Johns", "Pacific/Apia", "Africa/Casablanca", "Asia/Kabul"]
)
EPOCH = datetime(1970, 1, 1)
# Where Berlin's clocks change, and far from where a time zone file lists changes one by one.
NEAR = st.one_of(
    st.datetimes(datetime(2026, 3, 29), datetime(2026, 3, 29, 4)),
    st.datetimes(datetime(2026, 10, 25), datetime(2026, 10, 25, 4)),
    st.datetimes(datetime(2040, 6, 1), datetime(2040, 8, 1)),
)


@given(st.lists(st.one_of(st.none(), NEAR, st.datetimes()), max_size=8), ZONES, st.sampled_from(["s", "ms", "us"]))
@example([datetime(2038, 7, 1), datetime(9999, 7, 1)], "Europe/Berlin", "s")
@example([datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), None], "Europe/Berlin", "us")
@example([datetime(2011, 12, 30, 12)], "Pacific/Apia", "s")  # a day that was left out
def test_a_column_equals_zoneinfo(values: list[datetime | None], zone: str, unit: str) -> None:
    ticks = [
        None if v is None else (v - EPOCH) // timedelta(microseconds=1_000_000 // PER_SECOND[unit]) for v in values
    ]
    found = to_utc(pa.array(ticks, pa.int64()).cast(pa.timestamp(unit)), zone)
    assert found.type == pa.timestamp(unit, "UTC")
    info = ZoneInfo(zone)
    for before, tick, after in zip(values, ticks, found.view(pa.int64()).to_pylist(), strict=True):
        if before is None or tick is None:
            assert after is None
            continue
        ahead = before.replace(tzinfo=info, fold=0).utcoffset()  # a column has no place for the second of two hours
        assert ahead is not None
        assert after == tick - ahead // timedelta(seconds=1) * PER_SECOND[unit]


def test_outside_the_years_that_clocks_know_nothing_is_moved() -> None:
    ticks = [-(2**60), 2**60]
    found = to_utc(pa.array(ticks, pa.int64()).cast(pa.timestamp("us")), "Europe/Berlin")
    assert found.view(pa.int64()).to_pylist() == ticks


def test_a_time_that_clocks_leave_out_is_read_as_before_the_change() -> None:
    found = to_utc(pa.array([datetime(2026, 3, 29, 2, 30)], pa.timestamp("s")), "Europe/Berlin")
    assert found.to_pylist() == [datetime(2026, 3, 29, 1, 30, tzinfo=timezone.utc)]


def test_an_unknown_zone_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="IANA"):
        to_utc(pa.array([EPOCH], pa.timestamp("s")), "Europe/Nowhere")
