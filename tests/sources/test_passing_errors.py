"""A database error that passes is retried; an error of the configuration is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.sources.dialects.postgresql_readers import address
from airflow_sitemaps.sources.driver import translated
from airflow_sitemaps.sources.queries import context


class DriverError(Exception):
    """An error of a driver, with or without an SQLSTATE."""

    def __init__(self, code: object, sqlstate: str | None = None) -> None:
        super().__init__(code, "message")
        self.sqlstate = sqlstate


PASSING: list[Exception] = [
    *(DriverError("x", state) for state in ("57014", "55P03", "40P01", "53200", "57P01", "58030", "08006")),
    *(DriverError(number) for number in (1205, 1213, 3024, 1969, 1317, 2013)),
    Exception("database is locked"),
    Exception('connection to server at "127.0.0.1", port 5432 failed: Connection refused'),
    DriverError({"S": "ERROR", "C": "57014", "M": "canceled"}),  # of redshift_connector
]
WRONG: list[Exception] = [
    DriverError({"errorName": "TABLE_NOT_FOUND"}),  # of Trino
    DriverError({"C": "42P01"}),
    DriverError("x", "42P01"),
    DriverError("x", "42703"),
    DriverError(1146),
    DriverError("no such table: p"),
]


@pytest.mark.parametrize(("errors", "kind"), [(PASSING, SourceError), (WRONG, SourceConfigurationError)])
def test_a_stored_query(errors: list[Exception], kind: type[Exception]) -> None:
    for error in errors:
        with pytest.raises(kind), translated(sa.create_engine("sqlite://"), "storing failed", SourceConfigurationError):
            raise exc.OperationalError("SELECT 1", {}, error)


@pytest.mark.parametrize(("errors", "kind"), [(PASSING, exc.OperationalError), (WRONG, SourceConfigurationError)])
def test_described_columns(errors: list[Exception], kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_no_relation", lambda *_: "no table")
    for error in errors:

        def described(*_: object, error: Exception = error) -> None:
            raise exc.OperationalError("SELECT 1", {}, error)

        dialect: Any = SimpleNamespace(describe=described)
        with pytest.raises(kind):
            context.columns_of(None, dialect, None, "p", {})  # type: ignore[arg-type]


def test_an_error_of_a_drivers_package_that_pep_249_does_not_know() -> None:
    """As Trino's client raises one for the status 503, and BigQuery's for a token that it does not get."""
    own = type("Http503Error", (Exception,), {"__module__": "sqlite3.exceptions"})
    with pytest.raises(SourceError, match="the survey failed: Http503Error: try later"):
        surveyed(own("try later"), SourceConfigurationError)
    with pytest.raises(ValueError, match="ours"):
        surveyed(ValueError("ours"), SourceError)


def test_a_driver_whose_interface_is_an_object_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As SQLAlchemy has it for drivers of asyncio, and other dialects that adapt a driver to PEP 249."""
    engine = sa.create_engine("sqlite://")
    monkeypatch.setattr(engine.dialect, "dbapi", SimpleNamespace(Error=DriverError))
    with (
        pytest.raises(SourceError, match="the survey failed: DriverError"),
        translated(engine, "the survey failed", SourceError),
    ):
        raise DriverError("gone")


def test_a_refused_connection_that_a_driver_reports_as_an_error_of_its_own() -> None:
    error = DriverError("failed to execute")
    error.__context__ = ConnectionRefusedError("port 8080")  # as Trino's client does
    with pytest.raises(SourceError):
        surveyed(exc.OperationalError("SELECT 1", {}, error), SourceConfigurationError)


def surveyed(error: Exception, kind: type[SourceError | SourceConfigurationError]) -> None:
    with translated(sa.create_engine("sqlite://"), "the survey failed", kind):
        raise error


def test_spaces_in_the_options_of_a_connection_reach_libpq() -> None:
    url = sa.make_url("postgresql+psycopg://u:a+b%3F@h/d?options=-c%20statement_timeout%3D5")
    assert address(url) == "postgresql://u:a+b%3F@h/d?options=-c%20statement_timeout%3D5"
