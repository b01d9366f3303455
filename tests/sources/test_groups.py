"""Alternates from a grouping column, on live databases: mutual over all shards, and incremental equal to full."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, ShardPolicy, Sitemap, SqlSource
from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.protocol.validator import Reciprocity
from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources import queries
from airflow_sitemaps.testing import Crawl, crawl
from tests.support.simulated_source import SimulatedSourceConfig
from tests.support.source_sessions import BACKENDS, create, live, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.databases import Database

BASE = "https://www.example.com/"
LANGUAGES = ("de", "en", "fr", "pt-BR", "x-default")
TYPES = {"id": "integer", "page": "integer", "lang": "text", "slug": "text", "url": "text"}
LOCS = {"column": "url", "template": BASE + "{lang}/{slug:path}"}


def row(number: int, page: int | None, language: str | None, slug: str = "") -> dict[str, Any]:
    slug = slug or f'é{page} & "o\'l"\\{number}'
    return {"id": number, "page": page, "lang": language, "slug": slug, "url": f"{BASE}{language}/{number}?a=1&b='x'"}


def rows_of(pages: int) -> list[dict[str, Any]]:
    """Pages in up to five languages, the languages far from each other in the order of the key."""
    return [
        row(place * 1_000 + page, page, language)
        for place, language in enumerate(LANGUAGES)
        for page in range(1, pages + 1)
        if (page + place) % 4
    ]


@dataclass
class Shop:
    """A table that is published; ``reader`` is a way to read it."""

    backend: str
    loc: str
    rows: list[dict[str, Any]] = field(default_factory=lambda: rows_of(12))
    base: Database | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.config = MemoryStore(base_url=BASE)

    def sitemap(self, config: MemoryStore) -> Sitemap:
        mapping: dict[str, Any] = {"key": "id", "loc": self.loc, "group": "page", "language": "lang", **self.extra}
        source: Any
        if self.base is None:
            source = SimulatedSourceConfig(self.rows, **mapping)
        else:
            source = SqlSource("shop", **{"table": "versions", **mapping}, reader=BACKENDS[self.backend][1])
        free = Guards.disabled()
        return Sitemap(config, [Section("pages", source)], shards=ShardPolicy(max_urls=7), guards=free)

    def build(self) -> Any:
        if self.base is not None:
            create(self.base, "versions", TYPES)
            self.base.insert("versions", self.rows)
        return build(self.sitemap(self.config))

    def crawl(self) -> Crawl:
        return crawl(self.config.open())

    def rebuilt(self) -> Crawl:
        config = MemoryStore(base_url=BASE)
        build(self.sitemap(config))
        return crawl(config.open())

    def alternates(self) -> dict[str, dict[str, str]]:
        """loc → language → URL."""
        return {
            entry.loc: {each["hreflang"]: each["href"] for each in entry.extensions.get("alternates", [])}
            for entries in self.crawl().files.values()
            for entry in entries
        }


@pytest.fixture(params=[*BACKENDS])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop_of(backend: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Shop]:
    def make(loc: str = "url", **extra: Any) -> Shop:
        shop = Shop(backend, loc, extra=extra)
        if backend != "memory":
            shop.base = live(BACKENDS[backend][0])
            connection = {"conn_type": "generic", "extra": {"sqlalchemy_url": shop.base.url}}
            monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
        return shop

    return make


def check(shop: Shop) -> None:
    """Incremental equals full, and every pair is mutual, each page among its own."""
    assert shop.crawl().entries() == shop.rebuilt().entries()
    mutual = Reciprocity()
    for loc, others in shop.alternates().items():
        assert not others or loc in others.values()
        mutual.add(loc, others.values())
    assert mutual.complete
    assert mutual.one_way() == []


@pytest.mark.parametrize("loc", LOCS.values(), ids=LOCS)
def test_members_name_each_other_whatever_changes(shop_of: Callable[..., Shop], loc: str) -> None:
    shop = shop_of(loc)
    shop.build()
    check(shop)
    first = shop.alternates()
    assert Counter(len(others) for others in first.values()) == {4: 36, 3: 9}
    assert all(
        sorted(others, key=lambda code: (code == "x-default", code)) == list(others) for others in first.values()
    )
    members = [each for each in shop.rows if each["page"] == 1]
    assert len(shop.crawl().files) > 5

    def touched(change: Callable[[], object]) -> int:
        change()
        report = shop.build()
        check(shop)
        return int(report.shards.rewritten)

    # A URL changes: the shards of all four members are written.
    assert touched(lambda: members[0].update(slug="new", url=f"{BASE}de/new")) == 4
    assert sum(f"{BASE}de/new" in others.values() for others in shop.alternates().values()) == 4
    # One leaves, one joins.
    assert touched(lambda: shop.rows.remove(members[1])) >= 3
    assert sum(len(others) == 3 and f"{BASE}de/new" in others.values() for others in shop.alternates().values()) == 3
    assert touched(lambda: members[2].update(page=2)) >= 3
    # A row is alone, or in no group, or has no language.
    touched(lambda: shop.rows.append(row(9_001, 777, "de")))
    touched(lambda: shop.rows.append(row(9_002, None, "en")))
    if "{lang}" not in loc:
        touched(lambda: shop.rows.append(row(9_003, 3, None)))
    alone = [others for loc, others in shop.alternates().items() if "900" in loc]
    assert alone
    assert not any(alone)
    assert shop.build().result == "unchanged"


def test_of_two_versions_in_one_language_and_of_faulty_languages_only_usable_ones_are_named(
    shop_of: Callable[..., Shop],
) -> None:
    shop = shop_of("url")
    shop.rows[:] = [row(1, 1, "de"), row(2, 1, "de"), row(3, 1, "en"), row(4, 1, "xx"), row(5, 1, "EN")]
    shop.build()
    named = {loc.split("?")[0]: sorted(others) for loc, others in shop.alternates().items()}
    assert {loc.removeprefix(BASE): codes for loc, codes in named.items() if codes} == {
        "de/1": ["EN", "de"],
        "EN/5": ["EN", "de"],
    }
    check(shop)


def test_a_member_that_is_dropped_is_named_by_nobody(shop_of: Callable[..., Shop]) -> None:
    """Another host's page, one that is no URL, one without a key: they are not listed, so a pair would not be mutual."""
    shop = shop_of("url")
    shop.rows[:] = [
        row(1, 1, "de"),
        row(2, 1, "en"),
        row(3, 1, "fr"),
        row(4, 2, "de"),
        row(5, 2, "en"),
        row(6, 3, "de"),
    ]
    shop.rows[2]["url"] = "https://elsewhere.example/fr"
    shop.rows[4]["url"] = "mailto:page@example.com"
    report = shop.build()
    assert report.rows_dropped == {"scope-host": 1, "loc-scheme": 1}
    named = {loc.removeprefix(BASE).split("?")[0]: sorted(others) for loc, others in shop.alternates().items()}
    assert named == {"de/1": ["de", "en"], "en/2": ["de", "en"], "de/4": [], "de/6": []}
    check(shop)
    assert report.fields_fixed["alternate-dropped"] == 3
    assert any(
        "https://elsewhere.example/fr is not listed" in each
        for each in report.sections["pages"].samples["alternate-dropped"]
    )

    # It is corrected: every member's shard is written again.
    shop.rows[2]["url"] = f"{BASE}fr/3"
    shop.build()
    assert all(sorted(shop.alternates()[loc]) == ["de", "en", "fr"] for loc in (f"{BASE}fr/3", shop.rows[0]["url"]))
    check(shop)


def test_a_member_without_a_key_is_nobodys_version(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{**row(1, 1, "de"), "ref": "a"}, {**row(2, 1, "en"), "ref": None}, {**row(3, 1, "fr"), "ref": "c"}]
    shop = Shop(backend, "url", rows=rows, extra={"key": "ref"})
    if backend != "memory":
        shop.base = live(BACKENDS[backend][0])
        monkeypatch.setenv(
            "AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": shop.base.url}})
        )
        create(shop.base, "versions", {**TYPES, "ref": "text"})
        shop.base.insert("versions", rows)
    build(shop.sitemap(shop.config))
    assert [sorted(others) for others in shop.alternates().values()] == [["de", "fr"], ["de", "fr"]]


def test_a_query_and_its_parameters_are_grouped_as_a_table_is(shop_of: Callable[..., Shop], backend: str) -> None:
    if backend == "memory":
        shop = shop_of()
        shop.rows[:] = [each for each in shop.rows if each["page"] < 5]
    else:
        query = "SELECT id, page, lang, slug, url FROM versions WHERE page < :most -- the first ones"
        shop = shop_of(table=None, query=query, where="id >= 0", parameters={"most": 5})
    shop.build()
    assert len(shop.alternates()) == sum(each["page"] < 5 for each in shop.rows)
    check(shop)


def test_a_materialised_table_keeps_the_groups(shop_of: Callable[..., Shop], backend: str) -> None:
    schema = {"sqlite": "main", "postgresql": "public", "duckdb": "main", "mariadb": "test"}.get(BACKENDS[backend][0])
    shop = shop_of() if schema is None else shop_of(materialize=schema)
    shop.build()
    check(shop)


@pytest.mark.parametrize(
    "arguments", [{"group": "page"}, {"language": "lang"}, {"group": "page", "language": "lang", "alternates": "links"}]
)
def test_arguments_that_cannot_be(arguments: dict[str, str]) -> None:
    with pytest.raises(SourceConfigurationError, match="group="):
        SqlSource("shop", table="versions", loc="url", **arguments)


def test_a_column_that_is_not_there_is_named(shop_of: Callable[..., Shop], backend: str) -> None:
    if backend == "memory":
        return
    shop = shop_of(language="langue")
    with pytest.raises(SourceConfigurationError, match=r"language='langue': there is no such column.*'lang'"):
        shop.build()


def test_groups_are_part_of_the_fingerprint() -> None:
    plain = SqlSource("shop", table="versions", loc="url")
    grouped = SqlSource("shop", table="versions", loc="url", group="page", language="lang")
    assert plain.identity() != grouped.identity()
    assert "group" not in plain.identity()


def test_members_that_were_cut_off_are_no_silent_loss() -> None:
    with pytest.raises(SourceError, match="truncated them after 7 characters"):
        queries.alternates(pa.array(['[["de",']), pa.array(["x"]), "url")
    nothing = queries.alternates(pa.array([None], pa.string()), pa.array(["x"]), "url")
    assert nothing.to_pylist() == [None]


@pytest.mark.parametrize("kind", ["integer", "text", "decimal", "float"])
def test_empty_and_zero_form_no_group_and_are_counted(backend: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number = kind != "text"
    groups_of_rows = [0, 0, 7, 7, None] if number else ["", "  ", "a", "a", None]
    rows = [
        {**row(n, None, language), "page": group}
        for n, (group, language) in enumerate(zip(groups_of_rows, ["de", "en", "de", "en", "fr"], strict=True))
    ]
    shop = Shop(backend, "url", rows=rows)
    if backend != "memory":
        shop.base = live(BACKENDS[backend][0])
        extra = {"sqlalchemy_url": shop.base.url}
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "generic", "extra": extra}))
        create(shop.base, "versions", {**TYPES, "page": kind})
        shop.base.insert("versions", rows)
    report = build(shop.sitemap(shop.config))
    assert [len(others) for _loc, others in sorted(shop.alternates().items())].count(2) == 2
    assert report.urls == 5
    assert report.fields_fixed["alternate"] == 2
    assert any("form no group" in sample for sample in report.sections["pages"].samples["alternate"])


def test_a_group_with_too_many_members_is_listed_without_alternates(
    shop_of: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_MEMBERS", 3)
    monkeypatch.setattr("tests.support.simulated_source.MAX_MEMBERS", 3)
    shop = shop_of("url")
    shop.rows[:] = [row(n, 1, f"l{n}") for n in range(4)] + [
        row(10 + n, 2, language) for n, language in enumerate(("de", "en", "fr"))
    ]
    report = shop.build()
    assert report.urls == 7
    assert report.fields_fixed["alternate"] == 4
    assert sorted(len(others) for others in shop.alternates().values()) == [0, 0, 0, 0, 3, 3, 3]
    check(shop)


def test_a_group_with_too_long_urls_is_listed_without_alternates(
    shop_of: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MAX_CHARACTERS", 900)
    monkeypatch.setattr("tests.support.simulated_source.MAX_CHARACTERS", 900)
    shop = shop_of("url")
    shop.rows[:] = [
        {**row(n, group, language), "url": f"{row(n, group, language)['url']}?{'x' * length}"}
        for n, (group, language, length) in enumerate([(1, "de", 500), (1, "en", 500), (2, "de", 100), (2, "en", 100)])
    ]
    report = shop.build()
    assert report.urls == 4
    assert report.fields_fixed["alternate"] == 2
    assert sorted(len(others) for others in shop.alternates().values()) == [0, 0, 2, 2]
    check(shop)


def test_a_large_group_costs_memory_in_proportion_to_its_rows() -> None:
    """Three thousand rows of one group took four gigabytes when each row carried all of them."""
    base = live("sqlite")
    create(base, "one_group", TYPES)
    base.insert("one_group", [row(n, 1, "de") for n in range(3_000)])
    with session(base, table="one_group", key="id", loc="url", group="page", language="lang") as source:
        batches = list(source.read([KeyRange(None, None)]))
    assert sum(batch.num_rows for batch in batches) == 3_000
    assert sum(batch.nbytes for batch in batches) < 3_000 * 1_000


def test_a_member_with_an_unusable_language_is_counted(shop_of: Callable[..., Shop]) -> None:
    shop = shop_of("url")
    shop.rows[:] = [row(1, 1, "de"), row(2, 1, "en"), row(3, 1, "klingon")]
    report = shop.build()
    assert report.fields_fixed["alternate"] >= 1
    assert any("klingon" in sample for sample in report.sections["pages"].samples["alternate"])
    check(shop)
