"""What a user's type checker sees: ``make lint`` checks this file with mypy, strictly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps import (
    AzureBlobStore,
    GCSStore,
    ListSource,
    LocalStore,
    MemoryStore,
    S3Store,
    Section,
    Sitemap,
    SqlSource,
)
from airflow_sitemaps.testing import MemorySourceConfig

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_sitemaps.ports import Source
    from airflow_sitemaps.sources.session import SqlSession
    from airflow_sitemaps.testing import MemorySource

BASE = "https://www.example.com/"


def sources(sql: SqlSession, memory: MemorySource) -> list[Source]:
    """Every open source is a ``Source``; mypy checks it."""
    return [sql, memory]


def test_every_source_is_a_sections_and_every_store_a_sitemaps(tmp_path: Path) -> None:
    sections = [
        Section("products", SqlSource("shop", table="products", key="id", loc="url")),
        Section("pages", ListSource([BASE + "about"])),
        Section("posts", MemorySourceConfig([], key="id")),
    ]
    for store in (
        S3Store("s3://bucket/x", base_url=BASE),
        GCSStore("gs://bucket/x", base_url=BASE),
        AzureBlobStore("az://maps/x", base_url=BASE),
        LocalStore(tmp_path, base_url=BASE),
        MemoryStore(base_url=BASE),
    ):
        assert [section.name for section in Sitemap(store, sections).sections] == ["products", "pages", "posts"]
