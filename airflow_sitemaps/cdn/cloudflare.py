"""Purge addresses from Cloudflare's cache (developers.cloudflare.com/api, "Purge Cached Content")."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.cdn.tokens import Sender, call, client_for, token_of
from airflow_sitemaps.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST: Final = "api.cloudflare.com"
ADDRESSES: Final = 30
"""Maximum number of addresses in one request, for all plans."""
ZONE: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudflarePurge:
    """A purge hook for a zone of Cloudflare.

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
    client: Sender = field(default_factory=lambda: client_for(HOST), repr=False, compare=False)

    def __post_init__(self) -> None:
        if not ZONE.fullmatch(self.zone_id):
            raise ConfigurationError(f"CloudflarePurge(zone_id={self.zone_id!r}): give 32 hexadecimal digits")

    def __call__(self, addresses: Sequence[str]) -> None:
        """Remove addresses from the cache.

        Raises:
            ConfigurationError: The connection is missing, or Cloudflare refused the request.
            StoreError: Cloudflare is busy or did not confirm the purge. A retry may succeed.
        """
        token = token_of(self.conn_id, "Cloudflare")
        url = f"https://{HOST}/client/v4/zones/{self.zone_id}/purge_cache"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        for start in range(0, len(addresses), ADDRESSES):
            body = json.dumps({"files": list(addresses[start : start + ADDRESSES])}).encode()
            response = call(self.client, "POST", url, service="Cloudflare", headers=headers, body=body)
            if not _is_success(response.body):
                raise StoreError(f"Cloudflare: purge not confirmed: {response.body[:300]!r}. Run again")


def _is_success(body: bytes) -> bool:
    try:
        return json.loads(body).get("success") is True
    except (ValueError, AttributeError):
        return False
