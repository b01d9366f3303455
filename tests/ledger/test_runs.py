"""What the ledger says after one run and another: when each URL was listed first and changed last."""

from __future__ import annotations

import gzip
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from airflow_sitemaps import Guards
from airflow_sitemaps.errors import GuardError, IncompleteError
from airflow_sitemaps.pipeline import rollback, stages
from airflow_sitemaps.pipeline.plan.section_planner import plan_section
from airflow_sitemaps.pipeline.request import RunRequest
from airflow_sitemaps.shards import range_actions
from tests.ledger.parts import lines, manifest_of, parts_read
from tests.support.environment import BASE, World, row

HOUR = timedelta(hours=1)


def world_of(keys: Any, **settings: Any) -> World:
    return World([row(key) for key in keys], section_settings={"ledger": True}, **settings)


def at(world: World) -> datetime:
    """The time that a run beginning now records: the whole second that has not passed."""
    now = world.clock.now()
    return now if not now.microsecond else now.replace(microsecond=0) + timedelta(seconds=1)


def loc(key: int) -> str:
    return f"{BASE}p/{key}"


def test_a_first_build_lists_every_url_first_and_an_unchanged_run_reads_no_part():
    world = world_of(range(12))
    began = at(world)
    world.build()
    assert {line.first_listed for line in lines(world).values()} == {began}
    assert {line.changed_at for line in lines(world).values()} == {None}
    assert [line.key for line in lines(world).values()] == [f"[{key}]" for key in range(12)]
    before = manifest_of(world)
    world.clock.advance(HOUR)
    assert world.build().result == "unchanged"
    assert parts_read(world) == []
    assert manifest_of(world) == before


def test_a_changed_row_a_new_row_and_the_others():
    world = world_of(range(0, 24, 2))
    began = at(world)
    world.build()
    world.clock.advance(HOUR)
    second = at(world)
    world.rows[5]["priority"] = 0.9
    world.rows.append(row(11))
    world.build()
    told = lines(world)
    assert told[loc(10)][3:] == (began, second)
    assert told[loc(11)][3:] == (second, None)
    assert {told[url][3:] for url in told.keys() - {loc(10), loc(11)}} == {(began, None)}
    assert len(set(parts_read(world))) == 1


def test_a_full_run_over_equal_rows_commits_nothing_and_stores_no_part_again():
    world = world_of(range(12))
    world.build()
    before = set(world.config.state.objects)
    world.clock.advance(HOUR)
    assert world.build(full=True).result == "unchanged"
    assert not [key for key in set(world.config.state.objects) - before if key.endswith(".parquet")]


def test_what_is_known_follows_splits_merges_and_emptied_neighbours():
    world = world_of(range(0, 400, 20), max_urls=5)
    began = at(world)
    world.build()
    world.clock.advance(HOUR)
    second = at(world)
    world.rows.extend(row(key) for key in range(1, 12))  # splits the first shard
    world.build()
    told = lines(world)
    assert {told[loc(key)].first_listed for key in range(0, 400, 20)} == {began}
    assert {told[loc(key)].first_listed for key in range(1, 12)} == {second}
    world.clock.advance(HOUR)
    world.rows[:] = [each for each in world.rows if each["id"] % 40 == 0 or each["id"] < 12]  # merges
    world.build()
    assert lines(world) == {url: line for url, line in told.items() if url in {each["loc"] for each in world.rows}}
    world.rows[:] = [each for each in world.rows if not 100 < each["id"] < 300]
    world.build()
    world.rows.append(row(200))
    world.clock.advance(HOUR)
    fourth = at(world)
    world.build()
    assert lines(world)[loc(200)].first_listed == fourth
    assert lines(world)[loc(320)].first_listed == began


def test_a_url_that_leaves_and_returns_is_listed_first_again():
    world = world_of(range(12))
    world.build()
    row_5 = world.rows.pop(5)
    world.build()
    assert loc(5) not in lines(world)
    world.clock.advance(HOUR)
    third = at(world)
    world.rows.append(row_5)
    world.build()
    assert lines(world)[loc(5)][3:] == (third, None)


def test_dates_do_not_depend_on_how_batches_are_cut(monkeypatch):
    told = []
    for rows in (1, 7, 1_000):
        monkeypatch.setattr(range_actions, "BATCH_ROWS", rows)
        world = world_of(range(0, 80, 2))
        world.build()
        world.clock.advance(HOUR)
        world.rows[3]["priority"] = 0.1
        world.rows.append(row(7))
        # rows of one URL in neighbouring shards: each range joins only its own
        world.rows.append(row(31, loc=loc(8)))
        world.build()
        told.append(lines(world))
    assert told[0] == told[1] == told[2]


def test_a_rollback_brings_the_ledger_of_its_generation_back():
    world = world_of(range(12))
    world.build()
    before = lines(world)
    world.clock.advance(HOUR)
    world.rows[3]["priority"] = 0.1
    world.rows.append(row(50))
    world.build()
    assert lines(world) != before
    rollback(world.sitemap(), 1, clock=world.clock)
    assert lines(world) == before
    world.clock.advance(HOUR)
    fourth = at(world)
    world.build()
    assert lines(world)[loc(3)].changed_at == fourth
    assert lines(world)[loc(50)].first_listed == fourth


@pytest.mark.parametrize("damage", ["gone", "changed", "another"])
def test_a_lost_part_counts_like_none(damage, caplog):
    world = world_of(range(10))
    world.build()
    began = lines(world)[loc(9)].first_listed
    first, second = [shard.part.body for shard in manifest_of(world).sections["pages"].shards]
    objects = world.config.state.objects
    if damage == "gone":
        del objects[first]
    else:
        stored = objects[first]
        bad = objects[second].body if damage == "another" else stored.body[:-1] + b"?"
        objects[first] = replace(stored, body=bad)
    world.rows[0]["lastmod"] = "2026-01-02"
    world.rows[9]["lastmod"] = "2026-01-02"
    world.clock.advance(HOUR)
    report = world.build()
    told = lines(world)
    assert "section 'pages': whether 5 URLs changed is not known" in " ".join(report.warnings)
    assert {told[loc(key)][3:] for key in range(5)} == {(None, None)}
    assert told[loc(9)].first_listed == began
    assert told[loc(9)].changed_at is not None
    assert "what it recorded of its URLs is lost" in caplog.text


def test_a_ledger_that_is_turned_on_later_fills_as_shards_are_rewritten_or_by_a_full_run():
    world = World([row(key) for key in range(14)])
    world.build()
    world.section_settings["ledger"] = True
    assert world.build().result == "unchanged"
    assert lines(world) == {}
    world.rows[0]["priority"] = 0.3
    world.rows.append(row(100))
    world.clock.advance(HOUR)
    second = at(world)
    world.build()
    told = lines(world)
    assert told[loc(1)][3:] == (None, None)
    assert told[loc(100)][3:] == (second, None)
    world.build(full=True)
    assert len(lines(world)) == 15
    world.rows[0]["priority"] = 0.4
    world.clock.advance(HOUR)
    third = at(world)
    world.build()
    assert lines(world)[loc(0)][3:] == (None, third)
    world.section_settings["ledger"] = False
    world.rows[0]["priority"] = 0.5
    world.build()
    assert loc(0) not in lines(world)


def test_a_changed_mapping_records_fingerprints_anew_and_no_change():
    world = world_of(range(12))
    world.build()
    before = lines(world)
    world.clock.advance(HOUR)
    world.source_settings["changefreq"] = None
    world.build()
    now = lines(world)
    assert [line[3:] for line in now.values()] == [line[3:] for line in before.values()]
    assert all(now[url].fingerprint != before[url].fingerprint for url in now)


def test_a_new_key_keeps_what_is_known_of_a_small_section():
    world = world_of(range(12))
    began = at(world)
    world.build()
    world.clock.advance(HOUR)
    for each in world.rows:
        each["id"] = f"k{each['id']}"
    world.build()
    assert {line.first_listed for line in lines(world).values()} == {began}


def test_a_large_section_that_is_laid_out_again_says_that_its_ledger_begins_again(monkeypatch):
    monkeypatch.setattr(sys.modules[plan_section.__module__], "MOST_JOINED", 11)
    world = world_of(range(12))
    world.build()
    world.clock.advance(HOUR)
    second = at(world)
    for each in world.rows:
        each["id"] = f"k{each['id']}"
    report = world.build()
    assert any("its ledger of 12 URLs begins again" in warning for warning in report.warnings)
    assert {line.first_listed for line in lines(world).values()} == {second}


def test_another_format_keeps_what_is_known_of_a_section_of_any_size(monkeypatch):
    monkeypatch.setattr(sys.modules[plan_section.__module__], "MOST_JOINED", 3)
    world = world_of(range(12))
    began = at(world)
    world.build()
    world.section_settings["format"] = "text"
    world.clock.advance(HOUR)
    assert world.build().warnings == ()
    assert all(file.name.endswith(".txt.gz") for file in manifest_of(world).files())
    assert {line.first_listed for line in lines(world).values()} == {began}


def test_after_the_state_is_lost_the_age_of_the_urls_in_the_public_files_is_unknown():
    world = world_of(range(12))
    world.build()
    world.config.state.objects.clear()
    world.rows.append(row(50))
    world.clock.advance(HOUR)
    second = at(world)
    world.build(adopt=True)
    assert {url: line.first_listed for url, line in lines(world).items() if line.first_listed} == {loc(50): second}


def test_a_dropped_row_has_no_line_and_a_range_without_entries_no_part():
    world = world_of(range(12))
    world.rows[3]["loc"] = "https://elsewhere.example.org/"
    world.build()
    assert len(lines(world)) == 11
    for each in world.rows[:4]:
        each["loc"] = "https://elsewhere.example.org/"
    world.build()
    assert len(lines(world)) == 8


def test_two_rows_of_one_url_that_swap_keys_leave_the_fingerprint_of_the_listed_row():
    """They are written alike, so only their fingerprints differ, and the digest of the range does not."""
    url = f"{BASE}twice"
    world = world_of([3])
    world.rows += [row(1, loc=url, lastmod="2026-01-02"), row(2, loc=url, lastmod="2026-01-02 ")]
    world.build()
    before = lines(world)[url]
    world.rows[1]["id"], world.rows[2]["id"] = 2, 1
    world.clock.advance(HOUR)
    world.build()
    assert lines(world)[url].fingerprint != before.fingerprint


def test_parts_are_swept_with_their_generation():
    world = world_of(range(10), settings={"history": 2})
    for day in range(6):
        world.rows[0]["priority"] = day / 10
        world.clock.advance(timedelta(days=3))
        world.build()
    parts = [key for key in world.config.state.objects if key.endswith(".parquet")]
    assert len(parts) <= 4
    lines(world)


def test_a_first_build_is_refused_if_a_part_is_missing_at_its_commit():
    world = world_of(range(10))
    planned = stages.plan(world.sitemap(), RunRequest(), clock=world.clock)
    receipts = [
        stages.write(world.sitemap(), planned.key, b.number, clock=world.clock).receipt_key for b in planned.batches
    ]
    del world.config.state.objects[next(key for key in world.config.state.objects if key.endswith(".parquet"))]
    with pytest.raises(IncompleteError, match="a ledger part, is not there"):
        stages.publish(world.sitemap(), planned.key, receipts, clock=world.clock)


def test_without_a_ledger_nothing_is_stored_beside_the_bodies():
    world = World([row(key) for key in range(12)])
    world.build()
    assert not [key for key in world.config.state.objects if key.endswith(".parquet")]
    assert b'"part"' not in gzip.decompress(world.config.state.objects["manifest.json.gz"].body)


# Histories in which an earlier wording of the design broke a law, each the shortest that its model found.


def test_law_3_a_url_that_moves_to_another_range_is_new_there_however_batches_are_cut(monkeypatch):
    told = []
    for rows in (1, 1_000):
        monkeypatch.setattr(range_actions, "BATCH_ROWS", rows)
        world = world_of([1, 6, 10, 18], max_urls=2)
        world.build()
        world.clock.advance(HOUR)
        second = at(world)
        world.rows[1]["id"] = 24
        world.build()
        told.append(lines(world))
        assert told[-1][loc(6)][3:] == (second, None)
    assert told[0] == told[1]


def test_law_1_equal_xml_keeps_the_file_and_not_the_part():
    """The part is a field of the shard: beside the file, it would keep a fingerprint that no row has any more."""
    world = world_of([39])
    world.rows[0]["lastmod"] = "2026-01-02"
    world.build()
    before, (old,) = lines(world)[loc(39)], manifest_of(world).sections["pages"].shards
    world.rows[0]["lastmod"] = "2026-01-02 "
    world.clock.advance(HOUR)
    second = at(world)
    world.build()
    (new,) = manifest_of(world).sections["pages"].shards
    assert new.file == old.file
    assert new.part != old.part
    assert lines(world)[loc(39)].changed_at == second
    assert lines(world)[loc(39)].fingerprint != before.fingerprint


def test_law_3_a_full_run_keeps_what_a_rival_recorded_in_the_ranges_that_it_changed():
    world = world_of(range(0, 30, 2))
    began = at(world)
    world.build()
    world.clock.advance(HOUR)
    full = at(world)
    world.rows[0]["priority"] = 0.1
    planned = stages.plan(world.sitemap(), RunRequest(full=True), clock=world.clock)
    keys = [
        stages.write(world.sitemap(), planned.key, batch.number, clock=world.clock).receipt_key
        for batch in planned.batches
    ]
    world.clock.advance(HOUR)
    rival = at(world)
    world.rows[14]["priority"] = 0.2
    world.rows.append(row(29))
    world.build()
    stages.publish(world.sitemap(), planned.key, keys, clock=world.clock)
    told = lines(world)
    assert told[loc(28)][3:] == (began, rival)
    assert told[loc(29)][3:] == (rival, None)
    assert told[loc(0)].changed_at in (full, rival)
    assert told[loc(10)][3:] == (began, None)


def test_law_2_a_section_that_a_guard_refuses_keeps_its_ledger():
    world = world_of(range(200), guards=Guards(min_rows=10), max_urls=50)
    world.build()
    before = lines(world)
    world.clock.advance(HOUR)
    world.rows[:] = world.rows[:20]
    with pytest.raises(GuardError):
        world.build()
    assert lines(world) == before


def test_law_4_a_run_reads_the_parts_of_the_shards_that_it_rewrites_or_joins():
    world = world_of(range(40))
    world.build()
    shards = manifest_of(world).sections["pages"].shards
    world.rows[12]["priority"] = 0.1
    world.rows[:] = [each for each in world.rows if each["id"] not in range(20, 25)]  # its range joins a neighbour
    world.build()
    assert set(parts_read(world)) == {shards[2].part.body}
