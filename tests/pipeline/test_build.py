"""What one run after another does, seen from outside."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_sitemaps import Guards, ShardPolicy
from airflow_sitemaps.errors import GuardError, OwnershipError, RefusedError, RuleError
from airflow_sitemaps.ports import Overwrite
from tests.support.environment import BASE, World, row


def world_of(number: int, **kwargs) -> World:
    return World([row(10 * n) for n in range(1, number + 1)], **kwargs)


def locs_in(world: World) -> list[list[str]]:
    return [[e.loc.removeprefix(BASE) for e in entries] for entries in world.crawl().files.values()]


def test_first_build_lists_every_row_once_in_key_order():
    world = world_of(12)
    report = world.build()
    assert report.result == "published"
    assert report.generation == 1
    assert report.urls == 12
    assert report.shards.total == report.shards.created == 3
    assert list(world.crawl().files) == ["pages-00001.xml.gz", "pages-00002.xml.gz", "pages-00003.xml.gz"]
    assert [loc for part in locs_in(world) for loc in part] == [f"p/{10 * n}" for n in range(1, 13)]
    assert report.index_urls == (BASE + "sitemap.xml",)


def test_unchanged_source_touches_no_public_object_and_makes_no_generation():
    world = world_of(12)
    world.build()
    before, manifest = world.public(), world.config.state.objects["manifest.json.gz"]
    world.clock.advance(timedelta(hours=1))
    report = world.build()
    assert report.result == "unchanged"
    assert report.generation == 1
    assert report.shards.kept == 3
    assert world.public() == before
    assert world.config.state.objects["manifest.json.gz"] == manifest


def test_one_changed_row_among_100_shards_rewrites_one_shard_and_the_index():
    world = world_of(500)
    world.build()
    before = world.public()
    world.clock.advance(timedelta(hours=1))
    world.rows[250]["lastmod"] = "2026-01-01"
    report = world.build()
    after = world.public()
    assert report.shards.rewritten == 1
    assert report.shards.kept == 99
    assert sorted(name for name in after if after[name] != before[name]) == ["pages-00051.xml.gz", "sitemap.xml"]
    lastmods = world.crawl().lastmods
    assert {name for name, at in lastmods.items() if at != lastmods["pages-00001.xml.gz"]} == {"pages-00051.xml.gz"}


def test_a_row_inserted_into_a_full_shard_writes_two_shards_and_no_other_changes():
    world = world_of(50)
    world.build()
    before = world.shards()
    world.rows.append(row(111))
    report = world.build()
    after = world.crawl()
    assert report.shards.created == 2
    assert report.shards.removed == 1
    assert report.shards.kept == 9
    listed = set(after.files)
    assert before.keys() - listed == {"pages-00003.xml.gz"}
    assert {n: b for n, b in world.shards().items() if n in before} == before
    assert BASE + "p/111" in after.locs()


def test_rows_appended_leave_every_full_shard_alone():
    world = world_of(10)
    world.build()
    before = world.shards()
    world.rows.extend(row(1000 + n) for n in range(7))
    report = world.build()
    assert report.shards.kept == 2
    assert report.shards.created == 2
    assert {n: b for n, b in world.shards().items() if n in before} == before
    assert [len(part) for part in locs_in(world)] == [5, 5, 5, 2]


def test_appending_to_a_shard_that_is_not_full_keeps_its_name_and_fills_it():
    world = world_of(8)
    world.build()
    world.rows.extend(row(1000 + n) for n in range(4))
    report = world.build()
    assert report.shards.rewritten == 1
    assert report.shards.created == 1
    assert [len(part) for part in locs_in(world)] == [5, 5, 2]
    assert list(world.crawl().files)[1] == "pages-00002.xml.gz"


def test_deleting_a_range_merges_neighbours_and_keeps_the_rest():
    world = world_of(50)
    world.build()
    before = world.shards()
    del world.rows[6:14]
    report = world.build()
    assert report.urls == 42
    assert world.crawl().entries() == world.rebuilt().entries()
    kept = [name for name in world.crawl().files if name in before]
    assert {n: world.shards()[n] for n in kept if n not in ("pages-00002.xml.gz", "pages-00003.xml.gz")} == {
        n: before[n] for n in kept if n not in ("pages-00002.xml.gz", "pages-00003.xml.gz")
    }


def test_a_range_without_rows_has_no_file_and_its_neighbour_is_not_rewritten():
    world = world_of(15)
    world.build()
    before = world.shards()
    del world.rows[5:10]
    report = world.build()
    assert report.shards.kept == 2
    assert report.shards.removed == 1
    assert report.bytes_written == 0
    assert list(world.crawl().files) == ["pages-00001.xml.gz", "pages-00003.xml.gz"]
    assert world.shards() == before, "the file that left the index stays through the grace"


def test_departed_files_are_swept_after_the_grace():
    world = world_of(15)
    world.build()
    del world.rows[5:10]
    world.build()
    world.clock.advance(timedelta(days=3))
    report = world.build()
    assert report.result == "unchanged"
    assert "pages-00002.xml.gz" not in world.public()
    assert world.crawl().locs() == {BASE + f"p/{r['id']}" for r in world.rows}


def test_a_silent_update_is_found():
    world = world_of(10)
    world.build()
    world.rows[3]["priority"] = 0.7
    assert world.build().shards.rewritten == 1
    assert world.crawl().entries() == world.rebuilt().entries()


def test_a_future_date_is_written_when_its_time_has_come():
    world = world_of(10)
    world.rows[3]["lastmod"] = "2026-01-20"
    report = world.build()
    assert report.fields_fixed == {"lastmod-future": 1}
    assert world.crawl().entries()[BASE + "p/40"][0][0] is None
    assert world.build().result == "unchanged"
    world.clock.advance(timedelta(days=6))
    assert world.build().shards.rewritten == 1
    assert world.crawl().entries()[BASE + "p/40"][0][0] == "2026-01-20"


def test_a_changed_mapping_renders_everything_and_writes_what_differs():
    world = world_of(10)
    world.rows[7]["priority"] = 0.3
    world.build()
    world.source_settings = {"priority": None}
    report = world.build()
    assert report.rows_read == 10
    assert report.shards.rewritten == 1
    assert report.shards.kept == 1
    assert world.build().result == "unchanged"


def test_full_reads_everything_and_writes_nothing_equal():
    world = world_of(10)
    world.build()
    before = world.public()
    report = world.build(full=True)
    assert report.rows_read == 10
    assert report.bytes_written == 0
    assert world.public() == before


def test_faulty_rows_are_counted_with_samples_and_cost_nothing_else():
    world = world_of(10)
    world.rows[0]["loc"] = None
    world.rows[1]["loc"] = "ftp://www.example.com/x"
    world.rows[2]["priority"] = 7
    world.rows[3]["id"] = None
    report = world.build()
    assert report.rows_dropped == {"loc-missing": 1, "loc-scheme": 1, "key-null": 1}
    assert report.fields_fixed == {"priority": 1}
    assert report.urls == 7
    assert set(report.sections["pages"].samples) == {"loc-missing", "loc-scheme", "priority", "key-null"}
    assert world.build().rows_dropped == report.rows_dropped


def test_a_rule_set_to_fail_fails_before_anything_is_public():
    world = world_of(10, settings={"rules": {"priority": "fail"}})
    world.rows[2]["priority"] = 7
    with pytest.raises(RuleError, match="priority"):
        world.build()
    assert world.public() == {}


def test_a_null_key_can_fail_the_run():
    world = world_of(10, settings={"rules": {"key-null": "fail"}})
    world.rows[2]["id"] = None
    with pytest.raises(RuleError, match="NULL key"):
        world.build()


def test_a_key_with_more_rows_than_a_shard_is_named():
    world = world_of(10)
    world.rows.extend(row(30, loc=f"{BASE}q/{n}") for n in range(6))
    with pytest.raises(RefusedError, match=r"the key 30 has 7 rows"):
        world.build()


def test_an_empty_source_is_refused_and_the_sitemap_stays():
    world = world_of(10)
    world.build()
    before = world.public()
    kept = list(world.rows)
    world.rows.clear()
    with pytest.raises(GuardError, match="--allow empty:pages"):
        world.build()
    assert world.public() == before
    world.rows.extend(kept)
    assert world.build().result == "unchanged"


def test_a_source_that_lost_most_of_its_rows_is_refused_until_allowed():
    world = world_of(100, guards=Guards(min_rows=50))
    world.build()
    del world.rows[20:]
    with pytest.raises(GuardError, match="shrink from 100 to 20") as refused:
        world.build()
    assert [refusal.permit for refusal in refused.value.refusals] == ["shrink:pages=0.8"]
    with pytest.raises(GuardError, match="shrink from 100 to 20"):
        world.build(allow=["shrink:pages"])
    report = world.build(allow=["shrink:pages=0.8"])
    assert report.urls == 20
    assert any("shrink" in warning for warning in report.warnings)


def test_slow_shrinking_is_judged_against_the_greatest_of_the_week():
    world = world_of(100, guards=Guards(min_rows=50, max_shrink=0.1))
    world.build()
    for _ in range(2):
        world.clock.advance(timedelta(days=1))
        del world.rows[-5:]
        world.build()
    world.clock.advance(timedelta(days=1))
    del world.rows[-5:]
    with pytest.raises(
        GuardError, match=r"shrink from 100 \(the most of the last seven days; 90 are published\) to 85"
    ):
        world.build()
    world.clock.advance(timedelta(days=7))
    assert world.build().urls == 85


def test_too_many_dropped_rows_are_refused_after_rendering():
    world = world_of(100, guards=Guards(min_rows=50))
    for faulty in world.rows[:10]:
        faulty["loc"] = "mailto:x"
    with pytest.raises(GuardError, match="10 of 100 rows were dropped"):
        world.build()
    assert world.public() == {}


def test_an_index_that_something_else_wrote_is_not_overwritten_unless_adopted():
    world = world_of(10)
    world.store.public.put("sitemap.xml", b"<foreign/>", mode=Overwrite(), metadata={}, content_type="text/xml")
    with pytest.raises(OwnershipError, match="adopt"):
        world.build()
    assert world.build(adopt=True).urls == 10
    assert world.crawl().locs() == world.rebuilt().locs()


def test_drift_is_repaired_and_said():
    world = world_of(15)
    world.build()
    good = world.shards()
    world.store.public.delete("pages-00002.xml.gz")
    world.store.public.put("pages-00003.xml.gz", b"x", mode=Overwrite(), metadata={}, content_type="text/plain")
    world.clock.advance(timedelta(hours=1))
    report = world.build()
    assert report.shards.repaired == 2
    assert report.rows_read == 0
    assert "pages-00002.xml.gz is gone" in report.drift[0]
    assert "overwritten" in report.drift[1]
    assert {n: body for n, (body, _) in world.shards().items()} == {n: body for n, (body, _) in good.items()}
    assert world.build().result == "unchanged"


def test_a_broken_index_is_repaired():
    world = world_of(15)
    world.build()
    good = world.public()["sitemap.xml"][0]
    world.store.public.put("sitemap.xml", b"x", mode=Overwrite(), metadata={}, content_type="text/plain")
    report = world.build()
    assert report.result == "published"
    assert world.public()["sitemap.xml"][0] == good


def test_drift_whose_body_is_gone_too_is_read_again():
    world = world_of(15)
    world.build()
    for key in [key for key in world.config.state.objects if "bodies" in key]:
        world.store.state.delete(key)
    world.store.public.delete("pages-00002.xml.gz")
    report = world.build()
    assert report.rows_read == 5
    assert world.crawl().entries() == world.rebuilt().entries()


@pytest.mark.parametrize("name", ["pages-00002.xml.gz", "pages-00002"])
def test_rebuild_of_named_shards_reads_only_those(name):
    world = world_of(15)
    world.build()
    report = world.build(rebuild=[name])
    assert report.rows_read == 5
    assert report.bytes_written == 0


def test_a_fill_below_one_leaves_room():
    world = World([row(n) for n in range(1, 41)], policy=ShardPolicy(max_urls=10, fill=0.5))
    assert world.build().shards.total == 8
    world.rows.append(row(2.5))
    world.rows[-1]["id"] = 3
    assert world.build().shards.rewritten == 1


def test_a_content_that_returns_gets_another_etag():
    world = world_of(5)
    world.build()
    first = world.config.public.objects["pages-00001.xml.gz"]
    world.rows[0]["priority"] = 0.1
    world.build()
    world.rows[0]["priority"] = None
    world.build()
    third = world.config.public.objects["pages-00001.xml.gz"]
    assert third.info.etag != first.info.etag
    assert third.body[10:] == first.body[10:]


def test_a_load_that_changes_most_shards_is_remarked_upon_and_a_rebuild_is_not():
    world = world_of(100)
    world.build()
    for number in range(0, 60, 5):
        world.rows[number]["priority"] = 0.9
    (warning,) = world.build().warnings
    assert "12 of 20 shards change (60%)" in warning
    assert world.build(full=True).warnings == ()
    assert world.build(rebuild=list(world.shards())).warnings == ()
    world.source_settings["priority"] = None
    assert world.build().warnings == ()


def test_rows_without_a_key_are_in_neither_of_the_numbers_that_a_guard_compares():
    world = world_of(100, guards=Guards(min_rows=50, max_dropped=0.5))
    world.rows.extend(row(None, loc=f"https://www.example.com/q/{number}") for number in range(30))
    assert world.build().urls == 100
    assert world.build().result == "unchanged"
    world.rows[7]["priority"] = 0.9
    assert world.build().result == "published"


@pytest.mark.parametrize("fill", [0.1, 0.2, 0.5, 1.0])
def test_files_that_a_build_cuts_do_not_merge_again(fill):
    world = World([row(key) for key in range(300)], policy=ShardPolicy(max_urls=30, fill=fill))
    world.build()
    assert world.build().result == "unchanged"
    del world.rows[5]
    report = world.build()
    assert (report.shards.removed, report.shards.rewritten) == (0, 1)
