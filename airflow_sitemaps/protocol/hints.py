"""``changefreq`` and ``priority``: the two hints of the protocol, one value at a time."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from airflow_sitemaps.protocol.entry import CHANGEFREQS

PRIORITY_DIGITS: Final = 4
"""Digits kept after the point of a priority; this hides the tails of single-precision numbers."""

_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_STEP: Final = Decimal(1).scaleb(-PRIORITY_DIGITS)


def read_changefreq(text: str) -> str | None:
    """One of the protocol's words, in any case, or None for an empty text.

    Raises:
        ValueError: it is none of them.
    """
    word = text.strip().lower()
    if not word:
        return None
    if word not in CHANGEFREQS:
        raise ValueError(text)
    return word


def read_priority(value: object) -> str | None:
    """A priority with the fewest digits (``0.8``, ``1.0``), or None for an empty text.

    Raises:
        ValueError: no number, or none from 0 to 1.
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
