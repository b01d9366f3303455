"""A column of ``loc``: clean rows are recognised in the whole slice, and only the others are parsed one by one.

A clean slice needs a few passes over its bytes. Rows whose only fault is text beyond ASCII are encoded together. All
others go through ``loc.read_loc``. The result is always that of ``read_loc``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.columnar.arrow import any_true, as_texts, or_masks, rows_at, value_bytes
from airflow_sitemaps.protocol.columnar.percent import percent_encoded
from airflow_sitemaps.protocol.columnar.row_keys import NO_KEYS, RowKeys, count_rows
from airflow_sitemaps.protocol.loc import LONGEST_CLEAN, PLAIN, Reading, read_loc, scope_of, settle
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.protocol.entry import RowContext
    from airflow_sitemaps.protocol.rules import Tally

_SAFE: Final = (PLAIN + "%").encode()
_BEYOND_ASCII: Final = bytes(range(128, 256))
_NOT_SAFE: Final = f"[^{re.escape(PLAIN)}%\\x{{80}}-\\x{{10FFFF}}]"
_BAD_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_BAD_PERCENT_IN_ROW: Final = r"%(?:[^0-9A-Fa-f]|$|[0-9A-Fa-f](?:[^0-9A-Fa-f]|$))"
_REPLACEMENT: Final = re.compile(rb"%[Ee][Ff]%[Bb][Ff]%[Bb][Dd]")
_REPLACEMENT_IN_ROW: Final = "%[Ee][Ff]%[Bb][Ff]%[Bb][Dd]"
_ENTITY: Final = re.compile(rb"&(?:#|[A-Za-z])[0-9A-Za-z]*;")
_ENTITY_IN_ROW: Final = r"&(?:#|[A-Za-z])[0-9A-Za-z]*;"
_MANY_PLACES: Final = 1_000
"""Number of unsafe characters in a slice above which one search of all rows is faster than checking each position."""

_SHOWN_BYTES: Final = 1_000
"""Number of bytes of a faulty URL that are decoded for a sample, which is then shortened."""


@dataclass(frozen=True, slots=True)
class Locs:
    """Normalised URLs.

    Attributes:
        values: One URL for each row; null if the row is dropped.
        has_dropped: Whether any row is dropped.
    """

    values: pa.StringArray
    has_dropped: bool


@dataclass(slots=True)
class _Dirt:
    """Masks of rows that are not clean.

    Attributes:
        beyond_ascii: Rows whose only fault may be text beyond ASCII. None: no row.
        other: Rows with another fault.
    """

    beyond_ascii: pa.BooleanArray | None = None
    other: list[pa.BooleanArray] = field(default_factory=list)


def clean_locs(column: pa.Array, context: RowContext, tally: Tally, rows: RowKeys = NO_KEYS) -> Locs:
    """Normalise a column of URLs and count its faults.

    Raises:
        RuleError: A rule set to ``fail`` is broken.
    """
    raw = as_texts(column)
    scope = scope_of(context.base_url, context.cross_submit)
    here = _begins(raw, scope.origin + "/")
    relative = None if _all(here) else _relative(raw, context)
    values = raw
    if relative is not None:
        values = pc.if_else(relative, pc.binary_join_element_wise(scope.origin, raw, ""), raw)
        here = pc.or_(here, relative)
    dirt = _find_dirt(values, here, scope.origins - {scope.origin})
    slow = or_masks(dirt.other)
    encoded = None if dirt.beyond_ascii is None else _only(dirt.beyond_ascii, slow)
    if encoded is not None and context.rulebook["loc-encoding"] is not Verdict.REPAIR:
        slow, encoded = or_masks([m for m in (slow, encoded) if m is not None]), None
    waiting: pa.StringArray | None = None
    if encoded is not None:
        texts, refused = percent_encoded(values.filter(encoded))
        if refused is None and slow is not None and scope.folder == scope.origin + "/":
            waiting = texts  # nothing is outside; placed together with the other fixed rows, in one pass over all rows
        else:
            values = pc.replace_with_mask(values, encoded, texts)
        if refused is not None:
            refused = pc.replace_with_mask(pc.and_not(encoded, encoded), encoded, refused)
            slow = or_masks([m for m in (slow, refused) if m is not None])
            encoded = _only(encoded, refused)
    outside = _only(_outside(values, scope.origin, scope.folder), slow)
    dropped = outside if context.rulebook["scope-path"] is Verdict.DROP_ROW else None
    faults = {
        "loc-encoding": _only(encoded, dropped),
        "loc-relative": _only(_only(relative, slow), dropped),
        "scope-path": outside,
    }
    for rule, mask in faults.items():
        if mask is not None:
            count_rows(tally, rule, context.rulebook[rule], rows, mask, raw, where=context.section)
    if dropped is not None:
        values = pc.if_else(dropped, None, values)
    has_dropped = dropped is not None
    if slow is not None:
        mended = _mended(raw, slow, context, tally, rows)
        values = _placed(values, slow, mended, encoded, waiting)
        has_dropped = has_dropped or mended.null_count > 0
    return Locs(values, has_dropped)


def _placed(
    values: pa.StringArray,
    slow: pa.BooleanArray,
    mended: pa.StringArray,
    encoded: pa.BooleanArray | None,
    waiting: pa.StringArray | None,
) -> pa.StringArray:
    """Insert the rows that were parsed one by one, and the encoded rows, at their positions. The masks are disjoint."""
    if encoded is None or waiting is None:
        return pc.replace_with_mask(values, slow, mended)
    either = pc.or_(slow, encoded)
    which = encoded.filter(either)
    rows = pc.replace_with_mask(pa.nulls(len(which), pa.string()), which, waiting)
    return pc.replace_with_mask(values, either, pc.replace_with_mask(rows, pc.invert(which), mended))


def _only(mask: pa.BooleanArray | None, but_not: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """Return the rows of one mask that are not in the other, or None if there are none."""
    if mask is None:
        return None
    rest = mask if but_not is None else pc.and_not(mask, but_not)
    return rest if any_true(rest) else None


def _relative(raw: pa.StringArray, context: RowContext) -> pa.BooleanArray | None:
    """Return the rows to complete with the origin. Return None if there are none, or if the rule does not repair them."""
    if context.rulebook["loc-relative"] is not Verdict.REPAIR:
        return None
    slash = _begins(raw, "/")
    if not any_true(slash):
        return None
    return _only(slash, _begins(raw, "//"))


def _begins(values: pa.StringArray, prefix: str) -> pa.BooleanArray:
    mask = pc.starts_with(values, prefix)
    return pc.fill_null(mask, False) if mask.null_count else mask


def _find_dirt(values: pa.StringArray, good: pa.BooleanArray, others: frozenset[str]) -> _Dirt:
    """Find the rows that are not clean.

    Args:
        others: Further origins whose URLs may be listed.
    """
    dirt = _Dirt()
    if not _all(good):
        for other in sorted(others):
            good = pc.or_(good, _begins(values, other + "/"))
        if not _all(good):
            dirt.other.append(pc.invert(good))
            values = pc.if_else(good, values, "")
    data = value_bytes(values)
    leftover = data.translate(None, _SAFE)
    if not leftover.isascii():
        dirt.beyond_ascii = pc.invert(pc.string_is_ascii(values))
        leftover = leftover.translate(None, _BEYOND_ASCII)
    unsafe = set(leftover)
    if unsafe:
        many = len(leftover) > _MANY_PLACES
        dirt.other.append(
            pc.match_substring_regex(values, _NOT_SAFE)
            if many
            else rows_at([place for byte in unsafe for place in _places(data, byte)], values)
        )
    if b"%" in data:
        if _BAD_PERCENT.search(data):
            dirt.other.append(pc.match_substring_regex(values, _BAD_PERCENT_IN_ROW))
        if _REPLACEMENT.search(data):
            dirt.other.append(pc.match_substring_regex(values, _REPLACEMENT_IN_ROW))
    if b";" in data and _ENTITY.search(data):
        dirt.other.append(pc.match_substring_regex(values, _ENTITY_IN_ROW))
    lengths = pc.binary_length(values)
    if (pc.max(lengths).as_py() or 0) > LONGEST_CLEAN:
        dirt.other.append(pc.greater(lengths, LONGEST_CLEAN))
    return dirt


def _places(data: bytes, byte: int) -> Iterator[int]:
    place = data.find(byte)
    while place >= 0:
        yield place
        place = data.find(byte, place + 1)


def _all(mask: pa.BooleanArray) -> bool:
    return bool(mask.true_count == len(mask))


def _outside(values: pa.StringArray, origin: str, folder: str) -> pa.BooleanArray | None:
    """Return the rows of the folder's own origin that are not below the folder, or None if all are."""
    if folder == origin + "/":
        return None
    inside = _begins(values, folder)
    return None if _all(inside) else pc.and_not(_begins(values, origin + "/"), inside)


def _mended(
    raw: pa.StringArray, mask: pa.BooleanArray, context: RowContext, tally: Tally, rows: RowKeys
) -> pa.StringArray:
    """Parse the URLs of the rows in the mask one by one, and count their faults. A dropped row gets null."""
    counts: Counter[tuple[str, Verdict]] = Counter()
    samples: dict[tuple[str, Verdict], list[str]] = {}
    results: list[str | None] = []
    numbers = pc.indices_nonzero(mask).to_pylist()
    for row, value in zip(numbers, raw.filter(mask).cast(pa.binary()).to_pylist(), strict=True):
        text = None if value is None else _text(value)
        unreadable = value is not None and text is None
        reading = Reading(None, ("loc-characters",)) if unreadable else read_loc(text, context)
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


def _text(raw: bytes) -> str | None:
    """Decode UTF-8 as databases store it, with single surrogates. Return None if it is not even that."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
