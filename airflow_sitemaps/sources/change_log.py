"""``ChangeLog``: a table or query of the keys that changed, as a user defines it; and the positions to which it was read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from math import isfinite
from typing import Any, Final

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.setting_checks import LONGEST
from airflow_sitemaps.shards.ranges import KeyPart
from airflow_sitemaps.sources.columns import TIMES, Column, Kind
from airflow_sitemaps.sources.user_texts import TEMPLATE, are_columns, is_absent_or_text, name_parts, rendered_text

SINCE: Final = "since"
ASKS_SINCE: Final = re.compile(rf"(?<![:\w\\]):{SINCE}\b(?!:)")
TEXTS: Final = ("table", "query", "position", "newest", "oldest")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLog:
    """The keys of the rows that changed, in the order of a position that grows with each commit.

    The log names the key of each row that is inserted, changed or deleted, and both keys if a key changes. A change
    whose key is NULL stands for any row: the run digests every range. Leave at least the newest change in the log;
    delete older ones in the order of their positions.

    ``query``, ``newest`` and ``oldest`` may be Jinja templates, and may use the source's ``parameters``.

    Attributes:
        table: A table of changes, such as an outbox. Give this or ``query``.
        query: SQL that selects the changes. It may use ``:since``, the last position, as the argument of a function
            (Delta's ``table_changes``); ``newest`` is then required. Give this or ``table``.
        position: The column of the position: a number or time that grows in the order of commits. It may be omitted if
            ``query`` uses ``:since``. Default: None.
        key: The columns of the key, in the order of the source's key. Default: the names of the source's key.
        overlap: How far before the last position to read again, for positions that do not follow the order of commits: a
            number for numbers, a ``timedelta`` for times. Default: None, they follow it.
        newest: SQL that selects the present position as one integer or text, if the changes do not hold it themselves.
            Default: None, the greatest position of the changes.
        oldest: SQL that selects the least position, an integer, since which the changes are complete. Used with
            ``newest``. Default: None.
        full_every: Time after which a run digests every range all the same. Default: 1 day.

    Raises:
        SourceConfigurationError: An argument is invalid.
    """

    table: str | None = None
    query: str | None = None
    position: str | None = None
    key: str | Sequence[str] | None = None
    overlap: int | timedelta | None = None
    newest: str | None = None
    oldest: str | None = None
    full_every: timedelta = timedelta(days=1)

    def __post_init__(self) -> None:
        """Check the arguments."""
        if (self.table is None) == (self.query is None):
            raise SourceConfigurationError("ChangeLog: give one of table= and query=")
        for name, is_wrong, advice in self._faults():
            if is_wrong:
                raise SourceConfigurationError(f"ChangeLog({name}={getattr(self, name)!r}): {advice}")
        if self.table is not None:
            name_parts(self.table)

    def _faults(self) -> Iterator[tuple[str, bool, str]]:
        """Yield arguments, whether they are wrong, and what to give instead. A check relies on those before it."""
        for name in TEXTS:
            value = getattr(self, name)
            is_text = is_absent_or_text(value) and not (name in ("table", "position") and TEMPLATE.search(value or ""))
            yield name, not is_text, "give a text that is not empty, or omit it; table= and position= are no templates"
        first = "the query uses :since, which has no value in the first run; give a query for the current position"
        yield "newest", self.asks_since and self.newest is None, first
        newer = "give the column by which changes are newer than the last run's, or use :since in query="
        yield "position", self.position is None and not self.asks_since, newer
        yield "oldest", self.oldest is not None and self.newest is None, "give newest= too"
        is_key = self.key is None or are_columns(self.key)
        yield "key", not is_key, "give one column, or several different ones"
        overlap = self.overlap
        if overlap is not None:
            is_apart = self.newest is not None or self.position is None
            yield "overlap", is_apart, "give position= with it, and omit newest="
            is_count = isinstance(overlap, int) and not isinstance(overlap, bool) and overlap > 0
            is_span = isinstance(overlap, timedelta) and overlap > timedelta(0)
            yield "overlap", not (is_count or is_span), "give a positive number of positions, or a positive timedelta"
        is_span = isinstance(self.full_every, timedelta) and timedelta(0) < self.full_every <= LONGEST
        yield "full_every", not is_span, f"give a positive timedelta of at most {LONGEST.days:,} days"

    @property
    def asks_since(self) -> bool:
        """Whether the query takes the last position as ``:since``."""
        return self.query is not None and ASKS_SINCE.search(self.query) is not None

    def key_columns(self, default: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the key; ``default`` are those of the source's key."""
        if self.key is None:
            return tuple(default)
        return (self.key,) if isinstance(self.key, str) else tuple(self.key)

    def identity(self) -> list[object]:
        """Return what a position depends on, as JSON values."""
        return [*(getattr(self, name) for name in TEXTS), list(self.key_columns(()))]

    def rendered(self, render: Callable[[str], str]) -> ChangeLog:
        """Return a copy with its Jinja templates rendered. The message of a ``TemplateError`` names the argument."""
        texts: dict[str, Any] = {
            name: rendered_text(render, f"change_log.{name}=", value)
            for name in ("query", "newest", "oldest")
            if (value := getattr(self, name)) is not None
        }
        return replace(self, **texts)


TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d*))?)?)?(?: ?(?:Z|UTC|([+-]\d\d)(?::?(\d\d))?))?"
)
"""A time whose text sorts as the time does."""
AHEAD: Final = timedelta(days=1)
"""How far a position may be ahead of the database's clock: a time without a zone is up to 14 hours ahead of UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a change log was read to. An empty text stands for what the database does not say.

    ``value`` is None for a change log without a change. ``log`` is a hash of all that the position depends on. ``rows``
    has the number of changes at this position, and the least and greatest value of each of their key columns: they show
    whether the changes are the same as before. ``table`` is the identity of the source's table, ``oldest`` the oldest
    open transaction.
    """

    value: KeyPart | None
    log: str
    kind: str = ""
    rows: tuple[KeyPart | None, ...] = ()
    table: str = ""
    oldest: str = ""

    def text(self) -> str:
        """Return the position as a text that ``of`` reads."""
        parts = [self.value, self.log, self.kind, self.rows, self.table, self.oldest]
        return json.dumps(parts, ensure_ascii=False)

    @classmethod
    def of(cls, text: str) -> Position | None:
        """Return a position from its text, or None if the text is not one."""
        try:
            value, log, kind, rows, table, oldest = json.loads(text)
            return cls(value=value, log=log, kind=kind, rows=tuple(rows), table=table, oldest=oldest)
        except (ValueError, TypeError, RecursionError):
            return None


def is_less(left: KeyPart, right: KeyPart) -> bool | None:
    """Return whether a stated position is before another. None: texts of different lengths may sort in another order."""
    try:
        return int(left) < int(right)
    except ValueError:
        texts = str(left), str(right)
        alike = len(texts[0]) == len(texts[1]) or all(TIME.fullmatch(text) for text in texts)
        return texts[0] < texts[1] if alike else None


def hiding(value: KeyPart, column: Column | None, now: datetime) -> str:
    """Return why later changes have no greater position, or "". ``column`` is None for a stated position."""
    text = str(value)
    if column is not None and column.kind is Kind.NUMBER and not isfinite(float(text)):
        return f"the greatest position of its change log is {text}, and no later change has a greater one. Correct it"
    if TIME.fullmatch(text):
        is_ahead = text.replace("T", " ") > f"{now + AHEAD:%Y-%m-%d %H:%M:%S}"
    else:
        # Infinity, or a year after 9999.
        is_ahead = column is not None and column.kind in TIMES and not text.endswith("BC") and not text.startswith("-")
    if not is_ahead:
        return ""
    return (
        f"the greatest position of its change log, {text}, is later than the database's clock ({now:%Y-%m-%d %H:%M} UTC), and "
        "hides every change until then. Correct it"
    )


def earlier(column: Column, text: str, overlap: timedelta) -> str | None:
    """Return a time before another, both in the database's own text, or None if it is infinite or out of range."""
    match = TIME.fullmatch(text.strip())
    if match is None:
        return None
    day, hour, minute, second, fraction, zone, zone_minutes = match.groups("00")
    try:
        # Python 3.10 reads no other number of digits
        written = f"{day}T{hour}:{minute}:{second}.{fraction[:6]:0<6}{zone:+>3}:{zone_minutes}"
        begin = datetime.fromisoformat(written) - overlap
        utc = begin.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None
    if column.kind is Kind.DATE:
        return begin.date().isoformat()
    return (utc if column.kind is Kind.ZONED else begin).replace(tzinfo=None).isoformat(" ", "microseconds")
