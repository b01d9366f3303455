"""The key file of IndexNow: whether a site serves it. Search engines discard URLs of a host that does not."""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http.client import HttpClient
from airflow_sitemaps.http.response import FetchError
from airflow_sitemaps.search_engines.outcomes import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_sitemaps.http.response import Fetched
    from airflow_sitemaps.search_engines.indexnow import IndexNow

log = logging.getLogger(__name__)

MAX_BYTES: Final = 4_096
"""Largest key file that is read. A key has at most 128 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """The key file of one site, as served.

    Attributes:
        address: Address of the file. ``***`` stands for the key, which is a secret.
        served: Whether the file holds the key; None if that cannot be said, because there is no usable response.
        message: The response of the site.
    """

    address: str
    served: bool | None
    message: str

    def __str__(self) -> str:
        return f"{self.address}: {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"address": self.address, "served": self.served, "message": self.message}


def reader() -> HttpClient:
    """Return a client that reads key files of public https sites."""
    return HttpClient(max_byte_size=MAX_BYTES)


def key_files(site: IndexNow, urls: Iterable[str], http: HttpClient) -> list[KeyFile]:
    """Request the key file of each host.

    Args:
        site: The IndexNow key and, if it is not at the root of the host, its location.
        urls: URLs of the hosts. Only their scheme and host matter.
    """
    addresses = (site.key_location or f"{_root(url)}/{site.key}.txt" for url in urls)
    return [_read(address, site.key, http) for address in dict.fromkeys(addresses)]


def require_key_files(site: IndexNow, urls: Iterable[str], http: HttpClient) -> None:
    """Check that every host serves its key file. A file that cannot be read costs a warning.

    Raises:
        ConfigurationError: A host serves no key file, or one with another content.
    """
    files = key_files(site, urls, http)
    missing = [str(file) for file in files if file.served is False]
    if missing:
        raise ConfigurationError(
            f"IndexNow: the key file is not served, so no URL is sent. {'; '.join(missing[:3])}. Publish a text file that "
            "holds only the key, which is the connection's password, at this address, or set key_location in the "
            "connection's extra. Where only search engines may read the file, set check_key=False"
        )
    for file in files:
        if file.served is None:
            log.warning("IndexNow: the key file cannot be checked, and the URLs are sent. %s", file)


def _root(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _read(address: str, key: str, http: HttpClient) -> KeyFile:
    """Request one key file."""
    shown = address.replace(key, "***")
    try:
        response = http.get(address)
    except FetchError as error:
        return KeyFile(address=shown, served=None, message=str(error).replace(key, "***"))
    if response.status != 200:
        served = None if response.status in TRANSIENT else False
        return KeyFile(address=shown, served=served, message=f"the response has status {response.status}")
    if _content(response) == key:
        return KeyFile(address=shown, served=True, message="holds the key")
    return KeyFile(address=shown, served=False, message="the response does not hold the key, or not only the key")


def _content(response: Fetched) -> str:
    """Return the text of a key file, without white space around it and a byte-order mark."""
    body = response.body
    if response.headers.get("content-encoding", "").strip().lower() == "gzip":
        try:
            body = zlib.decompressobj(wbits=31).decompress(body, MAX_BYTES)
        except zlib.error:
            return ""
    return body.decode("utf-8-sig", errors="replace").strip()
