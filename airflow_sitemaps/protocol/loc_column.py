"""A column of ``loc``: clean rows are told from dirty ones on the whole piece, only the dirty ones are mended.

A clean piece costs a few passes over its bytes. Rows whose only fault is text beyond ASCII are encoded together; all
others go through ``loc.read_loc`` one by one. Either way the result is what ``read_loc`` says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.arrow import any_true, decoded, or_masks, rows_at, value_bytes
from airflow_sitemaps.protocol.limits import MAX_LOC_CHARACTERS
from airflow_sitemaps.protocol.loc import PLAIN, Reading, read_loc, scope_of, settle
from airflow_sitemaps.protocol.percent import percent_encoded
from airflow_sitemaps.protocol.rules import SAMPLES_PER_RULE, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_sitemaps.protocol.entry import Judge
    from airflow_sitemaps.protocol.rules import Tally

_SAFE: Final = (PLAIN + "%").encode()
_BEYOND_ASCII: Final = bytes(range(128, 256))
_NOT_SAFE: Final = f"[^{re.escape(PLAIN)}%\\x{{80}}-\\x{{10FFFF}}]"
_BAD_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_BAD_PERCENT_IN_ROW: Final = r"%(?:[^0-9A-Fa-f]|$|[0-9A-Fa-f](?:[^0-9A-Fa-f]|$))"
_ENTITY: Final = re.compile(rb"&(?:#|[A-Za-z])[0-9A-Za-z]*;")
_ENTITY_IN_ROW: Final = r"&(?:#|[A-Za-z])[0-9A-Za-z]*;"
_MANY_PLACES: Final = 1_000
"""Unsafe characters in a piece, above which one search of all rows is cheaper than a look at each place."""


@dataclass(frozen=True, slots=True)
class Locs:
    """Normalised URLs; null where the row is dropped (``has_dropped`` says whether there are any)."""

    values: pa.StringArray
    has_dropped: bool


@dataclass(slots=True)
class _Dirt:
    """Masks of rows that are not clean; None where no row is. ``beyond_ascii`` rows may have that fault alone."""

    beyond_ascii: pa.BooleanArray | None = None
    other: list[pa.BooleanArray] = field(default_factory=list)


def clean_locs(column: pa.Array, judge: Judge, tally: Tally) -> Locs:
    """Normalise a column of URLs and count its faults.

    Raises:
        RuleError: a rule set to ``fail`` is broken.
    """
    raw = decoded(column)
    scope = scope_of(judge.base_url, judge.cross_submit)
    here = _begins(raw, scope.origin + "/")
    relative = None if _all(here) else _relative(raw, judge)
    values = raw
    if relative is not None:
        values = pc.if_else(relative, pc.binary_join_element_wise(scope.origin, raw, ""), raw)
        here = pc.or_(here, relative)
    dirt = _find_dirt(values, here, scope.origins - {scope.origin})
    slow = or_masks(dirt.other)
    encoded = None if dirt.beyond_ascii is None else _only(dirt.beyond_ascii, slow)
    if encoded is not None and judge.rulebook["loc-encoding"] is not Verdict.REPAIR:
        slow, encoded = or_masks([m for m in (slow, encoded) if m is not None]), None
    waiting: pa.StringArray | None = None
    if encoded is not None:
        texts, refused = percent_encoded(values.filter(encoded))
        if refused is None and slow is not None and scope.folder == scope.origin + "/":
            waiting = texts  # nothing is outside; placed with what is mended, in one pass over all rows
        else:
            values = pc.replace_with_mask(values, encoded, texts)
        if refused is not None:
            refused = pc.replace_with_mask(pc.and_not(encoded, encoded), encoded, refused)
            slow = or_masks([m for m in (slow, refused) if m is not None])
            encoded = _only(encoded, refused)
    outside = _only(_outside(values, scope.origin, scope.folder), slow)
    dropped = outside if judge.rulebook["scope-path"] is Verdict.DROP_ROW else None
    _count(tally, judge, "loc-encoding", raw, _only(encoded, dropped))
    _count(tally, judge, "loc-relative", raw, _only(_only(relative, slow), dropped))
    _count(tally, judge, "scope-path", raw, outside)
    if dropped is not None:
        values = pc.if_else(dropped, None, values)
    has_dropped = dropped is not None
    if slow is not None:
        mended = _mend(raw.filter(slow), judge, tally)
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
    """Rows one by one mended in their places, and those encoded that still wait to be; no row is in both masks."""
    if encoded is None or waiting is None:
        return pc.replace_with_mask(values, slow, mended)
    either = pc.or_(slow, encoded)
    which = encoded.filter(either)
    rows = pc.replace_with_mask(pa.nulls(len(which), pa.string()), which, waiting)
    return pc.replace_with_mask(values, either, pc.replace_with_mask(rows, pc.invert(which), mended))


def _only(mask: pa.BooleanArray | None, but_not: pa.BooleanArray | None) -> pa.BooleanArray | None:
    """The rows of one mask that are not in the other; None where no row is."""
    if mask is None:
        return None
    rest = mask if but_not is None else pc.and_not(mask, but_not)
    return rest if any_true(rest) else None


def _relative(raw: pa.StringArray, judge: Judge) -> pa.BooleanArray | None:
    """Rows to complete with the origin, where the rule says so; None where there are none."""
    if judge.rulebook["loc-relative"] is not Verdict.REPAIR:
        return None
    slash = _begins(raw, "/")
    if not any_true(slash):
        return None
    return _only(slash, _begins(raw, "//"))


def _begins(values: pa.StringArray, prefix: str) -> pa.BooleanArray:
    found = pc.starts_with(values, prefix)
    return pc.fill_null(found, False) if found.null_count else found


def _find_dirt(values: pa.StringArray, good: pa.BooleanArray, others: frozenset[str]) -> _Dirt:
    """``good``: rows that begin with the sitemap's own origin; ``others``: origins that are as good."""
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
    if b"%" in data and _BAD_PERCENT.search(data):
        dirt.other.append(pc.match_substring_regex(values, _BAD_PERCENT_IN_ROW))
    if b";" in data and _ENTITY.search(data):
        dirt.other.append(pc.match_substring_regex(values, _ENTITY_IN_ROW))
    lengths = pc.binary_length(values)
    if (pc.max(lengths).as_py() or 0) > MAX_LOC_CHARACTERS:
        dirt.other.append(pc.greater(lengths, MAX_LOC_CHARACTERS))
    return dirt


def _places(data: bytes, byte: int) -> Iterator[int]:
    place = data.find(byte)
    while place >= 0:
        yield place
        place = data.find(byte, place + 1)


def _all(mask: pa.BooleanArray) -> bool:
    return bool(mask.true_count == len(mask))


def _outside(values: pa.StringArray, origin: str, folder: str) -> pa.BooleanArray | None:
    """Rows of the folder's own origin that do not lie below it; None where all do."""
    if folder == origin + "/":
        return None
    inside = _begins(values, folder)
    return None if _all(inside) else pc.and_not(_begins(values, origin + "/"), inside)


def _mend(rows: pa.StringArray, judge: Judge, tally: Tally) -> pa.StringArray:
    """One by one: the URL to write, null where the row is dropped; faults are counted."""
    found: dict[tuple[str, Verdict], list[str]] = {}
    results: list[str | None] = []
    for raw in rows.cast(pa.binary()).to_pylist():
        text = None if raw is None else _text(raw)
        reading = Reading(None, ("loc-characters",)) if raw is not None and text is None else read_loc(text, judge)
        result, verdicts = settle(reading, judge.rulebook)
        results.append(result)
        for counted in verdicts:
            found.setdefault(counted, []).append("NULL" if raw is None else raw[:1_000].decode("utf-8", "replace"))
    for (rule, verdict), samples in found.items():
        tally.count(rule, verdict, samples, where=judge.section)
    return pa.array(results, pa.string())


def _text(raw: bytes) -> str | None:
    """UTF-8 as databases have it, where surrogates may stand one by one; None where it is not even that."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _count(tally: Tally, judge: Judge, rule: str, raw: pa.StringArray, mask: pa.BooleanArray | None) -> None:
    if mask is None:
        return
    first = pc.indices_nonzero(mask).slice(0, SAMPLES_PER_RULE)
    samples = [value.decode("utf-8", "replace") for value in raw.take(first).cast(pa.binary()).to_pylist()]
    tally.count(rule, judge.rulebook[rule], samples, mask.true_count, where=judge.section)
