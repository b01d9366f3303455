"""Pairs of values that differ, and that a database's own hash or comparison of their type cannot tell apart.

``python -m tests.support.hash_collisions postgresql …`` looks for them on live databases and prints them as JSON lines, as
``tests/sources/data/hash_collisions.jsonl`` keeps them. The values are structured, because random ones do not collide: halves
exchanged, neighbours beyond 53 bits, two characters changed, another case, a blank at the end, another scale, -0.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

from tests.support.databases import database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST = 3
"""The number of pairs that are kept of one search."""


@dataclass(frozen=True)
class Search:
    """Values of one type, as SQL literals, and what the database makes of a value ``v`` of it."""

    type: str
    values: Sequence[str]
    own: str
    text: str = ""
    """SQL of the text that is published, where a plain cast is not it."""


def quoted(*values: object) -> list[str]:
    return [f"'{value}'" for value in values]


SMALL = range(1, 12)
HALVES = [(high << 32) | low for high, low in product((0, *SMALL), repeat=2)]
INTEGERS = [
    str(n) for n in (*HALVES, *(~n for n in HALVES), *(2**53 + n for n in range(4)), *(2**62 + n for n in range(4)))
]
MOMENTS = [datetime(2000, 1, 1) + timedelta(microseconds=n) for n in HALVES]
MOMENTS += [datetime(2024, 5, 1, 21, 0, 11), datetime(2024, 12, 26, 11, 37, 34)]
TIMES = quoted(*(moment.isoformat(" ", "microseconds") for moment in MOMENTS))
CLOCKS = quoted(*(moment.time().isoformat("microseconds") for moment in MOMENTS if moment < datetime(2000, 1, 2)))
FLOATS = ["'0'", "'-0'", *quoted(*(1 + n * 1e-7 for n in range(9)), *(1 + n * 2**-52 for n in range(4)))]
SCALES = quoted("1", "1.0", "1.00", "1e2", "100")
TEXTS = quoted("a", "A", "ä", "á", "a ", "a  ", "ss", "ß", "e", "é")
DIGITS = quoted(*(f"{'p' * pad}{n}-words-{m}-more" for pad, n, m in product(range(8), range(10), range(10))))
UUIDS = quoted(*(f"0000000{a:x}-0000-4{b:x}00-8000-000000000000" for a, b in product(range(16), repeat=2)))
BYTES = [f"x'{value}'" for value in ("61", "41", "6100", "610000", "6120", "20", "", "c3a4")]
EIGHT_APART = "hash(encode({}))"

SEARCHES = {
    "postgresql": [
        Search("bigint", INTEGERS, "hashint8extended(v, 0)"),
        Search("timestamp", TIMES, "timestamp_hash_extended(v, 0)"),
        Search("timestamptz", TIMES, "timestamp_hash_extended(CAST(v AS timestamp), 0)"),
        Search("time", CLOCKS, "time_hash_extended(v, 0)"),
        Search("interval", quoted("1 month", "30 days", "720 hours", "1 day", "24 hours"), "interval_hash_extended(v, 0)"),
        Search("double precision", FLOATS, "hashfloat8extended(v, 0)"),
        Search("real", FLOATS, "hashfloat4extended(v, 0)"),
        Search("numeric", SCALES, "hash_numeric_extended(v, 0)"),
        Search("jsonb", quoted("[1]", "[1.0]", "[1e2]", "[100.0]"), "jsonb_hash_extended(v, 0)"),
        Search("timestamp[]", [f"'{{{value[1:-1]}}}'" for value in TIMES], "hash_array_extended(v, 0)"),
        Search("numeric[]", ["'{1}'", "'{1.0}'"], "hash_array_extended(v, 0)"),
        Search("text", TEXTS, "lower(v)"),
        Search("varchar(9)", TEXTS, "CAST(v AS char(9))"),
    ],
    "duckdb": [
        Search("VARCHAR", DIGITS, EIGHT_APART.format("strlen(v) || ':' || v")),
        Search("UUID", UUIDS, EIGHT_APART.format("v || '|'")),
        Search("BIGINT", [f"1000000{n}0000000{m}00" for n, m in product(range(10), repeat=2)], EIGHT_APART.format("v || '|'")),
        Search("DECIMAL(38, 10)", [f"12345.0{n}0000000{m}" for n, m in product(range(10), repeat=2)], EIGHT_APART.format("v || '|'")),
        Search("BLOB", DIGITS, EIGHT_APART.format("strlen(v::VARCHAR) || ':' || v")),
        Search("DOUBLE", FLOATS, "CAST(v + 0.0 AS FLOAT)"),
        Search("VARCHAR COLLATE NOCASE", TEXTS, "lower(v)"),
        Search("TIMESTAMP_NS", quoted(*(f"2024-01-01 00:00:00.00000000{n}" for n in range(3))), "CAST(v AS TIMESTAMP)"),
        Search("INTERVAL", quoted("1 month", "30 days", "720 hours"), "hash(v = INTERVAL '30 days')"),
    ],
    "mariadb": [
        Search("BIGINT", INTEGERS, "CAST(v AS DOUBLE)"),
        Search("BIGINT UNSIGNED", [str(2**64 - n) for n in range(1, 5)], "CAST(v AS DOUBLE)"),
        Search("DOUBLE", FLOATS, "CAST(v + 0 AS FLOAT)"),
        Search("VARCHAR(40)", TEXTS, "HEX(WEIGHT_STRING(v COLLATE utf8mb4_general_ci))"),
        Search("VARCHAR(40) CHARACTER SET latin1", TEXTS, "HEX(WEIGHT_STRING(v COLLATE latin1_swedish_ci))"),
        Search("VARBINARY(9)", BYTES, "LOWER(CONVERT(v USING utf8mb4))", "HEX(v)"),
        Search("DATETIME(6)", TIMES, "CAST(v AS DATETIME(0))"),
        Search("TIMESTAMP(6) NULL", TIMES[:9], "CAST(v AS DATETIME(0))"),
        Search("DECIMAL(40, 20)", quoted(*(f"1.000000000000000000{n:02d}" for n in range(4))), "CAST(v AS DOUBLE)"),
        Search("BIT(64)", [str(2**62 + n) for n in range(4)], "CAST(v + 0 AS DOUBLE)", "CAST(v + 0 AS CHAR)"),
    ],
    "sqlite": [
        Search("INTEGER", INTEGERS, "CAST(v AS REAL)"),
        Search("TEXT COLLATE NOCASE", TEXTS, "lower(v)"),
        Search("TEXT", [*TEXTS, *(f"'a' || char(0) || '{n}'" for n in range(3))], "rtrim(substr(v, 1, length(v)))"),
        Search("BLOB", ["'1'", "'1.0'", "1.0", "'1e0'"], "CAST(v AS REAL)"),
    ],
    "clickhouse": [
        Search("Int64", INTEGERS, "toFloat64(v)"),
        Search("UInt64", [str(2**64 - n) for n in range(1, 5)], "toFloat64(v)"),
        Search("Float64", FLOATS, "toFloat32(v + 0)"),
        Search("Decimal(38, 20)", quoted(*(f"1.000000000000000000{n:02d}" for n in range(4))), "toFloat64(v)"),
        Search("String", TEXTS, "lowerUTF8(trimRight(v))"),
        Search("DateTime64(9, 'UTC')", quoted(*(f"2024-01-01 00:00:00.00000000{n}" for n in range(3))), "toUnixTimestamp64Micro(v)"),
        Search("LowCardinality(String)", TEXTS, "lowerUTF8(v)"),
    ],
}  # fmt: skip


def pairs(name: str, search: Search) -> Iterator[tuple[str, str]]:
    """Literals of values with different texts, of which the database's own function makes the same."""
    base = database(name)
    end = " ENGINE = MergeTree ORDER BY tuple()" if name == "clickhouse" else ""
    rows = ", ".join(f"({number}, {value})" for number, value in enumerate(search.values))
    base.run(
        "DROP TABLE IF EXISTS candidates",
        f"CREATE TABLE candidates (id INTEGER, v {search.type}){end}",
        f"INSERT INTO candidates VALUES {rows}",
    )
    kind = {"mariadb": "CHAR", "clickhouse": "String"}.get(name, "TEXT")
    text = search.text or f"CAST(v AS {kind})"
    found = base.rows(f"SELECT id, {search.own}, {text} FROM candidates ORDER BY id")
    seen: dict[object, tuple[int, object]] = {}
    for number, own, shown in found:
        first = seen.setdefault(own, (number, shown))
        if first[1] != shown:
            yield search.values[first[0]], search.values[number]


def main() -> None:
    """Print what is found on the databases that the command line names."""
    for name in sys.argv[1:]:
        for search in SEARCHES[name]:
            found = list(pairs(name, search))
            for before, after in found[:: max(1, len(found) // MOST)][:MOST]:
                print(
                    json.dumps({"database": name, "type": search.type, "alike": search.own, "values": [before, after]})
                )


if __name__ == "__main__":
    main()
