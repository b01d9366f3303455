"""A column of ``loc``: clean rows are recognised in the whole slice, and only the others go through ``loc.read_loc``.

A clean slice needs a few passes over its bytes. Rows whose only fault is characters to encode are encoded together. The
result is always that of ``read_loc``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar import RowKeys, as_texts, count_rows, offsets_of, or_masks, rows_at, value_bytes
from airflow_sitemaps.protocol.loc import LONGEST_CLEAN, PLAIN, WHITE, Reading, read_loc, scope_of, settle
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Tally, Verdict

if TYPE_CHECKING:
    from airflow_sitemaps.protocol import RowContext

_SAFE: Final = (PLAIN + "%").encode()
_BEYOND_ASCII: Final = bytes(range(128, 256))
_ENCODED: Final = b' "<>\\^`{|}'
"""Characters of ASCII that no origin has (an IPv6 address has brackets) and that are encoded, except a space at the end."""

_TO_ENCODE: Final = r'[ "<>\\^`{|}]'
_NOT_SAFE: Final = r'[^ "<>\\^`{|}' + f"{re.escape(PLAIN)}%\\x{{80}}-\\x{{10FFFF}}]"
_BAD_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_BAD_PERCENT_IN_ROW: Final = r"%(?:[^0-9A-Fa-f]|$|[0-9A-Fa-f](?:[^0-9A-Fa-f]|$))"
_REPLACEMENT: Final = re.compile(rb"%[Ee][Ff]%[Bb][Ff]%[Bb][Dd]")
_ENTITY: Final = re.compile(rb"&(?:#|[A-Za-z])[0-9A-Za-z]*;")
_MANY_PLACES: Final = 1_000
"""Number of unsafe characters in a slice above which one search of all rows is faster than checking each position."""

_SHOWN_BYTES: Final = 1_000


def clean_locs(column: pa.Array, context: RowContext, tally: Tally, rows: RowKeys) -> pa.StringArray:
    """Normalise a column of URLs and count its faults. A dropped row gets null."""
    raw = as_texts(column)
    scope = scope_of(context.base_url, context.cross_submit)
    here = _begins(raw, scope.origin + "/")
    relative = None if _all(here) else _relative(raw, context)
    values = raw
    if relative is not None:
        values = pc.if_else(relative, pc.binary_join_element_wise(scope.origin, raw, ""), raw)
        here = pc.or_(here, relative)
    to_encode, others = _find_dirt(values, here, scope.origins - {scope.origin})
    slow = or_masks(others)
    encoded = _only(or_masks(to_encode), slow)
    if encoded is not None and context.rulebook["loc-encoding"] is not Verdict.REPAIR:
        slow, encoded = or_masks([m for m in (slow, encoded) if m is not None]), None
    if encoded is not None:
        texts, refused = percent_encoded(values.filter(encoded))
        values = pc.replace_with_mask(values, encoded, texts)
        if refused is not None:
            refused = pc.replace_with_mask(pc.and_not(encoded, encoded), encoded, refused)
            slow = or_masks([m for m in (slow, refused) if m is not None])
            encoded = _only(encoded, refused)
    outside = _only(_outside(values, scope.origin, scope.folder), slow)
    dropped = outside if context.rulebook["scope-path"] is Verdict.DROP_ROW else None
    faults = {  # a template that begins with a slash is to be completed
        "loc-encoding": _only(encoded, dropped),
        "loc-relative": None if context.template.startswith("/") else _only(_only(relative, slow), dropped),
        "scope-path": outside,
    }
    for rule, mask in faults.items():
        if mask is not None:
            count_rows(rule, mask, raw, rows, context, tally)
    if dropped is not None:
        values = pc.if_else(dropped, None, values)
    return values if slow is None else pc.replace_with_mask(values, slow, _parsed(raw, slow, context, tally, rows))


def _only(mask: pa.BooleanArray | None, but_not: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """Return the rows of one mask that are not in the other, or None if there are none."""
    if mask is None:
        return None
    rest = mask if but_not is None else pc.and_not(mask, but_not)
    return rest if rest.true_count else None


def _relative(raw: pa.StringArray, context: RowContext) -> pa.BooleanArray | None:
    """Return the rows to complete with the origin. Return None if there are none, or if the rule does not repair them."""
    if context.rulebook["loc-relative"] is not Verdict.REPAIR:
        return None
    slash = _begins(raw, "/")
    if not slash.true_count:
        return None
    return _only(slash, _begins(raw, "//"))


def _begins(values: pa.StringArray, prefix: str) -> pa.BooleanArray:
    mask = pc.starts_with(values, prefix)
    return pc.fill_null(mask, False) if mask.null_count else mask


def _find_dirt(
    values: pa.StringArray, good: pa.BooleanArray, origins: frozenset[str]
) -> tuple[list[pa.BooleanArray], list[pa.BooleanArray]]:
    """Return masks of the rows that are not clean: those whose only fault may be characters to encode, and all others."""
    to_encode: list[pa.BooleanArray] = []
    dirt: list[pa.BooleanArray] = []
    if not _all(good):
        for other in sorted(origins):
            good = pc.or_(good, _begins(values, other + "/"))
        if not _all(good):
            dirt.append(pc.invert(good))
            values = pc.if_else(good, values, "")
    data = value_bytes(values)
    leftover = data.translate(None, _SAFE)
    if not leftover.isascii():
        to_encode.append(_beyond_ascii(data, values))
        leftover = leftover.translate(None, _BEYOND_ASCII)
    others = leftover.translate(None, _ENCODED)
    if len(others) < len(leftover):
        to_encode += _rows_with(leftover.translate(None, others), _TO_ENCODE, data, values)
    dirt += _rows_with(others, _NOT_SAFE, data, values)
    if b"%" in data and _BAD_PERCENT.search(data):
        dirt.append(pc.match_substring_regex(values, _BAD_PERCENT_IN_ROW))
    for sign, pattern in ((b"%", _REPLACEMENT), (b";", _ENTITY)):
        if sign in data and pattern.search(data):
            dirt.append(pc.match_substring_regex(values, pattern.pattern.decode()))
    lengths = pc.binary_length(values)
    if (pc.max(lengths).as_py() or 0) > LONGEST_CLEAN:
        dirt.append(pc.greater(lengths, LONGEST_CLEAN))
    return to_encode, dirt


def _beyond_ascii(data: bytes, values: pa.StringArray) -> pa.BooleanArray:
    """Return the rows that are not ASCII, in less time than Arrow's own function."""
    places = np.flatnonzero(np.frombuffer(data, np.uint8) > 0x7F)
    offsets = np.frombuffer(offsets_of(values), np.int32)
    before = np.searchsorted(places, offsets - offsets[0])
    return pa.array(before[1:] > before[:-1])


def _rows_with(occurrences: bytes, pattern: str, data: bytes, values: pa.StringArray) -> list[pa.BooleanArray]:
    """Return a mask of the rows that contain one of some characters, or no mask if there is no occurrence of any."""
    if len(occurrences) > _MANY_PLACES:
        return [pc.match_substring_regex(values, pattern)]
    places: list[int] = []
    for byte in set(occurrences):
        place = -1
        while (
            place := data.find(byte, place + 1)
        ) >= 0:  # eight times as fast as a pattern, where few rows have the byte
            places.append(place)
    return [rows_at(places, values)] if places else []


def _all(mask: pa.BooleanArray) -> bool:
    return bool(mask.true_count == len(mask))


def _outside(values: pa.StringArray, origin: str, folder: str) -> pa.BooleanArray | None:
    """Return the rows of the folder's own origin that are not below the folder, or None if all are."""
    if folder == origin + "/":
        return None
    inside = _begins(values, folder)
    return None if _all(inside) else pc.and_not(_begins(values, origin + "/"), inside)


def _parsed(
    raw: pa.StringArray, mask: pa.BooleanArray, context: RowContext, tally: Tally, rows: RowKeys
) -> pa.StringArray:
    """Parse the URLs of the rows in the mask one by one, and count their faults. A dropped row gets null."""
    counts: Counter[tuple[str, Verdict]] = Counter()
    samples: dict[tuple[str, Verdict], list[str]] = {}
    results: list[str | None] = []
    numbers = pc.indices_nonzero(mask).to_pylist()
    for row, value in zip(numbers, raw.filter(mask).cast(pa.binary()).to_pylist(), strict=True):
        try:  # databases store single surrogates too
            reading = read_loc(None if value is None else value.decode("utf-8", "surrogatepass"), context)
        except UnicodeDecodeError:
            reading = Reading(None, ("loc-characters",))
        result, verdicts = settle(reading, context.rulebook)
        results.append(result)
        for counted in verdicts:
            counts[counted] += 1
            if counts[counted] <= SAMPLES_PER_RULE:
                shown = "NULL" if value is None else value[:_SHOWN_BYTES].decode("utf-8", "replace")
                samples.setdefault(counted, []).append(rows.sample(shown, row))
    for (rule, verdict), number in counts.items():
        tally.count(rule, verdict, samples[rule, verdict], number, where=context.section)
    return pa.array(results, pa.string())


# ---------------------------------------------------------------- percent-encoding

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]

_ENDS: Final = [ord(character) for character in WHITE if character > "\x7f"]
_NEVER: Final = [*range(0x80, 0xA0), 0xFFFD, 0xFFFE, 0xFFFF]
_SUSPECT: Final = np.zeros(1 << 16, np.uint8)
_SUSPECT[_ENDS], _SUSPECT[_NEVER] = 1, 2
"""1: removed at the end of a URL, and encoded within it. 2, never encoded: controls, non-characters, U+FFFD."""

_LEADS: Final = np.isin(np.arange(256), [chr(code).encode()[0] for code in (*_NEVER, *_ENDS)])
_DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_HIGH: Final = np.repeat(_DIGITS, 16)
_LOW: Final = np.tile(_DIGITS, 16)


def percent_encoded(rows: pa.StringArray) -> tuple[pa.StringArray, pa.BooleanArray | None]:
    """Return the rows with all characters encoded that need it, and a mask of those to parse one by one; None: none.

    These contain a suspect character, are not UTF-8, or become too long. All must begin with an origin and a slash.
    """
    body = value_bytes(rows)
    data = np.frombuffer(body, np.uint8)
    offsets = np.frombuffer(offsets_of(rows), np.int32)
    offsets = offsets - offsets[0]
    chosen = data > 0x7F
    for code in _ENCODED:
        if code in body:
            chosen |= data == code
    places = np.flatnonzero(chosen)
    codes = data[places]
    out = np.repeat(data, chosen.view(np.uint8) * 2 + 1)
    at = places + 2 * np.arange(len(places))
    out[at] = ord("%")
    out[at + 1] = _HIGH[codes]
    out[at + 2] = _LOW[codes]
    ends = offsets + 2 * np.searchsorted(places, offsets)
    encoded = pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(out))
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8
        return encoded, pa.array(np.ones(len(rows), bool))
    refused = np.diff(ends) > LONGEST_CLEAN
    refused |= data[offsets[1:] - 1] == ord(" ")
    suspect = _suspects(data, places, codes, offsets)
    if len(suspect):
        refused |= rows_at(suspect.tolist(), rows).to_numpy(zero_copy_only=False)
    return encoded, pa.array(refused) if refused.any() else None


def _suspects(data: Bytes, places: Places, codes: Bytes, offsets: npt.NDArray[np.int32]) -> Places:
    """Return the positions at which characters begin that are never encoded, or are removed at the end of their row."""
    leads = _LEADS[codes]
    at: Places = places[leads]
    if not len(at):
        return at
    # What begins with one of the leads is complete, since all is UTF-8; a third byte may be beyond the end.
    first, second = codes[leads].astype(np.uint16), data[at + 1].astype(np.uint16) & 0x3F
    third = data[np.minimum(at + 2, len(data) - 1)] & 0x3F
    points = np.where(first < 0xE0, (first & 0x1F) << 6 | second, (first & 0x0F) << 12 | second << 6 | third)
    kinds = _SUSPECT[points]
    removed = np.flatnonzero(kinds == 1)
    if len(removed):
        behind = at[removed] + np.where(first[removed] < 0xE0, 2, 3)
        kinds[removed] = np.isin(behind, offsets)
    return at[kinds > 0]
