"""``AccessLog``: the requests in an access or CDN log, counted in its database by crawler, file and address."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timezone
from typing import TYPE_CHECKING, Any, Final, cast
from zoneinfo import ZoneInfo

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.ports import Requests
from airflow_sitemaps.protocol import lastmod
from airflow_sitemaps.sources.change_log import ASKS_SINCE, SINCE
from airflow_sitemaps.sources.columns import Kind
from airflow_sitemaps.sources.sql import SqlSource

if TYPE_CHECKING:
    from airflow_sitemaps.sources.queries.context import QueryContext
    from airflow_sitemaps.sources.session import SqlSession

REQUIRED: Final = ("path", "requested_at", "user_agent")
OPTIONAL: Final = ("address", "status")
_PORT: Final = re.compile(r"\A(?:([\d.]+)|\[(.*)\]):\d+\Z")


@dataclass(frozen=True, slots=True)
class AccessLog:
    """The requests that a web server or CDN logged, in a database that an Airflow connection reaches.

    Attributes:
        conn_id: The id of the Airflow connection.
        query: SQL, or the path of a ``.sql`` file; it may be a Jinja template. Each row is a request: ``path`` (or the whole
            URL) without the query string, ``requested_at`` (a time), ``user_agent``, and, if the log has them, ``address``
            (the client's) and ``status``. Rows without a time are not counted. It takes ``:since``, the first day to read in
            ``timezone``, as a text: ``2026-01-31``.
        parameters: Values for other ``:name`` in the query. Default: None.
        timezone: The IANA name of the time zone of times that have none. Default: ``UTC``.
        session: Statements that run first on the connection. Default: none.

    Raises:
        SourceConfigurationError: An argument is invalid.
    """

    conn_id: str
    query: str = field(kw_only=True)
    parameters: Mapping[str, Any] | None = field(default=None, kw_only=True)
    timezone: str = field(default="UTC", kw_only=True)
    session: Sequence[str] = field(default=(), kw_only=True)
    _source: SqlSource = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            source = SqlSource(
                self.conn_id, query=self.query or "", loc="path", parameters=self.parameters, timezone=self.timezone,
                session=self.session,
            )  # fmt: skip
        except SourceConfigurationError as error:
            raise SourceConfigurationError(str(error).replace("SqlSource", "AccessLog")) from None
        if SINCE in (self.parameters or {}):
            raise SourceConfigurationError(f"AccessLog({self.conn_id!r}): rename parameter {SINCE!r}: the task sets it")
        object.__setattr__(self, "_source", source)

    def requests(
        self, since: date, agents: Mapping[str, str], endings: Sequence[str], render: Callable[[str], str]
    ) -> Iterator[Requests]:
        """Yield the requests since a day in UTC by crawler, for paths with these endings. One statement groups them in the database.

        ``agents`` has a part of each crawler's User-Agent, in lower case. Raises SourceConfigurationError if a column is
        missing, a time is none, or the query does not use ``:since``; SourceError if the database fails.
        """
        source = self._source.rendered(render)
        if not ASKS_SINCE.search(source.query or ""):
            raise SourceConfigurationError(
                f"AccessLog({self.conn_id!r}): the query does not use :since, so that every task would read the whole log. "
                "Add a condition like WHERE requested_at >= CAST(:since AS TIMESTAMP)"
            )
        first = datetime.combine(since, time(), timezone.utc).astimezone(ZoneInfo(self.timezone)).date()
        object.__setattr__(source, "parameters", {**(source.parameters or {}), SINCE: first.isoformat()})
        with source.open(section="access log") as opened:
            session = cast("SqlSession", opened)
            with session.transaction("counting requests") as connection:
                from airflow_sitemaps.sources.driver import partitions  # noqa: PLC0415 - imports SQLAlchemy

                binds = session.context.relation.binds()
                sql, kind = _statement(session.context, connection, binds.add, agents, endings)
                zone = "UTC" if kind is Kind.ZONED else self.timezone  # a driver may return a moment without its zone
                for rows in partitions(connection, binds.statement(sql)):
                    yield from (self._requests(list(agents), row, zone) for row in rows)

    def _requests(self, names: Sequence[str], row: Sequence[Any], zone: str) -> Requests:
        place, path, address, status, newest, number = row
        ip = None if address is None else _PORT.sub(r"\1\2", str(address).partition("/")[0])
        code = "" if status is None else str(status).removesuffix(".0")  # a status of 0 is no response, but not empty
        if (at := lastmod.parse_or_none(str(newest), zone)) is None:
            raise SourceConfigurationError(
                f"AccessLog({self.conn_id!r}): requested_at={newest!r} is not a time; convert it to a timestamp in the query"
            )
        return Requests(names[int(place)], str(path), ip, code, lastmod.begins(at, zone), int(number))


def _statement(
    context: QueryContext,
    connection: Any,
    bind: Callable[[Any], str],
    agents: Mapping[str, str],
    endings: Sequence[str],
) -> tuple[str, Kind]:
    from airflow_sitemaps.sources.queries.context import columns_of  # noqa: PLC0415 - imports SQLAlchemy

    dialect, relation = context.dialect, context.relation
    described = {name.casefold() for name in dialect.describe(connection, relation, REQUIRED)}
    names = [*REQUIRED, *(name for name in OPTIONAL if name in described)]
    columns = columns_of(connection, dialect, relation, context.name, {"column": names})
    if packed := [name for name in names if columns[name].kind is Kind.BINARY]:
        raise SourceConfigurationError(
            f"{context.name}: column={packed[0]!r} holds bytes; convert it to a text in the query, in MySQL with "
            "CONVERT(… USING utf8mb4), in PostgreSQL with convert_from(…, 'UTF8')"
        )
    sql = {name: dialect.column(column) for name, column in columns.items()}
    cases = (
        f"WHEN LOWER({sql['user_agent']}) LIKE {bind(f'%{part}%')} THEN {n}" for n, part in enumerate(agents.values())
    )
    of_files = " OR ".join(f"{sql['path']} LIKE {bind(f'%{ending}')}" for ending in endings)
    kept = ", ".join(f"{sql[name]} AS {name}" for name in names if name != "user_agent")
    grouped = ", ".join(("crawler", "path", *names[len(REQUIRED) :]))
    shown = ", ".join(name if name in names else f"NULL AS {name}" for name in OPTIONAL)
    statement = (
        f"SELECT crawler, path, {shown}, MAX(requested_at) AS newest, COUNT(*) AS requests FROM (SELECT CASE {' '.join(cases)} END AS crawler, "
        f"{kept} FROM {context.from_item} WHERE ({of_files}) AND {sql['requested_at']} IS NOT NULL) claims WHERE crawler IS NOT NULL GROUP BY {grouped}"
    )
    return statement, columns["requested_at"].kind
