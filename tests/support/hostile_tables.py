"""Tables of hostile rows: a column of any type that a database has for every field, filled from values drawn for it.

Hypothesis draws the columns and a pool of values for each of them. The database refuses what its types cannot hold;
what it takes is mixed into rows by a drawn seed, so that a few thousand draws make hundreds of different rows.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.support.hostile_types import NAMED, Kind, kinds_of, suffixed, text_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.databases import Database

TABLE = "hostile_rows"
SHOWN = 200
POOL = 14
"""Values drawn for each column. As many again are NULL, or of the kind that the field expects."""

HUGE_SHARE = 0.05
"""How often a huge value is picked, relative to others: a few rows of each table hold one, and reading them costs little."""


def is_huge(value: str) -> bool:
    """Whether an SQL expression gives a text of more than about 5,000 characters."""
    return len(value) > 5_000 or "20000" in value


@dataclass(frozen=True)
class HostileColumn:
    """A column: its type, and the values to try, as SQL expressions."""

    name: str
    kind: Kind
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.kind.sql}: {[value[:SHOWN] for value in self.values]}"


@dataclass(frozen=True)
class HostileTable:
    """What was drawn for a table: its columns, how many rows, and how they are mixed."""

    columns: tuple[HostileColumn, ...]
    """Their names begin with ``c_``: some fields are called like a word of SQL."""
    rows: int
    seed: int
    indexed: bool
    null_keys: bool

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Hypothesis shows this for a failure: whole, the values have hundreds of kilobytes."""
        lines = "".join(f"\n  {column}" for column in self.columns)
        printer.text(f"{self.rows} rows, seed {self.seed}, indexed {self.indexed}, null keys {self.null_keys}:{lines}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@st.composite
def column_of(draw: st.DrawFn, database: str, name: str) -> HostileColumn:
    """A column for a field: half of the columns are text, the others of any type that the database has."""
    kinds = kinds_of(database)
    texts = [kind for kind in kinds if kind.is_text]
    kind = draw(st.one_of(st.sampled_from(texts), st.sampled_from(kinds)))
    if name == "loc" and draw(st.integers(0, 4)):
        kind = draw(st.sampled_from(texts))  # numbers and the like are no URLs, and nothing would be listed
    hostile = kind.values(name)
    drawn = draw(st.lists(hostile, min_size=4, max_size=POOL))
    usual = draw(st.lists(NAMED[name], min_size=4, max_size=POOL))
    values = [*drawn, *(text_sql(database, value.encode()) for value in usual)]
    return HostileColumn(f"c_{name}", kind, tuple(values))


@st.composite
def tables(draw: st.DrawFn, database: str, names: tuple[str, ...], rows: int) -> HostileTable:
    """A table with a column for each name."""
    return HostileTable(
        columns=tuple(draw(column_of(database, name)) for name in names),
        rows=rows,
        seed=draw(st.integers(0, 2**32)),
        indexed=draw(st.booleans()),
        null_keys=draw(st.booleans()),
    )


@dataclass
class Filled:
    """A table in a database, and how its rows are changed."""

    base: Database
    table: HostileTable
    connection: Any
    taken: dict[str, list[int]] = field(default_factory=dict)
    """By column the numbers of the values that the database took."""
    weights: dict[str, list[float]] = field(default_factory=dict)
    """By column how often each of them is picked."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.table.seed)
        self._next = 1
        for column in self.table.columns:
            self._fill_pool(column)
        self._create()
        self.add(self.table.rows)
        if self.table.null_keys:
            self.run(self.base.update_of(TABLE, "id = NULL", "nr % 41 = 0"))

    def run(self, sql: str) -> None:
        self.connection.cursor().execute(sql)

    def count(self) -> int:
        cursor = self.connection.cursor()
        cursor.execute(f"SELECT COUNT(*) FROM {TABLE}")
        return int(cursor.fetchone()[0])

    def add(self, number: int) -> None:
        """Insert rows that mix the values of the pools."""
        first, self._next = self._next, self._next + number
        names = self.table.names
        rows = ", ".join(
            f"({nr}, {', '.join(str(self._pick(name)) for name in names)}, {self._random.choice((0, 1, 1))})"
            for nr in range(first, self._next)
        )
        self.run("DELETE FROM hostile_mix WHERE 1 = 1")
        self.run(f"INSERT INTO hostile_mix VALUES {rows}")
        joins = " ".join(f"LEFT JOIN pool_{name} ON pool_{name}.n = m.{name}" for name in names)
        values = ", ".join(self._mixed(column) for column in self.table.columns)
        nulls = " SETTINGS join_use_nulls = 1" if self.base.name == "clickhouse" else ""
        self.run(f"INSERT INTO {TABLE} SELECT m.nr, m.nr, {values} FROM hostile_mix m {joins}{nulls}")

    def remove(self, number: int) -> None:
        """Delete rows, chosen at random."""
        self.run(f"DELETE FROM {TABLE} WHERE nr IN ({self._some(number)})")

    def change(self, number: int) -> None:
        """Give rows other values in their places: they keep their keys."""
        chosen = self._some(number)
        self.run(f"DELETE FROM {TABLE} WHERE nr IN ({chosen})")
        before = self._next
        self.add(number)
        for old, new in zip(chosen.split(","), range(before, self._next), strict=True):
            self.run(self.base.update_of(TABLE, f"id = {old}", f"nr = {new}"))

    def _some(self, number: int) -> str:
        return ",".join(str(nr) for nr in self._random.sample(range(1, self._next), number))

    def _pick(self, name: str) -> str:
        if not self.taken[name]:
            return "NULL"
        return str(self._random.choices(self.taken[name], self.weights[name])[0])

    def _mixed(self, column: HostileColumn) -> str:
        value = f"pool_{column.name}.v"
        if column.name == "c_loc" and column.kind.is_text:
            return f"CASE WHEN m.suffixed = 1 THEN {suffixed(self.base.name, value, 'm.nr')} ELSE {value} END"
        return value

    @property
    def _engine(self) -> str:
        """The end of a table's definition."""
        return " ENGINE = MergeTree ORDER BY tuple()" if self.base.name == "clickhouse" else ""

    def _create(self) -> None:
        whole = self.base.types["integer"]
        names = ", ".join(f"{name} {whole}" for name in self.table.names)
        self.run("DROP TABLE IF EXISTS hostile_mix")
        self.run(f"CREATE TABLE hostile_mix (nr {whole}, {names}, suffixed {whole}){self._engine}")
        columns = ", ".join(f"{column.name} {column.kind.sql}" for column in self.table.columns)
        self.run(f"DROP TABLE IF EXISTS {TABLE}")
        self.run(f"CREATE TABLE {TABLE} (id {whole}, nr {whole}, {columns}){self._engine}")
        if self.table.indexed and self.base.name != "clickhouse":
            self.run(f"CREATE UNIQUE INDEX {TABLE}_key ON {TABLE} (id)")

    def _fill_pool(self, column: HostileColumn) -> None:
        pool = f"pool_{column.name}"
        self.run(f"DROP TABLE IF EXISTS {pool}")
        if column.kind.setup:
            for statement in column.kind.setup:
                self.run(statement)
        self.run(f"CREATE TABLE {pool} (n {self.base.types['integer']}, v {column.kind.sql}){self._engine}")
        taken = [n for n, value in enumerate(column.values) if self._takes(pool, n, value)]
        self.taken[column.name] = taken
        self.weights[column.name] = [HUGE_SHARE if is_huge(column.values[n]) else 1.0 for n in taken]

    def _takes(self, pool: str, number: int, value: str) -> bool:
        try:
            self.run(f"INSERT INTO {pool} VALUES ({number}, {value})")
        except Exception:  # the driver's own errors, of any of its classes: the type cannot hold the value
            return False
        return True


@contextmanager
def filled(base: Database, table: HostileTable) -> Iterator[Filled]:
    """The table in its database, replacing the one before."""
    engine = base.engine()
    raw = engine.raw_connection()
    driver: Any = raw.driver_connection
    if base.name == "sqlite":
        driver.isolation_level = None
    elif base.name == "mariadb":
        driver.autocommit(True)
        driver.cursor().execute("SET SESSION sql_mode = ''")
    elif base.name == "postgresql":
        driver.autocommit = True
    try:
        yield Filled(base, table, driver)
    finally:
        raw.close()
        engine.dispose()
