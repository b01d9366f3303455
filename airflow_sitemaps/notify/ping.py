"""Ping an address of your own: a CDN's purge, an internal search, a webhook.

Not for search engines: Google retired its ping address in 2023 (404 since), Bing its as well. Those addresses are
refused here, for a ping that tells nobody anything is worse than none. Submit to Search Console, and use IndexNow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.notify.http import HttpClient
from airflow_sitemaps.notify.outcomes import refusal
from airflow_sitemaps.pipeline.fetching import FetchError

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACE: Final = "{sitemap}"
METHOD: Final = re.compile(r"[A-Z]{3,16}")
DEAD_HOST: Final = re.compile(r"(?:[\w-]+\.)*(?:google(?:\.\w{2,3}){1,2}|bing\.com)", re.IGNORECASE)
DEAD_PATH: Final = re.compile(r"(?:/\w+)*/(?:ping|ping\.aspx)/?", re.IGNORECASE)

_REASONS: Final = {
    401: "it wants credentials: give headers=, or conn_id=",
    403: "it is forbidden: look at headers= and conn_id=",
    404: "there is nothing at this address: look at the template",
    429: "too many requests",
}


def default_client() -> HttpClient:
    """Asks public addresses over https, and reads answers of up to 1 MiB."""
    return HttpClient(max_byte_size=1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """``url`` and ``body`` are templates in which ``{sitemap}`` stands for the sitemap's address.

    In the query of ``url`` it is percent-encoded; where ``url`` begins with it (purging a CDN by its own address) it
    stands as it is, as in ``body``.

    Raises:
        ConfigurationError: a template without ``{sitemap}``, or an address that is known to be dead.
    """

    url: str = field(repr=False)
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: str | None = field(default=None, repr=False)
    http: HttpClient = field(default_factory=default_client)

    def __post_init__(self) -> None:
        if PLACE not in self.url and PLACE not in (self.body or ""):
            raise ConfigurationError(f"ping {shown(self.url)}: neither url nor body says where {PLACE} goes")
        if not METHOD.fullmatch(self.method):
            raise ConfigurationError(f"ping, method={self.method!r}: give one like 'GET', 'POST' or 'PURGE'")
        parts = urlsplit(self.url)
        if DEAD_HOST.fullmatch(parts.hostname or "") and DEAD_PATH.fullmatch(parts.path):
            raise ConfigurationError(
                f"{shown(self.url)} is dead: Google retired its sitemap ping in 2023, Bing its as well, and nobody "
                "listens there. Use SearchConsoleSubmitOperator for Google and IndexNowOperator for Bing and others."
            )

    def address(self, sitemap_url: str) -> str:
        """What is asked for a sitemap."""
        if self.url.startswith(PLACE):
            return sitemap_url + self.url[len(PLACE) :].replace(PLACE, quote(sitemap_url, safe=""))
        return self.url.replace(PLACE, quote(sitemap_url, safe=""))

    def send(self, sitemap_url: str) -> int:
        """Ask, and return the status, which is one of success.

        Raises:
            ConfigurationError: the answer says that the address, or what is sent, is wrong; a redirect is not followed.
            NotAcceptedError: the other side cannot take it now.
            FetchError: no answer, or the address may not be asked.
        """
        body = None if self.body is None else self.body.replace(PLACE, sitemap_url).encode()
        address = self.address(sitemap_url)
        try:
            answer = self.http.send(self.method, address, body=body, headers=self.headers)
        except FetchError as error:
            raise FetchError(f"ping: {str(error).replace(address, shown(address))}") from None
        if 200 <= answer.status < 300:
            return answer.status
        redirect = "it redirects, which is not followed: give the address it leads to"
        reasons = {**dict.fromkeys((301, 302, 303, 307, 308), redirect), **_REASONS}
        raise refusal(f"ping {shown(self.url)}", answer, reasons)


def shown(url: str) -> str:
    """An address for messages: without its query and credentials, which may be secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else url.partition("?")[0]
