"""A damaged or planted object in the state area ends in an error; nothing is read from or written to elsewhere."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps import LocalStore, MemoryStore, Section, ShardPolicy, Sitemap, pipeline
from airflow_sitemaps.errors import ManifestError, SitemapError
from airflow_sitemaps.pipeline import build, stages
from airflow_sitemaps.shards import codec
from airflow_sitemaps.shards.manifest import Manifest
from airflow_sitemaps.testing import MemorySourceConfig
from tests.security.area import Area

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OUTSIDE = ("../outside.xml.gz", "/outside.xml.gz", "a/../../outside", "..", "a\\..\\b", "a\x00b", "a//b", "./a", "")
STATE_OBJECTS = ("manifest.json.gz", "plans/x.json.gz", "runs/../manifest.json.gz", "runs/r/bodies/../../x", *OUTSIDE)
WRONG = (None, [], {}, "", "12", -1, 1.5, True, 2**63, 10**400)

RIGHT: dict[str, tuple[Any, ...]] = {
    "promoted": (True,),
    "owner": ("", "12"),
    "sections": ({},),
    "indexes": ([],),
    "history": ([],),
}


def shard(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = value["sections"]["pages"]["shards"][0]
    return found


@pytest.fixture
def area(tmp_path: Path) -> Area:
    rows = [{"id": n, "loc": f"https://www.example.com/{n}"} for n in range(9)]
    section = Section("pages", MemorySourceConfig(rows))
    store = LocalStore(tmp_path / "site", base_url="https://www.example.com/")
    return Area(tmp_path, Sitemap(store, [section], shards=ShardPolicy(max_urls=4)), rows)


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize(
    "plant",
    [
        lambda value, name: shard(value)["file"].update(name=name),
        lambda value, name: value["indexes"][0].update(name=name),
        lambda value, name: value.update(extras=[{**shard(value)["file"], "name": name}]),
        lambda value, name: value.update(
            departed=[{"area": "public", "key": name, "generation": 0, "at": value["committed_at"]}]
        ),
        lambda value, name: value["sections"]["pages"].update(path=name + "/"),
        lambda value, name: value["sections"]["pages"].update(name=name),
    ],
    ids=["shard", "index", "extra", "departed", "path", "section"],
)
def test_a_manifest_names_nothing_outside(area: Area, plant: Callable[[dict[str, Any], str], None], name: str) -> None:
    build(area.sitemap)
    area.change("manifest.json.gz", lambda value: plant(value, name))
    before = area.files()

    with pytest.raises(ManifestError, match=r"manifest\.json\.gz cannot be read"):
        build(area.sitemap)
    with pytest.raises(ManifestError):
        pipeline.rollback(area.sitemap, 1)

    assert area.files() == before


@pytest.mark.parametrize("body", STATE_OBJECTS)
def test_nothing_but_bodies_is_ever_published(area: Area, body: str) -> None:
    """A manifest or receipt that names another state object as a body would make it public."""
    build(area.sitemap)
    good = area.read("manifest.json.gz")
    area.change("manifest.json.gz", lambda value: shard(value)["file"].update(body=body))
    with pytest.raises(ManifestError):
        build(area.sitemap)
    area.write("manifest.json.gz", good)
    area.rows[0]["loc"] = "https://www.example.com/changed"
    planned = stages.plan(area.sitemap)
    receipt = stages.write(area.sitemap, planned.key, 0).receipt_key
    area.change(receipt, lambda value: value["pieces"]["0"][0].update(body=body))

    with pytest.raises(ManifestError, match=r"Expected `str` matching regex .* at `\$\.pieces\[\.\.\.\]\[0\]\.body`"):
        stages.publish(area.sitemap, planned.key, [receipt])


@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: str(value)[:9])
@pytest.mark.parametrize("field", ["generation", "committed_at", "sections", "indexes", "history", "promoted", "owner"])
def test_a_wrong_type_or_number_is_a_manifest_error(field: str, wrong: Any) -> None:
    value = json.loads(gzip.decompress(codec.encode(manifest())))
    value[field] = wrong
    if any(type(wrong) is type(allowed) and wrong == allowed for allowed in RIGHT.get(field, ())):
        return

    with pytest.raises(ManifestError):
        codec.decode_manifest(gzip.compress(json.dumps(value).encode()))


def manifest() -> Any:
    return Manifest(
        generation=1, write_id="w", run="r", owner="", base_url="https://e/", sections={}, indexes=(),
        committed_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
    )  # fmt: skip


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(st.data())
def test_whatever_is_put_in_its_place_a_manifest_reads_or_is_refused(data: st.DataObject) -> None:
    value = json.loads(gzip.decompress(WHOLE))
    place: Any = value
    for _ in range(data.draw(st.integers(1, 7))):
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            place[key] = data.draw(json_values)
            break
        place = inner
    with suppress(ManifestError):
        codec.encode(codec.decode_manifest(gzip.compress(json.dumps(value).encode())))


def whole() -> bytes:
    rows = [{"id": n, "loc": f"https://www.example.com/{n}"} for n in range(9)]
    store = MemoryStore(base_url="https://www.example.com/")
    build(Sitemap(store, [Section("pages", MemorySourceConfig(rows))], shards=ShardPolicy(max_urls=4)))
    return store.state.objects["manifest.json.gz"].body


WHOLE = whole()


@pytest.mark.parametrize(
    "body",
    [
        gzip.compress(b"[" * 100_000),
        gzip.compress(b'{"format": ' + b"9" * 6_000 + b"}"),
        gzip.compress(b'{"format": "1"}'),
        gzip.compress(b"\xff\xfe"),
        gzip.compress(b"{}")[:-3],
        gzip.compress(b"{}")[:5] + b"\xff" * 40,
        b"<html>",
    ],
    ids=["deep", "huge number", "text for a number", "no text", "cut", "damaged", "no gzip"],
)
def test_damage_of_every_kind_is_a_manifest_error(body: bytes) -> None:
    for decode in (codec.decode_manifest, codec.decode_plan, codec.decode_receipt):
        with pytest.raises(ManifestError):
            decode(body)


def test_a_bomb_in_the_state_area_is_not_unpacked() -> None:
    bomb = gzip.compress(b" " * (100 << 20), 9)
    tracemalloc.start()
    with pytest.raises(ManifestError, match="more than"):
        codec.decode_manifest(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(bomb) < 500_000
    assert peak < 90 << 20


@pytest.mark.parametrize(
    "plant",
    [
        lambda plan: plan["batches"][0].update(actions=[10**9]),
        lambda plan: plan["batches"][0].update(section="other"),
        lambda plan: plan["batches"][0].update(number=7),
        lambda plan: plan["sections"]["pages"].update(name="../../x"),
        lambda plan: plan["sections"]["pages"]["actions"][0].update(carries=-1),
        lambda plan: plan["sections"]["pages"]["actions"][0].update(kind="delete"),
        lambda plan: plan.update(run="../../x"),
        lambda plan: plan.update(adopted=["../../etc/passwd"]),
    ],
    ids=["position", "section", "number", "name", "carries", "action", "run", "adopted"],
)
def test_a_plan_that_cannot_be_is_not_carried_out(area: Area, plant: Callable[[dict[str, Any]], None]) -> None:
    planned = stages.plan(area.sitemap)
    area.change(planned.key, plant)
    before = area.files()

    with pytest.raises(ManifestError):
        stages.write(area.sitemap, planned.key, 0)
    with pytest.raises(ManifestError):
        stages.publish(area.sitemap, planned.key, [])

    assert area.files() == before


@pytest.mark.parametrize(
    "key", ["../site/sitemap.xml", "/etc/passwd", "plans/../../x", "manifest.json.gz", "plans/none"]
)
def test_references_from_xcom_lead_to_plans_and_receipts_only(area: Area, key: str) -> None:
    build(area.sitemap)
    before = area.files()

    with pytest.raises(SitemapError):
        stages.write(area.sitemap, key, 0)
    with pytest.raises(SitemapError):
        stages.publish(area.sitemap, key, [])

    assert area.files() == before


def test_receipts_of_elsewhere_are_passed_over(area: Area) -> None:
    planned = stages.plan(area.sitemap)

    with pytest.raises(SitemapError, match="have no receipt"):
        stages.publish(area.sitemap, planned.key, ["../../x", "runs/other/receipts/0000-a.json.gz"])
