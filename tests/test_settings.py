"""Invalid settings are refused when the object is made, with the setting's name and what it may be."""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_sitemaps import Guards, ListSource, MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators.decisions import Approval
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.environment import BASE


def sitemap(*sections: Section | str, index_name: str = "sitemap.xml", **settings: Any) -> Sitemap:
    rows = MemorySourceConfig([], lastmod="updated_at")
    named = [Section(section, rows) if isinstance(section, str) else section for section in sections or ("pages",)]
    return Sitemap(MemoryStore(base_url=BASE, index_name=index_name), named, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"index": "per-section"}, r"index='per-section'; give one of 'one', 'per_section'"),
        ({"compression": "smal"}, "compression='smal'; give one of 'fast', 'small'"),
        ({"feeds": ("json",)}, "feeds='json'; give one of 'atom', 'rss', 'mrss'"),
        ({"feeds": "atom"}, r"feeds='atom'; give a list of texts, like \['atom'\]"),
        ({"change_detection": "Full"}, "change_detection='Full'; give one of"),
        ({"change_detection": "watermrk"}, "change_detection='watermrk'; give one of 'digest', 'watermark', 'full'"),
        ({"history": -3}, "history=-3; give a whole number of at least 1"),
        ({"history": True}, "history=True; give a whole number"),
        ({"limits": "orignal"}, "limits='orignal'; give one of 'current', 'original'"),
        ({"grace": timedelta(days=-1)}, "grace=.*; give a timedelta of at least zero"),
        ({"recent": timedelta(0)}, "recent=.*; give a timedelta above zero"),
        ({"recent": 3}, "recent=3; give a timedelta above zero"),
        ({"retired": "old"}, r"retired='old'; give a list of texts, like \['old'\]"),
        ({"cross_submit": "https://a.example/"}, "cross_submit=.*; give a list of texts"),
        ({"stylesheet": "yes"}, "stylesheet='yes'; give True or False"),
        ({"guards": {"max_shrink": 0.2}}, "guards=.*; give a Guards"),
        ({"freshness": 6}, "freshness=6; give a timedelta above zero"),
        ({"freshness": timedelta(0)}, "freshness=.*; give a timedelta above zero"),
        ({"feeds": ("atom", "rss", "atom")}, "feeds=.*'rss', 'atom'.*; give each feed once"),
        ({"must_list": ["about"]}, "must_list='about'; give an absolute URL, or a path from '/'"),
        ({"must_list": ["https://"]}, "must_list='https://'; give an absolute URL"),
        ({"must_list": (each for each in ["/about"])}, "must_list=.*; give a list of texts"),
        ({"retired": iter(["old"])}, "retired=.*; give a list of texts"),
        ({"gone": timedelta.max}, "gone=.*; give a timedelta above zero and at most 36,500 days"),
        ({"grace": timedelta(days=900_000)}, "grace=.*; give a timedelta of at least zero and at most 36,500 days"),
        ({"rules": None}, "rules=None; give a Mapping"),
        (
            {"must_list": ["/", "https://shop.other.com/"]},
            r"must_list=\['https://shop.other.com/'\]: no section may list",
        ),
        ({"must_list": [BASE.replace("https", "http")]}, "Correct it, or name the host in cross_submit="),
    ],
)
def test_a_sitemap_refuses_invalid_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        sitemap(**settings)


def test_a_must_list_may_name_a_host_that_a_section_lists() -> None:
    shop = "https://shop.other.com/"
    sitemap(must_list=[shop], cross_submit=["shop.other.com"])
    sitemap(must_list=[shop], rules={"scope-host": "keep"})
    sitemap(Section("shop", MemorySourceConfig([]), base_url=shop), must_list=[shop])


@pytest.mark.parametrize("settings", [{"recent": timedelta(days=1)}, {"feeds": ("atom",)}])
def test_a_feed_needs_a_section_with_dates(settings: dict[str, Any], tmp_path: Path) -> None:
    """Without one it stays empty in every run. The next text of a file may have dates."""
    plain = Section("pages", MemorySourceConfig([]))
    text = Section("text", MemorySourceConfig([], lastmod="updated_at"), format="text")
    with pytest.raises(
        ConfigurationError, match=r"recent= and feeds= .* no section .* give one of their sources lastmod="
    ):
        sitemap(plain, text, Section("list", ListSource(["/", {"loc": "/about", "lastmod": ""}])), **settings)
    sitemap(plain, "posts", **settings)
    sitemap(plain, Section("list", ListSource([{"loc": "/", "lastmod": "2026-01-02"}])), **settings)
    (tmp_path / "news.csv").write_text("loc,lastmod\n/,\n")
    sitemap(plain, Section("list", ListSource(file=str(tmp_path / "news.csv"))), **settings)


def test_an_address_that_no_file_can_list_names_its_section() -> None:
    with pytest.raises(ConfigurationError, match=r"Section\('de'\): base_url 'https://\[v1.a\]/': give"):
        Section("de", MemorySourceConfig([]), base_url="https://[v1.a]")


def test_a_sitemap_needs_a_store_and_a_list_of_sections() -> None:
    section, store = Section("pages", MemorySourceConfig([])), MemoryStore(base_url=BASE)
    for sections in (section, None, (each for each in [section]), [section.source]):
        with pytest.raises(ConfigurationError, match=r"sections=.*; give a list of Section\('name', source\)"):
            Sitemap(store, sections)  # type: ignore[arg-type]
    for wrong in ("s3://bucket/public", None, Path("public"), MemoryStore, section, store.open()):
        with pytest.raises(ConfigurationError, match=r"store=.*; give a store, like S3Store"):
            Sitemap(wrong, [section])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "article"},
        {"format": "json"},
        {"kind": "news", "format": "text"},
        {"limits": "orignal"},
        {"change_detection": "watermrk"},
        {"path": "/de"},
        {"base_url": "www.example.com"},
        {"base_url": "https://www.example.com/x?y=1"},
        {"base_url": "https://www.example.com/#x"},
        {"base_url": "https://"},
        {"base_url": type("Address", (), {"__str__": lambda _self: BASE})()},
        {"base_url": "https://de example.com/"},
        {"base_url": "https://bob:secret@www.example.com/"},
        {"guards": 0.1},
        {"shards": 50_000},
        {"rules": {"loc-hots": "fail"}},
        {"rules": ["scope-host"]},
        {"base_url": "https://www.example.com/sitemap.xml"},
    ],
)
def test_a_section_refuses_invalid_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Section("pages", MemorySourceConfig([]), **settings)


@pytest.mark.parametrize(
    ("base_url", "cross_submit"),
    [
        ("https://münchen.example/", ()),
        ("https://www.example.com/größe/", ()),
        ("https://www.example.com:99999/", ()),
        (BASE, ["*.example.com"]),
        (BASE, [""]),
    ],
)
def test_an_address_that_no_file_can_have_is_refused_at_once(base_url: str, cross_submit: list[str]) -> None:
    section = Section("pages", MemorySourceConfig([]))
    with pytest.raises(ConfigurationError):
        Sitemap(MemoryStore(base_url=base_url), [section], cross_submit=cross_submit)
    with pytest.raises(ConfigurationError):
        Sitemap(
            MemoryStore(base_url=BASE), [dataclasses.replace(section, base_url=base_url)], cross_submit=cross_submit
        )


class OwnSource:
    """A user's source with what it must write itself."""

    timezone = "UTC"

    def open(self, *, section: str) -> Any:
        raise NotImplementedError

    def identity(self) -> dict[str, object]:
        return {}

    def describe(self) -> str:
        return "own"


@pytest.mark.parametrize(
    "source", [["/", "/about"], "SELECT 1", None, Path("pages.csv"), MemorySourceConfig, OwnSource]
)
def test_a_section_needs_a_source(source: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Section\('pages'\): source=.*; give a source, like SqlSource"):
        Section("pages", source)


def test_the_refusal_of_a_source_does_not_show_a_password() -> None:
    with pytest.raises(ConfigurationError, match=r"source= is a str; give a source") as caught:
        Section("pages", "postgresql://me:s3cret@db/shop")  # type: ignore[arg-type]
    assert "s3cret" not in str(caught.value)


def test_a_section_takes_a_users_own_source() -> None:
    sitemap(Section("pages", OwnSource()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings",
    [
        {"max_shrink": 10},
        {"max_shrink": -0.1},
        {"min_rows": -1},
        {"min_rows": 0.5},
        {"max_dropped": 2},
        {"max_churn": "half"},
        {"max_growth": -1},
    ],
)
def test_guards_refuse_invalid_limits(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"Guards: {next(iter(settings))}="):
        Guards(**settings)


@pytest.mark.parametrize(
    "settings",
    [{"max_urls": "5"}, {"max_urls": 0}, {"max_urls": 50_001}, {"max_urls": 2.5}, {"fill": "1"}, {"merge_below": None}],
)
def test_a_shard_policy_refuses_invalid_sizes(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"ShardPolicy.*{next(iter(settings))}="):
        ShardPolicy(**settings)


@pytest.mark.parametrize(
    ("sections", "settings"),
    [
        (("a", "a-2"), {"index": "per_section"}),
        (("a", "a-10"), {"index": "per_section"}),
        (("sitemap", "00001"), {"index": "per_section", "index_name": "sitemap.xml.gz"}),
        (("recent", "a"), {"index": "per_section", "recent": timedelta(days=1)}),
        (("recent-2", "a"), {"index": "per_section", "recent": timedelta(days=1)}),
        (("a",), {"index_name": "recent.xml.gz", "recent": timedelta(days=1)}),
        (("a",), {"index_name": "a-00001.xml.gz"}),
    ],
)
def test_names_that_could_collide_are_refused(sections: tuple[str, ...], settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="rename a section, or give the store another index_name"):
        sitemap(*sections, **settings)


def test_names_that_cannot_collide_are_accepted() -> None:
    sitemap("a", "a-2")
    sitemap("a", "a-b", "a-1", index="per_section")
    sitemap("recent", index="per_section")
    sitemap("sitemap", "00001", index="per_section")
    sitemap("sitemap", index_name="sitemap.xml.gz", feeds=("atom", "rss", "mrss"), stylesheet=True)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("https://WWW.Example.com", BASE),
        ("HTTPS://www.example.com:443/Maps/", f"{BASE}Maps/"),
        ("http://shop.example:080/", "http://shop.example/"),
        ("http://shop.example:8080", "http://shop.example:8080/"),
    ],
)
def test_an_address_is_written_as_urls_are(given: str, written: str) -> None:
    assert MemoryStore(base_url=given).base_url == written


def test_the_presets_of_guards_are_ordered_and_are_those_of_the_documentation() -> None:
    names = ["max_shrink", "max_growth", "max_churn", "max_dropped", "max_shrink_total"]
    presets = [Guards.strict(), Guards(), Guards.loose()]
    page = (Path(__file__).parents[1] / "docs" / "guards.md").read_text()
    for name in names:
        limits = [getattr(preset, name) for preset in presets]
        assert limits == sorted(set(limits))
        shown = re.search(rf"^\| `{name}`: .*$", page, re.MULTILINE)
        assert shown is not None
        assert re.findall(r"\| ([\d.]+) %", shown[0]) == [f"{limit * 100:g}" for limit in limits]


@pytest.mark.parametrize("users", ["ada", [{"id": "1"}], [{"id": 1, "name": "ada"}], [{"id": "1", "name": None}]])
def test_an_approval_needs_users_as_airflow_takes_them(users: Any) -> None:
    Approval(assigned_users=[{"id": "1", "name": "ada"}])
    with pytest.raises(ConfigurationError, match=r'assigned_users=.*; give a list of users, like \[\{"id": "1"'):
        Approval(assigned_users=users)


def test_disabled_guards_refuse_only_emptiness() -> None:
    assert Guards.disabled().max_shrink == 1.0
