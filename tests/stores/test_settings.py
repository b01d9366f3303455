"""Settings of stores that cannot work are refused when the store is made."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import AzureBlobStore, Crawler, GCSStore, ListSource, LocalStore, MemoryStore, S3Store
from airflow_sitemaps.cdn import FastlyPurge
from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

BASE = "https://www.example.com/"
STORES: dict[str, Callable[..., object]] = {
    "memory": lambda **settings: MemoryStore(**{"base_url": BASE, **settings}),
    "local": lambda **settings: LocalStore("maps", **{"base_url": BASE, **settings}),
    "gcs": lambda **settings: GCSStore("gs://bucket/shop", **{"base_url": BASE, **settings}),
    "azure": lambda **settings: AzureBlobStore("az://maps/shop", **{"base_url": BASE, **settings}),
    "s3": lambda **settings: S3Store("s3://bucket/maps", **{"base_url": BASE, **settings}),
}
ADDRESS = type("Address", (), {"__str__": lambda _self: BASE})()
"""A URL that is no ``str``, such as those of yarl and pydantic."""
FOR_ALL: list[tuple[dict[str, Any], str]] = [
    ({"base_url": "www.example.com"}, "must be absolute"),
    ({"base_url": Path("public")}, "must be absolute"),
    ({"base_url": ADDRESS}, "must be absolute, a text like"),
    ({"base_url": "{{ var.value.site }}"}, "base_url='{{ var.value.site }}' holds .* from the environment"),
    ({"base_url": "https://{{ ds }}.example.com/"}, "only the settings of a source are rendered"),
    (
        {"base_url": "https://www.example.com/sitemap.xml"},
        "names a file: give its folder, and the file's name as index_name=",
    ),
    ({"base_url": "https://www.example.com/maps/sitemap.xml.gz"}, "names a file"),
    ({"index_name": "sitemap.html"}, "plain file name"),
    ({"index_name": None}, "plain file name"),
    ({"single_writer": "yes"}, "single_writer='yes'; give True or False"),
    ({"cache_control": ""}, "cache_control=''; give one line of printable ASCII"),
    ({"cache_control": "max-age=1\r\nX: y"}, "can be sent as an HTTP header"),
    ({"cache_control": None}, "can be sent as an HTTP header"),
    ({"shard_cache_control": 300}, "can be sent as an HTTP header"),
    ({"purge": "https://purge.example"}, "give a function"),
    ({"purge": FastlyPurge, "shard_cache_control": "public, max-age=86400"}, "give a function"),
]
FOR_S3: list[tuple[dict[str, Any], str]] = [
    ({"conn_id": ""}, "conn_id=''; give a text"),
    ({"conn_id": "{{ var.value.c }}"}, "conn_id='{{ var.value.c }}' holds "),
    ({"state_url": "s3://bucket/{% if x %}state"}, "state_url='s3://bucket/{% if x %}state' holds "),
    ({"conn_id": 5}, "conn_id=5; give a text"),
    ({"sse_kms_key_id": ""}, "sse_kms_key_id=''"),
    ({"content_encoding": "gzip"}, "content_encoding='gzip'; give True or False"),
    ({"expected_bucket_owner": "12"}, "12 digits"),
    ({"expected_bucket_owner": 123456789012}, "12 digits"),
    ({"state_url": "s3://bucket/maps/state"}, "is inside the public prefix"),
    ({"state_url": "s3://bucket"}, "public prefix is inside state_url"),
]


@pytest.mark.parametrize(
    ("store", "module", "extra"),
    [
        (AzureBlobStore("az://maps/shop", base_url=BASE), "airflow.providers.microsoft.azure.hooks.wasb", "azure"),
        (GCSStore("gs://maps/shop", base_url=BASE), "airflow.providers.google.cloud.hooks.gcs", "gcs"),
    ],
)
def test_a_missing_client_names_the_extra(
    store: AzureBlobStore | GCSStore, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=rf"not installed .*pip install 'airflow-sitemaps\[{extra}\]'"):
        store.open()


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize(("settings", "message"), FOR_ALL)
def test_settings_of_every_store(kind: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        STORES[kind](**settings)


@pytest.mark.parametrize(("settings", "message"), FOR_S3)
def test_settings_of_s3(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        STORES["s3"](**settings)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LocalStore("maps/{{ ds }}", base_url=BASE), "path='maps/{{ ds }}' holds "),
        (lambda: LocalStore("maps", base_url=BASE, state_dir="{{ ds }}"), "state_dir='{{ ds }}' holds "),
        (lambda: GCSStore("gs://maps/{{ ds }}", base_url=BASE), "url='gs://maps/{{ ds }}' holds "),
        (lambda: S3Store(None, base_url=BASE), "None must look like 's3://bucket/prefix'"),
        (lambda: GCSStore(3, base_url=BASE), "3 must look like 'gs://bucket/prefix'"),
        (lambda: AzureBlobStore(3, base_url=BASE), "'3' must look like 'az://container/prefix'"),
        (lambda: LocalStore("maps", base_url=BASE, group=1.5), "group=1.5 must be the name or id of a group"),
        (lambda: LocalStore("maps", base_url=BASE, state_dir=3), "state_dir=3 must be a folder"),
        (
            lambda: LocalStore("maps", base_url=BASE, state_dir="s3://bucket/state"),
            "state_dir='s3://bucket/state' must be a folder of this machine",
        ),
        (
            lambda: AzureBlobStore("az://maps/shop", base_url=BASE, wasb_conn_id=None),
            "az://maps/shop/: without a connection the address must name the account",
        ),
        (lambda: ListSource(3), "give either a list of pages"),
        (lambda: Crawler(name=None, agent="Bot", domains=["bot.example"]), "give a name of letters"),
        (lambda: Crawler(name="bot", agent=None, domains=["bot.example"]), "agent=None; give a part of its User-Agent"),
    ],
)
def test_a_value_of_another_type_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        make()
