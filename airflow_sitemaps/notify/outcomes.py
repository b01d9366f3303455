"""What becomes of a notification that was not accepted: try again, or mend something; and how long to wait."""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError, SitemapError, TransientError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.pipeline.fetching import Fetched

_EXCERPT: Final = 300
TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed."""


class NotAcceptedError(TransientError):
    """The other side cannot take it now. ``wait_s``: how long it asks to wait, None where it does not say."""

    def __init__(self, message: str, *, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


def refusal(what: str, answer: Fetched, reasons: Mapping[int, str], *, secret: str = "") -> SitemapError:
    """The error for an answer that is no success.

    ``reasons``: status → what it means and what to do. ``secret`` is kept out of the message.
    """
    reason = reasons.get(answer.status, "an answer that is not documented")
    said = excerpt(answer.body, secret)
    message = f"{what}: {answer.status}, {reason}" + (f" (it says: {said})" if said else "")
    if answer.status in TRANSIENT:
        wait_s = retry_after(answer.headers.get("retry-after", ""))
        asked = "" if wait_s is None else f"; it asks to wait {wait_s:,.0f} s"
        return NotAcceptedError(message + asked, wait_s=wait_s)
    return ConfigurationError(message)


def excerpt(body: bytes, secret: str = "") -> str:
    """The beginning of an answer in one line, without the secret."""
    text = body[: 4 * _EXCERPT].decode(errors="replace")
    text = " ".join((text.replace(secret, "***") if secret else text).split())
    text = "".join(character for character in text if character.isprintable())
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + " …"


def retry_after(value: str, now: datetime | None = None) -> float | None:
    """Seconds of a ``Retry-After`` header: a number, or a date (RFC 9110, 10.2.3). None where it cannot be read."""
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return max(0.0, (at - (now or datetime.now(timezone.utc))).total_seconds())
