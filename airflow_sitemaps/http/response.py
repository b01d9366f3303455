"""The response to an HTTP request, and the error of a request without a response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import TransientError

if TYPE_CHECKING:
    from collections.abc import Mapping


class FetchError(TransientError):
    """An address cannot be read: no response, too slow, too large, or refused by the client's access rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A response.

    Attributes:
        status: HTTP status code.
        body: The body as received, without decoding ``Content-Encoding``.
        headers: Response headers by lower-case name.
        chain: Every requested address, redirects included; the last one responded.
    """

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    chain: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The address that responded, after all redirects; empty if the reader records none."""
        return self.chain[-1] if self.chain else ""
