"""What the API reads from published files: the difference between generations, and where a URL is listed."""

from __future__ import annotations

import asyncio
import csv
import io
import threading
from datetime import datetime, timedelta, timezone
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, LocalStore, Observed, Section, ShardPolicy, Sitemap
from airflow_sitemaps.assets import event_extra, section_settings, store_facts
from airflow_sitemaps.errors import GuardError
from airflow_sitemaps.operators import REFUSED, refusal_facts
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.find import find_in_manifest
from airflow_sitemaps.pipeline.state.repository import MANIFEST
from airflow_sitemaps.plugin import urls
from airflow_sitemaps.plugin.events import StoreFacts
from airflow_sitemaps.plugin.shard_map import read_map
from airflow_sitemaps.plugin.state_reader import StateReader, StateUnavailableError
from airflow_sitemaps.plugin.urls import changes, of_generations, search
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.plugin_factories import NOW, Ran, add_asset, add_event, add_run, extra, report

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from tests.plugin.conftest import Client

URI = "file:///content/sitemap.xml"
BASE = "https://content.example/"


@pytest.fixture
def published(session: Session, tmp_path: Path) -> str:
    """Two generations of a real local sitemap: the second adds one URL, removes one and changes one."""
    rows: list[dict[str, Any]] = [{"id": n, "loc": f"{BASE}p/{n}", "priority": 0.5} for n in range(1, 41)]
    source = MemorySourceConfig(rows, key="id", priority="priority")
    store = LocalStore(tmp_path / "site", base_url=BASE)
    section = Section("pages", source, shards=ShardPolicy(max_urls=5))
    sitemap = Sitemap(store, [section], guards=Guards.disabled())
    asset = add_asset(session, URI, "content")
    for number in (1, 2):
        made = build(sitemap)
        facts = store_facts(store, store.open())
        payload = event_extra(made, store=facts, settings=section_settings(sitemap))
        add_event(session, asset, "content", payload, NOW, run=f"r{number}")
        rows[0]["priority"] = 0.3
        rows.append({"id": 41, "loc": f"{BASE}p/41", "priority": 0.5})
        del rows[9]
    session.commit()
    return URI


def test_the_settings_of_sections_stay_after_a_run_that_only_the_store_knows(
    admin: Client, session: Session, tmp_path: Path
) -> None:
    """A run that publishes only some sections emits no event."""
    rows = [{"id": n, "loc": f"{BASE}p/{n}"} for n in range(1, 11)]
    store = LocalStore(tmp_path / "site", base_url=BASE)
    section = Section("pages", MemorySourceConfig(rows, key="id"), shards=ShardPolicy(max_urls=5))
    sitemap = Sitemap(store, [section], guards=Guards(max_dropped=0.9))
    facts = store_facts(store, store.open())
    payload = event_extra(build(sitemap), store=facts, settings=section_settings(sitemap))
    add_event(
        session, add_asset(session, URI, "content"), "content", payload, datetime(2020, 1, 1, tzinfo=timezone.utc)
    )
    session.commit()
    rows[0] = {"id": 1, "loc": ""}
    made = build(sitemap)

    page = admin.get("api/sitemap", asset=URI).json()

    assert page["report"]["finished_at"] == made.finished_at
    assert page["sections"][0]["max_urls"] == 5
    assert {problem["kind"]: problem["severity"] for problem in page["problem_list"]}["dropped"] == "info"


def test_the_difference_between_two_generations_in_either_direction(admin: Client, published: str) -> None:
    forward = admin.get("api/sitemap/changes", asset=published, from_generation=1, to_generation=2).json()
    back = admin.get("api/sitemap/changes", asset=published, from_generation=2, to_generation=1).json()

    assert (forward["urls"]["added_samples"], forward["urls"]["removed_samples"]) == ([f"{BASE}p/41"], [f"{BASE}p/10"])
    assert forward["urls"]["changed_samples"] == [f"{BASE}p/1"]
    assert (back["urls"]["added_samples"], back["urls"]["removed_samples"]) == ([f"{BASE}p/10"], [f"{BASE}p/41"])
    assert forward["sections"][0]["urls_before"] == forward["sections"][0]["urls_after"] == 40
    assert forward["sections"][0]["files_changed"] >= 2


def test_a_rollback_says_that_the_next_run_gives_new_dates_where_dates_are_observed(tmp_path: Path) -> None:
    rows = [{"id": n, "loc": f"{BASE}p/{n}", "title": "a"} for n in range(9)]
    dated = Section("dated", MemorySourceConfig(rows, key="id", lastmod=Observed("title")))
    plain = Section("plain", MemorySourceConfig(rows, key="id"), path="plain/")
    store = LocalStore(tmp_path / "dated", base_url=BASE)
    for number in range(2):
        rows[number]["title"] = "b"
        build(Sitemap(store, [dated, plain], guards=Guards.disabled()))
    area = store.open().state
    back, forward = (changes(area, of_generations(area, *pair)) for pair in ((2, 1), (1, 2)))
    assert back.note == (
        "The next run of the publishing DAG gives a new date to every URL of dated in which the generations differ."
    )
    assert forward.note == ""


def test_the_difference_says_when_its_urls_were_listed_changed_and_gone(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": n, "loc": f"{BASE}p/{n}", "priority": 0.5} for n in range(9)]
    section = Section("pages", MemorySourceConfig(rows, key="id", priority="priority"))
    store = LocalStore(tmp_path / "aged", base_url=BASE)
    sitemap = Sitemap(store, [section], gone=timedelta(days=9), guards=Guards.disabled())
    build(sitemap)
    rows[0]["priority"] = 0.3
    rows[8] = {"id": 20, "loc": f"{BASE}p/20", "priority": 0.5}
    build(sitemap)
    area = store.open().state
    urls = changes(area, of_generations(area, 1, 2)).urls

    assert urls is not None
    known = {url.removeprefix(BASE): set(own) for url, own in urls.ages.items()}
    assert known == {"p/0": {"first_listed", "changed_at"}, "p/8": {"first_listed", "gone"}, "p/20": {"first_listed"}}
    stored = area.get(MANIFEST)
    assert stored is not None
    shown = read_map(stored.body, "the manifest").manifest
    assert find_in_manifest(area, shown, f"{BASE}p/8", templates={}).note.startswith(
        "Gone: its row left the source at "
    )


def test_the_difference_is_exported(admin: Client, published: str) -> None:
    exported = admin.get("api/sitemap/changes.csv", asset=published, from_generation=1, to_generation=2)

    assert exported.headers["content-disposition"] == 'attachment; filename="changes.csv"'
    assert list(csv.DictReader(io.StringIO(exported.text))) == [
        {"change": "added", "url": f"{BASE}p/41"},
        {"change": "changed", "url": f"{BASE}p/1"},
        {"change": "removed", "url": f"{BASE}p/10"},
    ]
    assert admin.get("api/sitemap/changes.csv", asset=published, from_generation=1, to_generation=9).status_code == 409


def test_what_a_blocked_run_would_publish(admin: Client, session: Session, published: str, tmp_path: Path) -> None:
    """The run's XCom names it in the store, and the plan that it left there says what it would have changed."""
    unknown = admin.get("api/sitemap/changes", asset=published, from_generation=2).json()
    assert unknown == {"unavailable": "The last run was not blocked, or it did not record what it would publish."}
    rows = [{"id": n, "loc": f"{BASE}p/{n}", "priority": 0.5} for n in range(1, 6)]
    source = MemorySourceConfig(rows, key="id", priority="priority")
    section = Section("pages", source, shards=ShardPolicy(max_urls=5))
    sitemap = Sitemap(
        LocalStore(tmp_path / "site", base_url=BASE), [section], guards=Guards(max_shrink=0.1, min_rows=1)
    )
    with pytest.raises(GuardError) as refused:
        build(sitemap)
    ran = Ran(
        3, state="failed", plan="failed", publish="upstream_failed", pushed={REFUSED: refusal_facts(refused.value)}
    )
    add_run(session, "content", ran, NOW)
    session.commit()

    found = admin.get("api/sitemap/changes", asset=published, from_generation=2).json()

    assert (found["from_generation"], found["to_generation"]) == (2, None)
    (section_changes,) = found["sections"]
    assert (section_changes["urls_before"], section_changes["urls_after"]) == (40, 5)
    assert section_changes["files_removed"] > 0
    assert 0 < found["urls"]["removed"] <= 35
    assert f"{BASE}p/39" in admin.get("api/sitemap/changes.csv", asset=published, from_generation=2).text
    assert admin.get("api/sitemap/changes", asset=published, run=refused.value.run).json() == found
    assert admin.get("api/sitemap/changes", asset=published, run="../manifest").status_code == 422
    assert f"{BASE}p/2" not in found["urls"]["removed_samples"]
    assert "rows of the source" in found["note"]


def test_a_generation_that_is_not_kept_is_a_sentence(admin: Client, published: str) -> None:
    found = admin.get("api/sitemap/changes", asset=published, from_generation=2, to_generation=9).json()

    assert found == {"unavailable": "Generation 9 is no longer kept."}


@pytest.mark.parametrize("asset", [URI, ""], ids=["on its page", "on the list"])
@pytest.mark.parametrize(("number", "listed"), [(41, True), (7, True), (10, False), (99, False)])
def test_where_a_url_is_listed(admin: Client, published: str, asset: str, number: int, listed: bool) -> None:
    (found,) = admin.get("api/find", asset=asset, url=f"{BASE}p/{number}").json()["results"]

    assert (found["listed"], found["complete"], found["generation"]) == (listed, True, 2)
    if listed:
        assert found["matches"][0]["fields"] == {"priority": "0.5"}
        assert found["matches"][0]["file_url"].startswith(f"{BASE}pages-")


@pytest.mark.parametrize(
    ("path", "work"),
    [
        ("find", "overview.overviews"),
        ("find", "overview.sitemap_assets"),
        ("sitemap/index-status", "index_status_of"),
        ("sitemap/changes.csv", "csv_of"),
    ],
)
def test_what_takes_long_runs_beside_the_event_loop(
    admin: Client, published: str, monkeypatch: pytest.MonkeyPatch, path: str, work: str
) -> None:
    """Airflow's own requests, those of running tasks among them, may be served by the same loop."""
    loops = []
    target = f"airflow_sitemaps.plugin.store_routes.{work}"
    original = resolve_name(target)

    def recorded(*args: Any, **kwargs: Any) -> Any:
        loops.append(asyncio._get_running_loop())
        return original(*args, **kwargs)

    monkeypatch.setattr(target, recorded)
    found = admin.get(f"api/{path}", asset=published, url=f"{BASE}p/7", from_generation=1, to_generation=2)

    assert found.status_code == 200
    assert loops == [None]


def test_several_sitemaps_are_searched_at_the_same_time() -> None:
    """One after the other, five stores that hang would take longer than the page waits."""
    together = threading.Barrier(2)

    def opened(_: Any) -> Any:
        together.wait(timeout=120)
        raise OSError("down")

    sitemaps: Any = [
        SimpleNamespace(
            snapshot=SimpleNamespace(published=True, generation=1), hosts={"content.example"},
            store=StoreFacts(state_url=f"s3://shop-{number}/state"), known=SimpleNamespace(event=None),
        )
        for number in range(2)
    ]  # fmt: skip
    found = asyncio.run(search(StateReader(opened=opened), sitemaps, f"{BASE}p/1", everywhere=True))

    assert found.results == []
    assert [found.note.count(text) for text in ("shop-0", "shop-1", "down")] == [1, 1, 2]


def test_a_search_ends_in_time_and_keeps_what_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five sitemaps, two at a time, would take three times as long as one."""

    async def one(_: Any, sitemap: Any, url: str) -> urls.SearchResult:
        await asyncio.sleep(sitemap.seconds)
        if sitemap.number == 1:
            raise StateUnavailableError("down")
        return urls.SearchResult(
            url=url, asset=str(sitemap.number), generation=1, listed=False, complete=True, matches=[], shards_read=0,
            shards_total=0, note="",
        )  # fmt: skip

    monkeypatch.setattr(urls, "_search", one)
    monkeypatch.setattr(urls, "WAIT_S", 1.0)
    sitemaps: Any = [
        SimpleNamespace(
            number=number, seconds=seconds, asset=SimpleNamespace(uri=f"s3://{number}"), snapshot=SimpleNamespace(published=True), hosts={"content.example"})
        for number, seconds in enumerate((0, 0, 300, 300, 300))
    ]  # fmt: skip
    found = asyncio.run(search(StateReader(opened=lambda _: None), sitemaps, f"{BASE}p/1", everywhere=True))  # type: ignore[arg-type, return-value]

    assert [result.asset for result in found.results] == ["0"]
    assert found.note == " ".join(
        ["down", *(f"s3://{n} did not arrive within 1 seconds; try again soon." for n in (2, 3, 4))]
    )


def test_no_sitemap_serves_another_host(admin: Client, published: str) -> None:
    found = admin.get("api/find", url="https://elsewhere.example/").json()

    assert found == {"results": [], "note": "No published sitemap serves this host."}


@pytest.mark.parametrize("url", ["nonsense", "/p/1", "javascript:alert(1)", "http://[x"])
def test_the_list_asks_for_a_whole_url(admin: Client, published: str, url: str) -> None:
    found = admin.get("api/find", url=url).json()

    assert (found["results"], found["note"][:18]) == ([], "Give the whole URL")


@pytest.mark.parametrize("host", ["maps.example", "shop.example"])
def test_the_list_finds_urls_on_the_further_hosts_of_sections(
    admin: Client, session: Session, tmp_path: Path, host: str
) -> None:
    """By the section's own ``base_url``, and by ``cross_submit``."""
    store = LocalStore(tmp_path / "hosts", base_url="https://www.example/")
    rows = {name: [{"id": 1, "loc": f"https://{name}/1"}] for name in ("maps.example", "shop.example")}
    sections = [
        Section("maps", MemorySourceConfig(rows["maps.example"]), path="maps/", base_url="https://maps.example/"),
        Section("shops", MemorySourceConfig(rows["shop.example"])),
    ]
    sitemap = Sitemap(store, sections, cross_submit=("shop.example",))
    facts = store_facts(store, store.open())
    payload = event_extra(build(sitemap), store=facts, settings=section_settings(sitemap))
    add_event(session, add_asset(session, "s3://hosts/sitemap.xml", "hosts"), "hosts", payload, NOW, run="r1")
    session.commit()

    (found,) = admin.get("api/find", url=f"https://{host}/1").json()["results"]

    assert found["listed"]


def test_hosts_that_an_event_leaves_out_or_that_are_in_unicode_are_searched(
    admin: Client, session: Session, tmp_path: Path
) -> None:
    store = LocalStore(tmp_path / "many", base_url="https://xn--bcher-kva.example/")
    bases = [f"https://shop{n:03d}.example/" for n in range(150)]
    sitemap = Sitemap(
        store,
        [
            Section(f"s{n:03d}", MemorySourceConfig([{"id": n, "loc": f"{base}1"}]), path=f"s{n:03d}/", base_url=base)
            for n, base in enumerate(bases)
        ],
    )
    made = event_extra(build(sitemap), store=store_facts(store, store.open()), settings=section_settings(sitemap))
    add_event(session, add_asset(session, str(sitemap.asset.uri), "many"), "many", made, NOW)
    session.commit()

    assert made["sections_left_out"] > 0
    lost = next(n for n in range(150) if f"s{n:03d}" not in made["report"]["sections"])
    (found,) = admin.get("api/find", url=f"{bases[lost]}1").json()["results"]
    assert found["listed"]
    assert len(admin.get("api/find", url="https://bücher.example/1").json()["results"]) == 1


def test_what_cannot_be_listed_is_said(admin: Client, published: str) -> None:
    found = admin.get("api/find", asset=published, url="javascript:alert(1)").json()

    assert "rule loc-scheme" in found["note"]


def test_issues_are_exported_with_what_happened_to_each(admin: Client, session: Session) -> None:
    """Articles past their two days are no fault, and no issue."""
    asset = add_asset(session, URI, "content")
    payload = extra(report(1))
    payload["report"]["sections"]["products"] |= {
        "rows_dropped": {"loc-missing": 2},
        "rows_expired": {"news-age": 73},
        "fields_fixed": {"image": 4, "loc-encoding": 5, "scope-path": 6},
        "samples": {"loc-missing": ["NULL (key 42)", "=1+1"]},
    }
    add_event(session, asset, "content", payload, NOW)
    session.commit()

    rows = list(csv.DictReader(io.StringIO(admin.get("api/sitemap/issues.csv", asset=URI).text)))

    assert {row["rule"]: (row["result"], row["rows"]) for row in rows} == {
        "loc-missing": ("Left out", "2"),
        "image": ("Field removed", "4"),
        "loc-encoding": ("Fixed", "5"),
        "scope-path": ("Listed anyway", "6"),
    }
    assert [row["sample"] for row in rows if row["rule"] == "loc-missing"] == ["NULL (key 42)", "'=1+1"]
