"""Warehouses without a server: their own SQLAlchemy dialects, over statements that sqlglot transpiles and DuckDB runs.

What runs is the shape of each statement, its NULLs, its arithmetic and its types. The row hashes are stand-ins, and
no limit, cost or collation of the warehouse is tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Final

import sqlalchemy as sa

MODULES: Final = {
    "bigquery": "sqlalchemy_bigquery",
    "trino": "trino",
    "redshift": "redshift_connector",
}
"""The module of each warehouse's driver or dialect, which ``make test-warehouses`` installs."""
NAMES: Final = tuple(MODULES) if all(map(find_spec, (*MODULES.values(), "sqlglot"))) else ()
"""The warehouses that can be executed: all of them, in the environment of `make test-warehouses`, or none."""

TRAVEL: Final = re.compile(r"`(\w+)` FOR SYSTEM_TIME AS OF (TIMESTAMP '[^']+')")
HISTORY: Final = (
    r"(SELECT * EXCEPT (since, until) FROM `\1_history` WHERE since <= \2 AND (until IS NULL OR until > \2))"
)
"""BigQuery's time travel over a table of all row versions, ``…_history``, with the time of each."""

STAND_INS: Final = (
    "CREATE MACRO farm_fingerprint(x) AS CAST(hash(x) % 9223372036854775807 AS BIGINT)",
    "CREATE MACRO xxhash64(x) AS hash(x)",
    "CREATE MACRO from_big_endian_64(x) AS CAST(x % 9223372036854775807 AS BIGINT)",
    "CREATE MACRO json_serialize(x) AS CAST(to_json(x) AS VARCHAR)",
    "CREATE MACRO getdate() AS CAST(now() AT TIME ZONE 'UTC' AS TIMESTAMP)",
    "CREATE MACRO range_bucket(x, ends) AS CASE WHEN x IS NOT NULL THEN len(list_filter(ends, lambda e: e <= x)) END",
    "CREATE MACRO bins_bucket(x, ends) AS len(list_filter(ends, lambda e: e <= CAST(x AS DOUBLE)))",
)
"""Functions that DuckDB lacks. Those of hashes have another value than the warehouse's; the others have its meaning."""
RENAMED: Final = {
    "trino": ((re.compile(r"\bWIDTH_BUCKET\("), "BINS_BUCKET("),),
    "redshift": ((re.compile(r"\bOCTET_LENGTH\("), "STRLEN("),),
    "bigquery": (
        # A BIGNUMERIC that is whole has no decimals in its text; DuckDB's stand-in has five.
        (re.compile(r"CAST\(row_hash AS DECIMAL\(38, 5\)\)"), "CAST(row_hash AS HUGEINT)"),
        (re.compile(r"\bOCTET_LENGTH\((?=CAST\(TO_JSON\()"), "STRLEN("),
    ),
}
"""What means something else in DuckDB, or is lacking for the type."""

SNOWFLAKE_STAND_INS: Final = (
    "octet_length(x) AS strlen(CAST(x AS VARCHAR))",
    # As sqlglot writes MD5_NUMBER_LOWER64, which it does not know.
    "m_d5_number_lower64(x) AS CAST(CAST('0x' || substr(md5(x), 17) AS UBIGINT) AS DECIMAL(20, 0))",
)
"""Functions that fakesnow lacks, with Snowflake's meaning."""


def teach_asof_joins() -> None:
    """Let sqlglot write Snowflake's ASOF JOIN for DuckDB, which keeps rows without a match only by LEFT."""
    from sqlglot import exp, generator  # noqa: PLC0415 - only where the warehouses' packages are
    from sqlglot.dialects import DuckDB  # noqa: PLC0415

    def join(generator: Any, expression: Any) -> str:
        matched = expression.args.get("match_condition")
        if matched is not None:
            expression = expression.copy()
            expression.set("match_condition", None)
            expression.set("on", matched.copy())
            expression.set("side", "LEFT")
        return str(generator.join_sql(expression))

    DuckDB.Generator.TRANSFORMS[exp.Join] = join
    # A generator that wrote a statement before keeps the transforms of that time.
    getattr(generator, "_DISPATCH_CACHE", {}).pop(DuckDB.Generator, None)


@dataclass(frozen=True)
class Warehouse:
    """How one warehouse's driver writes placeholders and describes columns."""

    paramstyle: str
    placeholder: re.Pattern[str]
    codes: Mapping[str, Any]


CODES: Final = {
    # DuckDB: BigQuery, Trino, and the number of Redshift's type in the wire protocol
    "BIGINT": ("INTEGER", "bigint", 20),
    "VARCHAR": ("STRING", "varchar", 1043),
    "TIMESTAMP": ("DATETIME", "timestamp(6)", 1114),
    "TIMESTAMP WITH TIME ZONE": ("TIMESTAMP", "timestamp(6) with time zone", 1184),
    "DATE": ("DATE", "date", 1082),
    "DECIMAL": ("NUMERIC", "decimal(6, 3)", 1700),
    "DOUBLE": ("FLOAT", "double", 701),
    "FLOAT": ("FLOAT", "real", 700),
    "BOOLEAN": ("BOOLEAN", "boolean", 16),
    "JSON": ("JSON", "json", 4000),
    "UUID": ("STRING", "uuid", 1043),
    "BLOB": ("BYTES", "varbinary", 6551),
}
"""By DuckDB's name of a type, what each driver calls it in a result's description."""


def _warehouse(place: int, paramstyle: str, placeholder: str) -> Warehouse:
    codes = {kind: names[place] for kind, names in CODES.items()}
    return Warehouse(paramstyle=paramstyle, placeholder=re.compile(placeholder), codes=codes)


WAREHOUSES: Final = {
    "bigquery": _warehouse(0, "pyformat", r"%\((\w+)(?::[^)]*)?\)s"),
    "trino": _warehouse(1, "qmark", r"\?"),
    "redshift": _warehouse(2, "format", r"%s"),
}


class Error(Exception):
    """The drivers' errors, as PEP 249 names them."""


def _translated(name: str, text: str) -> str:
    import sqlglot  # noqa: PLC0415 - only where the warehouses' packages are

    text = TRAVEL.sub(HISTORY, text) if name == "bigquery" else text
    translated = sqlglot.transpile(text, read=name, write="duckdb")[0]
    for pattern, other in RENAMED.get(name, ()):
        translated = pattern.sub(other, translated)
    return translated


def answer(name: str, text: str) -> tuple[list[tuple[Any, ...]], list[tuple[str, str]]]:
    """Run SQL of the warehouse, values filled in; its rows, and the names and DuckDB's types of its columns."""
    with _base_of(name).cursor() as cursor:
        cursor.execute(_translated(name, text))
        return cursor.fetchall(), [(str(entry[0]), str(entry[1])) for entry in cursor.description or ()]


class Cursor:
    """A cursor that writes values into the statement, as literals of the warehouse, and has DuckDB run it."""

    arraysize = 1

    def __init__(self, name: str, connection: Any, log: list[str]) -> None:
        self._name, self._warehouse, self._connection, self._log = name, WAREHOUSES[name], connection, log
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1

    def execute(self, operation: str, parameters: Any = None) -> None:
        import duckdb  # noqa: PLC0415 - only where the warehouses' packages are

        text = self._filled(operation, parameters)
        self._log.append(text)
        if re.match(r"\s*(/\*.*?\*/|--[^\n]*\n)?\s*SET\s", text, re.IGNORECASE | re.DOTALL):
            self.description = None
            return
        try:
            self._connection.execute(_translated(self._name, text))
        except duckdb.Error as error:
            raise Error(str(error)) from error
        self.description = [
            (entry[0], self._code(str(entry[1])), None, None, None, None, True)
            for entry in self._connection.description or ()
        ]

    def _filled(self, operation: str, parameters: Any) -> str:
        values = iter(parameters) if not isinstance(parameters, Mapping) and parameters else None

        def literal(match: re.Match[str]) -> str:
            return _literal(next(values) if values is not None else parameters[match[1]], self._name)

        text = self._warehouse.placeholder.sub(literal, operation) if parameters else operation
        return text.replace("%%", "%") if self._warehouse.paramstyle != "qmark" else text

    def _code(self, kind: str) -> Any:
        bare = kind.partition("(")[0]
        codes = self._warehouse.codes
        return codes.get(bare, codes["BIGINT" if bare in ("INTEGER", "HUGEINT") else "VARCHAR"])

    def fetchone(self) -> Any:
        return self._connection.fetchone()

    def fetchmany(self, size: int | None = None) -> Any:
        return self._connection.fetchmany(size or self.arraysize)

    def fetchall(self) -> Any:
        return self._connection.fetchall()

    def close(self) -> None:
        self._connection.close()


def _literal(value: Any, name: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (bool, int, float)):
        return repr(value)
    text = str(value.isoformat(" ") if isinstance(value, date) else value)
    if name in ("bigquery", "redshift"):
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "''") + "'"


BYTES_OF_VALUE: Final = 8
"""The bytes of an INT64 in BigQuery; the stand-in counts every value so."""


class DryRuns:
    """BigQuery's client, for dry runs only: the bytes of all values of the columns that a query names."""

    def __init__(self, base: Any, log: list[str]) -> None:
        self._base, self._log = base, log

    def query(self, sql: str, job_config: Any) -> Any:
        import sqlglot  # noqa: PLC0415 - only where the warehouses' packages are
        from sqlglot import exp  # noqa: PLC0415

        assert job_config.dry_run
        assert not job_config.use_query_cache
        self._log.append(f"DRY RUN {sql}")
        (tree,) = sqlglot.parse(sql, read="bigquery")
        assert tree is not None
        named = {column.name.lower() for column in tree.find_all(exp.Column)}
        byte_size = 0
        with self._base.cursor() as cursor:
            for table in {table.name for table in tree.find_all(exp.Table)}:
                columns = {row[0].lower() for row in cursor.execute(f'DESCRIBE "{table}"').fetchall()}
                (rows,) = cursor.execute(f'SELECT COUNT(*) FROM "{table}"').fetchone()
                byte_size += rows * len(columns & named) * BYTES_OF_VALUE
        return SimpleNamespace(total_bytes_processed=byte_size)


class Connection:
    """A driver's connection."""

    catalog, schema = "memory", None

    def __init__(self, name: str, base: Any, log: list[str]) -> None:
        self._name, self._base, self._log = name, base, log

    @property
    def _client(self) -> DryRuns:
        return DryRuns(self._base, self._log)

    def cursor(self, *_arguments: Any, **_options: Any) -> Cursor:
        return Cursor(self._name, self._base.cursor(), self._log)

    def commit(self) -> None:
        """Every statement commits itself."""

    def rollback(self) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """The database stays for the other connections."""


class Driver:
    """What SQLAlchemy asks of a driver's module."""

    apilevel, threadsafety = "2.0", 1
    Error = DatabaseError = OperationalError = InterfaceError = ProgrammingError = Error

    def __init__(self, name: str) -> None:
        self.name, self.paramstyle = name, WAREHOUSES[name].paramstyle

    def connect(self) -> Connection:
        return Connection(self.name, _base_of(self.name), STATEMENTS[self.name])


@cache
def _base_of(name: str) -> Any:
    """One database in memory for each warehouse of the process, in UTC."""
    import duckdb  # noqa: PLC0415 - only where the warehouses' packages are

    base = duckdb.connect(":memory:")
    base.execute("SET GLOBAL TimeZone = 'UTC'")
    for sql in STAND_INS:
        base.execute(sql)
    return base


STATEMENTS: Final[dict[str, list[str]]] = {name: [] for name in WAREHOUSES}
"""The statements that each warehouse received, in its own SQL, values filled in."""


def _dialect_of(name: str) -> Callable[[], sa.Dialect]:
    if name == "bigquery":
        from sqlalchemy_bigquery import BigQueryDialect as Real  # noqa: PLC0415
    elif name == "trino":
        from trino.sqlalchemy.dialect import TrinoDialect as Real  # noqa: PLC0415
    else:
        from airflow_sitemaps.sources.dialects.redshift import (  # noqa: PLC0415
            RedshiftConnectorDialect as Real,
        )

    class Transpiled(Real):  # type: ignore[misc, valid-type]
        """The real dialect; it asks no server for its settings."""

        supports_statement_cache = True

        @classmethod
        def import_dbapi(cls) -> Any:
            return Driver(name)

        def create_connect_args(self, _url: sa.URL) -> tuple[list[Any], dict[str, Any]]:
            return [], {}

        def initialize(self, connection: Any) -> None:
            """There is no server to ask."""

        def get_isolation_level(self, _connection: Any) -> str:
            return "AUTOCOMMIT"

        def do_rollback(self, _connection: Any) -> None:
            """Nothing is open."""

    return Transpiled


def url(name: str) -> str:
    """The URL that makes an engine of the warehouse's own dialect."""
    registered = f"transpiled_{name}"
    sa.dialects.registry.impls[registered] = lambda: _dialect_of(name)
    return f"{registered}://localhost/memory"


def run(name: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run SQL of DuckDB itself, past the warehouse's dialect; the rows of the last statement."""
    cursor = _base_of(name).cursor()
    try:
        for statement in statements:
            cursor.execute(statement)
        return [tuple(row) for row in cursor.fetchall()]
    finally:
        cursor.close()
