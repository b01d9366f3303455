"""The column types of each database, and values that are hard to hold or to read of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.support.hostile_values import SOURCES, TEXTS, W

if TYPE_CHECKING:
    from collections.abc import Mapping

Values = Callable[[str], st.SearchStrategy[str]]
"""The SQL expressions of values for a field, by its name."""

IMAGE = '[{"loc": "https://example.com/i.png", "title": "T"}]'
VIDEO = (
    '{"thumbnail_loc": "https://example.com/t.jpg", "title": "T", "description": "D",'
    ' "content_loc": "https://example.com/v.mp4"}'
)
NEWS = '{"publication": {"name": "P", "language": "en"}, "publication_date": "2026-02-28T10:00:00Z", "title": "T"}'
GROUP = '{"group": [{"hreflang": "de", "href": "https://example.com/a"}, {"hreflang": "en", "href": "/b"}]}'
NAMED: Mapping[str, st.SearchStrategy[str]] = {
    "loc": st.integers(0, 10**6).map(lambda n: f"{W}/p/{n}"),
    "a": st.integers(0, 10**6).map(str),
    "b": st.sampled_from(["x", "y/z", "é", "a b"]),
    "lastmod": st.sampled_from(["2026-02-28", "2026-02-28 10:00:00", "2026-02-28T10:00:00+02:00", "1772300000"]),
    "changefreq": st.sampled_from(["daily", "weekly"]),
    "priority": st.sampled_from(["0.5", "1", "0"]),
    "images": st.just(IMAGE),
    "videos": st.just(VIDEO),
    "news": st.just(NEWS),
    "alternates": st.sampled_from([GROUP, '[{"hreflang": "de", "href": "https://example.com/a"}]']),
    "group": st.integers(0, 9).map(str),
    "language": st.sampled_from(["de", "en", "fr", "pt-BR", "x-default"]),
    "title": st.sampled_from(["A title", "Ünï"]),
    "description": st.sampled_from(["A description", ""]),
}
"""What each field expects."""
DRAWN: Mapping[str, st.SearchStrategy[str]] = {
    **SOURCES,
    "a": TEXTS,
    "b": TEXTS,
    "group": st.one_of(TEXTS, st.sampled_from(["", "0", " ", "00", "A", "a", "ä"])),
    "language": st.one_of(TEXTS, st.sampled_from(["İd", "sv-ſE", "de_DE", "EN", "", "x-DEFAULT", "de-UK"])),
    "title": TEXTS,
    "description": TEXTS,
}
"""What nobody expects of each field."""


@dataclass(frozen=True)
class Kind:
    """A column type of a database.

    Attributes:
        sql: The type as a column's definition has it.
        values: Values to insert, as SQL.
        is_text: Whether it holds any text.
        setup: Statements that create the type.
    """

    sql: str
    values: Values
    is_text: bool = False
    setup: tuple[str, ...] = ()


# ---------------------------------------------------------------- literals


def text_sql(database: str, data: bytes) -> str:
    """A text of these bytes, as SQL: the database refuses or repairs bytes that it cannot hold."""
    written = data.hex()
    return {
        "sqlite": f"CAST(x'{written}' AS TEXT)",
        "postgresql": f"convert_from(decode('{written}', 'hex'), 'UTF8')",
        "duckdb": f"decode(unhex('{written}'))",
        "mariadb": f"CONVERT(x'{written}' USING utf8mb4)" if written else "''",
        "clickhouse": f"unhex('{written}')",
    }[database]


def suffixed(database: str, value: str, number: str) -> str:
    """A text with a number at its end, as SQL."""
    return {
        "sqlite": f"{value} || {number}",
        "postgresql": f"{value} || CAST({number} AS text)",
        "duckdb": f"{value} || {number}",
        "mariadb": f"CONCAT({value}, {number})",
        "clickhouse": f"concat({value}, toString({number}))",
    }[database]


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def texts(database: str, *more: str) -> Values:
    """Any text for the field, huge ones, and texts of the database's own."""
    huge = {
        "sqlite": "replace(hex(zeroblob(20000)), '00', 'é[')",
        "postgresql": "repeat('é[', 20000)",
        "duckdb": "repeat('é[', 20000)",
        "mariadb": "REPEAT('é[', 20000)",
        "clickhouse": "repeat('é[', 20000)",
    }[database]

    def values(name: str) -> st.SearchStrategy[str]:
        drawn = DRAWN[name].map(lambda text: text_sql(database, encoded(text)))
        own = (*more,) if name in ("loc", "a", "b", "language") else (huge, *more)
        return st.one_of(drawn, drawn, drawn, drawn, st.sampled_from(own)) if own else drawn

    return values


def literals(*expressions: str) -> Values:
    return lambda _name: st.sampled_from(expressions)


def quoted(*values: str) -> Values:
    return literals(*(f"'{value}'" for value in values))


def integers(bits: int, *, signed: bool = True) -> Values:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    usual = [n for n in (0, 1, -1, 5, 1_772_300_000, 1_772_300_000_000, 1_772_300_000_000_000) if least <= n <= most]
    drawn = st.one_of(st.sampled_from([least, most, *usual]), st.integers(least, most))
    return lambda _name: drawn.map(str)


NUMBERS = ("0", "0.5", "1", "-0.5", "1.00000000000000001", "1e-30", "99999999999999999999", "1772300000.5")
FLOATS = ("1e308", "-1e308", "5e-324", "1.7976931348623157e308", "0.1", "1e16", "123456789.123456789")
BYTES = st.one_of(
    st.binary(max_size=12), TEXTS.map(encoded), TEXTS.map(lambda text: text.encode("cp1251", "replace")),
    TEXTS.map(lambda text: text.encode("utf-16", "surrogatepass")), TEXTS.map(lambda text: text.encode("shift-jis", "replace")),
    st.sampled_from([b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x00", b"\xff\xfe", b"%FF"]),
)  # fmt: skip
DAYS = ("2026-02-28", "0001-01-01", "9999-12-31", "1582-10-10", "2030-01-01", "1970-01-01")
TIMES = (*(f"{day} 23:59:59.999999" for day in DAYS), "2026-03-29 02:30:00", "2026-10-25 02:30:00")
CLOCKS = ("00:00:00", "23:59:59.999999", "24:00:00", "23:59:60")


def hexed(form: str) -> Values:
    return lambda _name: BYTES.map(lambda data: form.format(data.hex()))


# ---------------------------------------------------------------- the types of each database


def _sqlite() -> list[Kind]:
    text = texts("sqlite")
    numbers = ("9e999", "-9e999", "9223372036854775807", "1e-400", *NUMBERS, *FLOATS)
    data = hexed("CAST(x'{}' AS TEXT)")
    blobs = hexed("x'{}'")

    def anything(name: str) -> st.SearchStrategy[str]:
        return st.one_of(text(name), st.sampled_from(numbers), data(name), blobs(name))

    declared = (
        "",
        "INTEGER",
        "REAL",
        "NUMERIC",
        "BLOB",
        "DATETIME",
        "BOOLEAN",
        "DECIMAL(10, 5)",
        "VARCHAR(10)",
        "JSON",
    )
    return [
        Kind("TEXT", text, is_text=True),
        Kind("TEXT COLLATE NOCASE", text, is_text=True),
        *(Kind(sql, anything) for sql in declared),
        Kind("TEXT", anything),
    ]


def _postgresql() -> list[Kind]:
    text = texts("postgresql")
    as_json = texts("postgresql", r"""'{"title": "\ud800"}'""", "'[NaN]'", "'[1e999]'", "'null'")
    days = quoted(*DAYS, "infinity", "-infinity", "4713-01-01 BC", "294276-12-31")
    moments = quoted(
        *TIMES, "infinity", "-infinity", "4713-01-01 00:00:00 BC", "294276-12-31 23:59:59", "0044-03-15 BC"
    )
    numbers = quoted(*NUMBERS, "NaN", "Infinity", "-Infinity", "1e400", "1e-400", "-1e400")
    arrays = literals("'{}'", "'{NULL}'", """'{"a,b","c\\"d"}'""", "ARRAY['x', NULL, '']", "'{{a},{b}}'")
    return [
        Kind("text", text, is_text=True),
        Kind("varchar(3000)", text, is_text=True),
        Kind('text COLLATE "C"', text, is_text=True),
        Kind("char(20)", text),
        Kind("name", text),
        Kind('"char"', quoted("", "a", "\\303")),
        Kind("smallint", integers(16)),
        Kind("integer", integers(32)),
        Kind("bigint", integers(64)),
        Kind("numeric", numbers),
        Kind("numeric(38, 20)", quoted(*NUMBERS, "NaN")),
        Kind("real", quoted(*NUMBERS, "NaN", "Infinity", "1e-45", "3.4e38")),
        Kind("double precision", quoted(*NUMBERS, *FLOATS, "NaN", "Infinity", "-Infinity")),
        Kind("money", quoted("0.5", "-1", "92233720368547758.07")),
        Kind("boolean", literals("true", "false")),
        Kind("bytea", hexed("decode('{}', 'hex')")),
        Kind("uuid", quoted("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")),
        Kind("date", days),
        Kind("timestamp", moments),
        Kind("timestamp(0)", moments),
        Kind("timestamptz", moments),
        Kind("time", quoted(*CLOCKS)),
        Kind("timetz", quoted("23:59:59+15:59", "00:00:00-15:59")),
        Kind("interval", quoted("1 year -3 days 00:00:01", "-178000000 years", "infinity")),
        Kind("json", lambda name: as_json(name).map(lambda value: f"CAST({value} AS json)")),
        Kind("jsonb", lambda name: as_json(name).map(lambda value: f"CAST({value} AS jsonb)")),
        Kind("text[]", arrays),
        Kind("integer[]", quoted("{}", "{1,NULL}", "[0:1]={1,2}")),
        Kind("timestamptz[]", quoted("{infinity}", "{2026-01-01}")),
        Kind("point", quoted("(NaN,Infinity)", "(1,2)")),
        Kind("inet", quoted("::1", "10.0.0.0/8")),
        Kind("bit varying(70)", literals("B'0101'", "B''", "B'" + "1" * 70 + "'")),
        Kind("xml", quoted("<a>&amp;</a>", "<a/>")),
        Kind("tsvector", quoted("a:1 b", "")),
        Kind("int4range", quoted("empty", "[1,)")),
        Kind("tstzrange", quoted("[-infinity,infinity]", "(,)")),
        Kind("jsonpath", quoted("$.a", "$[*]")),
        Kind("pg_lsn", quoted("0/0", "FFFFFFFF/FFFFFFFF")),
        Kind("oid", quoted("0", "4294967295")),
        Kind(
            "hostile_mood", quoted("ok", "", "ü/&"),
            setup=("DROP TYPE IF EXISTS hostile_mood CASCADE", "CREATE TYPE hostile_mood AS ENUM ('ok', '', 'ü/&')"),
        ),
        Kind(
            "hostile_pair", literals("ROW(1, 'a')", "ROW(NULL, NULL)"),
            setup=("DROP TYPE IF EXISTS hostile_pair CASCADE", "CREATE TYPE hostile_pair AS (n integer, t text)"),
        ),
    ]  # fmt: skip


def _duckdb() -> list[Kind]:
    text = texts("duckdb", "chr(0) || 'a'", r"""'{"title": "\ud800"}'""")
    numbers = quoted(*NUMBERS)
    floats = quoted(*NUMBERS, *FLOATS, "NaN", "Infinity", "-Infinity")
    moments = quoted(
        *TIMES,
        "infinity",
        "-infinity",
        "0044-03-15 (BC) 00:00:00",
        "290309-12-22 (BC) 00:00:00",
        "294247-01-10 04:00:54",
    )
    nested = [
        ("VARCHAR[]", ("[]", "[NULL]", "['a', 'b,c']", "['''', '\"']")),
        ("INTEGER[3]", ("[1, NULL, 3]",)),
        (
            "STRUCT(loc VARCHAR, n DOUBLE)",
            ("{'loc': 'https://example.com/i.png', 'n': 'NaN'}", "{'loc': NULL, 'n': 0}"),
        ),
        ("STRUCT(loc VARCHAR)[]", ("[{'loc': 'https://example.com/i.png'}]", "[]", "[NULL]")),
        ("MAP(VARCHAR, VARCHAR)", ("map {'loc': 'x'}", "map {}")),
        ("UNION(n INTEGER, t VARCHAR)", ("5", "'text'")),
        ("TIMESTAMP[]", ("['infinity']",)),
    ]
    return [
        Kind("VARCHAR", text, is_text=True),
        Kind("VARCHAR COLLATE NOCASE", text, is_text=True),
        *(Kind(f"{sign}{name}", integers(bits, signed=not sign))
          for sign in ("", "U") for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("INTEGER", 32), ("BIGINT", 64), ("HUGEINT", 128))),
        Kind("BIGNUM", integers(900)),
        Kind("FLOAT", floats),
        Kind("DOUBLE", floats),
        Kind("DECIMAL(38, 20)", numbers),
        Kind("DECIMAL(4, 3)", numbers),
        Kind("BOOLEAN", literals("true", "false")),
        Kind("BLOB", hexed("unhex('{}')")),
        Kind("BIT", quoted("0101", "1" * 70)),
        Kind("UUID", quoted("00000000-0000-0000-0000-000000000000")),
        Kind("DATE", quoted(*DAYS, "infinity", "-infinity", "0044-03-15 (BC)", "5881580-07-10")),
        *(Kind(kind, moments) for kind in ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ")),
        Kind("TIME", quoted(*CLOCKS)),
        Kind("TIMETZ", quoted("23:59:59+15:59", "24:00:00")),
        Kind("INTERVAL", quoted("1 year -3 days", "178000000 years")),
        Kind("JSON", lambda name: text(name).map(lambda value: f"CAST({value} AS JSON)")),
        Kind("ENUM('ok', '', 'ü/&')", quoted("ok", "", "ü/&")),
        *(Kind(sql, literals(*(f"CAST({value} AS {sql})" for value in values))) for sql, values in nested),
    ]  # fmt: skip


def _mariadb() -> list[Kind]:
    text = texts("mariadb")
    charsets = ("latin1", "cp1251", "utf8mb3", "ucs2", "utf16", "utf32", "sjis", "gbk", "koi8r")
    numbers = quoted(*NUMBERS, *FLOATS)
    moments = quoted(*TIMES, "0000-00-00 00:00:00", "2026-00-31 00:00:00", "2026-02-31 10:00:00", "not a time")

    def of_charset(charset: str) -> Values:
        data = (
            hexed(f"CONVERT(x'{{}}' USING {charset})")
            if charset not in ("ucs2", "utf16", "utf32")
            else hexed(f"_{charset} x'{{}}'")
        )
        return lambda name: st.one_of(text(name), data(name))

    return [
        Kind("LONGTEXT", text, is_text=True),
        Kind("TEXT", text, is_text=True),
        Kind("VARCHAR(2500)", text, is_text=True),
        *(Kind(f"VARCHAR(700) CHARACTER SET {charset}", of_charset(charset)) for charset in charsets),
        Kind("CHAR(20)", text),
        *(Kind(f"{name}{sign}", integers(bits, signed=not sign)) for sign in ("", " UNSIGNED")
          for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))),
        Kind("DECIMAL(65, 30)", numbers),
        Kind("DECIMAL(4, 3)", numbers),
        Kind("FLOAT", numbers),
        Kind("DOUBLE", numbers),
        Kind("BIT(40)", literals("b'0101'", "0", "1099511627775")),
        Kind("BOOLEAN", literals("0", "1", "7")),
        Kind("BINARY(5)", hexed("x'{}'")),
        Kind("VARBINARY(60)", hexed("x'{}'")),
        Kind("LONGBLOB", hexed("x'{}'")),
        Kind("JSON", text),
        Kind("DATE", quoted(*DAYS, "0000-00-00", "2026-02-31", "2026-00-00")),
        Kind("DATETIME", moments),
        Kind("DATETIME(6)", moments),
        Kind("TIMESTAMP(6) NULL", moments),
        Kind("TIME(6)", quoted("-838:59:59", "838:59:59", *CLOCKS)),
        Kind("YEAR", quoted("0", "1901", "2155")),
        Kind("ENUM('ok', 'ü/&')", quoted("ok", "ü/&", "none of them")),
        Kind("SET('a', 'b')", quoted("a,b", "", "a")),
        Kind("UUID", quoted("00000000-0000-0000-0000-000000000000")),
        Kind("INET6", quoted("::1", "10.0.0.1")),
        Kind("POINT", literals("POINT(1, 2)")),
    ]  # fmt: skip


def _clickhouse() -> list[Kind]:
    """Types that cannot be NULL hold their default value instead."""
    text = texts("clickhouse", r"""'{"title": "\\ud800"}'""")
    data = hexed("unhex('{}')")
    numbers = quoted(*NUMBERS)
    floats = quoted(*NUMBERS, *FLOATS, "nan", "inf", "-inf")
    days = quoted(*DAYS, "1900-01-01", "2299-12-31", "2149-06-06")
    moments = quoted(*TIMES, "1900-01-01 00:00:00", "2299-12-31 23:59:59", "2106-02-07 06:28:15")
    nested = [
        ("Array(Nullable(String))", ("[]", "[NULL]", "['a', 'b,c', '\\'']")),
        ("Array(Array(Int64))", ("[]", "[[1, 2], []]")),
        ("Tuple(loc String, n Float64)", ("('https://example.com/i.png', nan)", "('', 0)")),
        ("Map(String, String)", ("map('loc', 'x')", "map()")),
        ("Array(Tuple(loc String))", ("[tuple('https://example.com/i.png')]",)),
    ]
    return [
        Kind("Nullable(String)", lambda name: st.one_of(text(name), data(name)), is_text=True),
        Kind("String", text, is_text=True),
        Kind("LowCardinality(Nullable(String))", text, is_text=True),
        Kind("Nullable(FixedString(8))", data),
        *(Kind(f"Nullable({sign}Int{bits})", integers(bits, signed=not sign)) for sign in ("", "U")
          for bits in (8, 16, 32, 64, 128, 256)),
        Kind("Nullable(Float32)", floats),
        Kind("Nullable(Float64)", floats),
        Kind("Nullable(Decimal(38, 20))", numbers),
        Kind("Nullable(Decimal(4, 3))", numbers),
        Kind("Nullable(Decimal(76, 40))", numbers),
        Kind("Nullable(Bool)", literals("true", "false")),
        Kind("Nullable(UUID)", quoted("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")),
        Kind("Nullable(Date)", days),
        Kind("Nullable(Date32)", days),
        *(Kind(f"Nullable({sql})", moments) for sql in (
            "DateTime", "DateTime('Europe/Berlin')", "DateTime64(0)", "DateTime64(6)", "DateTime64(9, 'America/New_York')",
        )),
        Kind("Nullable(Enum8('ok' = 1, '' = 2, 'ü/&' = 3))", quoted("ok", "", "ü/&")),
        Kind("Nullable(IPv4)", quoted("10.0.0.1", "255.255.255.255")),
        Kind("Nullable(IPv6)", quoted("::1", "ffff::")),
        *(Kind(sql, literals(*(f"CAST({value}, '{sql}')" for value in values))) for sql, values in nested),
    ]  # fmt: skip


@cache
def kinds_of(database: str) -> tuple[Kind, ...]:
    """The column types of a database."""
    makers: dict[str, Any] = {
        "sqlite": _sqlite,
        "postgresql": _postgresql,
        "duckdb": _duckdb,
        "mariadb": _mariadb,
        "clickhouse": _clickhouse,
    }
    return tuple(makers[database]())
