"""Purge addresses from Fastly's cache (www.fastly.com/documentation/reference/api/purging, "Purge a URL")."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from airflow_sitemaps.cdn.tokens import Sender, call, client_for, token_of

if TYPE_CHECKING:
    from collections.abc import Sequence

HOST: Final = "api.fastly.com"
THREADS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FastlyPurge:
    """A purge hook for Fastly. Each address is purged separately, within about 150 ms.

    Attributes:
        conn_id: Airflow connection whose password is an API token with the scope ``purge_select``. Default:
            ``fastly_default``.
        client: Sends the requests. Tests replace it. Default: a client that reaches only Fastly's API.
    """

    conn_id: str = "fastly_default"
    client: Sender = field(default_factory=lambda: client_for(HOST), repr=False, compare=False)

    def __call__(self, addresses: Sequence[str]) -> None:
        """Remove addresses from the cache.

        Raises:
            ConfigurationError: The connection is missing, or Fastly refused a request.
            StoreError: Fastly is busy or unreachable. A retry may succeed.
        """
        headers = {"Fastly-Key": token_of(self.conn_id, "Fastly"), "Accept": "application/json"}

        def purge(address: str) -> None:
            cached = quote(address.partition("://")[2], safe="/%:?=&-._~")
            call(self.client, "POST", f"https://{HOST}/purge/{cached}", service="Fastly", headers=headers)

        with ThreadPoolExecutor(THREADS, "sitemap-purge") as pool:
            for _ in pool.map(purge, addresses):
                pass
