"""Errors of notifications: the meaning of a response that is not a success, and the time to wait."""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError, SitemapError, TransientError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.http.response import Fetched

_EXCERPT: Final = 300
TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes after which the same request may succeed."""


class NotAcceptedError(TransientError):
    """The service currently cannot accept the request. Try again later.

    Attributes:
        wait_s: Pause in seconds that the service requests. Default: None, if it requests none.
    """

    def __init__(self, message: str, *, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


def refusal(what: str, answer: Fetched, reasons: Mapping[int, str], *, secret: str = "") -> SitemapError:
    """Return the error for a response that is not a success.

    Args:
        reasons: Meaning of a status code and what to do about it.
        secret: Text that must not appear in the message.
    """
    reason = reasons.get(answer.status, "an undocumented response")
    said = excerpt(answer.body, secret)
    message = f"{what}: {answer.status}, {reason}" + (f" (response: {said})" if said else "")
    if answer.status in TRANSIENT:
        wait_s = retry_after(answer.headers.get("retry-after", ""))
        asked = "" if wait_s is None else f"; retry after {wait_s:,.0f} s"
        return NotAcceptedError(message + asked, wait_s=wait_s)
    return ConfigurationError(message)


def excerpt(body: bytes, secret: str = "") -> str:
    """Return the beginning of a response on one line, without the secret.

    Args:
        secret: Text to remove. Default: empty, none.
    """
    text = body[: 4 * _EXCERPT].decode(errors="replace")
    text = " ".join((text.replace(secret, "***") if secret else text).split())
    text = "".join(character for character in text if character.isprintable())
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + " …"


def retry_after(value: str, now: datetime | None = None) -> float | None:
    """Return the seconds of a ``Retry-After`` header (RFC 9110, 10.2.3); None if it cannot be parsed.

    Args:
        value: A number of seconds, or a date.
        now: Current time. Default: the system's.
    """
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return max(0.0, (at - (now or datetime.now(timezone.utc))).total_seconds())
