"""``changefreq`` and ``priority``: the two hints of the protocol, parsed value by value."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from airflow_sitemaps.protocol.entry import CHANGEFREQS

PRIORITY_DIGITS: Final = 4
"""Number of digits after the point of a priority. It hides rounding errors of single-precision numbers."""

_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_STEP: Final = Decimal(1).scaleb(-PRIORITY_DIGITS)


def read_changefreq(text: str) -> str | None:
    """Return one of the values of the protocol, in any case, or None for an empty text.

    Raises:
        ValueError: The text is another value.
    """
    word = text.strip().lower()
    if not word:
        return None
    if word not in CHANGEFREQS:
        raise ValueError(text)
    return word


def read_priority(value: object) -> str | None:
    """Return a priority with the fewest digits (``0.8``, ``1.0``), or None for an empty text.

    Raises:
        ValueError: The text is not a number from 0 to 1.
    """
    text = str(value).strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    number = Decimal(text)
    if not 0 <= number <= 1:
        raise ValueError(text)
    digits = f"{abs(number).quantize(_STEP):f}".rstrip("0")
    return digits + "0" if digits.endswith(".") else digits
