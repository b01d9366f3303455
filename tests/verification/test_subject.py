"""Verification against the manifest: what we publish is valid, and what another program did to it is reported."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from airflow_sitemaps import LocalStore, MemoryStore, Section, Sitemap, verification
from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.http import AccessRules, Fetched, HttpClient
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.publish import promotion
from airflow_sitemaps.ports import Create, Overwrite
from airflow_sitemaps.protocol import gzip
from airflow_sitemaps.protocol.markup import NAMESPACE
from airflow_sitemaps.stores import azure
from airflow_sitemaps.testing import MemorySourceConfig
from airflow_sitemaps.verification import of_address, of_sitemap
from tests.support.environment import BASE, World, row
from tests.support.website import Page, serving

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_sitemaps.verification.result import Verification


def built(number: int = 12, **settings: object) -> World:
    world = World([row(n, lastmod="2026-01-02T03:04:05Z") for n in range(number)], settings=dict(settings))
    world.build()
    return world


def rules(result: Verification) -> dict[str, str]:
    return {failure.rule: failure.where for failure in result.failures}


def overwrite(world: World, name: str, body: bytes) -> None:
    world.store.public.put(name, body, mode=Overwrite(), metadata={}, content_type="application/gzip")


def shard_names(world: World) -> list[str]:
    return sorted(name for name in world.shards() if name.startswith("pages-"))


def test_what_we_publish_is_sound() -> None:
    world = built()
    result = of_sitemap(world.sitemap()).verify()
    assert result.failures == ()
    assert (result.urls, result.files, result.index_urls) == (12, 4, (BASE + "sitemap.xml",))


def test_recent_entries_and_feeds_are_no_duplicates() -> None:
    world = built(recent=timedelta(days=36_500), feeds=("atom", "rss", "mrss"))
    result = of_sitemap(world.sitemap()).verify()
    assert result.failures == ()
    assert "recent.xml.gz" in world.public()


def test_sections_are_read_wherever_they_are_served() -> None:
    world = World(
        [row(n) for n in range(7)], section_settings={"path": "de/", "base_url": "https://www.example.com/maps/"}
    )
    world.rows = [{**each, "loc": each["loc"].replace("/p/", "/maps/p/")} for each in world.rows]
    world.build()
    result = of_sitemap(world.sitemap()).verify()
    assert result.failures == ()
    assert result.urls == 7


def test_a_file_that_somebody_else_wrote_is_found() -> None:
    world = built()
    name = shard_names(world)[1]
    body = gzip.decompress(world.public()[name][0], max_byte_size=1 << 20)
    overwrite(world, name, gzip.compress(body.replace(b"/p/7", b"/p/x7")))
    assert rules(of_sitemap(world.sitemap()).verify()) == {"manifest-content": BASE + name}


def test_a_file_that_lost_entries_is_found() -> None:
    world = built()
    name = shard_names(world)[0]
    body = gzip.decompress(world.public()[name][0], max_byte_size=1 << 20)
    start, end = body.index(b"<url>"), body.index(b"</url>\n") + 7
    overwrite(world, name, gzip.compress(body[:start] + body[end:]))
    assert set(rules(of_sitemap(world.sitemap()).verify())) == {"manifest-count", "manifest-content"}


def test_a_file_that_is_gone_and_an_index_of_somebody_else_are_found() -> None:
    world = built()
    first, *_, last = shard_names(world)
    world.store.public.delete(first)
    assert rules(of_sitemap(world.sitemap()).verify()) == {"unreachable": BASE + first}
    index = world.public()["sitemap.xml"][0].replace(last.encode(), b"stranger.xml")
    overwrite(world, "sitemap.xml", index)
    overwrite(world, "stranger.xml", gzip.decompress(world.public()[last][0], max_byte_size=1 << 20))
    assert rules(of_sitemap(world.sitemap()).verify()) == {
        "unreachable": BASE + first,
        "manifest-extra": BASE + "stranger.xml",
        "manifest-missing": BASE + last,
        "manifest-content": BASE + "sitemap.xml",
    }


def test_an_index_or_feed_of_somebody_else_is_found() -> None:
    world = built(recent=timedelta(days=36_500), feeds=("atom", "rss"), stylesheet=True)
    overwrite(world, "sitemap.xml", world.public()["sitemap.xml"][0].replace(b"<lastmod>2026", b"<lastmod>2027"))
    overwrite(world, "recent.atom", b"<feed/>")
    world.store.public.delete("recent.rss")
    result = of_sitemap(world.sitemap()).verify()
    assert {(failure.rule, failure.where.removeprefix(BASE)) for failure in result.failures} == {
        ("manifest-content", "sitemap.xml"),
        ("manifest-content", "recent.atom"),
        ("unreachable", "recent.rss"),
        ("lastmod-future", "sitemap.xml"),
    }


def test_a_run_that_publishes_during_a_verification_is_no_error() -> None:
    world = built(feeds=("atom",), recent=timedelta(days=36_500))
    subject = of_sitemap(world.sitemap())
    world.rows.append(row(50, lastmod="2026-01-03T03:04:05Z"))
    world.build()
    result = subject.verify()
    assert result.failures == ()
    assert result.urls == 13
    overwrite(world, "recent.atom", b"<feed/>")
    assert rules(subject.verify()) == {"manifest-content": BASE + "recent.atom"}


def test_nothing_published_is_said() -> None:
    world = World([row(1)])
    with pytest.raises(ConfigurationError, match="nothing has been published yet"):
        of_sitemap(world.sitemap())


def test_every_kind_is_sound_from_a_folder(tmp_path: Path) -> None:
    """A folder as a web server would serve it, read without knowing its address, then over HTTP with its pages."""
    client = HttpClient(rules=AccessRules(allow_http=True, allow_private=True), wait_s=10.0)
    with serving() as site:
        base = site.base + "/"

        def rows(folder: str) -> list[dict[str, object]]:
            others = {"updated_at": "2026-01-02", "images": f'["{base}i/1.jpg"]'}
            return [{"id": n, "loc": f"{base}{folder}/{n}", **others} for n in range(5)]

        sections = [
            Section("pages", MemorySourceConfig(rows("p"), key="id", lastmod="updated_at", images="images")),
            Section("plain", MemorySourceConfig(rows("t"), key="id"), format="text"),
        ]
        sitemap = Sitemap(
            LocalStore(tmp_path / "public", base_url=base), sections, feeds=("atom",), index="per_section"
        )
        build(sitemap)
        assert of_sitemap(sitemap).verify().failures == ()
        names = sorted(path.name for path in (tmp_path / "public").iterdir() if path.is_file())
        for name in names:
            result = of_address(str(tmp_path / "public" / name)).verify()
            assert result.failures == (), name
            site.pages[f"/{name}"] = Page((tmp_path / "public" / name).read_bytes())
        indexes = [name for name in names if name.startswith("sitemap")]
        assert len(indexes) == 2
        site.pages["/robots.txt"] = Page("".join(f"Sitemap: {base}{name}\n" for name in indexes).encode())
        site.pages["/p/0"] = Page(b"<html/>", headers={"Content-Type": "text/html"})
        live = of_address(base + indexes[0], web=client)
        over_http = live.verify(replace(live.options, sample=5), web=client)
        assert {(failure.rule, failure.where) for failure in over_http.failures} == {
            ("page-status", f"{base}p/{n}") for n in range(1, 5)
        }
        ours = of_sitemap(sitemap)
        against = ours.verify(replace(ours.options, sample=1), web=client)
        assert against.sampled == 1
        assert "robots-index" not in rules(against)


def test_a_listed_file_whose_name_is_not_utf_8_is_read(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.xml")).write_text(
        f'<urlset xmlns="{NAMESPACE}"><url><loc>{BASE}1</loc></url></urlset>'
    )
    entry = f"<sitemap><loc>{BASE}caf%E9.xml</loc></sitemap>"
    (tmp_path / "sitemap.xml").write_text(f'<sitemapindex xmlns="{NAMESPACE}">{entry}</sitemapindex>')
    assert of_address(str(tmp_path)).verify().failures == ()


def test_robots_txt_is_asked_for_only_with_pages() -> None:
    """It is on the website, not in the store: a run without the network must not miss it."""
    world = built()
    ours = of_sitemap(world.sitemap())
    asked: list[str] = []

    class Web:
        def get(self, url: str) -> Fetched:
            asked.append(url)
            return Fetched(status=200, body=b"User-agent: *", headers={"content-type": "text/plain"}, chain=(url,))

    assert ours.verify(web=Web()).failures == ()
    assert asked == []
    result = ours.verify(replace(ours.options, sample=1), web=Web())
    assert rules(result) == {"robots-index": BASE + "sitemap.xml"}
    assert [url for url in asked if url.endswith("robots.txt")] == [BASE + "robots.txt"] * 2


def test_sections_served_on_other_hosts_are_no_strangers() -> None:
    other = "https://www.example.de/maps/"
    world = World([row(n) for n in range(7)], section_settings={"path": "de/", "base_url": other})
    world.rows = [{**each, "loc": each["loc"].replace(BASE, other)} for each in world.rows]
    world.build()
    result = of_sitemap(world.sitemap()).verify()
    assert result.failures == ()
    assert result.urls == 7


def test_the_limits_and_hosts_of_a_sitemap_are_judged_by() -> None:
    world = built(limits="original", cross_submit=("shop.example",))
    world.rows.append({**row(99), "loc": "https://shop.example/p"})
    world.build()
    ours = of_sitemap(world.sitemap())
    assert (ours.options.limits.name, ours.options.cross_submit) == ("original", ("shop.example",))
    assert ours.verify().failures == ()


@pytest.mark.parametrize("end", ["", "/"])
def test_a_container_of_an_account_is_searched_for_an_index(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    area = MemoryStore(base_url=BASE).open().public
    area.put("sitemap.xml", b"x", mode=Create(), metadata={}, content_type="application/xml")
    opened = []

    def open_area(url: str, conn_id: str | None) -> Any:
        opened.append(azure.AzureBlobStore.parsed(url, where="the address").url)
        return area

    monkeypatch.setattr(verification, "open_area", open_area)
    address = "az://acme.blob.core.windows.net/maps"
    assert of_address(address + end).addresses == (area.url("sitemap.xml"),)
    assert set(opened) == {address + "/"}


def test_a_prefix_is_read_by_who_may_read_only_what_is_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the policy of docs/security.md, S3 answers 403 for the key that the prefix itself would be."""
    area = MemoryStore(base_url=BASE).open().public
    area.put("sitemap.xml", b"x", mode=Create(), metadata={}, content_type="application/xml")
    denied = Mock(get=Mock(side_effect=ConfigurationError("AccessDenied")))
    monkeypatch.setattr(verification, "open_area", lambda url, conn_id: denied if url == "s3://acme-web" else area)
    assert of_address("s3://acme-web/sitemaps").addresses == (area.url("sitemap.xml"),)
    with pytest.raises(ConfigurationError, match="AccessDenied"):
        of_address("s3://acme-web/sitemap.xml")


def test_an_address_that_leads_nowhere_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such folder or file"):
        of_address(str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="Give the address of the file"):
        of_address(str(tmp_path))


def test_files_that_an_unfinished_promotion_has_not_replaced_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World([row(number) for number in range(1, 31)])
    world.build()
    world.rows[3]["priority"] = 0.2
    monkeypatch.setattr(promotion, "purge_shards", Mock(side_effect=StoreError("the purge failed")))
    with pytest.raises(StoreError, match="the purge failed"):
        world.build()
    assert of_sitemap(world.sitemap()).verify().failures == ()
