"""The key file of IndexNow: what a site must serve before URLs are sent, and what is said where it does not."""

from __future__ import annotations

import gzip
import logging
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import pytest

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import AccessRules
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.search_engines.announcer import (
    MAX_KEY_BYTES,
    IndexNow,
    announce,
    key_files,
    require_key_files,
)
from airflow_sitemaps.sitemap import Section, Sitemap
from airflow_sitemaps.stores.memory import MemoryStore
from airflow_sitemaps.testing import MemorySourceConfig
from airflow_sitemaps.web_services import public_client
from tests.support.website import Page, Site

if TYPE_CHECKING:
    from airflow_sitemaps.http import HttpClient

KEY = "0123-secret-key"
FILE = f"/{KEY}.txt"
GZIP = {"Content-Encoding": "gzip"}


@pytest.fixture
def client() -> HttpClient:
    return replace(public_client(), rules=AccessRules(allow_http=True, allow_private=True), wait_s=10.0)


@pytest.mark.parametrize(
    ("page", "served", "said"),
    [
        (Page(KEY.encode()), True, "holds the key"),
        (Page(f"\ufeff{KEY}\r\n".encode()), True, "holds the key"),
        (Page(gzip.compress(KEY.encode()), headers=GZIP), True, "holds the key"),
        (Page(KEY.encode(), headers=GZIP), False, "does not hold the key"),
        (Page(b"<html>a page that every path answers with</html>"), False, "does not hold the key"),
        (Page(f"key: {KEY}".encode()), False, "does not hold the key, or not only the key"),
        (Page(KEY.upper().encode()), False, "does not hold the key"),
        (Page(b"<p>no page" * 1_000), False, "does not hold the key"),
        (Page(b"<p>no page" * 1_000, status=404), False, "status 404"),
        (Page(status=404), False, "status 404"),
        (Page(status=403), False, "status 403"),
        (Page(status=503), None, "status 503"),
        (Page(b"x" * (MAX_KEY_BYTES + 1)), None, "too large"),
        (Page(status=302, headers={"Location": "/elsewhere"}), True, "holds the key"),
        (Page(status=302, headers={"Location": "https://127.0.0.1:1/"}), None, "ConnectionRefusedError"),
    ],
)
def test_what_a_site_serves_as_its_key_file(
    engine: Site, client: HttpClient, page: Page, served: bool | None, said: str
) -> None:
    engine.pages |= {FILE: page, "/elsewhere": Page(KEY.encode())}

    (file,) = key_files(IndexNow(key=KEY), [f"{engine.base}/p/1", f"{engine.base}/p/2"], client)

    assert file.served is served
    assert said in file.message
    assert file.address == f"{engine.base}/***.txt"
    assert KEY not in str(asdict(file))


def test_each_host_is_asked_once_and_a_location_instead_of_all_hosts(engine: Site, client: HttpClient) -> None:
    other = engine.base.replace("127.0.0.1", "localhost")
    urls = [f"{site}/{n}" for n in range(3) for site in (engine.base, other)]

    assert [file.address for file in key_files(IndexNow(key=KEY), urls, client)] == [
        f"{engine.base}/***.txt",
        f"{other}/***.txt",
    ]
    located = IndexNow(key=KEY, key_location=f"{engine.base}/seo/key.txt")
    assert [file.address for file in key_files(located, urls, client)] == [f"{engine.base}/seo/key.txt"]
    assert [path for _, path, _, _ in engine.asked] == [FILE, FILE, "/seo/key.txt"]


def test_a_site_without_the_file_is_refused_and_one_that_cannot_be_read_is_warned_of(
    engine: Site, client: HttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    site = IndexNow(key=KEY)
    with pytest.raises(ConfigurationError, match=r"no URL is sent.*\*\*\*\.txt: the response has status 404"):
        require_key_files(site, [f"{engine.base}/1"], client)
    engine.pages[FILE] = Page(status=503)

    require_key_files(site, [f"{engine.base}/1"], client)
    require_key_files(site, ["http://127.0.0.1:1/1"], client)
    require_key_files(
        site, [f"{engine.base}/1"], public_client()
    )  # a site without TLS, which the reader does not request

    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 3
    assert all("the key file cannot be checked, and the URLs are sent" in warning for warning in warnings)
    assert KEY not in caplog.text


def test_changes_wait_for_the_key_file(engine: Site, client: HttpClient) -> None:
    """Nothing is recorded as announced that search engines would discard."""
    base = f"{engine.base}/"
    rows = [{"id": 1, "loc": f"{base}1"}]
    sitemap = Sitemap(MemoryStore(base_url=base), [Section("pages", MemorySourceConfig(rows))])
    build(sitemap)
    site = IndexNow(key=KEY, endpoint=f"{base}indexnow")
    engine.pages["/indexnow"] = Page()
    assert announce(sitemap, site, sender=client, key_reader=client).urls == 0
    assert engine.asked == [], "no URL to send: no key file to read"
    rows.append({"id": 2, "loc": f"{base}2"})
    build(sitemap)
    with pytest.raises(ConfigurationError, match="the key file is not served"):
        announce(sitemap, site, sender=client, key_reader=client)
    assert [path for _, path, _, _ in engine.asked] == [FILE]

    engine.pages[FILE] = Page(KEY.encode())

    assert announce(sitemap, site, sender=client, key_reader=client).added == 1
