"""Invalidate addresses in CloudFront, and wait until the invalidation is complete."""

from __future__ import annotations

import time
from dataclasses import dataclass
from posixpath import commonpath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit
from uuid import uuid4

from airflow_sitemaps.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_PATHS: Final = 100
"""Number of paths above which one wildcard replaces them. AWS charges for each path after the first 1,000 of a month."""
PAUSE_S: Final = 5.0
"""Seconds between two checks of an invalidation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFrontPurge:
    """A purge hook for a distribution of CloudFront.

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
            self.sleep(PAUSE_S)
            answer = client.get_invalidation(DistributionId=self.distribution_id, Id=invalidation["Id"])
            invalidation = answer["Invalidation"]


def _paths(addresses: Sequence[str]) -> list[str]:
    """Return the paths to invalidate: each one, or a wildcard for their common folder."""
    paths = sorted({quote(urlsplit(address).path or "/", safe="/%:@!$&'()*+,;=~-._") for address in addresses})
    if len(paths) <= MAX_PATHS:
        return paths
    folder = commonpath(paths).rstrip("/")
    return [f"{folder}/*"]
