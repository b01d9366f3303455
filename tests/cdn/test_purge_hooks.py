"""Purge hooks for CloudFront, Fastly, Cloudflare, Google and Azure: what they send, and what they make of the answers."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import airflow.exceptions
import airflow.sdk.exceptions
import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_sitemaps import airflow_compat, waits, web_services
from airflow_sitemaps.cdn import AzureFrontDoorPurge, CloudflarePurge, CloudFrontPurge, FastlyPurge, GoogleCDNPurge
from airflow_sitemaps.errors import ConfigurationError, CredentialsError, StoreError
from airflow_sitemaps.http import Fetched, FetchError
from tests.support.s3 import moto_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ZONE = "0123456789abcdef" * 2
TOKEN = "t0ken-of-the-test"
ENDPOINT = "/subscriptions/s/resourceGroups/web/providers/Microsoft.Cdn/profiles/p/afdEndpoints/e"
ADDRESSES = [f"https://www.example.com/maps/products-{number:05d}.xml.gz" for number in range(1, 46)]


@dataclass
class FakeSender:
    """Answers requests with what it was given, and keeps them."""

    answers: list[Fetched | Exception] = field(default_factory=list)
    requests: list[tuple[str, str, bytes | None, dict[str, str]]] = field(default_factory=list)

    def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        self.requests.append((method, url, body, dict(headers or {})))
        answer = self.answers.pop(0) if self.answers else reply(200)
        if isinstance(answer, Exception):
            raise answer
        return answer


def reply(status: int, body: bytes = b'{"success": true}') -> Fetched:
    return Fetched(status=status, body=body, headers={}, chain=("https://api.example/",))


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLOUDFLARE", "FASTLY"):
        connection = Connection(conn_id="c", conn_type="generic", password=TOKEN)
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}_DEFAULT", connection.as_json())
    monkeypatch.setattr(web_services, "PAUSE_S", 0.0)


def test_cloudflare_gets_addresses_by_thirty() -> None:
    sender = FakeSender()
    CloudflarePurge(zone_id=ZONE, client=sender)(ADDRESSES)
    assert [json.loads(body or b"")["files"] for _, _, body, _ in sender.requests] == [ADDRESSES[:30], ADDRESSES[30:]]
    method, url, _, headers = sender.requests[0]
    assert (method, url) == ("POST", f"https://api.cloudflare.com/client/v4/zones/{ZONE}/purge_cache")
    assert headers["Authorization"] == f"Bearer {TOKEN}"


def test_fastly_gets_each_address() -> None:
    sender = FakeSender()
    FastlyPurge(client=sender)(["https://www.example.com/maps/a b-ü.xml", ADDRESSES[0]])
    assert {url for _, url, _, _ in sender.requests} == {
        "https://api.fastly.com/purge/www.example.com/maps/a%20b-%C3%BC.xml",
        "https://api.fastly.com/purge/www.example.com/maps/products-00001.xml.gz",
    }
    assert all(method == "POST" and headers["Fastly-Key"] == TOKEN for method, _, _, headers in sender.requests)


@pytest.mark.parametrize("trouble", [reply(429), reply(503), FetchError("no answer")])
def test_a_busy_service_is_called_again(trouble: Fetched | Exception) -> None:
    sender = FakeSender([trouble, trouble, reply(200)])
    CloudflarePurge(zone_id=ZONE, client=sender)(ADDRESSES[:1])
    assert len(sender.requests) == 3


def test_a_service_that_stays_busy_is_a_store_error() -> None:
    sender = FakeSender([reply(503)] * 10)
    with pytest.raises(StoreError, match="status 503"):
        CloudflarePurge(zone_id=ZONE, client=sender)(ADDRESSES[:1])
    assert len(sender.requests) == web_services.ATTEMPTS


@pytest.mark.parametrize("status", [302, 400, 403, 404])
def test_a_refusal_is_not_repeated_and_tells_no_token(status: int) -> None:
    sender = FakeSender([reply(status, b'{"errors": ["denied"]}')])
    with pytest.raises(ConfigurationError, match=f"status {status}.*denied") as refused:
        FastlyPurge(client=sender)(ADDRESSES[:1])
    assert len(sender.requests) == 1
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("body", [b'{"success": false}', b"<html>", b"[]"])
def test_a_purge_that_cloudflare_does_not_confirm_has_failed(body: bytes) -> None:
    with pytest.raises(StoreError, match="not confirmed"):
        CloudflarePurge(zone_id=ZONE, client=FakeSender([reply(200, body)]))(ADDRESSES[:1])


def test_a_missing_connection_and_a_missing_token_are_configuration_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="'no_such' is not defined"):
        FastlyPurge(conn_id="no_such", client=FakeSender())(ADDRESSES[:1])
    monkeypatch.setenv("AIRFLOW_CONN_EMPTY", Connection(conn_id="empty", conn_type="generic").as_json())
    with pytest.raises(ConfigurationError, match="has no password"):
        FastlyPurge(conn_id="empty", client=FakeSender())(ADDRESSES[:1])


def test_a_token_is_read_on_airflow_3_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task SDK 1.1 has no ``AirflowNotFoundException``; the core has it."""
    monkeypatch.setattr(airflow.exceptions, "AirflowNotFoundException", AirflowNotFoundException)
    monkeypatch.delattr(airflow.sdk.exceptions, "AirflowNotFoundException")
    monkeypatch.delitem(vars(airflow_compat), "AirflowNotFoundException", raising=False)

    assert web_services.password("fastly_default", "the token") == TOKEN
    with pytest.raises(ConfigurationError, match="'no_such' is not defined"):
        web_services.password("no_such", "the token")


def test_settings_that_cannot_work_are_refused_when_the_hook_is_made() -> None:
    for make in (
        lambda: CloudflarePurge(zone_id="my-zone"),
        lambda: CloudFrontPurge(distribution_id=""),
        lambda: CloudFrontPurge(distribution_id="E1", wait_s=-1),
        lambda: GoogleCDNPurge(url_map=""),
        lambda: AzureFrontDoorPurge(endpoint_id="web"),
        lambda: AzureFrontDoorPurge(endpoint_id=ENDPOINT, wait_s=-1),
        lambda: CloudflarePurge(zone_id=None),  # type: ignore[arg-type]
        lambda: AzureFrontDoorPurge(endpoint_id=None),  # type: ignore[arg-type]
        lambda: CloudFrontPurge(distribution_id="E1", wait_s="600"),  # type: ignore[arg-type]
        lambda: CloudFrontPurge(distribution_id=5),  # type: ignore[arg-type]
        lambda: GoogleCDNPurge(url_map=5),  # type: ignore[arg-type]
        lambda: CloudflarePurge(zone_id=ZONE, conn_id=None),  # type: ignore[arg-type]
        lambda: FastlyPurge(conn_id=None),  # type: ignore[arg-type]
        lambda: CloudFrontPurge(distribution_id="E1", conn_id=5),  # type: ignore[arg-type]
        lambda: GoogleCDNPurge(url_map="m", gcp_conn_id=None),  # type: ignore[arg-type]
        lambda: GoogleCDNPurge(url_map="m", project=123456789),  # type: ignore[arg-type]
        lambda: AzureFrontDoorPurge(endpoint_id=ENDPOINT, azure_conn_id=None),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigurationError):
            make()


def test_the_client_of_a_hook_may_connect_to_its_service_only() -> None:
    for hook in (
        CloudflarePurge(zone_id=ZONE), FastlyPurge(), GoogleCDNPurge(url_map="m"), AzureFrontDoorPurge(endpoint_id=ENDPOINT),
    ):  # fmt: skip
        with pytest.raises(FetchError):
            hook.client.send("POST", "https://www.example.com/")


# ---------------------------------------------------------------- CloudFront


@dataclass
class FakeCloudFront:
    """A distribution whose invalidations complete at the given look."""

    looks: int = 0
    batches: list[dict[str, Any]] = field(default_factory=list)

    def create_invalidation(self, *, DistributionId: str, InvalidationBatch: dict[str, Any]) -> dict[str, Any]:
        self.batches.append(InvalidationBatch)
        return {"Invalidation": {"Id": "I1", "Status": "Completed" if self.looks == 0 else "InProgress"}}

    def get_invalidation(self, *, DistributionId: str, Id: str) -> dict[str, Any]:
        self.looks -= 1
        return {"Invalidation": {"Id": Id, "Status": "Completed" if self.looks == 0 else "InProgress"}}


@dataclass(frozen=True, kw_only=True)
class LocalCloudFrontPurge(CloudFrontPurge):
    """The hook over a fake client."""

    fake: FakeCloudFront

    def _client(self) -> FakeCloudFront:
        return self.fake


def test_cloudfront_gets_paths_and_is_waited_for() -> None:
    fake, pauses = FakeCloudFront(looks=3), []
    LocalCloudFrontPurge(distribution_id="E1", fake=fake, sleep=pauses.append)(["https://a.example/maps/ü.xml"])
    assert fake.batches[0]["Paths"] == {"Quantity": 1, "Items": ["/maps/%C3%BC.xml"]}
    assert len(pauses) == 2


def test_many_paths_become_one_wildcard() -> None:
    fake = FakeCloudFront()
    addresses = [f"https://a.example/maps/{folder}/{n}.xml" for folder in ("de", "fr") for n in range(60)]
    LocalCloudFrontPurge(distribution_id="E1", fake=fake)(addresses)
    assert fake.batches[0]["Paths"] == {"Quantity": 1, "Items": ["/maps/*"]}


def at_root(number: int) -> list[str]:
    return [f"https://www.example.com/products-{n:05d}.xml.gz" for n in range(number)]


def test_files_at_the_root_of_a_host_do_not_empty_the_cache_of_the_whole_site(caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeCloudFront()
    LocalCloudFrontPurge(distribution_id="E1", fake=fake)([*at_root(499), "https://shop.example.com/other/1.xml"])
    assert fake.batches[-1]["Paths"]["Quantity"] == 500
    assert not caplog.messages
    LocalCloudFrontPurge(distribution_id="E1", fake=fake)(at_root(501))
    assert fake.batches[-1]["Paths"]["Items"] == ["/*"]
    assert "501 files at a host's root: the cache of the whole host is purged" in caplog.text


def test_google_and_azure_get_paths_at_the_root_of_a_host_within_their_limits(
    management: tuple[type[Management], Rerouted],
) -> None:
    api, client = management
    LocalGoogleCDNPurge(url_map="web-map", client=client, wait_s=0)(at_root(101))
    assert len(api.calls) == len({call[2]["path"] for call in api.calls}) == 101
    api.calls.clear()
    LocalAzureFrontDoorPurge(endpoint_id=ENDPOINT, client=client, wait_s=0)(at_root(101))
    assert [len(call[2]["contentPaths"]) for call in api.calls] == [100, 1]


def test_a_long_wait_for_an_invalidation_does_not_stall_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []
    monkeypatch.setattr(waits, "watch", waits.Watch(first_s=0.1))
    hook = LocalCloudFrontPurge(distribution_id="E1", fake=FakeCloudFront(looks=30), sleep=lambda _: time.sleep(0.1))
    with waits.watch.moving("publish", 2, lambda: ended.append(1)), waits.waiting("the purge hook", "own"):
        hook(at_root(1))
    assert not ended


def test_an_invalidation_that_does_not_complete_in_time_has_failed() -> None:
    hook = LocalCloudFrontPurge(
        distribution_id="E1", fake=FakeCloudFront(looks=10**9), wait_s=0.001, sleep=lambda _: None
    )
    with pytest.raises(StoreError, match="not complete"):
        hook(ADDRESSES[:1])
    LocalCloudFrontPurge(distribution_id="E1", fake=FakeCloudFront(looks=5), wait_s=0)(ADDRESSES[:1])


def test_a_distribution_that_is_not_there_is_a_configuration_error() -> None:
    with (
        moto_server() as server,
        server.connection("cloudfront_of_the_test") as conn_id,
        pytest.raises(ConfigurationError, match="NoSuchDistribution"),
    ):
        CloudFrontPurge(distribution_id="E404", conn_id=conn_id)(ADDRESSES[:1])


# ---------------------------------------------------------------- Google Cloud CDN, Azure Front Door


@dataclass
class Rerouted:
    """Sends what goes to a service to a server of the test on loopback."""

    address: str

    def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Fetched:
        request = Request(
            self.address + url.partition("://")[2].partition("/")[2], body, dict(headers or {}), method=method
        )
        try:
            with urlopen(request) as answer:
                found = {name.lower(): value for name, value in answer.headers.items()}
                return Fetched(status=answer.status, body=answer.read(), headers=found)
        except HTTPError as e:
            return Fetched(status=e.code, body=e.read())


class Management(BaseHTTPRequestHandler):
    """The APIs of both clouds: invalidations that are complete at the third look."""

    looks: int
    status: int
    calls: list[tuple[str, str, dict[str, Any]]]

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        self.calls.append((self.command, self.path, body))
        assert self.headers["Authorization"] == f"Bearer {TOKEN}"
        self.answer(self.status if self.command == "POST" else 200)

    do_GET = do_POST

    def answer(self, status: int) -> None:
        is_google = "/compute/" in self.path
        waits = self.command == "GET" and self.looks > 0
        type(self).looks -= self.command == "GET"
        content = {"name": "op-1", "status": "RUNNING" if waits or self.command == "POST" else "DONE"}
        self.send_response(status if is_google or status >= 400 or not (waits or self.command == "POST") else 202)
        if not is_google:
            self.send_header("Location", f"https://management.azure.com{ENDPOINT}/operationresults/1")
        self.end_headers()
        self.wfile.write(json.dumps(content if status < 400 else {"error": "denied"}).encode())


@pytest.fixture
def management() -> Iterator[tuple[type[Management], Rerouted]]:
    kind: Any = type("Bound", (Management,), {"looks": 2, "status": 200, "calls": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield kind, Rerouted(f"http://127.0.0.1:{server.server_port}/")
    server.shutdown()
    server.server_close()


@dataclass(frozen=True, kw_only=True)
class LocalGoogleCDNPurge(GoogleCDNPurge):
    """The hook with the token of the test."""

    def _token(self) -> tuple[str, str | None]:
        return TOKEN, "acme"


@dataclass(frozen=True, kw_only=True)
class LocalAzureFrontDoorPurge(AzureFrontDoorPurge):
    """The hook with the token of the test."""

    def _token(self) -> str:
        return TOKEN


def test_google_gets_each_path_of_each_host_and_is_waited_for(management: tuple[type[Management], Rerouted]) -> None:
    api, client = management
    pauses: list[float] = []
    hook = LocalGoogleCDNPurge(url_map="web-map", client=client, sleep=pauses.append)
    hook(["https://a.example/maps/ü.xml", "https://b.example/maps/1.xml"])
    base = "/compute/v1/projects/acme/global"
    assert api.calls[:2] == [
        ("POST", f"{base}/urlMaps/web-map/invalidateCache", {"host": "a.example", "path": "/maps/%C3%BC.xml"}),
        ("POST", f"{base}/urlMaps/web-map/invalidateCache", {"host": "b.example", "path": "/maps/1.xml"}),
    ]
    assert {call[:2] for call in api.calls[2:]} == {("GET", f"{base}/operations/op-1")}
    assert len(pauses) == 2
    api.calls.clear()
    LocalGoogleCDNPurge(url_map="web-map", project="other", client=client, wait_s=0)(ADDRESSES)
    path = "/compute/v1/projects/other/global/urlMaps/web-map/invalidateCache"
    assert api.calls == [("POST", path, {"host": "www.example.com", "path": "/maps/*"})]


def test_azure_gets_paths_and_domains_and_is_waited_for(management: tuple[type[Management], Rerouted]) -> None:
    api, client = management
    pauses: list[float] = []
    hook = LocalAzureFrontDoorPurge(endpoint_id=ENDPOINT, client=client, sleep=pauses.append)
    hook(["https://a.example/maps/2.xml", "https://b.example/maps/1.xml"])
    content = {"contentPaths": ["/maps/1.xml", "/maps/2.xml"], "domains": ["a.example", "b.example"]}
    assert api.calls[0] == ("POST", f"{ENDPOINT}/purge?api-version=2023-05-01", content)
    assert [call[:2] for call in api.calls[1:]] == [("GET", f"{ENDPOINT}/operationresults/1")] * 3
    assert len(pauses) == 2


@pytest.mark.parametrize(("ended", "raises"), [("Succeeded", False), ("Failed", True), ("Canceled", True)])
def test_azure_says_in_the_body_of_an_operation_how_it_ended(ended: str, raises: bool) -> None:
    place = {"azure-asyncoperation": f"https://management.azure.com{ENDPOINT}/operations/1"}
    answers: list[Fetched | Exception] = [
        Fetched(status=202, body=b"", headers=place),
        reply(200, b'{"status": "InProgress"}'),
        reply(200, json.dumps({"status": ended, "error": {"message": "no such domain"}}).encode()),
    ]
    sender = FakeSender(answers)
    hook = LocalAzureFrontDoorPurge(endpoint_id=ENDPOINT, client=sender, sleep=lambda _: None)
    with pytest.raises(StoreError, match=r"failed: .*no such domain") if raises else nullcontext():
        hook(ADDRESSES[:1])
    assert [url for _, url, _, _ in sender.requests[1:]] == [place["azure-asyncoperation"]] * 2


def test_azure_requests_a_pause_by_status_409() -> None:
    busy = reply(409, b'{"error": {"code": "Conflict", "message": "the endpoint is being updated"}}')
    sender = FakeSender([busy, reply(200, b"")])
    LocalAzureFrontDoorPurge(endpoint_id=ENDPOINT, client=sender, sleep=lambda _: None)(ADDRESSES[:1])
    assert len(sender.requests) == 2


def test_google_requests_a_pause_by_status_403() -> None:
    busy = reply(403, b'{"error": {"code": 403, "errors": [{"reason": "rateLimitExceeded"}]}}')
    sender = FakeSender([busy, reply(200, b'{"name": "op", "status": "DONE"}')])
    LocalGoogleCDNPurge(url_map="m", client=sender, sleep=lambda _: None)(ADDRESSES[:1])
    assert len(sender.requests) == 2


@pytest.mark.parametrize("hook", [LocalGoogleCDNPurge, LocalAzureFrontDoorPurge])
@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (403, ConfigurationError, "status 403.*denied"),
        (503, StoreError, "status 503"),
        (200, StoreError, "not complete"),
    ],
)
def test_what_the_answers_of_both_mean(
    hook: Any, status: int, kind: type[Exception], message: str, management: tuple[type[Management], Rerouted]
) -> None:
    api, client = management
    api.status, api.looks = status, 10**9
    about = {"url_map": "m"} if hook is LocalGoogleCDNPurge else {"endpoint_id": ENDPOINT}
    with pytest.raises(kind, match=message) as raised:
        hook(**about, client=client, wait_s=0.001, sleep=lambda _: None)(ADDRESSES[:1])
    assert TOKEN not in str(raised.value)


def test_an_invalidation_that_google_reports_as_failed_is_a_store_error() -> None:
    answers: list[Fetched | Exception] = [
        reply(200, b'{"name": "op", "status": "RUNNING"}'),
        reply(200, b'{"name": "op", "status": "DONE", "error": {"errors": [{"message": "no such host"}]}}'),
    ]
    with pytest.raises(StoreError, match=r"an invalidation failed: .*no such host"):
        LocalGoogleCDNPurge(url_map="m", client=FakeSender(answers), sleep=lambda _: None)(ADDRESSES[:1])
    at_once = FakeSender([reply(200, b'{"name": "op", "status": "DONE", "error": {"errors": []}}')])
    with pytest.raises(StoreError, match="an invalidation failed"):
        LocalGoogleCDNPurge(url_map="m", client=at_once, wait_s=0)(ADDRESSES[:1])


@pytest.mark.parametrize("body", [b"<html>busy</html>", b"[]", b""])
def test_an_answer_of_google_that_is_no_operation_is_a_store_error(body: bytes) -> None:
    with pytest.raises(StoreError, match="the response is no operation"):
        LocalGoogleCDNPurge(url_map="m", client=FakeSender([reply(200, body)]))(ADDRESSES[:1])


@pytest.mark.parametrize(
    ("hook", "module", "extra"),
    [
        (GoogleCDNPurge(url_map="m"), "airflow.providers.google.common.hooks.base_google", "gcs"),
        (AzureFrontDoorPurge(endpoint_id=ENDPOINT), "airflow.providers.microsoft.azure.hooks.base_azure", "azure"),
    ],
)
def test_a_missing_provider_names_the_extra(
    hook: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigurationError, match=rf"not installed .*pip install 'airflow-sitemaps\[{extra}\]'"):
        hook(ADDRESSES[:1])


@pytest.mark.heavy
def test_tokens_come_from_the_providers_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service account's key whose token address is a server of the test; an Azure credential of the test."""
    pytest.importorskip("google.auth", reason="the provider for Google is not installed (extra: gcs)")
    identity = pytest.importorskip("azure.identity", reason="the provider for Azure is not installed (extra: azure)")
    with token_server() as address:
        key = {
            "type": "service_account", "project_id": "acme", "private_key": private_key(), "token_uri": address,
            "client_email": "maps@acme.example",
        }  # fmt: skip
        connection = {"conn_type": "google_cloud_platform", "extra": {"keyfile_dict": key}}
        monkeypatch.setenv("AIRFLOW_CONN_GCP_OF_THE_TEST", json.dumps(connection))
        assert GoogleCDNPurge(url_map="m", gcp_conn_id="gcp_of_the_test")._token() == (TOKEN, "acme")
    asked: list[str] = []

    def token(_: object, *scopes: str, **__: object) -> Any:
        asked.extend(scopes)
        return identity.AccessToken(TOKEN, 0) if hasattr(identity, "AccessToken") else AzureToken(TOKEN)

    monkeypatch.setattr(identity.ClientSecretCredential, "get_token", token)
    connection = {
        "conn_type": "azure", "login": "id", "password": "secret",
        "extra": {"tenantId": "tenant", "use_azure_identity_object": True},
    }  # fmt: skip
    monkeypatch.setenv("AIRFLOW_CONN_AZURE_OF_THE_TEST", json.dumps(connection))
    assert AzureFrontDoorPurge(endpoint_id=ENDPOINT, azure_conn_id="azure_of_the_test")._token() == TOKEN
    assert asked == ["https://management.azure.com/.default"]
    with pytest.raises(CredentialsError, match="no token for connection 'no_such'"):
        AzureFrontDoorPurge(endpoint_id=ENDPOINT, azure_conn_id="no_such")(ADDRESSES[:1])


@dataclass
class AzureToken:
    """A token as the client of Azure returns it."""

    token: str


def private_key() -> str:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - only this test
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@contextmanager
def token_server() -> Iterator[str]:
    """A server that answers every request with a token."""

    class Tokens(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Log nothing."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"}).encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()
