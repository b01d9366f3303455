"""Names of datasets: OpenLineage's namespaces for each engine, and never a secret in them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from airflow.sdk import Asset
from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime
from hypothesis import given
from hypothesis import strategies as st

from airflow_sitemaps import MemoryStore, Section, Sitemap
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.operators import lineage
from airflow_sitemaps.operators.lineage import DatasetName, database_of, file_of, parts_of
from airflow_sitemaps.testing import MemorySourceConfig


@pytest.mark.parametrize(
    ("connection", "table", "namespace", "name"),
    [
        (
            ("postgres", "db.example", None, "shop", {}),
            "products",
            "postgres://db.example:5432",
            "shop.public.products",
        ),
        (
            ("postgres", "db.example", 6432, "shop", {}),
            "mart.products",
            "postgres://db.example:6432",
            "shop.mart.products",
        ),
        (("mysql", "db.example", None, "shop", {}), "products", "mysql://db.example:3306", "shop.products"),
        (("redshift", "r.example", None, "dev", {}), "mart.p", "redshift://r.example:5439", "dev.mart.p"),
        (
            ("snowflake", "", None, "PUBLIC", {"account": "acme", "region": "eu-west-1", "database": "WEB"}),
            "PRODUCTS",
            "snowflake://acme.eu-west-1",
            "WEB.PUBLIC.PRODUCTS",
        ),
        (("gcpbigquery", "", None, "", {"project": "acme"}), "web.products", "bigquery", "acme.web.products"),
        (("trino", "t.example", None, "web", {"catalog": "hive"}), "p", "trino://t.example:8080", "hive.web.p"),
        (
            ("generic", "", None, "", {"sqlalchemy_url": "postgresql+psycopg://u:pw@h:5433/shop?sslpassword=x"}),
            "products",
            "postgres://h:5433",
            "shop.public.products",
        ),
        (("generic", "", None, "", {"sqlalchemy_url": "duckdb:////srv/shop.db"}), "p", "duckdb:/srv/shop.db", "p"),
    ],
)
def test_tables_are_named_by_their_connection(connection: Any, table: str, namespace: str, name: str) -> None:
    assert database_of(*connection).table(parts_of(table)) == DatasetName(namespace=namespace, name=name)


def test_quoted_parts_keep_their_dots() -> None:
    assert parts_of('mart."my.table"') == ("mart", "my.table")
    assert parts_of("`acme-web`.web.`p`") == ("acme-web", "web", "p")
    assert parts_of("[dbo].[Products]") == ("dbo", "Products")


def test_files_are_named_by_their_store() -> None:
    assert file_of("s3://bucket/maps/", "sitemap.xml") == DatasetName(namespace="s3://bucket", name="maps/sitemap.xml")
    assert file_of("gs://bucket/maps/", "a.xml") == DatasetName(namespace="gs://bucket", name="maps/a.xml")
    azure = "wasbs://web@acme.dfs.core.windows.net"
    assert file_of(f"{azure}/maps/", "a.xml") == DatasetName(namespace=azure, name="maps/a.xml")
    assert file_of("/srv/www/", "sitemap.xml") == DatasetName(namespace="file", name="/srv/www/sitemap.xml")


SAFE = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=8)


@given(SAFE, SAFE, SAFE)
def test_no_part_of_a_url_that_may_be_secret_is_in_a_name(host: str, database: str, table: str) -> None:
    secret = "S3CR3T"
    url = f"postgresql://{secret}user:{secret}@{host}/{database}?password={secret}"
    extra = {"sqlalchemy_url": url, "private_key": secret, "account": "acme"}

    assert secret not in json.dumps([str(database_of("generic", secret, None, secret, extra).table([table]))])


@pytest.mark.parametrize("names", [("md:shop?motherduck_token=s3cret", ""), ("", "md:shop?motherduck_token=s3cret")])
def test_a_token_in_the_path_of_a_duckdb_is_no_part_of_a_name(names: tuple[str, str]) -> None:
    assert database_of("duckdb", names[0], None, names[1], {}).namespace == "duckdb:md:shop"


def test_lineage_that_fails_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        sections = ()
        store = None

    assert lineage.of_publish(Broken(), {"sections": {}}) is None
    assert "Lineage is not available (AttributeError). The run continues." in caplog.text


def test_no_lineage_where_it_is_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    sitemap = Sitemap(MemoryStore(base_url="https://shop.example/"), [Section("a", MemorySourceConfig([]))])
    assert [dataset.name for dataset in lineage.of_publish(sitemap, {"sections": {}}).outputs]
    monkeypatch.setenv("AIRFLOW__SITEMAPS__LINEAGE", "False")
    assert lineage.of_publish(sitemap, {"sections": {}}) is None


def test_the_scheme_is_registered_with_its_converter() -> None:
    asset = lineage.create_asset(url="https://user:pw@WWW.example.com/sitemap.xml")
    manager = ProvidersManagerTaskRuntime()

    assert asset.uri == "sitemap://www.example.com/sitemap.xml"
    assert asset.normalized_uri == asset.uri
    dataset = manager.asset_to_openlineage_converters["sitemap"](Asset(uri=asset.uri), None)
    assert (dataset.namespace, dataset.name) == ("https://www.example.com", "/sitemap.xml")
    with pytest.raises(ConfigurationError, match="give the address of an index"):
        lineage.create_asset(url="/sitemap.xml")
    with pytest.raises(ValueError, match="a host and a path"):
        lineage.sanitize_uri(urlsplit("sitemap://"))
