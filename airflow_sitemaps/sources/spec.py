"""The settings of a ``SqlSource`` whose texts are final, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_sitemaps.sources.statements.change_log_settings import ChangeLog


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSpec:
    """The settings that opening a source needs.

    Attributes:
        conn_id: The id of the Airflow connection.
        description: A short description of the source, for messages.
        table: The table's name, or None for a query.
        query: The SQL of the query, or None for a table.
        where: A condition in SQL, or None.
        parameters: The values of ``:name`` in query and condition. Default: empty.
        key: The names of the key's columns.
        loc: The column or template of the URL.
        fields: The column of each optional part of an entry, by the part's name.
        group: The column whose equal values make rows versions of one page. Default: None.
        language: The column of each version's language. Default: None.
        timezone: The IANA name of the time zone of times that have none. Default: ``UTC``.
        lastmod_unit: The unit of numbers in the lastmod column: ``s``, ``ms`` or ``us`` since 1970. Default: None.
        materialize: The schema in which the query's rows are stored. Default: None.
        session: Statements that run first on each connection. Default: none.
        max_scan_bytes: The largest number of bytes that surveys may scan. Default: None, for no limit.
        as_of: ``plan`` to choose a state of the table when it is opened, or the state that a plan chose: for stored rows the
            name of their table. Default: empty, the present.
        run: Airflow's name of the run. If it is given, a materialized table stays for the tasks after the one that creates
            it. It is empty outside Airflow, the default.
        origin: DAG, task and run, for the comment before each statement. It is empty outside Airflow, the default.
        arrow: Whether the driver's own Arrow interface may read the rows. Default: True.
        change_log: The change log. Default: None.
        change_log_identity: A hash of all that a position in the change log depends on. Default: empty.
    """

    conn_id: str
    description: str
    table: str | None
    query: str | None
    where: str | None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    key: tuple[str, ...]
    loc: str
    fields: Mapping[str, str]
    group: str | None = None
    language: str | None = None
    timezone: str = "UTC"
    lastmod_unit: str | None = None
    materialize: str | None = None
    session: tuple[str, ...] = ()
    max_scan_bytes: int | None = None
    as_of: str = ""
    run: str = ""
    origin: str = ""
    arrow: bool = True
    change_log: ChangeLog | None = None
    change_log_identity: str = ""
