"""Sources from dbt's manifest: the relation of a model, its columns, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_sitemaps import Guards, MemoryStore, Section, Sitemap, SqlSource
from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing import crawl

MANIFEST = Path(__file__).parent / "data/manifest.json"
BASE = "https://www.example.com/"
PRODUCTS = {"key": "product_id", "loc": "/p/{slug}", "lastmod": "updated_at"}


def source(model: str, manifest: str = "data/manifest.json", **arguments: Any) -> SqlSource:
    return SqlSource.from_dbt("mart", manifest=manifest, model=model, **{"key": "id", "loc": "url", **arguments})


def changed(folder: Path, **metadata: Any) -> str:
    """The manifest with other metadata."""
    content = json.loads(MANIFEST.read_text())
    content["metadata"] |= metadata
    path = folder / "manifest.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_the_rows_of_a_model_are_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = tmp_path / "mart.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute("CREATE TABLE listed_products (product_id BIGINT, slug VARCHAR, updated_at TIMESTAMP)")
        connection.execute("INSERT INTO listed_products SELECT n, 'a' || n, TIMESTAMP '2026-01-01' FROM range(30) t(n)")
    extra = {"sqlalchemy_url": f"duckdb:///{database}"}
    monkeypatch.setenv("AIRFLOW_CONN_MART", json.dumps({"conn_type": "generic", "extra": extra}))
    store = MemoryStore(base_url=BASE)
    section = Section("products", source("products", **PRODUCTS))
    assert build(Sitemap(store, [section], guards=Guards.disabled())).urls == 30
    assert BASE + "p/a7" in crawl(store.open()).locs()


@pytest.mark.parametrize(
    ("model", "table"),
    [
        ("articles", '"mart"."main"."articles"'),  # from database, schema and alias: it was not compiled
        ("prices", '"mart"."main"."prices_v2"'),  # the latest version, as by ref
        ("prices.v1", '"mart"."main"."prices_v1"'),
        ("shop.prices.v1", '"mart"."main"."prices_v1"'),
        ("common.calendar", '"mart"."common"."calendar"'),
        ("model.shop.calendar", '"mart"."main"."calendar"'),
    ],
)
def test_a_model_is_found_by_name_package_version_and_id(model: str, table: str) -> None:
    assert source(model).table == table


def test_a_source_of_a_model_is_that_of_its_table() -> None:
    made = source("products", **PRODUCTS, where="product_id > 3")
    plain = SqlSource("mart", table='"mart"."main"."listed_products"', where="product_id > 3", **PRODUCTS)
    assert made == plain
    assert made.identity() == plain.identity()


@pytest.mark.parametrize(
    ("written", "table"),
    [
        ("`shop-1`.`mart`.`products`", '"shop-1"."mart"."products"'),
        ("MART.PUBLIC.products", "MART.PUBLIC.products"),
        ("`mart`.`products`", '"mart"."products"'),
    ],
)
def test_names_are_read_as_each_adapter_quotes_them(tmp_path: Path, written: str, table: str) -> None:
    content = json.loads(MANIFEST.read_text())
    content["nodes"]["model.shop.articles"]["relation_name"] = written
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(content))
    assert source("articles", str(path)).table == table


def test_snowflakes_names_are_not_quoted_unless_dbt_does_so(tmp_path: Path) -> None:
    assert source("articles", changed(tmp_path, adapter_type="snowflake")).table == "mart.main.articles"


@pytest.mark.parametrize("version", [4, 7, 9, 11, 12, 13])
def test_manifests_of_many_versions_are_read(tmp_path: Path, version: int) -> None:
    schema = f"https://schemas.getdbt.com/dbt/manifest/v{version}.json"
    assert source("articles", changed(tmp_path, dbt_schema_version=schema)).table == '"mart"."main"."articles"'


@pytest.mark.parametrize(
    ("model", "arguments", "words"),
    [
        ("product", {}, ["no such model", "'products'"]),
        ("unique_products_product_id", {}, ["no such model"]),
        ("cleaned", {}, ["ephemeral", "query="]),
        ("drafts", {}, ["disabled"]),
        ("calendar", {}, ["model.shop.calendar", "seed.common.calendar", "package.name"]),
        ("products", {**PRODUCTS, "lastmod": "update_at"}, ["'update_at'", "Did you mean 'updated_at'"]),
        ("products", {**PRODUCTS, "loc": "/p/{slugg}"}, ["'slugg'", "Did you mean 'slug'"]),
        ("articles", {"table": "other"}, ["table="]),
        ("articles", {"query": "SELECT 1"}, ["query="]),
    ],
)
def test_what_is_wrong_is_named(model: str, arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SourceConfigurationError) as refused:
        source(model, **arguments)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_without_a_contract_other_columns_may_exist() -> None:
    assert source("articles", loc="url", lastmod="changed_at").lastmod == "changed_at"


def test_columns_are_compared_without_regard_to_case() -> None:
    assert source("products", key="PRODUCT_ID", loc="/p/{Slug}").key == "PRODUCT_ID"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ["no such file", "dbt parse"]),
        ("{", ["not a dbt manifest"]),
        ("[]", ["not a dbt manifest"]),
        ('{"metadata": {"dbt_schema_version": "https://schemas.getdbt.com/dbt/catalog/v1.json"}, "nodes": {}}', ["no manifest"]),
        ('{"metadata": {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v3.json"}, "nodes": {}}', ["version 3", "upgrade dbt"]),
    ],
)  # fmt: skip
def test_only_a_manifest_is_read(tmp_path: Path, content: str | None, words: list[str]) -> None:
    path = tmp_path / "manifest.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SourceConfigurationError) as refused:
        source("products", str(path), **PRODUCTS)
    assert all(word in str(refused.value) for word in words), str(refused.value)


def test_a_manifest_that_dbt_wrote_again_is_read_again(tmp_path: Path) -> None:
    path = changed(tmp_path)
    assert source("articles", path).table == '"mart"."main"."articles"'
    text = Path(path).read_text().replace('"alias": "articles"', '"alias": "posts"')
    Path(path).write_text(text)
    assert source("articles", path).table == '"mart"."main"."posts"'
