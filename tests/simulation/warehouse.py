"""A changing source: tables of rows that are inserted, changed, moved, truncated and reloaded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.support.simulated_source import Change

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

BASE: Final = "https://www.example.com/"
KEYS: Final = 400
MAX_CHANGES: Final = 60
"""Number of changes that a change log keeps."""
AGES: Final = tuple(timedelta(hours=hours) for hours in (0, 7, 20, 35, 47, 60))
"""Ages of articles."""


@dataclass(frozen=True, slots=True)
class RecentChanges(Sequence[Change]):
    """The change log of a table, as it is at each access.

    Attributes:
        table: The table.
        key: The key columns of the section.
    """

    table: Table
    key: str | tuple[str, ...]

    def __len__(self) -> int:
        return len(self._changes)

    def __getitem__(self, index: Any) -> Any:
        return self._changes[index]

    @property
    def _changes(self) -> list[Change]:
        return self.table.logged((self.key,) if isinstance(self.key, str) else self.key)


@dataclass(slots=True)
class Table:
    """The rows of one section. Some lastmods are the current time.

    ``moved`` collects the locs of rows whose key changed.
    """

    name: str
    random: Random
    now: Callable[[], datetime]
    rows: list[dict[str, Any]] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    loading: bool = False
    changes: int = 0
    lost: list[dict[str, Any]] = field(default_factory=list)
    rare: Random = field(init=False)
    _number: int = 0
    _log: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    _recorded: dict[str, dict[str, Any]] = field(default_factory=dict)
    _recorded_changes: int = 0

    def __post_init__(self) -> None:
        self.rare = Random(self.name)

    def owns(self, loc: str) -> bool:
        """Return whether a row has, or once had, this URL."""
        return loc.startswith(f"{BASE}{self.name}/")

    def fill(self, number: int, first: int = 20) -> None:
        """Insert rows with gaps between their keys."""
        self.changes += 1
        for place in range(number):
            self.rows.append(self._row(first + place * 10))

    def lose(self, random: Random) -> str:
        """Lose half of the rows, or have the lost rows again."""
        if self.loading:
            return "is loading"
        self.changes += 1
        if self.lost:
            self.rows += self.lost
            self.lost.clear()
            return f"{self.name}: the lost rows are back"
        self.lost = random.sample(self.rows, len(self.rows) // 2)
        self.rows[:] = [row for row in self.rows if row not in self.lost]
        return f"{self.name}: {len(self.lost)} rows are lost"

    def change(self) -> str:
        """Make one random change, and return its description."""
        if self.loading:
            return "is loading"
        self.changes += 1
        kinds = [
            self._insert,
            self._append,
            self._update,
            self._silent,
            self._delete,
            self._move,
            self._several,
            self.flip,
        ]
        return self.random.choices(kinds, (4, 3, 4, 2, 4, 1, 1, 2))[0]()

    def reload(self, pause: Callable[[str], None]) -> None:
        """Truncate the table, and insert its rows again in steps."""
        if self.loading:
            return
        self.loading = True
        kept = list(self.rows)
        self.rows.clear()
        self.changes += 1
        pause(f"{self.name}: truncated")
        size = self.random.choice((2, 5, 11))
        for start in range(0, len(kept), size):
            self.rows.extend(kept[start : start + size])
            self.changes += 1
            pause(f"{self.name}: {min(start + size, len(kept))} of {len(kept)} rows are loaded again")
        self.loading = False

    def record(self) -> None:
        """Add the rows that changed since the last call to the change log, which keeps the last ``MAX_CHANGES`` of them."""
        if self.changes == self._recorded_changes:
            return
        self._recorded_changes = self.changes
        current = {str(row["loc"]): dict(row) for row in self.rows}
        position = self._log[-1][0] if self._log else 0
        for loc in sorted({*self._recorded, *current}):
            before, now = self._recorded.get(loc), current.get(loc)
            if before != now:
                position += 1
                self._log += [(position, row) for row in (before, now) if row is not None]
        del self._log[:-MAX_CHANGES]
        self._recorded = current

    def logged(self, columns: tuple[str, ...]) -> list[Change]:
        """Return the recorded changes, with the values of these columns as keys. A key with a NULL is None."""
        keys = [(position, tuple(row[column] for column in columns)) for position, row in self._log]
        return [(position, None if None in key else key) for position, key in keys]

    def rewrite(self, random: Random) -> str:
        """Change the page of a row, perhaps back to an earlier one."""
        if not self.rows:
            return "is loading"
        self.changes += 1
        row = random.choice(self.rows)
        row["title"] = random.choice("abc")
        return f"{self.name}: {row['loc']} has the title {row['title']}"

    def make_publishable(self) -> None:
        """Insert a row that every rule accepts, if there is none."""
        if not any(row["id"] is not None and row["priority"] not in (7, 9) for row in self.rows):
            self.fill(1)
            self.changes += 1
            self.rows[-1]["priority"] = None

    def arrive(self) -> str:
        """Insert a valid row whose lastmod is the current time, and return its loc."""
        row = {**self._row(self._key()), "lastmod": self._moment(), "priority": None}
        row |= _article(self.now(), self._number)
        self.rows.append(row)
        self.changes += 1
        return str(row["loc"])

    def _row(self, key: int | None) -> dict[str, Any]:
        self._number += 1
        return {
            **_keys(key),
            "loc": f"{BASE}{self.name}/{self._number}",
            "lastmod": self._lastmod(),
            "title": "a",
            "changefreq": self.random.choice(("daily", None)),
            "priority": self.random.choice((0.5, 0.8, 7, None)),
            **_article(self.now() - self.rare.choice(AGES), self._number),
        }

    def _lastmod(self) -> str | None:
        day = self.random.randint(1, 28)
        return self.random.choice(
            (f"2026-01-{day:02d}", f"2025-11-{day:02d}T08:00:00Z", "2026-01-16T09:00:00Z", self._moment(), None)
        )

    def _moment(self) -> str:
        return f"{self.now():%Y-%m-%dT%H:%M:%SZ}"

    def _one(self) -> dict[str, Any]:
        return self.random.choice(self.rows)

    def _key(self) -> int:
        return self.random.randint(1, KEYS)

    def _insert(self) -> str:
        row = self._row(self._key())
        self.rows.append(row)
        return f"{self.name}: insert {row['id']} {row['loc']}"

    def _append(self) -> str:
        top = max((row["id"] for row in self.rows if row["id"] is not None), default=0)
        number = self.random.randint(1, 4)
        self.rows.extend(self._row(top + 1 + n) for n in range(number))
        return f"{self.name}: append {number} after {top}"

    def _update(self) -> str:
        if not self.rows:
            return self._insert()
        row = self._one()
        row["lastmod"] = self._lastmod()
        return f"{self.name}: update {row['loc']} lastmod {row['lastmod']}"

    def _silent(self) -> str:
        if not self.rows:
            return self._insert()
        row = self._one()
        row["priority"] = self.random.choice((0.1, 0.5, 0.8, 9, None))
        return f"{self.name}: silent update {row['loc']} priority {row['priority']}"

    def _delete(self) -> str:
        if len(self.rows) < 4:
            return self._insert()
        start = self.random.randrange(len(self.rows))
        number = self.random.choice((1, 1, 2, 5))
        gone = sorted(self.rows, key=lambda row: row["id"] or 0)[start : start + number]
        self.rows[:] = [row for row in self.rows if row not in gone] or self.rows[:1]
        return f"{self.name}: delete {len(gone)} from {gone[0]['id']}"

    def _move(self) -> str:
        if not self.rows:
            return self._insert()
        row = self._one()
        self.moved.add(row["loc"])
        row.update(_keys(self.random.choice((None, self._key(), self._key(), self._key()))))
        return f"{self.name}: move {row['loc']} to key {row['id']}"

    def flip(self) -> str:
        """Change a value back to an earlier one."""
        if not self.rows:
            return "is loading"
        self.changes += 1
        row = self.rows[self.random.randrange(min(3, len(self.rows)))]
        row["priority"] = 0.1 if row["priority"] == 0.8 else 0.8
        return f"{self.name}: flip {row['loc']} to {row['priority']}"

    def _several(self) -> str:
        for row in self.rows:
            row["changefreq"] = "weekly"
        return f"{self.name}: all rows are stamped"


def _article(published: datetime, number: int) -> dict[str, Any]:
    """Return the columns of a news article."""
    record = {"publication": {"name": "Paper", "language": "en"}, "title": f"Article {number}"}
    record["publication_date"] = f"{published:%Y-%m-%dT%H:%M:%SZ}"
    return {"published": published.replace(microsecond=0), "news": json.dumps(record)}


def _keys(number: int | None) -> dict[str, Any]:
    """Return every column that may be a key: a number, a text in another order, and a part that many rows share."""
    if number is None:
        return {"id": None, "code": None, "shop": None}
    return {"id": number, "code": f"{number % 7}-{number:05d}", "shop": f"s{number % 3}"}
