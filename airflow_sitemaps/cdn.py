"""Purge hooks: remove changed addresses from a content delivery network, after the shards and before the index.

A hook is a callable that takes the changed addresses and raises an error if it cannot remove them. Pass one as
``purge=`` to a store: a hook of this module, or your own function. The hooks of this module raise ConfigurationError if the
connection, its permissions or a name are wrong, and StoreError if the service is busy, cannot be reached, or has not removed
the addresses in time: a retry may succeed.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from posixpath import commonpath
from typing import Any, Final
from urllib.parse import quote, urlsplit
from uuid import uuid4

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError, CredentialsError, StoreError
from airflow_sitemaps.http import Fetched, FetchError
from airflow_sitemaps.waits import waiting
from airflow_sitemaps.web_services import NotAcceptedError, Sender, Service, client_for, excerpt, google_busy, password

__all__ = ["AzureFrontDoorPurge", "CloudFrontPurge", "CloudflarePurge", "FastlyPurge", "GoogleCDNPurge"]

CLOUDFLARE: Final = "api.cloudflare.com"
CLOUDFLARE_ADDRESSES: Final = 30  # in one request, for all plans
ZONE: Final = re.compile(r"[0-9a-f]{32}")
FASTLY: Final = "api.fastly.com"
FASTLY_THREADS: Final = 8
CLOUDFRONT_PATHS: Final = 100
"""Number of paths above which one wildcard replaces them. AWS charges for each path after the first 1,000 of a month."""
ROOT_PATHS: Final = 500
"""Number of paths above which the wildcard is that of a whole host, because their common folder is its root.

Google takes so many requests in a minute.
"""
GOOGLE: Final = "compute.googleapis.com"
GOOGLE_PATHS: Final = 20  # takes one path in a request
AZURE: Final = "management.azure.com"
AZURE_PATHS: Final = 100
AZURE_API: Final = "2023-05-01"
AZURE_ENDPOINT: Final = re.compile(
    r"/subscriptions/[^/?#]+/resourceGroups/[^/?#]+/providers/Microsoft\.Cdn/profiles/[^/?#]+/afdEndpoints/[^/?#]+",
    re.IGNORECASE,
)
PAUSE_S: Final = 5.0  # between two checks of an invalidation
ENDED: Final = frozenset({"completed", "done"})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudflarePurge:
    """A purge hook for a zone of Cloudflare (developers.cloudflare.com/api, "Purge Cached Content").

    Attributes:
        zone_id: ID of the zone, 32 hexadecimal digits.
        conn_id: Airflow connection whose password is an API token with the permission "Cache Purge". Default:
            ``cloudflare_default``.
        client: Sends the requests. Tests replace it. Default: a client that reaches only Cloudflare's API.

    Raises:
        ConfigurationError: The zone ID is not valid.
    """

    zone_id: str
    conn_id: str = "cloudflare_default"
    client: Sender = field(default_factory=lambda: client_for(CLOUDFLARE), repr=False, compare=False)

    def __post_init__(self) -> None:
        setting_checks.instance("CloudflarePurge", "conn_id", self.conn_id, str)
        setting_checks.text("CloudflarePurge", "zone_id", self.zone_id, ZONE, "32 hexadecimal digits")

    def __call__(self, addresses: Sequence[str]) -> None:
        """Remove addresses from the cache."""
        token = password(self.conn_id, "Cloudflare's API token")
        service = Service(sender=self.client, secret=token)
        url = f"https://{CLOUDFLARE}/client/v4/zones/{self.zone_id}/purge_cache"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        for start in range(0, len(addresses), CLOUDFLARE_ADDRESSES):
            body = json.dumps({"files": list(addresses[start : start + CLOUDFLARE_ADDRESSES])}).encode()
            response = _purged(service, "Cloudflare", url, headers, body)
            if not _is_success(response.body):
                raise StoreError(f"Cloudflare: purge not confirmed: {response.body[:300]!r}. Run again")


def _is_success(body: bytes) -> bool:
    try:
        return json.loads(body).get("success") is True
    except (ValueError, AttributeError):
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class FastlyPurge:
    """A purge hook for Fastly (www.fastly.com/documentation/reference/api/purging, "Purge a URL").

    Each address is purged separately, within about 150 ms.

    Attributes:
        conn_id: Airflow connection whose password is an API token with the scope ``purge_select``. Default:
            ``fastly_default``.
        client: Sends the requests. Tests replace it. Default: a client that reaches only Fastly's API.
    """

    conn_id: str = "fastly_default"
    client: Sender = field(default_factory=lambda: client_for(FASTLY), repr=False, compare=False)

    def __post_init__(self) -> None:
        setting_checks.instance("FastlyPurge", "conn_id", self.conn_id, str)

    def __call__(self, addresses: Sequence[str]) -> None:
        """Remove addresses from the cache."""
        token = password(self.conn_id, "Fastly's API token")
        service = Service(sender=self.client, secret=token)
        headers = {"Fastly-Key": token, "Accept": "application/json"}

        def purge(address: str) -> None:
            cached = quote(address.partition("://")[2], safe="/%:?=&-._~")
            _purged(service, "Fastly", f"https://{FASTLY}/purge/{cached}", headers)

        with ThreadPoolExecutor(FASTLY_THREADS, "sitemap-purge") as pool:
            for _ in pool.map(purge, addresses):
                pass


def _purged(
    service: Service, name: str, url: str, headers: dict[str, str], body: bytes | None = None, method: str = "POST"
) -> Fetched:
    try:
        return service.call(f"{name}, purge", method, url, headers=headers, body=body)
    except NotAcceptedError as error:
        raise StoreError(str(error)) from error
    except FetchError as error:
        raise StoreError(f"{name}, purge: {error}. Run again") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}. Check the token and the id") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFrontPurge:
    """A purge hook for a distribution of CloudFront, which waits until the invalidation is complete.

    Attributes:
        distribution_id: ID of the distribution.
        conn_id: Airflow connection of type AWS. It needs cloudfront:CreateInvalidation and GetInvalidation. Default:
            ``aws_default``.
        wait_s: Longest wait in seconds until the invalidation is complete; 0: do not wait. Default: 600.
        sleep: Waits between two checks. Tests replace it. Default: ``time.sleep``.

    Raises:
        ConfigurationError: The ID is empty or the wait is negative.
    """

    distribution_id: str
    conn_id: str | None = "aws_default"
    wait_s: float = 600.0
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        setting_checks.number("CloudFrontPurge", "wait_s", self.wait_s, 0)
        setting_checks.instance("CloudFrontPurge", "conn_id", self.conn_id or "", str)
        if not isinstance(self.distribution_id, str) or not self.distribution_id:
            raise ConfigurationError(f"{self!r}: give the id of a distribution")

    def __call__(self, addresses: Sequence[str]) -> None:
        """Remove addresses from the caches of all edge locations."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - only workers need the SDK

        paths = _paths(addresses, CLOUDFRONT_PATHS)
        where = f"CloudFront distribution {self.distribution_id}"
        try:
            client = self._client()
            batch = {"Paths": {"Quantity": len(paths), "Items": paths}, "CallerReference": uuid4().hex}
            answer = client.create_invalidation(DistributionId=self.distribution_id, InvalidationBatch=batch)
            invalidation = answer["Invalidation"]

            def look() -> str:
                answer = client.get_invalidation(DistributionId=self.distribution_id, Id=invalidation["Id"])
                return str(answer["Invalidation"]["Status"])

            _wait(where, str(invalidation["Status"]), look, self.wait_s, self.sleep)
        except ClientError as e:
            error = e.response.get("Error", {})
            status = int(e.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
            text = f"{where}: {error.get('Code')}: {str(error.get('Message'))[:200]}"
            if status >= 500 or status == 429 or error.get("Code") in ("Throttling", "TooManyInvalidationsInProgress"):
                raise StoreError(f"{text}. Run again") from e
            raise ConfigurationError(f"{text}. Check the distribution's id and the connection's permissions") from e
        except BotoCoreError as e:
            raise StoreError(f"{where}: {type(e).__name__}: {str(e)[:200]}. Run again") from e

    def _client(self) -> Any:
        from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook  # noqa: PLC0415

        return AwsBaseHook(aws_conn_id=self.conn_id, client_type="cloudfront").get_client_type()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleCDNPurge:
    """A purge hook for Google Cloud CDN, which waits until the invalidations are complete.

    It invalidates paths of a load balancer's URL map (cloud.google.com/compute/docs/reference/rest/v1/urlMaps/invalidateCache).

    Attributes:
        url_map: Name of the URL map.
        gcp_conn_id: Airflow connection of type Google Cloud. It needs compute.urlMaps.invalidateCache and
            compute.globalOperations.get. Default: ``google_cloud_default``.
        project: Project of the URL map. Default: the connection's.
        wait_s: Longest wait in seconds until an invalidation is complete; 0: do not wait. Default: 600.
        client: Sends the requests. Tests replace it. Default: a client that reaches only Google's Compute API.
        sleep: Waits between two checks. Tests replace it. Default: ``time.sleep``.

    Raises:
        ConfigurationError: The name is empty or the wait is negative.
    """

    url_map: str
    gcp_conn_id: str = "google_cloud_default"
    project: str | None = None
    wait_s: float = 600.0
    client: Sender = field(default_factory=lambda: client_for(GOOGLE), repr=False, compare=False)
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        setting_checks.number("GoogleCDNPurge", "wait_s", self.wait_s, 0)
        setting_checks.instance("GoogleCDNPurge", "gcp_conn_id", self.gcp_conn_id, str)
        setting_checks.instance("GoogleCDNPurge", "project", self.project or "", str)
        if not isinstance(self.url_map, str) or not self.url_map:
            raise ConfigurationError(f"{self!r}: give the name of a URL map")

    def __call__(self, addresses: Sequence[str]) -> None:
        """Remove addresses from the caches of all locations."""
        with _token_errors("Google Cloud CDN", self.gcp_conn_id, "airflow-sitemaps[gcs]"):
            token, project = self._token()
        service = Service(sender=self.client, secret=token, busy=google_busy, sleep=self.sleep)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        base = f"https://{GOOGLE}/compute/v1/projects/{quote(self.project or project or '')}/global"

        def state_of(answer: Fetched) -> tuple[str, str]:
            try:
                operation = json.loads(answer.body)
                name, state, error = (operation.get(key) for key in ("name", "status", "error"))
            except (ValueError, AttributeError):
                said = excerpt(answer.body, token)
                raise StoreError(f"Google Cloud CDN: the response is no operation: {said}. Run again") from None
            if error:
                said = excerpt(json.dumps(error).encode(), token)
                raise StoreError(f"Google Cloud CDN, URL map {self.url_map}: an invalidation failed: {said}. Run again")
            return str(name), str(state)

        running: list[tuple[str, str]] = []
        for host in sorted({urlsplit(address).netloc for address in addresses}):
            for path in _paths([each for each in addresses if urlsplit(each).netloc == host], GOOGLE_PATHS):
                body = json.dumps({"host": host, "path": path}).encode()
                url = f"{base}/urlMaps/{quote(self.url_map)}/invalidateCache"
                running.append(state_of(_purged(service, "Google Cloud CDN", url, headers, body)))
        for name, state in running:

            def look(url: str = f"{base}/operations/{name}") -> str:
                return state_of(_purged(service, "Google Cloud CDN", url, headers, method="GET"))[1]

            _wait(f"Google Cloud CDN, URL map {self.url_map}", state, look, self.wait_s, self.sleep)

    def _token(self) -> tuple[str, str | None]:
        from airflow.providers.google.common.hooks.base_google import GoogleBaseHook  # noqa: PLC0415
        from google.auth.transport.requests import Request  # noqa: PLC0415

        hook: Any = GoogleBaseHook(gcp_conn_id=self.gcp_conn_id)
        credentials, project = hook.get_credentials_and_project_id()
        credentials.refresh(Request())
        return str(credentials.token), project


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureFrontDoorPurge:
    """A purge hook for Azure Front Door (Standard and Premium), which waits until the purge is complete.

    Attributes:
        endpoint_id: Resource ID of the endpoint, as the portal's page of its properties shows it:
            ``/subscriptions/…/resourceGroups/…/providers/Microsoft.Cdn/profiles/…/afdEndpoints/…``.
        azure_conn_id: Airflow connection of type Azure, with ``use_azure_identity_object`` in its extra. It needs
            Microsoft.Cdn/profiles/afdEndpoints/purge/action. Default: ``azure_default``.
        wait_s: Longest wait in seconds until the purge is complete; 0: do not wait. Default: 900.
        client: Sends the requests. Tests replace it. Default: a client that reaches only Azure's management API.
        sleep: Waits between two checks. Tests replace it. Default: ``time.sleep``.

    Raises:
        ConfigurationError: The ID is not one of an endpoint, or the wait is negative.
    """

    endpoint_id: str
    azure_conn_id: str = "azure_default"
    wait_s: float = 900.0
    client: Sender = field(default_factory=lambda: client_for(AZURE), repr=False, compare=False)
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        setting_checks.number("AzureFrontDoorPurge", "wait_s", self.wait_s, 0)
        setting_checks.instance("AzureFrontDoorPurge", "azure_conn_id", self.azure_conn_id, str)
        valid = "the endpoint's resource ID, '/subscriptions/…/afdEndpoints/…'"
        setting_checks.text("AzureFrontDoorPurge", "endpoint_id", self.endpoint_id, AZURE_ENDPOINT, valid)

    def __call__(self, addresses: Sequence[str]) -> None:
        """Remove addresses from the caches of all locations."""
        with _token_errors("Azure Front Door", self.azure_conn_id, "airflow-sitemaps[azure]"):
            token = self._token()
        service = Service(sender=self.client, secret=token, busy=_azure_busy, sleep=self.sleep)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        domains = sorted({urlsplit(address).hostname or "" for address in addresses})
        paths = _paths(addresses, AZURE_PATHS)
        url = f"https://{AZURE}{self.endpoint_id}/purge?api-version={AZURE_API}"
        answers = []
        for start in range(0, len(paths), AZURE_PATHS):
            body = json.dumps({"contentPaths": paths[start : start + AZURE_PATHS], "domains": domains}).encode()
            answers.append(_purged(service, "Azure Front Door", url, headers, body))

        for answer in answers:
            place = answer.headers.get("azure-asyncoperation") or answer.headers.get("location", "")

            def look(place: str = place) -> str:
                return _azure_state(_purged(service, "Azure Front Door", place, headers, method="GET"))

            state = _azure_state(answer) if place else "completed"
            _wait(f"Azure Front Door {self.endpoint_id}", state, look, self.wait_s, self.sleep)

    def _token(self) -> str:
        from airflow.providers.microsoft.azure.hooks.base_azure import AzureBaseHook  # noqa: PLC0415

        return str(AzureBaseHook(conn_id=self.azure_conn_id).get_token(f"https://{AZURE}/.default").token)


def _azure_busy(answer: Fetched) -> str:
    return "another change of the endpoint is in progress" if answer.status == 409 else ""


def _azure_state(answer: Fetched) -> str:
    """Return the state of an operation: that of the body, if it names one (learn.microsoft.com, "Track asynchronous operations")."""
    try:
        named = str(json.loads(answer.body)["status"]).casefold()
    except (ValueError, KeyError, TypeError):
        return "running" if answer.status == 202 else "completed"
    if named in ("failed", "canceled"):
        raise StoreError(f"Azure Front Door: a purge failed: {excerpt(answer.body)}. Run again")
    return "completed" if named == "succeeded" else named


@contextmanager
def _token_errors(name: str, conn_id: str, distribution: str) -> Iterator[None]:
    """Translate what goes wrong before a hook has a token: the provider's hooks raise many unrelated types."""
    try:
        yield
    except ImportError as e:
        raise ConfigurationError(
            f"{name} needs packages that are not installed ({e}): pip install '{distribution}'"
        ) from e
    except Exception as e:
        raise CredentialsError(
            f"{name}: no token for connection {conn_id!r} ({type(e).__name__}). Check the connection and its credentials"
        ) from e


def _wait(where: str, state: str, look: Callable[[], str], wait_s: float, sleep: Callable[[float], None]) -> None:
    """Wait until an invalidation is complete, whose state ``look`` reads again."""
    deadline = time.monotonic() + wait_s
    while wait_s and state.casefold() not in ENDED:
        if time.monotonic() >= deadline:
            raise StoreError(f"{where}: an invalidation is not complete after {wait_s:g} s. Run again")
        with waiting(f"{where}: an invalidation", f"A wait of {wait_s:g} s"):
            state = look()  # one that began earlier may be complete
            if state.casefold() not in ENDED:
                sleep(PAUSE_S)


def _paths(addresses: Sequence[str], most: int) -> list[str]:
    """Return the paths to invalidate: each one, or above ``most`` a wildcard for their common folder."""
    paths = sorted({quote(urlsplit(address).path or "/", safe="/%:@!$&'()*+,;=~-._") for address in addresses})
    folder = commonpath(paths).rstrip("/")
    if len(paths) <= (most if folder else ROOT_PATHS):
        return paths
    if not folder:
        log.warning(
            "%d files at a host's root: the cache of the whole host is purged. Publish into a folder", len(paths)
        )
    return [f"{folder}/*"]
