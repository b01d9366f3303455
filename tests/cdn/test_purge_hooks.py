"""Purge hooks for CloudFront, Fastly and Cloudflare: what they send, and what they make of the answers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import airflow.exceptions
import airflow.sdk.exceptions
import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_sitemaps import airflow_compat, web_services
from airflow_sitemaps.cdn import CloudflarePurge, CloudFrontPurge, FastlyPurge
from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.http import Fetched, FetchError
from tests.support.s3 import moto_server

if TYPE_CHECKING:
    from collections.abc import Mapping

ZONE = "0123456789abcdef" * 2
TOKEN = "t0ken-of-the-test"
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
    ):
        with pytest.raises(ConfigurationError):
            make()


def test_the_client_of_a_hook_may_connect_to_its_service_only() -> None:
    for hook in (CloudflarePurge(zone_id=ZONE), FastlyPurge()):
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
    assert len(pauses) == 3


def test_many_paths_become_one_wildcard() -> None:
    fake = FakeCloudFront()
    addresses = [f"https://a.example/maps/{folder}/{n}.xml" for folder in ("de", "fr") for n in range(60)]
    LocalCloudFrontPurge(distribution_id="E1", fake=fake)(addresses)
    assert fake.batches[0]["Paths"] == {"Quantity": 1, "Items": ["/maps/*"]}


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
