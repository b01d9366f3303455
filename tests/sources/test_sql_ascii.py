"""A PostgreSQL database without an encoding (SQL_ASCII), whose texts may be of any."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from airflow_sitemaps import Guards, MemoryStore, Section, Sitemap, SqlSource
from airflow_sitemaps.errors import SourceError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.testing import crawl
from tests.support.source_sessions import postgresql_in

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE = "https://www.example.com/"


@pytest.fixture
def without_encoding(monkeypatch: pytest.MonkeyPatch) -> Iterator[sa.Engine]:
    with postgresql_in("SQL_ASCII") as address:
        url = address.render_as_string(hide_password=False)
        connection = {"conn_type": "generic", "extra": {"sqlalchemy_url": url}}
        monkeypatch.setenv("AIRFLOW_CONN_OLD", json.dumps(connection))
        engine = sa.create_engine(url, connect_args={"client_encoding": "utf8"})
        with engine.begin() as old:
            old.execute(sa.text("CREATE TABLE pages (id integer PRIMARY KEY, slug text)"))
            old.execute(sa.text("INSERT INTO pages VALUES (1, 'caf\u00e9')"))
        yield engine
        engine.dispose()


def sitemap(reader: str) -> Sitemap:
    source = SqlSource("old", table="pages", key="id", loc=BASE + "{slug}", reader=reader)  # type: ignore[arg-type]
    return Sitemap(MemoryStore(base_url=BASE), [Section("pages", source)], guards=Guards.disabled())


@pytest.mark.parametrize("reader", ["auto", "cursor"])
def test_its_texts_are_read_as_utf8(without_encoding: sa.Engine, reader: str) -> None:
    site = sitemap(reader)

    assert build(site).urls == 1
    assert crawl(site.store.open(), "sitemap.xml").locs() == {BASE + "caf%C3%A9"}


@pytest.mark.parametrize("reader", ["auto", "cursor"])
def test_bytes_of_another_encoding_are_refused_and_nothing_changes(without_encoding: sa.Engine, reader: str) -> None:
    site = sitemap(reader)
    build(site)
    with without_encoding.begin() as connection:
        connection.execute(sa.text("INSERT INTO pages VALUES (2, convert_from('\\xe9ff'::bytea, 'SQL_ASCII'))"))

    with pytest.raises(SourceError, match=r"section 'pages'.*invalid byte sequence for encoding"):
        build(site)

    assert crawl(site.store.open(), "sitemap.xml").locs() == {BASE + "caf%C3%A9"}


@pytest.mark.parametrize("reader", ["auto", "cursor"])
def test_the_connection_can_name_the_encoding(
    without_encoding: sa.Engine, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with without_encoding.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET slug = convert_from('\\x636166e9'::bytea, 'SQL_ASCII')"))
    url = without_encoding.url.update_query_dict({"client_encoding": "latin1"}).render_as_string(hide_password=False)
    monkeypatch.setenv("AIRFLOW_CONN_OLD", json.dumps({"conn_type": "generic", "extra": {"sqlalchemy_url": url}}))
    site = sitemap(reader)

    build(site)

    assert crawl(site.store.open(), "sitemap.xml").locs() == {BASE + "caf%C3%A9"}
