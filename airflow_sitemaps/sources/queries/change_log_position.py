"""Where a change log was read to, and whether its positions can be compared."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from math import isfinite
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.sources.columns import TIMES, Kind

if TYPE_CHECKING:
    from airflow_sitemaps.shards.key import KeyPart
    from airflow_sitemaps.sources.columns import Column

TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d*)?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?")
"""A time whose text sorts as the time does."""
AHEAD: Final = timedelta(days=1)
"""How far a position may be ahead of the database's clock: a time without a zone is up to 14 hours ahead of UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a change log was read to.

    Attributes:
        value: The position, or None for a change log without a change.
        log: Hash of all that the position depends on.
        kind: Kind of the position. Default: "".
        rows: Number of changes at this position, and the least and greatest value of each of their key columns. They
            show whether the changes at the position are the same as before. Default: none.
        table: The identity of the source's table, or "" if the database does not say it. Default: "".
        oldest: The oldest open transaction, or "" if the database does not say it. Default: "".
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


def sorts_as_text(value: KeyPart) -> bool:
    """Return whether a position from a column of texts is a time, whose text sorts as the time does."""
    return TIME.fullmatch(str(value)) is not None


def hiding(value: KeyPart, column: Column | None, now: datetime) -> str:
    """Return why later changes have no greater position than this one, or "" if they do.

    Args:
        value: The greatest position.
        column: The column of the position, or None for a position that a query states.
    """
    text = str(value)
    if column is not None and column.kind is Kind.NUMBER and not isfinite(float(text)):
        return f"the greatest position of its change log is {text}, and no later change has a greater one. Correct it"
    if sorts_as_text(text):
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


def earlier(column: Column, text: str, overlap: timedelta) -> str:
    """Return a time before another, both in the database's own text."""
    moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    begin = moment - overlap
    if column.kind is Kind.DATE:
        return begin.strftime("%Y-%m-%d")
    if column.kind is Kind.ZONED and begin.tzinfo is not None:
        begin = begin.astimezone(timezone.utc)
    return begin.strftime("%Y-%m-%d %H:%M:%S.%f")
