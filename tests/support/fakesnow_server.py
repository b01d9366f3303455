"""Snowflake's real connector over fakesnow's server on loopback, which answers in Snowflake's own Arrow format."""

from __future__ import annotations

import atexit
import logging
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import sqlalchemy as sa

from tests.support import transpiled

NEEDED: Final = ("fakesnow", "snowflake", "uvicorn", "starlette")


def lacking() -> str | None:
    """What is missing to run the server, or None."""
    missing = [module for module in NEEDED if find_spec(module) is None]
    return f"{', '.join(missing)} is not installed: make test-warehouses" if missing else None


@cache
def _settings() -> dict[str, Any]:
    server = import_module("fakesnow").server(session_parameters={"nop_regexes": ["^ALTER SESSION SET"]})
    settings: dict[str, Any] = server.__enter__()
    # The server logs each statement to a stream that pytest closes.
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "fakesnow.server"):
        logging.getLogger(name).disabled = True
    atexit.register(server.__exit__, None, None, None)
    for macro in transpiled.SNOWFLAKE_STAND_INS:
        base().execute(f"CREATE MACRO MART.PUBLIC.{macro}")
    return settings | {"network_timeout": 60}


@cache
def base() -> Any:
    """The connection to DuckDB, behind the server, for inserting rows."""
    return import_module("fakesnow.server").shared_fs.connect("MART", "PUBLIC")._duck_conn


def _connect() -> Any:
    connector = import_module("snowflake.connector.connection").SnowflakeConnection
    return connector(**_settings(), database="MART", schema="PUBLIC")


def engine() -> sa.Engine:
    """An engine of snowflake-sqlalchemy; dispose of it."""
    return sa.create_engine("snowflake://", creator=_connect)
