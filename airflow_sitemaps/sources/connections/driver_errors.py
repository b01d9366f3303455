"""Translation of driver errors into errors of this package, without secrets."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, quote_plus

import pyarrow as pa
from sqlalchemy import exc

from airflow_sitemaps.errors import SitemapError, SourceConfigurationError, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import sqlalchemy as sa

MESSAGE_CHARACTERS: Final = 500

SECRET_NAMES: Final = re.compile("pass|pwd|token|secret|key|credential|sig", re.IGNORECASE)
"""The names of a URL's query parameters whose values messages hide."""

FOREIGN: Final = (pa.ArrowException, OverflowError, UnicodeError, OSError)
"""Errors that drivers raise besides those of PEP 249.

They come from Arrow's streams, from values that no type holds, and from sockets.
"""


@contextmanager
def translated(
    engine: sa.Engine,
    what: str,
    error_type: type[SourceError | SourceConfigurationError],
    *more: type[Exception],
) -> Iterator[None]:
    """Translate a driver's errors into errors of this package that name the step and hide the password.

    Args:
        engine: The engine, whose URL holds the secrets to hide.
        error_type: The error to raise. A broken connection always raises ``SourceError``.
        more: Further error types to translate, of a driver that the engine does not use.

    Raises:
        SourceError: The database failed.
        SourceConfigurationError: The database refused the statement, if ``error_type`` says so.
    """
    try:
        yield
    except SitemapError:
        raise
    except exc.DBAPIError as error:
        kind = SourceError if error.connection_invalidated else error_type
        raise kind(f"{what}: {redacted(engine, error.orig)}") from None
    except (exc.SQLAlchemyError, *_driver_errors(engine), *more, *FOREIGN) as error:
        raise error_type(f"{what}: {redacted(engine, error)}") from None


def _driver_errors(engine: sa.Engine) -> tuple[type[Exception], ...]:
    """Return the errors that SQLAlchemy passes on: those of a driver's own cursor, and PEP 249's Warning.

    Python 3.10's sqlite3 raises that Warning for a second statement.
    """
    dbapi = engine.dialect.loaded_dbapi
    return (dbapi.Error, getattr(dbapi, "Warning", dbapi.Error))


def redacted(engine: sa.Engine, error: Any) -> str:
    """Return an error's message without the connection's password and tokens.

    Args:
        engine: The engine, whose URL holds the secrets to hide.

    Returns:
        The error's type and message in one line of at most ``MESSAGE_CHARACTERS`` characters, and an ellipsis if it is cut.
    """
    text = " ".join(f"{type(error).__name__}: {error}".split())
    for secret in _secrets(engine.url):
        for form in {secret, quote(secret, safe=""), quote_plus(secret)}:
            text = text.replace(form, "***")
    return text if len(text) <= MESSAGE_CHARACTERS else text[:MESSAGE_CHARACTERS] + " …"


def _secrets(url: sa.URL) -> Iterator[str]:
    """Yield a URL's password, and the values of its parameters that are secrets."""
    if url.password:
        yield str(url.password)
    for name, value in url.query.items():
        if SECRET_NAMES.search(name):
            yield from (part for part in ([value] if isinstance(value, str) else value) if part)
