"""Connections as users have them: each row of docs/connections.md makes an engine, from the providers that are installed."""

from __future__ import annotations

import json
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import sqlalchemy as sa

from airflow_sitemaps.errors import ConfigurationError, ConnectionNotFoundError, SourceConfigurationError
from airflow_sitemaps.shards.ranges import KeyRange
from airflow_sitemaps.sources import session_factory
from airflow_sitemaps.sources.dialects import dialect_of, extra_of_type
from airflow_sitemaps.sources.session_factory import engine_of
from airflow_sitemaps.sources.sql import SqlSource
from airflow_sitemaps.web_services import password_and_extra

PAGE = Path(__file__).parents[2] / "docs" / "connections.md"
ROWS = dict(re.findall(r"^\| ([\w, ]+) \| .*?AIRFLOW_CONN_WAREHOUSE='(.+?)'` \|$", PAGE.read_text(), re.MULTILINE))
"""By warehouse, the connection that the page shows."""
DIALECTS = {
    "PostgreSQL": ("postgresql", "airflow.providers.postgres"),
    "DuckDB": ("duckdb", "duckdb_engine"),
    "MySQL, MariaDB": ("mysql", "pymysql"),
    "SQLite": ("sqlite", "sqlite3"),
    "Snowflake": ("snowflake", "airflow.providers.snowflake"),
    "BigQuery": ("bigquery", "sqlalchemy_bigquery"),
    "Redshift": ("redshift", "redshift_connector"),
    "Databricks": ("databricks", "databricks.sqlalchemy"),
    "Trino": ("trino", "airflow.providers.trino"),
    "ClickHouse": ("clickhouse", "clickhouse_connect"),
}
"""By warehouse, the name of its dialect here, and a module that its extra installs."""


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture
def engine_for(monkeypatch: pytest.MonkeyPatch) -> Any:
    engines: list[sa.Engine] = []

    def make(connection: str | dict[str, Any]) -> sa.Engine:
        text = connection if isinstance(connection, str) else json.dumps(connection)
        monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", text)
        engines.append(engine_of("warehouse", writing=True))
        return engines[-1]

    yield make
    for engine in engines:
        engine.dispose()


def test_the_table_names_each_warehouse() -> None:
    assert set(ROWS) == set(DIALECTS)


@pytest.mark.parametrize("warehouse", DIALECTS)
def test_each_row_of_the_table_makes_an_engine(
    warehouse: str, engine_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, module = DIALECTS[warehouse]
    if not is_installed(module):
        pytest.skip(f"{module} is not installed here: `make test-warehouses`")
    if warehouse == "BigQuery":
        from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415

        # No key file here: the credentials are the one part that is replaced.
        hook = import_module("airflow.providers.google.common.hooks.base_google").GoogleBaseHook
        monkeypatch.setattr(hook, "get_credentials_and_project_id", lambda _self: (AnonymousCredentials(), "acme"))
    engine = engine_for(ROWS[warehouse])
    assert dialect_of(engine.dialect).name == name


@pytest.mark.skipif(not is_installed("airflow.providers.trino"), reason="the Trino provider is not installed here")
def test_trino_connects_as_its_hook_does(engine_for: Any) -> None:
    extra = {
        "auth": "jwt",
        "jwt__token": "a.long.token",
        "protocol": "https",
        "session_properties": {"query_priority": "2"},
    }
    engine = engine_for({"conn_type": "trino", "host": "trino.acme.com", "port": 443, "login": "me", "extra": extra})
    connection: Any = engine.raw_connection().driver_connection
    assert connection.http_scheme == "https"
    assert type(connection.auth).__name__ == "JWTAuthentication"
    assert connection._client_session.properties == {"query_priority": "2"}


@pytest.mark.skipif(
    not is_installed("airflow.providers.google.common.hooks"), reason="the Google provider is not installed here"
)
def test_bigquery_takes_location_and_impersonation(engine_for: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both come from the connection's extra, by the hook (finding W1)."""
    from google.auth.credentials import AnonymousCredentials  # noqa: PLC0415

    hook = pytest.importorskip("airflow.providers.google.common.hooks.base_google").GoogleBaseHook
    asked: list[Any] = []

    def credentials(self: Any) -> tuple[Any, str]:
        asked.append(self.extras.get("impersonation_chain"))
        return AnonymousCredentials(), "acme"

    monkeypatch.setattr(hook, "get_credentials_and_project_id", credentials)
    extra = {"location": "europe-west3", "impersonation_chain": "reader@acme.iam.gserviceaccount.com"}
    engine = engine_for({"conn_type": "google_cloud_platform", "extra": extra})
    client: Any = engine.raw_connection().driver_connection._client
    assert (client.project, client.location) == ("acme", "europe-west3")
    assert asked[0] == "reader@acme.iam.gserviceaccount.com"


@pytest.mark.skipif(not is_installed("redshift_connector"), reason="redshift_connector is not installed here")
def test_redshift_connects_by_its_own_driver_and_iam(engine_for: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import redshift_connector  # noqa: PLC0415 - only where the warehouses' packages are

    given: list[dict[str, Any]] = []

    class Reached(Exception):
        """The driver is called for a connection."""

    def connect(**arguments: Any) -> None:
        given.append(arguments)
        raise Reached

    monkeypatch.setattr(redshift_connector, "connect", connect)
    extra = {"iam": True, "cluster_identifier": "mart", "db_user": "reader", "region": "eu-central-1"}
    provider = pytest.importorskip("airflow.providers.amazon.aws.hooks.redshift_sql").RedshiftSQLHook
    monkeypatch.setattr(provider, "get_iam_token", lambda _self, _connection: ("IAM:reader", "token", 5439))
    engine = engine_for({"conn_type": "redshift", "host": "mart.acme.com", "schema": "shop", "extra": extra})
    with pytest.raises(Reached):
        engine.raw_connection()
    assert {"user": "IAM:reader", "password": "token", "host": "mart.acme.com"}.items() <= given[0].items()


FORMS = {
    "sqlite URI": "sqlite:///{}",
    "sqlite JSON": {"conn_type": "sqlite", "host": "{}"},
    "sqlite JSON schema": {"conn_type": "sqlite", "schema": "{}"},
    "duckdb URI": "duckdb:///{}",
    "duckdb JSON": {"conn_type": "duckdb", "host": "{}"},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_read_though_no_provider_is_installed(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = form.split(maxsplit=1)[0]
    if kind == "duckdb":
        pytest.importorskip("duckdb_engine")
    path = tmp_path / f"mart.{kind}"
    engine = sa.create_engine(f"{kind}:///{path}")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE pages (id INTEGER, slug VARCHAR(9))"))
        connection.execute(sa.text("INSERT INTO pages VALUES (1, 'a')"))
    engine.dispose()
    shape = FORMS[form]
    text = shape if isinstance(shape, str) else json.dumps(shape)
    monkeypatch.setenv("AIRFLOW_CONN_MART", text.replace("{}", str(path)))
    with SqlSource("mart", table="pages", key="id", loc="slug").open(section="pages") as source:
        assert source.survey([KeyRange(None, None)]).digests[0].rows == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_file_that_does_not_exist_is_named_and_not_created(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form.startswith("duckdb"):
        pytest.importorskip("duckdb_engine")
    path = tmp_path / "mart.db"
    shape = FORMS[form]
    text = shape if isinstance(shape, str) else json.dumps(shape)
    monkeypatch.setenv("AIRFLOW_CONN_MART", text.replace("{}", str(path)))
    with (
        pytest.raises(
            SourceConfigurationError, match=rf"names a file '{path}' that cannot be read \(No such file"
        ) as caught,
        SqlSource("mart", table="pages", key="id", loc="slug").open(section="pages"),
    ):
        pass
    assert ("a database without a file is duckdb:///:memory:)" in str(caught.value)) == form.startswith("duckdb")
    assert "worker" not in str(caught.value)  # it may be a triggerer
    assert not path.exists()
    engine = engine_of("mart", writing=True)
    with engine.connect():
        assert path.exists()
    engine.dispose()


def test_a_duckdb_file_is_opened_for_reading_whatever_else_its_connection_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb_engine")
    mart = {"conn_type": "duckdb", "host": str(tmp_path / "mart.duckdb"), "extra": {"threads": 2}}
    monkeypatch.setenv("AIRFLOW_CONN_MART", json.dumps(mart))
    engine = engine_of("mart", writing=True)
    with engine.connect():
        pass
    engine.dispose()
    engine = engine_of("mart")
    with engine.connect() as connection, pytest.raises(sa.exc.DBAPIError, match="read-only"):
        connection.execute(sa.text("CREATE TABLE pages (id INTEGER)"))
    engine.dispose()


def test_an_argument_that_the_driver_does_not_take_is_said_with_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pymysql")
    mart = {
        "conn_type": "generic",
        "extra": {"sqlalchemy_url": "mysql+pymysql://u:s3cret@127.0.0.1:1/m?ssl_mode=REQUIRED"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_MART", json.dumps(mart))
    engine = engine_of("mart")
    with pytest.raises(SourceConfigurationError, match=r"connection 'mart': .*'pymysql' does not take: .*'ssl_mode'"):
        engine.connect()
    engine.dispose()


def test_nested_values_of_an_extra_reach_the_driver(engine_for: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pymysql, ssl, given = pytest.importorskip("pymysql"), {"ca": "/certs/ca.pem"}, list[dict[str, Any]]()
    monkeypatch.setattr(
        pymysql, "connect", lambda **arguments: given.append(arguments) or (_ for _ in ()).throw(LookupError)
    )
    monkeypatch.setattr(session_factory, "_is_installed", lambda module: module == "pymysql")
    engine = engine_for(
        {"conn_type": "mysql", "host": "db", "extra": {"ssl": ssl, "charset": "utf8mb4", "team": {"a": 1}}}
    )
    with pytest.raises(LookupError):
        engine.connect()
    assert (given[0]["ssl"], given[0]["charset"]) == (ssl, "utf8mb4")
    assert "team" not in given[0], "what no driver takes has done no harm"


@pytest.mark.parametrize("extra", ['[{"token": "s3cret"}]', "7", "true", "null"])
def test_an_extra_that_is_no_object_is_said_with_the_connection(
    extra: str, engine_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "sqlite", "host": "/data/mart.db", "password": "key", "extra": extra}
    with pytest.raises(SourceConfigurationError, match=r"connection 'warehouse': its extra is not a JSON object"):
        engine_for(connection)
    monkeypatch.setenv("AIRFLOW_CONN_INDEXNOW", json.dumps(connection))
    with pytest.raises(ConfigurationError, match=r"connection 'indexnow': its extra is not a JSON object") as caught:
        password_and_extra("indexnow", "the key")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("name", ["/data/" + "long" * 99, "~nobody-of-this-name/mart.db"])
def test_a_file_that_cannot_be_looked_for_does_not_exist(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MART", json.dumps({"conn_type": "sqlite", "host": name}))
    with pytest.raises(
        SourceConfigurationError, match=r"connection 'mart' \(type 'sqlite'\) names a file .*cannot be read"
    ):
        engine_of("mart")


def test_sqlite_takes_a_tilde_for_the_name_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of that name in the home folder does not hide it."""
    (tmp_path / "mart.db").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_MART", json.dumps({"conn_type": "sqlite", "host": "~/mart.db"}))
    with pytest.raises(SourceConfigurationError, match=r"names a file '~/mart\.db' that cannot be read \(No such file"):
        engine_of("mart")


def test_values_beside_a_url_in_the_extra_are_named_once(monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    extra = {"sqlalchemy_url": "sqlite://", "sslmode": "hunter2", "charset": "utf8mb4"}
    monkeypatch.setenv("AIRFLOW_CONN_MART", json.dumps({"conn_type": "generic", "extra": extra}))
    for _ in range(2):
        engine_of("mart").dispose()
    (line,) = caplog.messages
    assert line.startswith("connection 'mart': sqlalchemy_url is used without ['charset', 'sslmode']. Write those")
    caplog.clear()
    extra = {
        "sqlalchemy_url": "postgresql://db/shop?sslmode=require",
        "sslmode": "require",
    }  # as Airflow's hook needs it
    monkeypatch.setenv("AIRFLOW_CONN_MART", json.dumps({"conn_type": "postgres", "extra": extra}))
    engine_of("mart").dispose()
    assert caplog.messages == []


@pytest.mark.parametrize("url", ["sqlite://", "duckdb:///:memory:", "sqlite:///file::memory:?uri=true"])
def test_a_database_without_a_file_is_opened(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if url.startswith("duckdb"):
        pytest.importorskip("duckdb_engine")
    extra = {"sqlalchemy_url": url}
    monkeypatch.setenv("AIRFLOW_CONN_MART", json.dumps({"conn_type": "generic", "extra": extra}))
    engine = engine_of("mart")
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    engine.dispose()


@pytest.mark.parametrize("text", ['{"conn_type": "sqlite", "host": "/data/mart.db",}', "{'conn_type': 'sqlite'}"])
def test_a_connection_that_is_not_json_is_not_called_undefined(text: str, engine_for: Any) -> None:
    with pytest.raises(ConnectionNotFoundError) as caught:
        engine_for(text)
    assert str(caught.value) == (
        "connection 'warehouse': the environment variable AIRFLOW_CONN_WAREHOUSE is set, but its value is neither a URI "
        "nor valid JSON. Correct it"
    )


def test_a_missing_driver_is_named_with_the_extra_that_the_page_shows(
    engine_for: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text()
    rows = dict(re.findall(r"^\| ([\w, ]+) \| (?:nothing|`airflow-sitemaps\[(\w+)\]`) \|", text, re.MULTILINE))
    for warehouse, connection in ROWS.items():
        kind = json.loads(connection)["conn_type"] if connection.startswith("{") else connection.partition(":")[0]
        assert extra_of_type(kind) == rows[warehouse]
    assert extra_of_type("mariadb") == "mysql"
    monkeypatch.setattr(session_factory, "_is_installed", lambda _module: False)
    with pytest.raises(
        SourceConfigurationError, match=r"of that type \(pip install 'airflow-sitemaps\[clickhouse\]'\)"
    ):
        engine_for("clickhouse://me@host:8123/mart")


@pytest.mark.parametrize(
    ("url", "extra"), [("snowflake://me@host/mart", "snowflake"), ("redshift+x://h/m", "redshift")]
)
def test_the_extra_is_that_of_the_url_not_of_the_type(url: str, extra: str, engine_for: Any) -> None:
    with (
        patch("sqlalchemy.create_engine", side_effect=ImportError("no driver")),
        pytest.raises(SourceConfigurationError, match=rf"\(pip install 'airflow-sitemaps\[{extra}\]'\)"),
    ):
        engine_for({"conn_type": "postgres", "extra": {"sqlalchemy_url": url}})


def test_servers_are_reached_though_no_provider_is_installed(engine_for: Any) -> None:
    url = engine_for("mysql://me:p%40ss@host:3307/mart?charset=utf8mb4").url
    assert (url.drivername.split("+")[0], url.username, url.password) == ("mysql", "me", "p@ss")
    assert (url.host, url.port, url.database, dict(url.query)) == ("host", 3307, "mart", {"charset": "utf8mb4"})


class _Connection:
    conn_type = "clickhouse"
    login, password, host, port, schema = "me", "secret", "host", 8443, "mart"

    def __init__(self) -> None:
        self.extra_dejson = {"secure": True, "nested": {}}


def test_the_first_driver_that_is_installed_serves_a_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_factory, "_is_installed", lambda module: module == "clickhouse_sqlalchemy")
    url = session_factory.plain_url(_Connection())
    assert url is not None
    assert url.drivername == "clickhouse+native"
    assert dict(url.query) == {"secure": "True"}
    monkeypatch.setattr(session_factory, "_is_installed", lambda _module: True)
    url = session_factory.plain_url(_Connection())
    assert url is not None
    assert url.drivername == "clickhousedb"
    monkeypatch.setattr(session_factory, "_is_installed", lambda _module: False)
    assert session_factory.plain_url(_Connection()) is None


@pytest.mark.parametrize(
    ("path", "shown"), [("/keys/none.json", " '/keys/none.json'"), ('{"private_key": "hunter2"}', "")]
)
def test_a_missing_key_file_is_named(engine_for: Any, monkeypatch: pytest.MonkeyPatch, path: str, shown: str) -> None:
    """As Google's hook reads it when it makes a client."""
    monkeypatch.setattr(session_factory, "plain_url", lambda _connection: Path(path).read_text())
    with pytest.raises(SourceConfigurationError) as caught:
        engine_for({"conn_type": "sqlite", "host": "/data/mart.db"})
    assert str(caught.value).startswith(
        f"connection 'warehouse' (type 'sqlite') names a file{shown} that cannot be read (No such file or directory). "
    )
    assert "hunter2" not in str(caught.value)


@pytest.mark.skipif(
    not is_installed("airflow.providers.google.common.hooks"), reason="the Google provider is not installed here"
)
def test_a_missing_key_file_of_bigquery_is_named(engine_for: Any) -> None:
    extra = {"key_path": "/keys/none.json", "project": "acme"}
    with pytest.raises(SourceConfigurationError, match=r"connection 'warehouse' .*'/keys/none\.json'"):
        engine_for({"conn_type": "google_cloud_platform", "extra": extra})


def test_the_cause_is_shown_without_secrets(engine_for: Any) -> None:
    with pytest.raises(SourceConfigurationError, match=r'AirflowException: Unknown hook type "oddball"') as caught:
        engine_for({"conn_type": "oddball", "password": "hunter2secret", "extra": {"token": "another-secret"}})
    assert "hunter2" not in str(caught.value)
    with pytest.raises(SourceConfigurationError, match=r"NoSuchModuleError: .*nonsense"):
        engine_for({"conn_type": "generic", "extra": {"sqlalchemy_url": "nonsense://me:hunter2secret@host/db"}})
    with pytest.raises(SourceConfigurationError, match=r": ArgumentError\. Install") as caught:
        engine_for({"conn_type": "generic", "extra": {"sqlalchemy_url": "hunter2secret"}})
    assert "hunter2" not in str(caught.value)
