"""A DuckDB table of any number of the benchmark's rows, made quickly, and the changes that are measured on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from benchmarks import data

if TYPE_CHECKING:
    from pathlib import Path

SEED_ROWS: Final = 1_000_000
"""Rows that are generated one by one; a larger table repeats them with numbers of their own."""
MEMORY: Final = "3GB"
"""DuckDB's own limit, of the measured tasks too; it spills to disk beyond it."""
CREATE: Final = (
    f"CREATE TABLE {data.TABLE} (id BIGINT, loc VARCHAR NOT NULL, lastmod TIMESTAMP WITH TIME ZONE,"
    " changefreq VARCHAR, priority DOUBLE)"
)


def fill(path: Path, rows: int) -> None:
    """Make the table. Equal numbers of rows make equal tables."""
    import duckdb
    import pyarrow as pa

    seeds = min(rows, SEED_ROWS)
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"SET memory_limit = '{MEMORY}'")
        connection.execute(CREATE)
        given = pa.Table.from_batches(data.batches(seeds))
        connection.register("given", given)
        for start in range(0, rows, seeds):
            shift = f"id + {start:d}"
            connection.execute(
                f"INSERT INTO {data.TABLE} SELECT {shift}, replace(loc, '-' || id, '-' || ({shift})), lastmod, changefreq,"
                f" priority FROM given WHERE {shift} < {data.FIRST_ID + rows:d} ORDER BY id"
            )
        connection.execute("CHECKPOINT")


def change(path: Path, sql: str) -> int:
    """Execute a statement that changes rows; their number."""
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.execute(f"SET memory_limit = '{MEMORY}'")
        connection.execute("SET TimeZone = 'UTC'")
        row: Any = connection.execute(sql).fetchone()
        connection.execute("CHECKPOINT")
        return int(row[0])


def count(path: Path) -> int:
    """The rows that the table has now."""
    return change(path, f"SELECT count(*) FROM {data.TABLE}")


def clustered(rows: int) -> str:
    """Change 0.1 % of the rows, neighbours in the middle of the table."""
    first = data.FIRST_ID + rows // 2
    return f"{_TOUCH} WHERE id >= {first:d} AND id < {first + max(1, rows // 1_000):d}"


def scattered() -> str:
    """Change 0.1 % of the rows, every thousandth."""
    return f"{_TOUCH} WHERE id % 1000 = 7"


def hole(rows: int) -> str:
    """Delete 5 % of the rows, neighbours."""
    first = data.FIRST_ID + rows * 2 // 5
    return f"DELETE FROM {data.TABLE} WHERE id >= {first:d} AND id < {first + rows // 20:d}"


_TOUCH: Final = (
    f"UPDATE {data.TABLE} SET priority = CASE WHEN priority = 0.9 THEN 0.7 ELSE 0.9 END,"
    " lastmod = TIMESTAMPTZ '2026-11-01 00:00:00+00'"
)
