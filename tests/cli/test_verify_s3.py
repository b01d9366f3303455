"""``verify s3://…``: any sitemap in a bucket, plain or compressed, found, missing or out of reach."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Section, Sitemap
from airflow_sitemaps.cli import main
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.stores.s3.client import connections
from airflow_sitemaps.testing import MemorySourceConfig
from tests.support.clients import close_clients
from tests.support.s3 import S3Server, moto_server

if TYPE_CHECKING:
    from collections.abc import Iterator

NS = "http://www.sitemaps.org/schemas/sitemap/0.9"
BASE = "https://www.example.com/maps/"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with moto_server() as found:
        yield found


@pytest.fixture
def conn(server: S3Server) -> Iterator[str]:
    with server.connection("verify_s3") as conn_id:
        yield conn_id


@pytest.fixture
def bucket(server: S3Server, conn: str) -> str:
    return server.new_bucket()


def urlset(*names: str) -> bytes:
    entries = "".join(f"<url><loc>{BASE}{name}</loc></url>" for name in names)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{NS}">{entries}</urlset>'.encode()


def index(*names: str) -> bytes:
    entries = "".join(f"<sitemap><loc>{BASE}{name}</loc></sitemap>" for name in names)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<sitemapindex xmlns="{NS}">{entries}</sitemapindex>'.encode()


def put(server: S3Server, bucket: str, **objects: bytes) -> None:
    client = server.client()
    for key, body in objects.items():
        client.put_object(Bucket=bucket, Key=key, Body=body)
    client.close()


def verified(capfd: pytest.CaptureFixture[str], target: str, *options: str, status: int = 0) -> Any:
    got = main(["verify", target, "--conn", "verify_s3", "--json", *options])
    out, err = capfd.readouterr()
    assert got == status, err
    return json.loads(out)


def test_what_we_published_is_read_from_its_prefix(server: S3Server, capfd: pytest.CaptureFixture[str]) -> None:
    with server.store(prefix="maps") as store, server.connection("verify_s3"):
        rows = [{"id": n, "loc": f"{BASE}p/{n}"} for n in range(7)]
        build(Sitemap(store, [Section("pages", MemorySourceConfig(rows, key="id"))]))
        capfd.readouterr()
        for target in (f"{store.public.url}sitemap.xml", store.public.url, store.public.url.rstrip("/")):
            found = verified(capfd, target)
            assert (found["valid"], found["urls"], found["files"]) == (True, 7, 2), target
            assert found["index_urls"] == [f"{store.public.url}sitemap.xml"]


def test_an_index_leads_to_plain_and_compressed_files(
    server: S3Server, bucket: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """A stranger's, in the root of the bucket, which is served at /maps/."""
    files = {"a.xml": urlset("1", "2"), "b.xml.gz": gzip.compress(urlset("3")), "c.txt": f"{BASE}4\n".encode()}
    put(server, bucket, **{"sitemap.xml": index(*files)}, **files)
    for target in (f"s3://{bucket}", f"s3://{bucket}/", f"s3://{bucket}/sitemap.xml"):
        found = verified(capfd, target)
        assert (found["valid"], found["urls"], found["files"], found["failures"]) == (True, 4, 4, []), target
    single = verified(capfd, f"s3://{bucket}/b.xml.gz")
    assert (single["urls"], single["files"], single["index_urls"]) == (1, 1, [])
    beyond = verified(capfd, f"s3://{bucket}/a.xml", "--public", "https://other.example/a.xml", status=1)
    assert {failure["rule"] for failure in beyond["failures"]} == {"scope-host"}


def test_a_compressed_index_is_found_under_a_prefix(
    server: S3Server, bucket: str, capfd: pytest.CaptureFixture[str]
) -> None:
    put(server, bucket, **{"de/sitemap_index.xml.gz": gzip.compress(index("de/a.xml")), "de/a.xml": urlset("de/1")})
    assert verified(capfd, f"s3://{bucket}/de")["urls"] == 1


def test_what_an_index_lists_and_is_not_there_is_named(
    server: S3Server, bucket: str, capfd: pytest.CaptureFixture[str]
) -> None:
    put(server, bucket, **{"sitemap.xml": index("a.xml", "gone.xml"), "a.xml": b"<urlset"})
    found = verified(capfd, f"s3://{bucket}/sitemap.xml", status=1)
    assert {failure["where"]: failure["rule"] for failure in found["failures"]} == {
        f"{BASE}a.xml": "xml",
        f"{BASE}gone.xml": "unreachable",
    }
    (gone,) = [failure for failure in found["failures"] if failure["rule"] == "unreachable"]
    assert gone["message"] == "no such file: the status is 404, not 200"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("s3://{bucket}/nothing.xml", ["'s3://{bucket}/nothing.xml'", "no such object", "Give the address"]),
        ("s3://{bucket}/", ["no index under this prefix", "sitemap_index.xml"]),
        ("s3://no-such-bucket/sitemap.xml", ["NoSuchBucket", "no-such-bucket", "Create the bucket"]),
        ("s3://no-such-bucket", ["NoSuchBucket", "no-such-bucket", "Create the bucket"]),
        ("s3://", ["not a valid bucket name"]),
        ("s3://{bucket}/a.xml?versionId=1", ["with nothing after it"]),
    ],
)
def test_an_address_that_leads_nowhere_is_told(
    target: str, words: list[str], bucket: str, capfd: pytest.CaptureFixture[str]
) -> None:
    error = verified(capfd, target.format(bucket=bucket), status=1)["error"]
    assert error["type"] == "ConfigurationError"
    for word in words:
        assert word.format(bucket=bucket) in error["message"]


def test_without_credentials_it_is_told_where_to_give_them(
    server: S3Server, bucket: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    extra = {"endpoint_url": server.endpoint, "region_name": "us-east-1"}
    monkeypatch.setenv("AIRFLOW_CONN_VERIFY_S3", json.dumps({"conn_type": "aws", "extra": extra}))
    close_clients(connections, "verify_s3")
    error = verified(capfd, f"s3://{bucket}/sitemap.xml", status=1)["error"]
    assert f"s3://{bucket}/sitemap.xml" in error["message"]
    assert "Check the Airflow connection" in error["message"]
    close_clients(connections, "verify_s3")


def test_both_ways_of_choosing_json_name_what_failed(
    server: S3Server, bucket: str, capfd: pytest.CaptureFixture[str]
) -> None:
    target = f"s3://no-{bucket}/sitemap.xml"
    assert main(["verify", target, "--conn", "verify_s3", "--format", "json"]) == 1
    assert json.loads(capfd.readouterr().out).keys() == verified(capfd, target, status=1).keys()
