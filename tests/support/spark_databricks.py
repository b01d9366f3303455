"""Databricks without a workspace: its SQLAlchemy dialect and its connector's cursor, over a local Spark session.

Spark runs the text of each statement unchanged, with its named parameters, and answers in Arrow; the connector's own
result set hands that out. Tables are kept in DuckDB, which changes rows, and Spark reads a Parquet file of each. There is
no Delta: no table version, no time travel, no change data feed.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable

MODULES: Final = ("pyspark", "databricks.sqlalchemy", "databricks.sql", "duckdb")
REGISTERED: Final = "spark_databricks"
ROWS_AT_ONCE: Final = 50
"""The rows of one answer, so that results come in several parts."""

STATEMENTS: Final[list[str]] = []
"""The statements that Spark received."""


def lacking() -> str | None:
    """What is missing to run Spark, or None."""
    for module in MODULES:
        try:
            if find_spec(module) is None:
                return f"{module} is not installed: make test-warehouses"
        except ModuleNotFoundError:
            return f"{module} is not installed: make test-warehouses"
    if shutil.which("java") is None:
        return "Java is not installed (Debian: apt-get install openjdk-17-jre-headless)"
    return None


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="airflow-sitemaps-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _spark() -> Any:
    """The session of this process, with one thread, in UTC."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only where the warehouses' packages are

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(_folder() / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        # Queries of few rows: generating and compiling code takes longer than running them.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    maker = SparkSession.builder.master("local[1]").appName("airflow-sitemaps")
    for name, value in settings.items():
        maker = maker.config(name, value)
    session = maker.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    atexit.register(session.stop)
    return session


@cache
def _base() -> Any:
    import duckdb  # noqa: PLC0415 - only where the warehouses' packages are

    base = duckdb.connect(":memory:")
    base.execute("SET GLOBAL TimeZone = 'UTC'")
    return base


def run(*statements: str) -> list[tuple[Any, ...]]:
    """Run SQL of DuckDB, and let Spark read each table that it names; the rows of the last statement."""
    cursor = _base().cursor()
    for statement in statements:
        cursor.execute(statement)
    rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
    if not all(statement.lstrip().upper().startswith("SELECT") for statement in statements):
        _hand_over(cursor, " ".join(statements))
    cursor.close()
    return rows


def _hand_over(cursor: Any, statements: str) -> None:
    for (table,) in cursor.execute("SELECT table_name FROM information_schema.tables").fetchall():
        if re.search(rf"\b{re.escape(table)}\b", statements):
            path = _folder() / f"{table}_{_version()}.parquet"
            cursor.execute(f"COPY \"{table}\" TO '{path}' (FORMAT parquet)")
            _spark().read.parquet(str(path)).createOrReplaceTempView(f"`{table}`")


def _version(numbers: list[int] = [0]) -> int:  # noqa: B006 - the count of files
    numbers[0] += 1
    return numbers[0]


class Backend:
    """What the connector's cursor asks of its backend: run a statement, and fetch the parts of its rows."""

    def __init__(self) -> None:
        self._table: Any = None
        self._start = 0

    def execute_command(self, operation: str, parameters: Any, cursor: Any, **_settings: Any) -> Any:
        from databricks.sql.backend.types import CommandState, ExecuteResponse  # noqa: PLC0415
        from databricks.sql.exc import ServerOperationError  # noqa: PLC0415
        from databricks.sql.result_set import ThriftResultSet  # noqa: PLC0415
        from pyspark.errors import PySparkException  # noqa: PLC0415

        STATEMENTS.append(operation)
        values = {given.name: _value(given) for given in parameters}
        try:
            frame = _spark().sql(operation, args=values or None)
            self._table, self._start = frame.toArrow(), 0
        except PySparkException as error:
            raise ServerOperationError(str(error)) from error
        described = [
            (
                field.name,
                field.dataType.typeName(),
                None,
                None,
                getattr(field.dataType, "precision", None),
                getattr(field.dataType, "scale", None),
                True,
            )
            for field in frame.schema
        ]
        response = ExecuteResponse(
            command_id=SimpleNamespace(to_hex_guid=lambda: "1"),
            status=CommandState.SUCCEEDED,
            description=[_described(entry) for entry in described],
            lz4_compressed=False,
        )
        return ThriftResultSet(cursor.connection, response, self, use_cloud_fetch=False, arraysize=cursor.arraysize)

    def fetch_results(self, **_settings: Any) -> Any:
        from databricks.sql.utils import ArrowQueue  # noqa: PLC0415

        part = self._table.slice(self._start, ROWS_AT_ONCE)
        self._start += ROWS_AT_ONCE
        return ArrowQueue(part, part.num_rows), self._start < self._table.num_rows, 0

    def close_command(self, _command: Any) -> None:
        """Nothing is left at the server."""


NAMES: Final = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
"""By the name of a type in Python, that of Databricks."""


def _described(entry: tuple[Any, ...]) -> tuple[Any, ...]:
    return (entry[0], NAMES.get(entry[1], entry[1]), *entry[2:])


def _value(given: Any) -> Any:
    text = None if given.value is None else given.value.stringValue
    if text is None:
        return None
    if given.type in ("INT", "BIGINT", "SMALLINT", "TINYINT"):
        return int(text)
    return {"DOUBLE": float, "FLOAT": float, "BOOLEAN": lambda word: word == "true"}.get(given.type, str)(text)


class Connection:
    """What the cursor and SQLAlchemy ask of the connector's connection."""

    use_inline_params, lz4_compression, use_cloud_fetch, disable_pandas = False, False, False, False
    staging_allowed_local_path = None
    telemetry_enabled, open, http_client = False, True, None
    session = SimpleNamespace(session_id="1", host="localhost", open=True)

    def get_session_id_hex(self) -> str:
        return "1"

    def cursor(self, *_arguments: Any, **_options: Any) -> Any:
        from databricks.sql.client import Cursor  # noqa: PLC0415 - only where the warehouses' packages are

        return Cursor(self, Backend())  # type: ignore[arg-type]

    def commit(self) -> None:
        """Every statement commits itself."""

    def rollback(self) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """The session stays for the other connections."""


def _dialect() -> Callable[[], sa.Dialect]:
    from databricks.sqlalchemy import DatabricksDialect  # noqa: PLC0415 - only where the warehouses' packages are

    class OverSpark(DatabricksDialect):  # type: ignore[misc]
        """The real dialect, whose connections are those to Spark."""

        supports_statement_cache = True

        def connect(self, *_arguments: Any, **_settings: Any) -> Connection:
            return Connection()

        def initialize(self, connection: Any) -> None:
            """There is no workspace to ask."""

    return OverSpark


def url() -> str:
    """The URL that makes an engine of Databricks' own dialect over Spark."""
    sa.dialects.registry.impls[REGISTERED] = _dialect  # type: ignore[assignment]
    return f"{REGISTERED}://token:secret@localhost/?http_path=/sql&catalog=main&schema=default"
