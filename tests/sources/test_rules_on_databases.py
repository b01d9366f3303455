"""Each database's rows meet the same rules: what once ended a run, or was listed or lost uncounted, is counted on all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from airflow_sitemaps import Guards, MemoryStore, Section, Sitemap, SqlSource
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.protocol.rules import SAMPLE_LIMIT
from airflow_sitemaps.testing import crawl
from tests.support.source_sessions import BACKENDS, SQL_BACKENDS, create, live

BASE = "https://www.example.com/"
IMAGE = BASE + "i.png"
VIDEO = {"thumbnail_loc": IMAGE, "title": "T", "description": "D", "content_loc": BASE + "v.mp4"}
COLUMNS = ("loc", "lastmod", "images", "videos", "alternates", "title")
ROWS: dict[int, dict[str, Any]] = {
    1: {"loc": f"{BASE}a\ufffdb"},
    2: {"loc": f"{BASE}%EF%BF%BD"},
    3: {"loc": f"\u200b{BASE}zero\ufeff\u200d"},
    4: {"loc": f"{BASE}entity?a{'&amp;' + 'amp;' * 50_000}b"},
    5: {"images": IMAGE},
    6: {"images": '[{"loc": "https://www.example.com/i.png", "title": NaN}]'},
    7: {"images": "[" * 990, "videos": "[" * 50_000, "alternates": '{"rel":' + "[" * 976 + "]" * 976 + "}"},
    8: {"alternates": f'{{"group": [{{"hreflang": "de", "href": "{BASE}\\ud800"}}, {{"hreflang": "en", "href": "{BASE}8"}}]}}'},
    9: {"alternates": json.dumps([{"hreflang": "İd", "href": BASE + "9"}, {"hreflang": "en", "href": BASE + "9"}])},
    10: {"videos": json.dumps({**VIDEO, "restriction": {"relationship": "allow", "countries": ["UK"]}})},
    11: {"videos": json.dumps({**VIDEO, "uploader": "U" * 256})},
    12: {"images": f'{{"loc": "{IMAGE}", "title": "\\ud800"}}', "title": "\u200b" * 300},
}  # fmt: skip
DROPPED = {"loc-replacement-character": 2, "key-null": 1}
FAULTS = {
    "extension-json": 4,
    "image": 2,
    "video": 2,
    "alternate": 1,
    "alternate-dropped": 1,
    "loc-entity": 1,
    "loc-encoding": 1,
}
FAULTS |= {"ignored-field": 2}


@pytest.mark.parametrize("backend", SQL_BACKENDS)
def test_the_rules_of_values_that_once_ended_a_run_or_were_lost(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, reader = BACKENDS[backend]
    base = live(name)
    monkeypatch.setenv(
        "AIRFLOW_CONN_HOSTILE", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": base.url}})
    )
    text = "=LONGTEXT" if name == "mariadb" else "text"
    create(base, "findings", {"id": "integer", **dict.fromkeys(COLUMNS, text)})
    empty = dict.fromkeys(COLUMNS)
    rows = [{"id": key, **empty, "loc": f"{BASE}{key}", **row} for key, row in ROWS.items()]
    base.insert("findings", [*rows, {"id": None, **empty, "loc": BASE + "é" * 5_000}])
    mapping = {each: each for each in COLUMNS if each != "loc"}
    source = SqlSource("hostile", table="findings", key="id", loc="loc", reader=reader, **mapping)  # type: ignore[arg-type]
    config = MemoryStore(base_url=BASE)
    sitemap = Sitemap(config, [Section("pages", source)], guards=Guards.disabled(), feeds=("mrss",))

    report = build(sitemap)

    assert dict(report.rows_dropped) == DROPPED
    assert dict(report.fields_fixed) == FAULTS
    assert report.urls + sum(DROPPED.values()) == len(ROWS) + 1
    files = crawl(config.open()).files.values()
    locs = {entry.loc for entries in files for entry in entries}
    assert locs == {BASE + path for path in ("zero", "entity?a&b", *map(str, range(5, 13)))}
    samples = report.sections["pages"].samples
    assert samples.keys() == DROPPED.keys() | FAULTS.keys()
    assert all(len(sample) <= SAMPLE_LIMIT for texts in samples.values() for sample in texts)
    assert any("key [5]" in sample and "a bare URL is not JSON" in sample for sample in samples["extension-json"])
    assert build(sitemap).result == "unchanged"


@pytest.mark.parametrize("backend", SQL_BACKENDS)
def test_an_empty_value_of_a_template_leaves_the_row_out(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, reader = BACKENDS[backend]
    base = live(name)
    monkeypatch.setenv(
        "AIRFLOW_CONN_HOSTILE", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": base.url}})
    )
    create(base, "findings", {"id": "integer", "slug": "text"})
    base.insert("findings", [{"id": n, "slug": slug} for n, slug in enumerate(["", None, "a", "b/c"])])
    config = MemoryStore(base_url=BASE)
    source = SqlSource("hostile", table="findings", key="id", loc=BASE + "p/{slug}", reader=reader)
    report = build(Sitemap(config, [Section("pages", source)], guards=Guards.disabled()))
    assert dict(report.rows_dropped) == {"loc-missing": 2}
    assert dict(report.fields_fixed) == {"loc-slash": 1}
    assert "key [3]" in report.sections["pages"].samples["loc-slash"][0]
    assert crawl(config.open()).locs() == {f"{BASE}p/a", f"{BASE}p/b%2Fc"}


SURROGATES = {"utf8mb3": "_utf8mb3 x'61EDA080'", "ucs2": "_ucs2 x'0061D800'"}


@pytest.mark.parametrize("charset", SURROGATES)
def test_half_a_surrogate_pair_of_mysql_is_counted(charset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """MariaDB stores halves of pairs in some character sets; the driver fails on each of them."""
    base = live("mariadb")
    monkeypatch.setenv(
        "AIRFLOW_CONN_HOSTILE", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": base.url}})
    )
    kind = f"=VARCHAR(200) CHARACTER SET {charset}"
    create(base, "findings", {"id": "integer", "grp": "integer", "lang": kind, "slug": kind, "lm": kind, "title": kind})
    base.run(
        "INSERT INTO findings VALUES (1, 1, 'de', 'fine', '2026-01-01', 'T'), (2, 1, 'en', 'also', '2026-01-02', 'T')"
    )
    engine = base.engine()
    with engine.begin() as connection:
        connection.exec_driver_sql("SET SESSION sql_mode = ''")
        for at, column in enumerate(("slug", "lang", "lm", "title"), start=3):
            row = {"id": str(at), "grp": "1", "lang": "'fr'", "slug": f"'s{at}'", "lm": "'2026-01-01'", "title": "'T'"}
            row[column] = SURROGATES[charset]
            connection.exec_driver_sql(f"INSERT INTO findings VALUES ({', '.join(row.values())})")
        connection.exec_driver_sql(f"INSERT INTO findings (id, slug) VALUES (NULL, {SURROGATES[charset]})")
    engine.dispose()
    config = MemoryStore(base_url=BASE)
    source = SqlSource(
        "hostile",
        table="findings",
        key="id",
        loc=BASE + "{slug}",
        lastmod="lm",
        title="title",
        group="grp",
        language="lang",
    )
    sitemap = Sitemap(config, [Section("pages", source)], guards=Guards.disabled(), feeds=("rss",))
    report = build(sitemap)
    assert report.urls + sum(report.rows_dropped.values()) == 7
    assert report.rows_dropped["key-null"] == 1
    assert {f"{BASE}fine", f"{BASE}also", f"{BASE}s6"} <= crawl(config.open()).locs()
    assert build(sitemap).result == "unchanged"
    with source.open(section="pages") as opened:
        assert [(each.loc, each.rows) for each in opened.duplicates(5)] == [(BASE + "a\x1aED\x1aA0\x1a80", 2)]


@pytest.mark.parametrize("reader", ["auto", "cursor"])
@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1251", "EUC_JP"])
def test_the_encoding_of_a_postgresql_database_changes_no_url(
    encoding: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = live("postgresql")
    words = {"LATIN1": "café", "WIN1251": "груша", "EUC_JP": "日本"}
    database = f"encoded_{encoding.lower()}"
    engine = base.engine()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {database}")
        connection.exec_driver_sql(
            f"CREATE DATABASE {database} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    engine.dispose()
    url = sa.make_url(base.url).set(database=database).render_as_string(hide_password=False)
    other = replace(base, url=url, types={"integer": "bigint", "text": "text"})
    create(other, "findings", {"id": "integer", "slug": "text"})
    hexed = words[encoding].encode({"LATIN1": "latin-1", "WIN1251": "cp1251", "EUC_JP": "euc-jp"}[encoding]).hex()
    other.run(f"INSERT INTO findings VALUES (1, convert_from(decode('{hexed}', 'hex'), '{encoding}'))")
    monkeypatch.setenv("AIRFLOW_CONN_HOSTILE", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": url}}))
    config = MemoryStore(base_url=BASE)
    source = SqlSource("hostile", table="findings", key="id", loc=BASE + "{slug}", reader=reader)  # type: ignore[arg-type]
    report = build(Sitemap(config, [Section("pages", source)], guards=Guards.disabled()))
    assert (dict(report.rows_dropped), dict(report.fields_fixed)) == ({}, {})
    assert crawl(config.open()).locs() == {BASE + quote(words[encoding])}
