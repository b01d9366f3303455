"""Copies within a store: their conditions, the probe, and their use in promotions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_sitemaps import Guards, LocalStore, MemoryStore, Section, ShardPolicy, Sitemap
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.state import capability_probe
from airflow_sitemaps.ports import Create, ObjectInfo, PutMode, PutOutcomeError, Store, Update
from airflow_sitemaps.stores.s3 import client
from airflow_sitemaps.stores.s3.client import copy_as_on_r2
from airflow_sitemaps.stores.s3.objects import S3Objects
from airflow_sitemaps.testing import MemorySourceConfig, crawl
from tests.simulation.faults import Fault, Faults, FaultyStore
from tests.stores.conftest import BASE
from tests.support.clients import close_clients
from tests.support.proxy import Proxy, Spoil, proxy_to
from tests.support.s3 import S3Server, moto_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_sitemaps.ports import StoreConfig

GONE = "0" * 32
FREE = Guards.disabled()


@pytest.fixture(scope="module")
def aws() -> Iterator[S3Server]:
    """Moto's server with the conditions of CopyObject that AWS documents."""
    with moto_server(conditional_copies=True) as server:
        yield server


@pytest.fixture(autouse=True)
def _probed_again() -> None:
    capability_probe.forget()


@pytest.fixture(params=["memory", "local", "s3"])
def copying(request: pytest.FixtureRequest, aws: S3Server, tmp_path: Path) -> Iterator[Store]:
    if request.param == "s3":
        with aws.store() as store:
            yield store.open()
    elif request.param == "local":
        yield LocalStore(tmp_path / "maps", base_url=BASE).open()
    else:
        yield MemoryStore(base_url=BASE).open()


def source_of(store: Store, body: bytes = b"content") -> ObjectInfo:
    store.state.put("body", body, mode=Create(), metadata={"write-id": "private"}, content_type="text/plain")
    found = store.state.head("body")
    assert found is not None
    return found


def copy(store: Store, found: ObjectInfo, mode: PutMode, **metadata: str) -> str:
    return store.public.copy(store.state, found, "copy", mode=mode, metadata=metadata, content_type="application/gzip")


def refused(store: Store, found: ObjectInfo, mode: PutMode) -> bool:
    with pytest.raises(PutOutcomeError) as raised:
        copy(store, found, mode)
    return raised.value.definite


def test_a_copy_has_the_bytes_of_its_source_and_headers_of_its_own(copying: Store) -> None:
    etag = copy(copying, source_of(copying), Create(), **{"Write-Id": "public"})
    there = copying.public.get("copy")
    assert there is not None
    assert (there.body, there.info.etag, dict(there.info.metadata)) == (b"content", etag, {"write-id": "public"})


def test_a_copy_is_made_under_conditions_of_both_its_ends(copying: Store) -> None:
    found = source_of(copying)
    assert refused(copying, found, Update(GONE)), "nothing is there to replace"
    etag = copy(copying, found, Create())
    assert refused(copying, found, Create())
    assert refused(copying, found, Update(GONE))
    assert refused(copying, replace(found, etag=GONE), Update(etag))
    assert refused(copying, replace(found, key="missing"), Update(etag))
    assert copy(copying, found, Update(etag))


def test_a_store_that_keeps_the_conditions_of_copies_is_found_out_and_nothing_is_left(aws: S3Server) -> None:
    with aws.store() as config:
        store = config.open()
        assert not capability_probe.copies(store, capability_probe.WORTH_ASKING - 1)
        assert capability_probe.copies(store, capability_probe.WORTH_ASKING)
        assert [*store.public.list(), *store.state.list()] == []


def test_r2_takes_conditions_on_the_destination_under_names_of_its_own() -> None:
    with moto_server(conditional_copies=True, copies_as="HTTP_CF_COPY_DESTINATION_") as r2:
        with r2.store() as config:
            assert not capability_probe.copies(config.open(), 100), "it does not know those of S3"
        capability_probe.forget()
        with r2.store() as config:
            area = config.open().public
            assert isinstance(area, S3Objects)
            copy_as_on_r2(area.connection.client)
            assert capability_probe.copies(config.open(), 100)
            assert build(sitemap(config)).result == "published"
            assert build(sitemap(config, priority=0.9)).shards.rewritten == 10
            assert {facts[0][2] for facts in crawl(config.open()).entries().values()} == {"0.9"}


@pytest.mark.parametrize(("host", "renamed"), [("account.r2.cloudflarestorage.com", 1), ("s3.example.com", 0)])
def test_only_a_client_of_r2_renames_them(host: str, renamed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[Any] = []
    monkeypatch.setattr(client, "copy_as_on_r2", clients.append)
    value = {"conn_type": "aws", "login": "a", "password": "b", "extra": {"endpoint_url": f"https://{host}"}}
    monkeypatch.setenv("AIRFLOW_CONN_R2", json.dumps(value))
    client.connections.of("r2")
    close_clients(client.connections, "r2")
    assert len(clients) == renamed


def test_a_store_that_ignores_them_is_not_asked_to_copy(moto: S3Server) -> None:
    with moto.store() as config:
        store = config.open()
        assert not capability_probe.copies(store, 100)
        assert [*store.public.list(), *store.state.list()] == []


def test_a_store_whose_answer_names_no_etag_is_sent_each_file(aws: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with aws.store() as config:
        area = config.open().public
        assert isinstance(area, S3Objects)
        real = area.connection.client.copy_object
        monkeypatch.setattr(area.connection.client, "copy_object", lambda **asked: real(**asked) and {})
        assert build(sitemap(config)).result == "published"
        assert len(crawl(config.open()).locs()) == 50


def test_a_single_writer_puts_every_file_itself(aws: S3Server) -> None:
    with aws.store(single_writer=True) as config:
        assert not capability_probe.copies(config.open(), 100)


@pytest.mark.parametrize("spoil", [Spoil.ANSWER_503, Spoil.RESET_BEFORE])
def test_where_the_questions_fail_files_are_put_from_here(aws: S3Server, spoil: Spoil) -> None:
    with proxy_to(aws.endpoint) as proxy, aws.store(endpoint=proxy.endpoint) as config:
        proxy.choose = lambda exchange: spoil if is_copy(exchange) else None
        assert build(sitemap(config)).result == "published"
        assert len(crawl(config.open()).locs()) == 50


def is_copy(exchange: Any) -> bool:
    return "x-amz-copy-source" in {name.lower() for name in exchange.headers}


def sitemap(config: StoreConfig, priority: float = 0.5) -> Sitemap:
    rows = [{"id": n, "loc": f"{config.base_url}p/{n}", "priority": priority} for n in range(50)]
    source = MemorySourceConfig(rows, key="id", priority="priority")
    return Sitemap(config, [Section("pages", source)], shards=ShardPolicy(max_urls=5), guards=FREE)


def served(store: Store) -> dict[str, tuple[Any, ...]]:
    """Every public file of S3 as it is served."""
    area = store.public
    assert isinstance(area, S3Objects)
    found = {}
    for info in area.list():
        answer = area.connection.client.get_object(Bucket=area.address.bucket, Key=area.address.prefix + info.key)
        metadata = {"write-id": answer["Metadata"]["write-id"].partition("#")[2]}
        found[info.key] = (
            answer["Body"].read(),
            answer["ContentType"],
            answer["CacheControl"],
            answer["ETag"],
            metadata,
        )
    return found


def test_a_promotion_sends_no_byte_twice_and_serves_the_same(aws: S3Server, moto: S3Server) -> None:
    with proxy_to(aws.endpoint) as proxy, aws.store(endpoint=proxy.endpoint) as config, moto.store() as other:
        build(sitemap(other))
        build(sitemap(config))
        assert len(shard_copies(proxy)) == 10
        assert [e.path for e in proxy.seen if e.method == "GET" and "/bodies/" in e.path] == []
        assert {name: file[:4] for name, file in served(config.open()).items()} == {
            name: file[:4] for name, file in served(other.open()).items() if name != "sitemap.xml"
        } | {"sitemap.xml": served(config.open())["sitemap.xml"][:4]}
        assert build(sitemap(config)).result == "unchanged"
        report = build(sitemap(config, priority=0.9))
        assert (report.result, report.shards.rewritten) == ("published", 10)
        assert len(shard_copies(proxy)) == 20
        assert {facts[0][2] for facts in crawl(config.open()).entries().values()} == {"0.9"}


def shard_copies(proxy: Proxy) -> list[str]:
    return [e.path for e in proxy.seen if is_copy(e) and "/pages-" in e.path]


@pytest.mark.parametrize(
    "fault", [Fault.LOST_ANSWER, Fault.REFUSED_AFTER, Fault.CONFLICT, Fault.UNAVAILABLE, Fault.REFUSED]
)
def test_an_unclear_copy_is_made_out(aws: S3Server, fault: Fault) -> None:
    with aws.store() as config:
        build(sitemap(config))
        faulty = FaultyStore(config, Faults().on("put", "pages-*", fault, area="public", times=7))
        assert build(sitemap(faulty, priority=0.9)).result == "published"
        assert {facts[0][2] for facts in crawl(config.open()).entries().values()} == {"0.9"}


def test_a_damaged_body_is_not_copied(aws: S3Server) -> None:
    with aws.store() as config:
        faults = Faults()
        spoilt: list[str] = []

        def spoil(call: Any) -> None:
            if call.area == "public" and call.key.startswith("pages-") and not spoilt:
                state = config.open().state
                for info in state.list("runs/"):
                    if "/bodies/" in info.key:
                        state.delete(info.key)
                        spoilt.append(info.key)

        faults.before = spoil
        with pytest.raises(Exception, match="is missing: run again with rebuild"):
            build(sitemap(FaultyStore(config, faults)))
        assert spoilt


def test_a_copy_is_asked_for_with_the_settings_of_the_store(aws: S3Server) -> None:
    settings = {"content_encoding": True, "sse_kms_key_id": "alias/maps", "expected_bucket_owner": "123456789012"}
    with proxy_to(aws.endpoint) as proxy, aws.store(endpoint=proxy.endpoint, **settings) as config:
        build(sitemap(config))
        (asked, *_) = [exchange for exchange in proxy.seen if is_copy(exchange) and "/pages-" in exchange.path]
        headers = {name.lower(): value for name, value in asked.headers.items()}
        assert headers["content-encoding"] == "gzip"
        assert headers["content-type"] == "application/xml; charset=utf-8"
        assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "alias/maps"
        assert headers["x-amz-expected-bucket-owner"] == headers["x-amz-source-expected-bucket-owner"] == "123456789012"
        assert headers["x-amz-metadata-directive"] == "REPLACE"
        assert "/maps-state/" in headers["x-amz-copy-source"]
