"""The join of the rows of one key range with the parts of the old shards that the range continues.

It is by range, never by batch: what a run records must not depend on how its batches were cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps import ledger
from airflow_sitemaps.ledger import Dating, EarlierDates
from airflow_sitemaps.protocol.columnar.elements import Cleaned, lastmod_texts
from airflow_sitemaps.protocol.columnar.lastmod import Lastmods, listed_lastmods
from airflow_sitemaps.protocol.lastmod import TRUST_SAMPLES, LastmodTrust


@dataclass(slots=True, kw_only=True)
class EarlierRows:
    """What the old shards of a range know of its URLs: the columns ``ledger.JOINED``. Of equal URLs the first counts.

    The column ``observed`` says whether the lastmod is one that a run observed. Another one does not carry over.
    """

    rows: pa.Table
    dates: Lastmods | None = None
    _distinct: bool | None = None
    _next: int = 0

    @classmethod
    def of(cls, parts: Sequence[pa.Table], kind: str, observed: Sequence[bool] = ()) -> EarlierRows | None:
        """Return what decoded parts know, or None if there is no old URL. Other kinds of fingerprints count as null.

        ``observed`` says of each part whether its dates were observed. Empty: dates are not joined.
        """
        comparable = [rows if ledger.kind_of(rows) == kind else ledger.without_fingerprints(rows) for rows in parts]
        if observed:
            marks = (pa.repeat(pa.scalar(own), rows.num_rows) for own, rows in zip(observed, parts, strict=True))
            pairs = zip(comparable, marks, strict=True)
            comparable = [rows.append_column("observed", mark) for rows, mark in pairs]
        names = [*ledger.JOINED, *(["observed"] if observed else [])]
        names += [n for n in ("lastmod", "key") if all(n in rows.column_names for rows in comparable)]
        filled = [rows.select(names).replace_schema_metadata(None) for rows in comparable if rows.num_rows]
        if not filled:
            return None
        rows = pa.concat_tables(filled, promote_options="default").combine_chunks()
        return cls(rows=rows, dates=listed_lastmods(_one(rows.column("lastmod"))) if observed else None)

    def dates_of(self, locs: pa.StringArray, prints: pa.Int64Array) -> EarlierDates:
        """Return what is known of the dates of URLs with these fingerprints."""
        assert self.dates is not None
        places = self.places(pa.chunked_array([locs]))
        return EarlierDates(
            places=places,
            lastmods=self.dates.take(places),
            carried=pc.fill_null(self.take("observed", places), False),
            differs=pc.fill_null(pc.not_equal(self.take("fingerprint", places), prints), False),
        )

    def places(self, locs: pa.ChunkedArray) -> pa.Int32Array:
        """Return the row of each URL, null for a new one."""
        wanted, earlier = _one(locs), _one(self.rows.column("loc"))
        if self._distinct is None:
            self._distinct = len(earlier.unique()) == len(earlier)
        for start in {self._next, 0} if self._distinct else ():  # mostly the same URLs in the same order
            if wanted.equals(earlier.slice(start, len(wanted))):
                self._next = start + len(wanted)
                return pa.array(np.arange(start, self._next, dtype=np.int32))
        places = pc.index_in(wanted, value_set=earlier)
        self._next = (pc.max(places).as_py() or 0) + 1
        return places

    def take(self, name: str, places: pa.Int32Array) -> pa.Array:
        """Return a column's value for each place, null for a new URL."""
        return _one(self.rows.column(name)).take(places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The part of one file, and how many of its URLs are new, changed, not judged, or compared with an earlier fingerprint.

    Those not judged were listed, but their earlier fingerprint is not known, or of another kind. They keep what is known.
    ``trust`` is None if dates are not compared.
    """

    data: bytes
    fresh: int
    changed: int
    unjudged: int
    compared: int
    trust: LastmodTrust | None = None


class RangeLedger:
    """The ledger of one key range, while its files are written."""

    def __init__(
        self,
        earlier: EarlierRows | None,
        at: datetime,
        kind: str,
        dating: Dating | None = None,
        earliest: str | None = None,
        *,
        finds_left: bool = False,
    ) -> None:
        """Keep what is known of the range's URLs, the time of the run, and the kind of its fingerprints.

        ``dating`` says how the run dates the entries; None: their dates are those of a column. With ``earliest`` (see
        ``earliest_day``) these dates are compared with the fingerprints. With ``finds_left``, ``left`` says which URLs left.
        """
        self._keys: list[pa.Array] | None = [] if finds_left else None
        self._known_keys: list[pa.Array] = []
        self._listed = np.zeros(0 if earlier is None else earlier.rows.num_rows, dtype=bool)
        self._earliest = earliest
        self._dating = dating
        self._earlier = earlier
        self._at = pa.scalar(at, ledger.MOMENT)
        self._kind = kind

    def left(self) -> list[str] | None:
        """Return the URLs of old shards whose rows left the range; None if not looked for.

        They are not listed, and each row that has their key now is listed under a URL that was listed with this key. So
        a row that a rule leaves out, or whose URL changed, has not left.
        """
        if self._keys is None:
            return None
        if self._earlier is None or self._listed.all():
            return []
        earlier, listed = self._earlier.rows.select(["loc", "key"]), pa.array(self._listed)
        rows = earlier.filter(pc.and_(pc.invert(listed), pc.is_valid(earlier["key"])))
        rows = rows.filter(pc.invert(pc.is_in(rows["loc"], value_set=earlier["loc"].filter(listed))))
        in_range = _counts(map(_key_texts, self._keys), rows["key"])
        of_listed = _counts(self._known_keys, rows["key"])
        pairs = zip(rows["loc"].to_pylist(), rows["key"].to_pylist(), strict=True)
        return list(dict.fromkeys(loc for loc, key in pairs if in_range[key] <= of_listed[key]))

    def saw(self, rows: pa.RecordBatch) -> None:
        """Take note of rows that belong to the range, whether they are listed or not."""
        if self._keys is not None:
            self._keys.append(rows.column("key"))

    def prints(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the fingerprints of rows."""
        return rows.column("fingerprint" if "fingerprint" in rows.schema.names else "row_hash")

    def dated(self, piece: Cleaned, rows: pa.RecordBatch, zone: str) -> Cleaned:
        """Return the entries of rows with the dates that the run gives them. A date of a row begins in ``zone``."""
        if self._dating is None or not len(piece):
            return piece
        prints = _prints(piece, self.prints(rows))
        earlier = None if self._earlier is None else self._earlier.dates_of(piece.loc, prints)
        return self._dating.dated(piece, earlier, zone)

    def judge(self, pieces: Sequence[Cleaned], keys: Sequence[pa.Array], prints: Sequence[pa.Array]) -> Judged:
        """Join the entries of one file. Keys and fingerprints are those of the rows that each piece was cleaned from."""
        locs = pa.chunked_array([piece.loc for piece in pieces])
        fingerprints = _one(pa.chunked_array([_prints(p, own) for p, own in zip(pieces, prints, strict=True)]))
        places = pa.nulls(len(locs), pa.int32()) if self._earlier is None else self._earlier.places(locs)
        first, changed_at = self._moments(places)
        lastmods = pa.chunked_array([_lastmods(piece) for piece in pieces], pa.string())
        own_keys = pa.chunked_array([_keys(p, own) for p, own in zip(pieces, keys, strict=True)], pa.string())
        unjudged, changed, trust = 0, 0, None
        if self._earlier is not None:
            if self._keys is not None:
                self._listed[places.drop_null().to_numpy()] = True
                own = _one(own_keys)
                self._known_keys.append(own.filter(pc.equal(self._earlier.take("key", places), own)))
            before = self._earlier.take("fingerprint", places)
            differs = pc.fill_null(pc.not_equal(before, fingerprints), False)
            changed = differs.true_count
            changed_at = pc.if_else(differs, self._at, changed_at) if changed else changed_at
            unjudged = before.null_count - places.null_count
            if self._earliest is not None:
                moved = pc.and_(pc.is_valid(before), self._moved(places, _one(lastmods), differs))
                trust = _trust(_one(locs), moved, differs)
        rows = {
            "loc": locs,
            "key": own_keys,
            "lastmod": lastmods,
            "fingerprint": fingerprints,
            "first_listed": first,
            "changed_at": changed_at,
        }
        data = ledger.encode(pa.table(rows, schema=ledger.SCHEMA), self._kind)
        fresh = places.null_count
        compared = len(places) - fresh - unjudged
        return Judged(data=data, fresh=fresh, changed=changed, unjudged=unjudged, compared=compared, trust=trust)

    def _moved(self, places: pa.Int32Array, lastmods: pa.StringArray, differs: pa.BooleanArray) -> pa.BooleanArray:
        """Return whether the date of each URL moved; null if it had or has none, or its day may be that of two changes."""
        assert self._earlier is not None
        moved = pc.not_equal(self._earlier.take("lastmod", places), lastmods)
        is_day = pc.equal(pc.utf8_length(lastmods), len("YYYY-MM-DD"))
        same_day = pc.and_(is_day, pc.greater_equal(lastmods, pa.scalar(self._earliest)))
        return pc.if_else(pc.and_(pc.and_(differs, pc.invert(moved)), same_day), None, moved)

    def _moments(self, places: pa.Int32Array) -> tuple[pa.Array, pa.Array]:
        """Return when each URL was listed first and changed last, before this run's changes."""
        if self._earlier is None:
            return pa.repeat(self._at, len(places)), pa.nulls(len(places), ledger.MOMENT)
        first = self._earlier.take("first_listed", places)
        if places.null_count:
            first = pc.if_else(pc.is_null(places), self._at, first)
        return first, self._earlier.take("changed_at", places)


def earliest_day(since: datetime | None) -> str:
    """Return the day from which a date without a time may stay, though its page has changed since a run: that of the run.

    The database's day may be up to twelve hours behind UTC. If the run is not known, no date without a time is judged.
    """
    return "" if since is None else (since - timedelta(hours=12)).date().isoformat()


def _trust(locs: pa.StringArray, moved: pa.BooleanArray, differs: pa.BooleanArray) -> LastmodTrust:
    """Count the URLs whose date moved, or whose page changed."""
    date_only = pc.fill_null(pc.and_not(moved, differs), False)
    page_only = pc.fill_null(pc.and_(differs, pc.invert(moved)), False)
    return LastmodTrust(
        both=pc.and_(moved, differs).true_count,
        date_only=date_only.true_count,
        page_only=page_only.true_count,
        date_only_samples=tuple(locs.filter(date_only).slice(0, TRUST_SAMPLES).to_pylist()),
        page_only_samples=tuple(locs.filter(page_only).slice(0, TRUST_SAMPLES).to_pylist()),
    )


def same_print_by_url(pieces: Sequence[Cleaned], prints: Sequence[pa.Array]) -> bool:
    """Return whether all rows of one URL have the same fingerprint. Otherwise the part depends on which one is listed."""
    seen: dict[str, int] = {}
    return all(
        seen.setdefault(loc, fingerprint) == fingerprint
        for piece, own in zip(pieces, prints, strict=True)
        for loc, fingerprint in zip(piece.loc.to_pylist(), _prints(piece, own).to_pylist(), strict=True)
    )


def _prints(piece: Cleaned, prints: pa.Array) -> pa.Int64Array:
    own = prints if piece.numbers is None else prints.take(piece.numbers)
    return own.view(pa.int64()) if pa.types.is_uint64(own.type) else own.cast(pa.int64())


def _keys(piece: Cleaned, keys: pa.Array) -> pa.StringArray:
    return _key_texts(keys if piece.numbers is None else keys.take(piece.numbers))


def _counts(keys: Iterable[pa.Array], wanted: pa.ChunkedArray) -> Counter[str]:
    counts: Counter[str] = Counter()
    for own in keys:
        counts.update(own.filter(pc.is_in(own, value_set=wanted)).to_pylist())
    return counts


def _key_texts(keys: pa.Array) -> pa.StringArray:
    if not pa.types.is_integer(keys.type):
        return keys
    return pc.binary_join_element_wise("[", keys.cast(pa.string()), "]", "")


def _lastmods(piece: Cleaned) -> pa.StringArray:
    return pa.nulls(len(piece), pa.string()) if piece.lastmods is None else lastmod_texts(piece.lastmods)


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
