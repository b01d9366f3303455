"""No password, key or signature gets into a log, an error message, a report or a state object."""

from __future__ import annotations

import gzip
import json
import logging
import sqlite3
import traceback
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from airflow_sitemaps import LocalStore, S3Store, Section, Sitemap, SqlSource
from airflow_sitemaps.cli import main
from airflow_sitemaps.errors import SitemapError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.stores.s3.client import connections
from tests.support.clients import close_clients
from tests.support.s3 import moto_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.s3 import S3Server

SECRET = "s3cr3t-Pa/ss w0rd"
QUOTED = quote(SECRET, safe="")
TOKEN = "tok3n-of-the-warehouse"
KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
SECRETS = ("s3cr3t", TOKEN, SECRET_KEY, SECRET_KEY[:20], quote(SECRET_KEY, safe=""))

BROKEN = {
    "refused": {"sqlalchemy_url": f"postgresql+psycopg://shop:{QUOTED}@127.0.0.1:1/shop"},
    "by query": {"sqlalchemy_url": f"postgresql+psycopg://127.0.0.1:1/shop?user=shop&password={QUOTED}"},
    "not quoted": {"sqlalchemy_url": f"postgresql+psycopg://shop:{SECRET}@127.0.0.1:1/shop"},
    "mysql": {"sqlalchemy_url": f"mysql+pymysql://shop:{QUOTED}@127.0.0.1:1/shop?connect_timeout=1"},
    "unknown driver": {"sqlalchemy_url": f"nosuch+driver://shop:{QUOTED}@host/db?token={TOKEN}"},
    "no url": {"sqlalchemy_url": f"shop:{SECRET}@host"},
    "argument": {"sqlalchemy_url": f"duckdb:///:memory:?motherduck_token={TOKEN}&nosuch={QUOTED}"},
    "port": {"sqlalchemy_url": "postgresql+psycopg://shop:x@127.0.0.1:s3cr3t/shop"},
    "number": {"sqlalchemy_url": "mysql+pymysql://shop:x@127.0.0.1/shop?connect_timeout=s3cr3t"},
    "no folder": {"sqlalchemy_url": f"sqlite:////nowhere/at/all.db?password={QUOTED}&mode=ro&uri=true"},
}


@pytest.fixture
def everything(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Every logger at DEBUG, those of drivers and SDKs too."""
    caplog.set_level(logging.DEBUG)
    return caplog


def texts(error: BaseException, log: pytest.LogCaptureFixture, *more: str) -> str:
    """All that anybody could read: messages, traces with their causes, the log, what was printed."""
    return "\n".join([str(error), "".join(traceback.format_exception(error)), log.text, *more])


def leaks(text: str) -> list[str]:
    return [line for line in text.splitlines() if any(secret in line for secret in SECRETS)]


@pytest.mark.parametrize("extra", BROKEN.values(), ids=BROKEN.keys())
def test_a_connection_that_fails_keeps_its_password(
    extra: dict[str, str],
    tmp_path: Path,
    everything: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    connection = {"conn_type": "generic", "login": "shop", "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
    source = SqlSource("shop", table="products", key="id", loc="loc")
    sitemap = Sitemap(LocalStore(tmp_path / "site", base_url="https://shop.example/"), [Section("products", source)])

    with pytest.raises(SitemapError) as caught:
        build(sitemap)

    printed = capsys.readouterr()
    assert leaks(texts(caught.value, everything, printed.out, printed.err)) == []
    assert "shop" in str(caught.value)


def test_the_shell_keeps_it_too(
    tmp_path: Path, everything: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    connection = {"conn_type": "generic", "extra": BROKEN["not quoted"]}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
    (tmp_path / "maps.py").write_text(
        "from airflow_sitemaps import *\n"
        f"store = LocalStore({str(tmp_path / 'site')!r}, base_url='https://shop.example/')\n"
        "sitemap = Sitemap(store, [Section('products', SqlSource('shop', table='t', key='id', loc='loc'))])\n"
    )

    assert main(["build", f"{tmp_path / 'maps.py'}:sitemap", "--json", "--verbose"]) == 1

    printed = capfd.readouterr()
    assert leaks(everything.text + printed.out + printed.err) == []
    assert json.loads(printed.out)["error"]["type"] in ("SourceError", "SourceConfigurationError")


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Server]:
    with moto_server() as server:
        yield server


@pytest.mark.parametrize(
    ("endpoint", "bucket"),
    [
        ("http://127.0.0.1:1", "maps"),
        ("moto", "no-such-bucket"),
        ("http://127.0.0.1:1/?X-Amz-Signature=s3cr3t", "maps"),
    ],
    ids=["refused", "no bucket", "signed endpoint"],
)
def test_keys_of_s3_stay_out(
    endpoint: str,
    bucket: str,
    moto: S3Server,
    everything: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiet = ("botocore", "urllib3", "boto3")  # their DEBUG logs headers with signatures, for every user of the library
    for name in quiet:
        logging.getLogger(name).setLevel(logging.INFO)
    extra = {
        "endpoint_url": moto.endpoint if endpoint == "moto" else endpoint,
        "region_name": "us-east-1",
        "config_kwargs": {"retries": {"total_max_attempts": 1}, "connect_timeout": 1},
    }
    connection = {"conn_type": "aws", "login": KEY, "password": SECRET_KEY, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_BUCKET", json.dumps(connection))
    store = S3Store(f"s3://{bucket}/maps", base_url="https://shop.example/", conn_id="bucket")
    try:
        with pytest.raises(SitemapError) as caught:
            build(Sitemap(store, [Section("products", SqlSource("none", table="t", key="id", loc="loc"))]))
    finally:
        close_clients(connections, "bucket")
        for name in quiet:
            logging.getLogger(name).setLevel(logging.NOTSET)

    assert leaks(texts(caught.value, everything)) == []


def test_a_run_that_goes_well_writes_no_secret_anywhere(
    tmp_path: Path, everything: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do parameters of a query: they may be keys as well."""
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, slug TEXT, tenant TEXT)")
        database.execute("INSERT INTO t VALUES (1, 'a', ?)", (TOKEN,))
    database.close()
    connection = {
        "conn_type": "generic", "login": "shop", "password": SECRET,
        "extra": {"sqlalchemy_url": f"sqlite:///{tmp_path / 'shop.db'}"},
    }  # fmt: skip
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(connection))
    source = SqlSource(
        "shop", table="t", where="tenant = :tenant", parameters={"tenant": TOKEN}, key="id",
        loc="https://shop.example/{slug}",
    )  # fmt: skip
    sitemap = Sitemap(LocalStore(tmp_path / "site", base_url="https://shop.example/"), [Section("products", source)])

    report = build(sitemap)

    assert report.urls == 1
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "shop.db"]
    bodies = [path.read_bytes() for path in kept]
    read = [gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body for body in bodies]
    assert leaks("\n".join([everything.text, str(sitemap), *(body.decode("utf-8", "replace") for body in read)])) == []
