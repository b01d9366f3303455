"""Path tricks and templates in names, addresses, params and values: refused, or taken as text."""

from __future__ import annotations

import gzip
import json
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG

from airflow_sitemaps import LocalStore, S3Store, Section, Sitemap, SitemapTaskGroup, SqlSource, pipeline
from airflow_sitemaps.errors import ConfigurationError, GuardError, SitemapError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.adoption import adopt
from airflow_sitemaps.testing import MemorySourceConfig
from tests.security.area import Area
from tests.support.airflow_db import run, states

if TYPE_CHECKING:
    from pathlib import Path

BASE = "https://shop.example/maps/"
TRICKS = (
    "..",
    "../x",
    "x/../../y",
    "/etc",
    "a/b",
    "a\\b",
    "a\nb",
    "a b",
    "",
    "A",
    "%2e%2e",
    "a\x00",
    "x" * 65,
    "…",
    "{{ ds }}",
)


@pytest.fixture
def area(tmp_path: Path) -> Area:
    rows = [{"id": n, "loc": f"{BASE}{n}"} for n in range(3)]
    section = Section("pages", MemorySourceConfig(rows))
    return Area(tmp_path, Sitemap(LocalStore(tmp_path / "site", base_url=BASE), [section]), rows)


@pytest.mark.parametrize("name", TRICKS)
def test_a_section_has_a_plain_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="a section's name matches"):
        Section(name, MemorySourceConfig([]))


@pytest.mark.parametrize(
    "path", ["..", "../", "x/../", "/x/", "x", "a\\b/", "./", "x//y/", "%2e%2e/", "a\n/", ".hidden/"]
)
def test_a_path_stays_below(path: str) -> None:
    with pytest.raises(ConfigurationError, match="give a relative folder"):
        Section("pages", MemorySourceConfig([]), path=path)


@pytest.mark.parametrize(
    "name", ["../sitemap.xml", "a/sitemap.xml", "sitemap.xml\n", "sitemap", ".xml", "..xml", "sitemap.php"]
)
def test_an_index_has_a_plain_name(name: str, tmp_path: Path) -> None:
    for make in (
        lambda: LocalStore(tmp_path, base_url=BASE, index_name=name),
        lambda: S3Store("s3://bucket/maps", base_url=BASE, index_name=name),
    ):
        with pytest.raises(ConfigurationError, match="index_name"):
            make()


@pytest.mark.parametrize(
    "url", ["s3://bucket/../x", "s3://../x", "s3://bucket/a/../../b", "s3://bucket/a?x=1", "http://bucket/x", "s3:///x"]
)
def test_a_bucket_and_prefix_are_plain(url: str) -> None:
    with pytest.raises(ConfigurationError):
        S3Store(url, base_url=BASE)


@pytest.mark.parametrize(
    "base_url",
    [
        "javascript:alert(1)",
        "https://u:p@host/",
        "https://host/?x",
        "https://host/#x",
        "//host/",
        "https://ho st/",
        "file:///x",
    ],
)
def test_a_base_url_is_a_plain_address(base_url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        LocalStore(tmp_path, base_url=base_url)


@pytest.mark.parametrize(
    "base_url", ["https://me:secret@host/", "https:/me:secret@host/", "me:secret@host", "https://me:secret@[x/"]
)
def test_a_password_in_a_base_url_is_not_repeated(base_url: str, tmp_path: Path) -> None:
    source = MemorySourceConfig([])
    for make in (lambda: LocalStore(tmp_path, base_url=base_url), lambda: Section("pages", source, base_url=base_url)):
        with pytest.raises(ConfigurationError, match="base_url") as raised:
            make()
        assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "params",
    [
        {"rebuild": ["../../x"]},
        {"rebuild": ["manifest.json.gz"]},
        {"rebuild": ["pages-00001.xml.gz", "/etc/passwd"]},
        {"sections": ["../pages"]},
        {"sections": ["pages; DROP TABLE x"]},
        {"sections": ["{{ 7 * 7 }}"]},
        {"rebuild": "not a list"},
        {"full": "yes"},
        {"allow": [{"shrink": "pages"}]},
    ],
    ids=str,
)
def test_params_name_what_there_is_or_fail(area: Area, params: dict[str, Any]) -> None:
    build(area.sitemap)
    before = area.files()
    dag_id = f"params_{abs(hash(str(params)))}"
    with DAG(dag_id, schedule=None, max_active_runs=1, default_args={"retries": 0}) as dag:
        SitemapTaskGroup("sitemap", area.sitemap)

    if airflow_refuses(params):
        with pytest.raises(ValueError, match="Invalid input for param"):
            run(dag, params)
    else:
        assert states(run(dag, params))["sitemap.plan"] == "failed"
    assert area.files() == before


def airflow_refuses(params: dict[str, Any]) -> bool:
    """Whether a param is not of the type that the group declares."""
    return not all(isinstance(v, list) and all(isinstance(text, str) for text in v) for v in params.values())


def test_params_that_allow_unknown_guards_allow_nothing(area: Area) -> None:
    build(area.sitemap)
    area.rows.clear()

    with pytest.raises(SitemapError, match="there is no guard"):
        build(area.sitemap, allow=("*", "empty:*", "../empty:pages", "empty:pages "))


def test_templates_in_data_and_parameters_are_not_rendered_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jinja is rendered once, in the DAG author's texts; what it brings in, and what rows hold, is text."""
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, slug TEXT, kind TEXT)")
        shop.execute("INSERT INTO t VALUES (1, '{{ 7 * 7 }}', ?)", ("{{ ds }}' OR 1=1 --",))
        shop.execute("INSERT INTO t VALUES (2, 'other', 'other')")
    shop.close()
    extra = {"sqlalchemy_url": f"sqlite:///{tmp_path / 'shop.db'}"}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "generic", "extra": extra}))
    source = SqlSource(
        "shop", table="t", key="id", loc=BASE + "{slug}", where="kind = :kind",
        parameters={"kind": "{{ params.kind }}"},
    )  # fmt: skip
    sitemap = Sitemap(LocalStore(tmp_path / "site", base_url=BASE), [Section("pages", source)])
    with DAG("templates", schedule=None, max_active_runs=1, default_args={"retries": 0}, params={"kind": ""}) as dag:
        SitemapTaskGroup("sitemap", sitemap)

    done = run(dag, {"kind": "{{ ds }}' OR 1=1 --"})

    assert states(done)["sitemap.publish"] == "success"
    assert pipeline.status(sitemap).urls == 1
    assert sitemap.store.open().public.get("pages-00001.xml.gz") is not None


@pytest.mark.parametrize(
    "loc",
    [
        "../../../../etc/passwd",
        "..%2f..%2fx.xml",
        "a\\b.xml",
        "x" * 2_000 + ".xml",
        "robots.txt",
        "index.html",
        "a//b.xml",
        "%00.xml/../../x.xml",
    ],
)
def test_an_adopted_index_gives_nothing_away(area: Area, loc: str) -> None:
    """What a foreign index lists is swept after the grace: only what looks like a sitemap, only below its address."""
    site = area.folder / "site"
    site.mkdir()
    for name in ("robots.txt", "index.html", "old.xml"):
        (site / name).write_text("<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'/>")
    entries = "".join(f"<sitemap><loc>{BASE}{name}</loc></sitemap>" for name in (loc, "old.xml"))
    index = f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</sitemapindex>'
    (site / "sitemap.xml").write_text(index)

    with pytest.raises(GuardError, match="1 file of the sitemap to adopt cannot be counted"):
        adopt(area.sitemap, yes=True)
    adopt(area.sitemap, yes=True, allow=["adopt=1"])

    departed = json.loads(gzip.decompress(area.read("manifest.json.gz")))["departed"]
    assert "old.xml" in {item["key"] for item in departed}
    assert not {"robots.txt", "index.html"} & {item["key"] for item in departed}
    assert all(".." not in item["key"].split("/") for item in departed)
