"""Purge hooks: remove changed addresses from a content delivery network, after the shards and before the index.

A hook is a callable that takes the changed addresses and raises an error if it cannot remove them. Pass one as
``purge=`` to a store: a hook of this module, or your own function.
"""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from posixpath import commonpath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit
from uuid import uuid4

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.http import FetchError
from airflow_sitemaps.web_services import NotAcceptedError, Sender, Service, client_for, password

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_sitemaps.http import Fetched

__all__ = ["CloudFrontPurge", "CloudflarePurge", "FastlyPurge"]

CLOUDFLARE: Final = "api.cloudflare.com"
CLOUDFLARE_ADDRESSES: Final = 30
"""Maximum number of addresses in one request, for all plans."""
ZONE: Final = re.compile(r"[0-9a-f]{32}")
FASTLY: Final = "api.fastly.com"
FASTLY_THREADS: Final = 8
CLOUDFRONT_PATHS: Final = 100
"""Number of paths above which one wildcard replaces them. AWS charges for each path after the first 1,000 of a month."""
CLOUDFRONT_PAUSE_S: Final = 5.0
"""Seconds between two checks of an invalidation."""


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
        if not ZONE.fullmatch(self.zone_id):
            raise ConfigurationError(f"CloudflarePurge(zone_id={self.zone_id!r}): give 32 hexadecimal digits")

    def __call__(self, addresses: Sequence[str]) -> None:
        """Remove addresses from the cache.

        Raises:
            ConfigurationError: The connection is missing, or Cloudflare refused the request.
            StoreError: Cloudflare is busy or did not confirm the purge. A retry may succeed.
        """
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

    def __call__(self, addresses: Sequence[str]) -> None:
        """Remove addresses from the cache.

        Raises:
            ConfigurationError: The connection is missing, or Fastly refused a request.
            StoreError: Fastly is busy or unreachable. A retry may succeed.
        """
        token = password(self.conn_id, "Fastly's API token")
        service = Service(sender=self.client, secret=token)
        headers = {"Fastly-Key": token, "Accept": "application/json"}

        def purge(address: str) -> None:
            cached = quote(address.partition("://")[2], safe="/%:?=&-._~")
            _purged(service, "Fastly", f"https://{FASTLY}/purge/{cached}", headers)

        with ThreadPoolExecutor(FASTLY_THREADS, "sitemap-purge") as pool:
            for _ in pool.map(purge, addresses):
                pass


def _purged(service: Service, name: str, url: str, headers: dict[str, str], body: bytes | None = None) -> Fetched:
    """Send a purge request, and return the response of success."""
    try:
        return service.call(f"{name}, purge", "POST", url, headers=headers, body=body)
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
        if not self.distribution_id or self.wait_s < 0:
            raise ConfigurationError(f"{self!r}: give the id of a distribution, and a wait of 0 seconds or more")

    def __call__(self, addresses: Sequence[str]) -> None:
        """Remove addresses from the caches of all edge locations.

        Raises:
            ConfigurationError: The distribution or the permissions of the connection are wrong.
            StoreError: CloudFront is busy, or the invalidation is not complete in time. A retry may succeed.
        """
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - only workers need the SDK

        paths = _paths(addresses)
        where = f"CloudFront distribution {self.distribution_id}"
        try:
            client = self._client()
            batch = {"Paths": {"Quantity": len(paths), "Items": paths}, "CallerReference": uuid4().hex}
            answer = client.create_invalidation(DistributionId=self.distribution_id, InvalidationBatch=batch)
            self._wait(client, answer["Invalidation"], where)
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

    def _wait(self, client: Any, invalidation: dict[str, Any], where: str) -> None:
        deadline = time.monotonic() + self.wait_s
        while self.wait_s and str(invalidation["Status"]).casefold() != "completed":
            if time.monotonic() >= deadline:
                raise StoreError(f"{where}: an invalidation is not complete after {self.wait_s:g} s. Run again")
            self.sleep(CLOUDFRONT_PAUSE_S)
            answer = client.get_invalidation(DistributionId=self.distribution_id, Id=invalidation["Id"])
            invalidation = answer["Invalidation"]


def _paths(addresses: Sequence[str]) -> list[str]:
    """Return the paths to invalidate: each one, or a wildcard for their common folder."""
    paths = sorted({quote(urlsplit(address).path or "/", safe="/%:@!$&'()*+,;=~-._") for address in addresses})
    if len(paths) <= CLOUDFRONT_PATHS:
        return paths
    folder = commonpath(paths).rstrip("/")
    return [f"{folder}/*"]
