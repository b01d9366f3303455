"""The oracle: one row at a time in plain Python, by the protocol's single-value functions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.protocol import (
    CURRENT,
    EXTENSIONS,
    Limits,
    RowContext,
    lastmod,
    read_changefreq,
    read_priority,
)
from airflow_sitemaps.protocol.extensions import DropRow, fragment
from airflow_sitemaps.protocol.loc import read_loc, settle
from airflow_sitemaps.protocol.markup import escape
from airflow_sitemaps.protocol.rules import Tally, Verdict, rulebook_of

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=timezone.utc)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def row_context(
    base_url: str = "https://example.com/", *, rules: Mapping[str, str] | None = None, **settings: Any
) -> RowContext:
    """A context with the settings that most tests share."""
    defaults: dict[str, Any] = {"limits": CURRENT, "max_urls": 50_000, "now": NOW, "section": "products"}
    return RowContext(base_url=base_url, rulebook=rulebook_of(rules), **{**defaults, **settings})


def small(max_byte_size: int) -> Limits:
    """A limit profile with so many bytes a file."""
    return Limits(name="small", max_urls=50_000, max_byte_size=max_byte_size, max_sitemaps=10)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One valid and normalised ``<url>``; ``extensions`` is the XML of the child elements that follow."""

    loc: str
    lastmod: date | datetime | None = None
    changefreq: str | None = None
    priority: str | None = None
    extensions: str = ""


def render_entry(entry: Entry) -> bytes:
    """One ``<url>`` element and a line end: the reference for the columnar path, which gives the same bytes."""
    parts = ["<url><loc>", escape(entry.loc), "</loc>"]
    if entry.lastmod is not None:
        parts += ["<lastmod>", lastmod.render(entry.lastmod), "</lastmod>"]
    if entry.changefreq is not None:
        parts += ["<changefreq>", entry.changefreq, "</changefreq>"]
    if entry.priority is not None:
        parts += ["<priority>", entry.priority, "</priority>"]
    parts += [entry.extensions, "</url>\n"]
    return "".join(parts).encode()


class _Dropped(Exception):
    pass


class RowJudge:
    """Rows to entries, one by one; faults go to ``tally``."""

    def __init__(self, context: RowContext) -> None:
        self.context = context
        self.tally = Tally()

    def entries(self, rows: list[dict[str, Any]]) -> list[Entry]:
        """The entries that the rows become."""
        return [entry for row in rows if (entry := self.entry(row)) is not None]

    def entry(self, row: dict[str, Any]) -> Entry | None:
        """The entry that one row becomes; None where it is dropped."""
        try:
            return self._entry(row)
        except (_Dropped, DropRow):
            return None

    def _entry(self, row: dict[str, Any]) -> Entry:
        loc, verdicts = settle(read_loc(row["loc"], self.context), self.context.rulebook)
        for rule, verdict in verdicts:
            self.tally.count(rule, verdict, [str(row["loc"])])
        if loc is None:
            raise _Dropped
        if self.context.format == "text":
            return Entry(loc=loc)
        changed = self._lastmod(row.get("lastmod"))
        changefreq = self._hint("changefreq", row.get("changefreq"), read_changefreq)
        priority = self._hint("priority", row.get("priority"), read_priority)
        parts = [
            fragment(kind, row[kind], context=self.context, tally=self.tally, where=loc)
            for kind in EXTENSIONS
            if row.get(kind)
        ]
        return Entry(loc=loc, lastmod=changed, changefreq=changefreq, priority=priority, extensions="".join(parts))

    def _fault(self, rule: str, value: object) -> Verdict:
        verdict = self.context.rulebook[rule]
        self.tally.count(rule, verdict, [str(value)])
        if verdict is Verdict.DROP_ROW:
            raise _Dropped
        return verdict

    def _lastmod(self, value: object) -> date | datetime | None:
        try:
            read = self._read(value)
            if read is not None and not lastmod.is_in_range(read):
                raise lastmod.LastmodError("lastmod-range")
        except lastmod.LastmodError as error:
            self._fault(error.rule, value)
            return None
        if read is not None and lastmod.is_future(read, self.context.now, self.context.timezone):
            return read if self._fault("lastmod-future", value) is Verdict.KEEP else None
        return read

    def _read(self, value: object) -> date | datetime | None:
        if isinstance(value, int):
            try:
                return lastmod.in_utc(EPOCH + timedelta(microseconds=value))
            except OverflowError as error:
                raise lastmod.LastmodError("lastmod-range") from error
        if isinstance(value, datetime):
            return lastmod.in_utc(value if value.tzinfo else value.replace(tzinfo=lastmod.zone(self.context.timezone)))
        return value if value is None or isinstance(value, date) else lastmod.parse(str(value), self.context.timezone)

    def _hint(self, rule: str, value: object, read: Any) -> str | None:
        try:
            return None if value is None else read(value)
        except ValueError:
            self._fault(rule, value)
            return None
