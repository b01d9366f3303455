"""What the API answers: from events alone, from the store, and when either means harm."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.dag import DagModel

from airflow_sitemaps import Guards, MemoryStore, Section, Sitemap
from airflow_sitemaps.assets import section_settings
from airflow_sitemaps.plugin.shard_map import EMPTY, KEPT, PENDING, WAITING, WRITTEN
from airflow_sitemaps.ports import Overwrite
from airflow_sitemaps.shards.codec import decode_manifest, encode
from airflow_sitemaps.shards.ranges import show
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.plugin_factories import NOW, add_asset, add_event, add_history, extra, manifest, report
from tests.support.s3 import moto_server

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client

URI = "s3://shop/sitemaps/sitemap.xml"


def kept(folder: Path, shards: int) -> str:
    """A state area with a manifest; returns its address."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json.gz").write_bytes(encode(manifest(shards)))
    return str(folder)


def test_an_airflow_without_sitemaps_has_an_empty_list(admin: Client, session: Session) -> None:
    assert admin.get("api/sitemaps").json()["totals"]["sitemaps"] == 0


def test_trouble_stands_on_top(admin: Client, session: Session) -> None:
    add_history(session, "s3://sound/sitemap.xml", "sound", 5)
    odd = add_asset(session, "s3://odd/sitemap.xml", "odd")
    add_event(session, odd, "odd", extra(report(1, rows=1_000, rows_dropped={"loc-missing": 60})), NOW)
    gone = add_asset(session, "s3://gone/sitemap.xml", "gone")
    add_event(session, gone, "gone", extra(report(1)), NOW)
    session.get(DagModel, "gone").is_stale = True
    session.commit()

    lines = admin.get("api/sitemaps").json()["sitemaps"]

    assert [(line["dag_id"], line["state"]) for line in lines] == [
        ("odd", "warning"),
        ("sound", "not_verified"),
        ("gone", "unknown"),
    ]
    assert lines[2]["reason"] == "Orphaned: no DAG that you may see publishes it"
    assert "60 of 1,000 rows" in lines[0]["problems"][0]
    assert len(lines[1]["history"]) == 5


def test_the_list_is_paged(admin: Client, session: Session) -> None:
    for n in range(5):
        add_history(session, f"s3://bucket-{n}/sitemap.xml", "shop", 1)
    session.commit()

    pages = [admin.get("api/sitemaps", limit=2, offset=offset).json() for offset in (0, 2, 4)]

    assert [len(page["sitemaps"]) for page in pages] == [2, 2, 1]
    assert {page["total"] for page in pages} == {5}
    assert len({line["asset"] for page in pages for line in page["sitemaps"]}) == 5


def test_a_page_comes_from_events_alone(admin: Client, session: Session) -> None:
    add_history(session, URI, "shop", 8)
    session.commit()

    page = admin.get("api/sitemap", asset=URI).json()

    assert page["generation"] == 8
    assert page["report"]["sections"]["products"]["shards"]["rewritten"] == 1
    assert page["gauges"][0]["limit"] == 50_000
    assert page["state"] == "not_verified"
    by_name = {offer["action"]: offer for offer in page["actions"]}
    assert not by_name["rollback"]["possible"]
    assert "SitemapRollbackOperator" in by_name["rollback"]["why_not"]


def test_history_comes_in_pages_oldest_first(admin: Client, session: Session) -> None:
    add_history(session, URI, "shop", 25)
    session.commit()

    newest = admin.get("api/sitemap/history", asset=URI, limit=10).json()
    earlier = admin.get("api/sitemap/history", asset=URI, limit=10, before=newest["before"]).json()

    assert newest["columns"]["generation"] == list(range(16, 26))
    assert earlier["columns"]["generation"] == list(range(6, 16))


def test_events_of_other_programs_hide_no_report(admin: Client, session: Session) -> None:
    asset = add_history(session, URI, "shop", 5)
    for number in range(30):
        at = NOW + timedelta(minutes=number)
        add_event(session, asset, None if number % 2 else "not-readable", {"from_rest_api": True}, at)
    session.commit()

    page = admin.get("api/sitemap", asset=URI).json()
    newest = admin.get("api/sitemap/history", asset=URI, limit=3).json()
    earlier = admin.get("api/sitemap/history", asset=URI, limit=3, before=newest["before"]).json()

    assert page["generation"] == 5
    assert newest["columns"]["generation"] == [3, 4, 5]
    assert earlier["columns"]["generation"] == [1, 2]
    assert earlier["before"] is None


def test_a_thousand_generations_are_one_small_answer(admin: Client, session: Session) -> None:
    add_history(session, URI, "shop", 1_000)
    session.commit()

    cold = admin.get("api/sitemap/history", asset=URI, limit=1_000)
    again = admin.get("api/sitemap/history", asset=URI, limit=1_000)

    assert len(cold.json()["columns"]["generation"]) == 1_000
    assert len(cold.content) < 256 * 1_024
    assert again.content == cold.content


def test_the_map_holds_what_the_manifest_holds(admin: Client, session: Session, tmp_path: Path) -> None:
    add_history(session, URI, "shop", 2, state_url=kept(tmp_path / "state", 700))
    session.commit()

    section = admin.get("api/sitemap/shards", asset=URI).json()["sections"][0]
    texts = [
        text
        for start in (0, 500)
        for text in admin.get("api/sitemap/shards/texts", asset=URI, section="products", start=start).json()["shards"]
    ]

    shards = decode_manifest(encode(manifest(700))).sections["products"].shards
    assert section["urls"] == [shard.urls for shard in shards]
    assert section["rows"] == [shard.digest.rows for shard in shards]
    assert section["xml_bytes"] == [shard.file.xml_byte_size if shard.file else 0 for shard in shards]
    assert section["written_in"] == [shard.written_in for shard in shards]
    assert section["dropped"] == [sum(shard.dropped.values()) for shard in shards]
    assert section["written_at"] == [int(s.file.modified_at.timestamp()) if s.file else 0 for s in shards]
    of_files = [WAITING if s.dirty_since else WRITTEN if s.written_in == 7 else KEPT for s in shards]
    states = [
        EMPTY if s.file is None else PENDING if s.file.etag is None else state
        for s, state in zip(shards, of_files, strict=True)
    ]
    assert section["state"] == states
    assert set(states) == {EMPTY, PENDING, WRITTEN, KEPT, WAITING}
    assert [text["name"] for text in texts] == [shard.file.name if shard.file else None for shard in shards]
    assert [text["lower"] for text in texts[1:]] == [show(shard.range.lower) for shard in shards[1:]]
    assert texts[-1]["upper"] is None
    assert texts[3]["url"] == "https://shop.example/products-00004.xml.gz"


def test_generations_to_go_back_to(admin: Client, session: Session, tmp_path: Path) -> None:
    add_history(session, URI, "shop", 2, state_url=kept(tmp_path / "state", 3))
    session.commit()

    found = admin.get("api/sitemap/generations", asset=URI).json()

    assert found["generation"] == 7
    assert [note["generation"] for note in found["kept"]] == [6, 5, 4, 3, 2, 1]


def test_what_did_not_change_is_not_sent_again(admin: Client, session: Session, tmp_path: Path) -> None:
    add_history(session, URI, "shop", 2, state_url=kept(tmp_path / "state", 3))
    session.commit()
    for route in ("history", "shards", "generations", "shards/texts"):
        path = f"/sitemaps-ui/api/sitemap/{route}"
        asked = {"asset": URI, "section": "products"}
        first = admin.client.get(path, params=asked)
        again = admin.client.get(path, params=asked, headers={"If-None-Match": first.headers["etag"]})
        other = admin.client.get(path, params=asked, headers={"If-None-Match": 'W/"other"'})

        assert "private" in first.headers["cache-control"]
        assert (again.status_code, again.content) == (304, b"")
        assert other.content == first.content


@pytest.mark.parametrize("route", ["shards", "shards/texts", "generations"])
def test_a_store_out_of_reach_is_a_sentence(admin: Client, session: Session, route: str) -> None:
    add_history(session, URI, "shop", 2)
    session.commit()

    found = admin.get(f"api/sitemap/{route}", asset=URI, section="products")

    assert found.status_code == 200
    assert "is not on the API server's machine" in found.json()["unavailable"]


def test_the_map_is_read_from_s3_with_airflows_connection(admin: Client, session: Session) -> None:
    with moto_server() as server, server.store() as store:
        body = encode(manifest(20))
        state = store.open().state
        state.put("manifest.json.gz", body, mode=Overwrite(), metadata={}, content_type="application/gzip")
        made = extra(report(1))
        facts = {"public_url": store.public.url, "state_url": store.state.url, "conn_id": store.conn_id}
        asset = add_asset(session, URI, "shop")
        add_event(session, asset, "shop", {**made, "store": {**made["store"], **facts}}, NOW)
        session.commit()

        found = admin.get("api/sitemap/shards", asset=URI)

    assert found.json()["shards"] == 20


def test_a_damaged_manifest_is_a_sentence(admin: Client, session: Session, tmp_path: Path) -> None:
    (tmp_path / "manifest.json.gz").write_bytes(b"\x1f\x8b rubbish")
    add_history(session, URI, "shop", 2, state_url=str(tmp_path))
    session.commit()

    assert "cannot be read" in admin.get("api/sitemap/shards", asset=URI).json()["unavailable"]


HOSTILE: list[Any] = [
    {"format": 1, "report": {"generation": "<script>", "urls": -(10**400), "sections": [1, 2], "shards": "x"}},
    {
        "format": 1,
        "report": {"generation": 1, "sections": {"<img src=x onerror=alert(1)>": {"samples": {"r": ["\u202e"]}}}},
    },
    {
        "format": 1,
        "report": {"generation": 1, "index_urls": ["javascript:alert(1)"], "seconds": {"a": "b", "c": 1e999}},
    },
    {"format": 1, "report": {"generation": True, "rows_dropped": {"a": None}, "warnings": [None, {}, "w" * 10**5]}},
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_events_break_nothing(admin: Client, session: Session, number: int) -> None:
    asset = add_asset(session, URI, "shop")
    add_event(session, asset, "shop", json.loads(json.dumps(HOSTILE[number], allow_nan=True)), NOW)
    session.commit()

    answers = [
        admin.get("api/sitemaps"),
        admin.get("api/sitemap", asset=URI),
        admin.get("api/sitemap/history", asset=URI),
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[0].json()["sitemaps"][0]["index_url"] is None
    assert all(len(answer.content) < 64 * 1_024 for answer in answers)


@pytest.mark.parametrize(
    "other", [None, [], {"format": 2, "report": {"generation": 1}}, {"report": {}}, {"format": 1, "report": {"a": 1}}]
)
def test_events_of_other_shapes_are_not_ours(admin: Client, session: Session, other: Any) -> None:
    asset = add_asset(session, URI, "shop")
    add_event(session, asset, "shop", other if other is not None else {}, NOW)
    session.commit()

    assert [line["reason"] for line in admin.get("api/sitemaps").json()["sitemaps"]] == ["Never published"]


def test_drift_and_warnings_are_problems(admin: Client, session: Session) -> None:
    asset = add_asset(session, URI, "shop")
    made = replace(report(1), drift=("products-00001.xml.gz was deleted",), warnings=("half the shards changed",))
    add_event(session, asset, "shop", extra(made), NOW)
    session.commit()

    problems = admin.get("api/sitemap", asset=URI).json()["problem_list"]

    assert [problem["kind"] for problem in problems] == ["drift", "warning"]
    assert all(problem["title"] for problem in problems)


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, "warning"), (0.01, "warning"), (0.05, "info"), ("5", "warning")]
)
def test_dropped_rows_within_the_users_own_limit_are_no_warning(
    admin: Client, session: Session, limit: object, expected: str
) -> None:
    asset = add_asset(session, URI, "shop")
    payload = extra(report(1))
    payload["report"] |= {"rows": 100, "rows_dropped": {"loc-missing": 2}}
    for section in payload["report"]["sections"].values():
        section.update(
            {"rows": 100, "rows_dropped": {"loc-missing": 2}}, **({} if limit is None else {"max_dropped": limit})
        )
    add_event(session, asset, "shop", payload, NOW)
    session.commit()

    found = admin.get("api/sitemap", asset=URI).json()

    assert [problem["severity"] for problem in found["problem_list"] if problem["kind"] == "dropped"] == [expected]


def test_few_dropped_rows_of_many_are_not_rounded_away(admin: Client, session: Session) -> None:
    payload = extra(report(1))
    payload["report"] |= {"rows": 1_000_000, "rows_dropped": {"loc-missing": 12}}
    add_event(session, add_asset(session, URI, "shop"), "shop", payload, NOW)
    session.commit()

    (problem,) = admin.get("api/sitemap", asset=URI).json()["problem_list"]

    assert problem["title"] == "12 of 1,000,000 rows are not in the sitemap (< 0.01%)"


def test_an_event_names_a_limit_of_dropped_rows_that_is_not_the_default() -> None:
    sections = [Section(name, MemorySourceConfig([])) for name in ("pages", "news")]
    sections[1] = replace(sections[1], guards=Guards(max_dropped=0.05))
    settings = section_settings(Sitemap(MemoryStore(base_url="https://shop.example/"), sections))
    assert [settings[name].get("max_dropped") for name in ("pages", "news")] == [None, 0.05]


@pytest.mark.parametrize(("faulty", "expected"), [(0, []), (2, ["warning"])])
def test_articles_past_their_days_are_no_rows_to_correct(
    admin: Client, session: Session, faulty: int, expected: list[str]
) -> None:
    asset = add_asset(session, URI, "shop")
    payload = extra(report(1))
    payload["report"] |= {
        "rows": 100,
        "rows_expired": {"news-age": 73},
        "rows_dropped": {"news-missing": faulty} if faulty else {},
    }
    add_event(session, asset, "shop", payload, NOW)
    session.commit()

    found = admin.get("api/sitemap", asset=URI).json()

    problems = [problem for problem in found["problem_list"] if problem["kind"] == "dropped"]
    assert [problem["severity"] for problem in problems] == expected
    assert all(problem["title"].startswith("2 of 100 rows are not in the sitemap (2.00%)") for problem in problems)
    assert all("rule news-missing" in problem["detail"] for problem in problems)
    assert found["report"]["rows_expired"] == {"news-age": 73}
    assert found["dropped"] == faulty
    assert "news-age" not in admin.get("api/sitemap/issues.csv", asset=URI).text
