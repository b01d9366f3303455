"""Accidents that owners lose pages by: each is refused, or at least warned of."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_sitemaps import Guards
from airflow_sitemaps.errors import GuardError
from airflow_sitemaps.pipeline import stages
from airflow_sitemaps.pipeline.plan.dry_run import explain
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.protocol.columnar import spread_of
from airflow_sitemaps.report_text import lines
from airflow_sitemaps.shards import url_sample
from tests.support.environment import BASE, World, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_sitemaps.shards.manifest import SectionManifest

NUMBER = 6_000


def shop(number: int = NUMBER, **settings: Any) -> World:
    """Products, and one page in 50 is a category with a low id."""
    world = World(guards=Guards(), max_urls=1_000, settings=settings)
    for key in range(number):
        folder = "c" if key < number // 50 else "p"
        lastmod = (world.clock.now() - timedelta(minutes=key)).isoformat()
        world.rows.append(row(key, loc=f"{BASE}{folder}/{key}-name", lastmod=lastmod))
    world.build()
    return world


def section(world: World) -> SectionManifest:
    current = StateRepository(world.store.state).current()
    assert current is not None
    return current.manifest.sections["pages"]


def every(world: World, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    world.rows[:] = [{**r, **change(r)} for r in world.rows]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda r: {"loc": r["loc"] + "/"}, id="trailing slash"),
        pytest.param(lambda r: {"loc": r["loc"] + "?sid=1"}, id="session id"),
        pytest.param(lambda r: {"loc": r["loc"].replace("-name", "")}, id="slug lost"),
        pytest.param(lambda r: {"loc": r["loc"].replace("/p/", "/staging/p/")}, id="another folder"),
        pytest.param(lambda r: {"loc": f"{BASE}p/{r['id'] + 1_000_000}-name"}, id="ids of staging"),
    ],
)
@pytest.mark.parametrize("number", [100, NUMBER])
def test_urls_that_are_all_replaced_are_refused(
    change: Callable[[dict[str, Any]], dict[str, Any]], number: int
) -> None:
    world = shop(number)
    every(world, change)
    with pytest.raises(GuardError, match=r"replaced by others \(the limit is max_churn=50%\)") as refused:
        world.build()
    assert any(r.permit in ("churn:pages=1", "churn:pages=0.99", "churn:pages=0.98") for r in refused.value.refusals)
    assert world.build(allow=["churn:pages=1"]).result == "published"


def test_ordinary_turnover_passes_and_is_estimated_well() -> None:
    world = shop()
    before = section(world)
    for at in range(0, NUMBER, 5):
        world.rows[at] = row(50_000 + at, loc=f"{BASE}p/{50_000 + at}-name", lastmod=world.rows[at]["lastmod"])
    assert world.build().result == "published"
    estimate = url_sample.gone(before, section(world))
    assert estimate is not None
    assert abs(estimate - 0.2) < 0.04


def warnings_after(change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    world = shop()
    every(world, change)
    return "\n".join(world.build().warnings)


def test_lastmods_that_are_all_gone_are_warned_of() -> None:
    assert f"0 of {NUMBER:,} URLs have a lastmod" in warnings_after(lambda r: {"lastmod": None})
    assert f"0 of {NUMBER:,} URLs have a lastmod" in warnings_after(lambda r: {"lastmod": "15/01/2026"})
    assert f"0 of {NUMBER:,} URLs have a lastmod" in warnings_after(lambda r: {"lastmod": "2099-01-01T00:00:00Z"})


def test_lastmods_of_one_moment_are_warned_of() -> None:
    text = warnings_after(lambda r: {"lastmod": "2026-01-15T11:00:00Z"})
    assert f"all {NUMBER:,} lastmods are 2026-01-15T11:00:00Z" in text


@pytest.mark.parametrize("number", [100, NUMBER])
@pytest.mark.parametrize(
    ("stamp", "said"),
    [
        (lambda r: f"2026-01-15T11:{r['id'] % 60:02}:00Z", "are from 2026-01-15T11:00:00Z to 2026-01-15T11:59:00Z"),
        (lambda _: "2026-01-15", "are from 2026-01-15 to 2026-01-15"),
    ],
)
def test_lastmods_that_a_load_stamped_while_it_ran_are_warned_of(
    stamp: Callable[[dict[str, Any]], str], said: str, number: int
) -> None:
    world = shop(number)
    every(world, lambda r: {"lastmod": stamp(r)})
    expected = f"all {number:,} lastmods {said}, and they were further apart before"
    assert expected in "\n".join(world.build().warnings)
    every(world, lambda r: {"priority": 0.4})
    assert "lastmods" not in "\n".join(world.build().warnings), "it is said once"


@pytest.mark.parametrize("number", [2, 19])
def test_a_section_too_small_for_guards_that_loses_or_replaces_most_urls_is_warned_of(number: int) -> None:
    world = World([row(key) for key in range(number)], guards=Guards())
    world.build()
    every(world, lambda r: {"loc": r["loc"] + "/"})
    said = f"{number} of the {number} URLs published before are no longer listed"
    assert said in "\n".join(world.build().warnings)
    world.rows.extend(row(100 + key) for key in range(19 - number))
    world.build()
    del world.rows[1:]
    assert "18 of the 19 URLs published before are no longer listed" in "\n".join(world.build().warnings)


def test_an_ordinary_change_of_a_small_section_is_not_warned_of() -> None:
    world = World([row(key) for key in range(12)], guards=Guards())
    world.build()
    del world.rows[6:]
    world.rows.append(row(50))
    assert world.build().warnings == ()


def test_dates_of_the_wrong_unit_are_warned_of() -> None:
    """Seconds that are read as milliseconds are dates of January 1970."""
    world = World(guards=Guards())
    world.rows.extend(row(key, lastmod=f"1970-01-21T18:{key:02}:55Z") for key in range(20))
    (text,) = world.build().warnings
    assert "its newest lastmod is 1970-01-21T18:19:55Z; check the column of lastmod=, and lastmod_unit=" in text
    world.rows.append(row(20, lastmod="1999-01-01"))
    assert world.build().warnings == ()


@pytest.mark.parametrize("part", [0.02, 0.09])
@pytest.mark.parametrize("number", [900, NUMBER])
def test_a_folder_that_is_gone_is_warned_of(part: float, number: int) -> None:
    """The rows with the lowest ids are deleted: the categories, and at 9 % the oldest products too."""
    world = shop(number)
    del world.rows[: int(number * part)]
    text = "\n".join(world.build().warnings)
    assert f"URLs were below {BASE}c/, and none is now" in text


def test_a_folder_that_is_new_and_large_is_warned_of() -> None:
    world = shop()
    world.rows.extend(row(100_000 + key, loc=f"{BASE}account/{key}") for key in range(int(NUMBER * 0.8)))
    text = "\n".join(world.build().warnings)
    assert f"URLs are below {BASE}account/, and none was before" in text


def test_rows_that_are_doubled_under_other_keys_are_warned_of() -> None:
    world = shop()
    world.rows.extend([{**r, "id": r["id"] + 100_000} for r in world.rows])
    text = "\n".join(world.build().warnings)
    assert f"about 50% of its {2 * NUMBER:,} URLs are listed more than once" in text


def test_a_first_build_of_doubled_rows_is_warned_of() -> None:
    """A join that repeats each page is most often there from the beginning."""
    world = World(guards=Guards(), max_urls=1_000)
    world.rows.extend(row(key, loc=f"{BASE}p/{key % NUMBER}") for key in range(2 * NUMBER))
    (text,) = world.build().warnings
    assert f"about 50% of its {2 * NUMBER:,} URLs are listed more than once" in text
    assert world.build().warnings == (), "said once"


def test_a_report_and_a_plan_show_where_the_urls_are() -> None:
    world = shop()
    world.rows.extend(row(100_000 + key, loc=f"{BASE}account/{key}") for key in range(NUMBER // 2))
    report = world.build()
    table = {count.prefix: (count.urls, count.urls_before) for count in report.prefixes}
    assert list(table) == [f"{BASE}p/", f"{BASE}account/", f"{BASE}c/"]
    assert abs(table[f"{BASE}p/"][0] / (NUMBER * 0.98) - 1) < 0.1
    assert abs(table[f"{BASE}account/"][0] / (NUMBER * 0.5) - 1) < 0.15
    assert table[f"{BASE}account/"][1] == 0
    text = list(lines(report))
    assert f"URLs below {BASE}account/: about {table[f'{BASE}account/'][0]:,} (before: 0)" in text
    stored = StateRepository(world.store.state).read_report(report.run)
    assert stored is not None
    assert stored.to_dict()["prefixes"][0] == {
        "prefix": f"{BASE}p/",
        "urls": table[f"{BASE}p/"][0],
        "urls_before": table[f"{BASE}p/"][1],
    }
    world.rows[-1] = {**world.rows[-1], "loc": f"{BASE}other/1"}
    planned = stages.plan(world.sitemap(), stages.RunRequest(dry_run=True), clock=world.clock)
    explained = explain(planned)
    assert f"published URLs below {BASE}p/: about {table[f'{BASE}p/'][0]:,}" in explained
    assert any(line.endswith(f"1 have a URL below {BASE}other/") for line in explained)


def test_a_first_build_says_that_there_is_nothing_to_compare_with(caplog: pytest.LogCaptureFixture) -> None:
    world = World([row(key) for key in range(30)])
    assert world.build().warnings == ()
    assert "section pages: first build (30 URLs); there is no earlier one to compare it with" in caplog.messages


def test_urls_that_must_be_listed_are_never_missing() -> None:
    world = shop(3_000)
    lost = world.rows.pop(7)
    world.rows.append(row(9_000, loc=f"{BASE}p/new"))
    world.settings["must_list"] = [f"{BASE}c/7-name"]
    with pytest.raises(GuardError, match=r"no section lists 1 URL of must_list, such as .*/c/7-name"):
        world.build()
    world.rows.insert(7, lost)
    assert world.build().result == "published"
    world.rows.remove(lost)
    with pytest.raises(GuardError, match="--allow must_list:pages"):
        world.build()
    assert world.build(allow=["must_list:pages"]).result == "published"


@pytest.mark.parametrize(
    ("loc", "must"),
    [
        ("https://www.example.com", "https://www.example.com"),
        ("https://www.example.com/", "HTTPS://WWW.Example.com"),
        (f"{BASE}straße?a=1&b=2", f"{BASE}straße?a=1&b=2"),
        (f"{BASE}stra%C3%9Fe", f"{BASE}straße"),
        (f"{BASE}straße", f"{BASE}stra%C3%9Fe"),
        (f"{BASE}about", "/about"),
    ],
)
def test_urls_that_must_be_listed_are_compared_in_the_form_of_the_files(loc: str, must: str) -> None:
    world = World([row(1, loc=loc), row(2)], settings={"must_list": [must]})
    assert world.build().urls == 2
    del world.rows[0]
    with pytest.raises(GuardError, match=r"no section lists 1 URL of must_list, such as https://www\.example\.com/"):
        world.build()


def test_samples_stay_small_however_many_shards() -> None:
    for rows in (1, 2_048, 2_049, 50_000, 2_500_000_000):
        level = url_sample.level_of(rows)
        assert rows / 2**level <= url_sample.URLS
        assert level == 0 or rows / 2 ** (level - 1) > url_sample.URLS
    world = shop()
    prints = sum(len(shard.sample or "") for shard in section(world).shards)
    assert prints < 2 * url_sample.URLS * 8


@pytest.mark.parametrize("level", [1, 3, 5])
def test_a_sample_of_a_low_level_holds_that_of_a_higher_one(level: int) -> None:
    locs = pa.array([f"{BASE}p/{n}" for n in range(20_000)])
    whole, _ = url_sample.sample([locs], 0, [spread_of(locs)])
    part, prefixes = url_sample.sample([locs], level, [spread_of(locs)])
    prints = {each for each in url_sample._prints(whole, 0) if int.from_bytes(each, "big") < 1 << (48 - level)}
    assert set(url_sample._prints(part, 0)) == prints
    assert abs(len(prints) * 2**level / 20_000 - 1) < 0.15
    assert sum(prefixes.values()) == len(prints)
