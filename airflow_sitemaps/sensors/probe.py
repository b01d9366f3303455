"""The probe of a source: a query for one value, and the value at which a run was last started."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import SourceConfigurationError, SourceError
from airflow_sitemaps.pipeline.state.conditional_put import ObjectHeaders, put_verified
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.pipeline.status import last_survey
from airflow_sitemaps.ports import Overwrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

    from airflow_sitemaps.sitemap import Sitemap

_TABLES: Final = re.compile(r"\b(?:from|join)\s+([\w.\"`$-]+)", re.IGNORECASE)
_NOT_IN_KEYS: Final = re.compile(r"[^A-Za-z0-9_.-]")

CLOCK_TOLERANCE: Final = timedelta(minutes=5)
"""Difference between the clocks of the sensor's worker and of the planner's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMark:
    """The value of a probe at which a run was last started.

    Attributes:
        value: The value as text.
        at: Time of the start, ISO 8601 with a time zone.
    """

    value: str
    at: str


def query_value(conn_id: str, sql: str) -> str:
    """Return the first value of a query as text; empty for NULL or no row.

    Args:
        conn_id: Airflow connection.
        sql: The query, such as ``SELECT max(updated_at) FROM products``.

    Raises:
        SourceConfigurationError: The connection or the query is wrong. The message gives the database's reason, and the
            tables or columns that exist.
        SourceError: The database cannot be reached.
    """
    import sqlalchemy as sa
    from sqlalchemy import exc

    from airflow_sitemaps.sources.connections.driver import redacted, translated
    from airflow_sitemaps.sources.connections.engines import engine_of

    engine = engine_of(conn_id)
    what = f"probe over connection {conn_id!r}"
    try:
        with translated(engine, what, SourceError), engine.connect() as connection:
            try:
                row = connection.execute(sa.text(sql)).first()
            except exc.DBAPIError as error:
                if error.connection_invalidated:
                    raise
                connection.rollback()
                reason = " ".join(redacted(engine, error.orig).split())[:300]
                raise SourceConfigurationError(f"{what}: {reason}.{_what_exists(connection, sql)}") from None
    finally:
        engine.dispose()
    return "" if row is None or row[0] is None else str(row[0])


def _what_exists(connection: sa.Connection, sql: str) -> str:
    """Return the columns of the tables in a query, and for tables that do not exist the names of those that do."""
    import sqlalchemy as sa
    from sqlalchemy import exc

    from airflow_sitemaps.sources.statements.user_texts import name_parts, nearest

    inspector = sa.inspect(connection)
    text = ""
    for name in dict.fromkeys(_TABLES.findall(sql)):
        try:
            *schema, table = (part.text for part in name_parts(name))
            place = schema[-1] if schema else None
            names = [*inspector.get_table_names(schema=place), *inspector.get_view_names(schema=place)]
            existing = {each.casefold(): each for each in names}.get(table.casefold())
            if existing is None:
                text += f" There is no table {name}.{nearest(table, names)}"
            else:
                columns = [str(column["name"]) for column in inspector.get_columns(existing, schema=place)]
                text += f" The columns of {name} are {', '.join(columns[:50])}{', …' if len(columns) > 50 else ''}."
        # SQLAlchemy raises NotImplementedError for what a dialect cannot look up.
        except (exc.SQLAlchemyError, NotImplementedError, SourceConfigurationError):
            text += f" The tables at {name} could not be listed."
    return text


def last_mark(sitemap: Sitemap, name: str, sections: Sequence[str] = ()) -> ProbeMark | None:
    """Return the mark of the last start; None if there is none, or if no run that began since covered a section.

    A run that began before the start may have read the rows of before, however late it ended. A run of other sections
    did not read the rows at all.

    Args:
        sitemap: The sitemap.
        name: Name of the sensor, unique for the sitemap.
        sections: Sections that the sensor starts. Default: all of the sitemap.
    """
    state = StateRepository(sitemap.store.open().state)
    stored = state.objects.get(_key(name))
    if stored is None:
        return None
    try:
        document = json.loads(stored.body)
        mark = ProbeMark(value=str(document["value"]), at=str(document["at"]))
        started = datetime.fromisoformat(mark.at)
    except (ValueError, KeyError, TypeError):
        return None  # a damaged mark costs one run that finds nothing to change
    surveyed = last_survey(state, sections or [section.name for section in sitemap.sections])
    return mark if surveyed is not None and datetime.fromisoformat(surveyed) >= started - CLOCK_TOLERANCE else None


def record_mark(sitemap: Sitemap, name: str, mark: ProbeMark) -> None:
    """Store the mark of a start.

    Args:
        sitemap: The sitemap.
        name: Name of the sensor, unique for the sitemap.
        mark: The mark.
    """
    body = json.dumps({"value": mark.value, "at": mark.at}).encode()
    key = _key(name)
    objects = sitemap.store.open().state
    put_verified(
        objects,
        key,
        body,
        mode=Overwrite(),
        write_id=f"{key}#{mark.at}",
        headers=ObjectHeaders(content_type="application/json"),
    )


def _key(name: str) -> str:
    return f"probes/{_NOT_IN_KEYS.sub('_', name)}.json"
