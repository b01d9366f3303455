"""Pings of your own addresses: a CDN's purge, an internal search, a webhook.

Pings are not for search engines: Google retired its ping address in 2023 (it responds 404), and Bing retired its own
as well. These addresses are refused, because such a ping has no effect. Use Search Console and IndexNow instead.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http.client import FetchError, HttpClient
from airflow_sitemaps.web_services import Service

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACE: Final = "{sitemap}"
METHOD: Final = re.compile(r"[A-Z]{3,16}")
DEAD_HOST: Final = re.compile(r"(?:[\w-]+\.)*(?:google(?:\.\w{2,3}){1,2}|bing\.com)", re.IGNORECASE)
DEAD_PATH: Final = re.compile(r"(?:/\w+)*/(?:ping|ping\.aspx)/?", re.IGNORECASE)

_REASONS: Final = {
    **dict.fromkeys((301, 302, 303, 307, 308), "redirects are not followed: give the address that it redirects to"),
    401: "credentials are missing: pass headers= or conn_id=",
    403: "access is denied: check headers= and conn_id=",
    404: "the address does not exist: check the template",
    429: "too many requests",
}


def default_client() -> HttpClient:
    """Return a client that requests public https addresses and reads responses of up to 1 MiB."""
    return HttpClient(max_byte_size=1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A request that is sent for each index of a sitemap.

    Attributes:
        url: Template of the address. ``{sitemap}`` is replaced by the index's address, percent-encoded. At the
            beginning of ``url`` (a CDN that is purged at the address itself) it is not encoded.
        method: HTTP method. Default: ``GET``.
        headers: Request headers. Default: none.
        body: Template of the request body, in which ``{sitemap}`` is replaced without encoding. Default: no body.
        http: Sends the request. Default: a client for public https addresses.

    Raises:
        ConfigurationError: A template lacks ``{sitemap}``, the method is invalid, or the ping address is retired.
    """

    url: str = field(repr=False)
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: str | None = field(default=None, repr=False)
    http: HttpClient = field(default_factory=default_client)

    def __post_init__(self) -> None:
        if PLACE not in self.url and PLACE not in (self.body or ""):
            raise ConfigurationError(f"ping {shown(self.url)}: neither url nor body contains {PLACE}")
        if not METHOD.fullmatch(self.method):
            raise ConfigurationError(f"ping, method={self.method!r}: give a method such as 'GET', 'POST' or 'PURGE'")
        parts = urlsplit(self.url)
        if DEAD_HOST.fullmatch(parts.hostname or "") and DEAD_PATH.fullmatch(parts.path):
            raise ConfigurationError(
                f"{shown(self.url)} is retired: Google shut down its sitemap ping in 2023, and Bing shut down its own. "
                "Use SearchConsoleSubmitOperator for Google and IndexNowOperator for Bing and others."
            )

    def address(self, sitemap_url: str) -> str:
        """Return the address to request for a sitemap."""
        if self.url.startswith(PLACE):
            return sitemap_url + self.url[len(PLACE) :].replace(PLACE, quote(sitemap_url, safe=""))
        return self.url.replace(PLACE, quote(sitemap_url, safe=""))

    def send(self, sitemap_url: str) -> int:
        """Send the request, and return the status of success.

        Raises:
            ConfigurationError: The response reports that the address or the request is wrong. Redirects are not
                followed.
            NotAcceptedError: The service currently cannot accept the request.
            FetchError: There is no response, or the access rules do not allow the address.
        """
        body = None if self.body is None else self.body.replace(PLACE, sitemap_url).encode()
        address = self.address(sitemap_url)
        service = Service(sender=self.http, reasons=_REASONS, attempts=1)  # a webhook may count its calls
        try:
            return service.call(f"ping {shown(self.url)}", self.method, address, headers=self.headers, body=body).status
        except FetchError as error:
            raise FetchError(f"ping: {str(error).replace(address, shown(address))}") from None


def shown(url: str) -> str:
    """Return an address for messages, without query and credentials, which may be secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else url.partition("?")[0]
