"""Percent-encoding of many URLs at once: bytes beyond ASCII become ``%XX``, the others do not change."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_sitemaps.protocol.columnar.arrow import offsets_of, rows_at, value_view
from airflow_sitemaps.protocol.loc import LONGEST_CLEAN, WHITE

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]

SUSPECT: Final = re.compile(f"[\x80-\x9f\ufffd-\uffff{WHITE[4:]}]")
"""Characters beyond ASCII that must not be encoded: controls, non-characters, U+FFFD, and those removed at the ends."""

_BEYOND: Final = [chr(code) for code in range(0x80, 0x10000) if not 0xD800 <= code < 0xE000]
_UTF8: Final = [text.encode() for text in _BEYOND if SUSPECT.match(text)]
_SUSPECT_2: Final = np.array([int.from_bytes(code, "big") for code in _UTF8 if len(code) == 2], np.uint32)
_SUSPECT_3: Final = np.array([int.from_bytes(code, "big") for code in _UTF8 if len(code) == 3], np.uint32)
_LEADS: Final = np.array([n in {code[0] for code in _UTF8} for n in range(256)])
_DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_HIGH: Final = np.repeat(_DIGITS, 16)
_LOW: Final = np.tile(_DIGITS, 16)


def percent_encoded(rows: pa.StringArray) -> tuple[pa.StringArray, pa.BooleanArray | None]:
    """Return the rows with bytes beyond ASCII encoded, and a mask of those that must be parsed one by one.

    These contain a suspect character, are not UTF-8, or become longer than a URL may be. The mask is None if there are
    none. The rows must begin with ASCII and have no null.
    """
    data = np.frombuffer(value_view(rows), np.uint8)
    offsets = np.frombuffer(offsets_of(rows), np.int32)
    offsets = offsets - offsets[0]
    beyond = data > 0x7F
    places = np.flatnonzero(beyond)
    codes = data[places]
    out = np.repeat(data, beyond.view(np.uint8) * 2 + 1)
    at = places + 2 * np.arange(len(places))
    out[at] = ord("%")
    out[at + 1] = _HIGH[codes]
    out[at + 2] = _LOW[codes]
    ends = offsets + 2 * np.searchsorted(places, offsets)
    encoded = pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(out))
    if not _is_utf8(rows):
        return encoded, pa.array(np.ones(len(rows), bool))
    suspect = _suspects(data, places, codes)
    long = np.diff(ends) > LONGEST_CLEAN
    if not len(suspect) and not long.any():
        return encoded, None
    mask = np.array(rows_at(suspect.tolist(), rows).to_numpy(zero_copy_only=False)) | long
    return encoded, pa.array(mask)


def _is_utf8(rows: pa.StringArray) -> bool:
    try:
        bytes(value_view(rows)).decode()
    except UnicodeDecodeError:
        return False
    return True


def _suspects(data: Bytes, places: Places, codes: Bytes) -> Places:
    """Return the positions at which suspect characters begin."""
    leads = _LEADS[codes]
    at: Places = places[leads]
    if not len(at):
        return at
    # What begins with one of the leads is complete, since all is UTF-8; a third byte may be beyond the end.
    second = codes[leads].astype(np.uint32) << 8 | data[at + 1]
    third = second << 8 | data[np.minimum(at + 2, len(data) - 1)]
    suspects: Places = at[np.isin(second, _SUSPECT_2) | np.isin(third, _SUSPECT_3)]
    return suspects
