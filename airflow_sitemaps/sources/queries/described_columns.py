"""The columns of a table or query that a source names, with messages that list those that exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.errors import SourceConfigurationError
from airflow_sitemaps.sources.statements.relation import Relation
from airflow_sitemaps.sources.statements.user_texts import name_parts, nearest

if TYPE_CHECKING:
    from airflow_sitemaps.sources.columns import Column
    from airflow_sitemaps.sources.dialects.base import Dialect

DENIED: Final = re.compile(r"denied|permission|privilege|not authorized|not granted", re.IGNORECASE)


def columns_of(
    connection: sa.Connection, dialect: Dialect, relation: Relation, name: str, wanted: dict[str, list[str]]
) -> dict[str, Column]:
    """Return the relation's columns by the user's names, which ``wanted`` has by argument.

    A name is looked up as it is written, then without regard to case if that matches exactly one column: Snowflake
    returns names in upper case.
    """
    names = {each for part in wanted.values() for each in part}
    try:
        described = _described(connection, dialect, relation, names)
    except exc.DBAPIError as error:
        if error.connection_invalidated:
            raise
        raise SourceConfigurationError(_no_relation(connection, relation, name, error)) from None
    except (OverflowError, UnicodeError) as error:  # of the driver, which binds the values before it asks the database
        raise SourceConfigurationError(
            f"{name}: parameters= holds a value that the database's driver refuses: {type(error).__name__}: {error}. "
            "Give a value of a type that the database has"
        ) from None
    columns = {}
    for part, each in ((part, each) for part, names_of_part in wanted.items() for each in names_of_part):
        column = _named(described, each)
        if column is None:
            what = f"{name}: {part}={each!r}: "
            if _is_left_out(connection, dialect, relation, each):
                raise SourceConfigurationError(
                    f"{what}SELECT * leaves this column out, as databases do with invisible and computed columns (INVISIBLE, "
                    f"ALIAS, MATERIALIZED). In place of table=, give query='SELECT …, {each} FROM {relation.table}'"
                )
            raise SourceConfigurationError(
                f"{what}there is no such column.{nearest(each, described)} Give one of the columns of the table or query"
            )
        columns[each] = column
    return columns


def _is_left_out(connection: sa.Connection, dialect: Dialect, relation: Relation, name: str) -> bool:
    """Return whether a table has a column that ``SELECT *`` does not return."""
    if relation.table is None:
        return False
    table = Relation(table=relation.table)
    try:
        connection.execute(
            *table.binds().statement(f"SELECT src.{dialect.quote(name)} FROM {table.from_item(dialect)} WHERE 1 = 0")
        )
    except exc.DBAPIError:
        return False
    return True


def _described(connection: sa.Connection, dialect: Dialect, relation: Relation, names: set[str]) -> dict[str, Column]:
    described = dialect.describe(connection, relation, sorted(names))
    real = {column.name for name in names if (column := _named(described, name)) is not None}
    return dialect.describe(connection, relation, sorted(real)) if real != names & described.keys() else described


def _named(columns: dict[str, Column], name: str) -> Column | None:
    if name in columns:
        return columns[name]
    alike = [column for other, column in columns.items() if other.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _no_relation(connection: sa.Connection, relation: Relation, name: str, error: exc.DBAPIError) -> str:
    """Return what is wrong with the table or query, with tables that exist."""
    reason = " ".join(str(error.orig).split())[:500]
    hint = "Correct the query, or run it by hand to see more"
    if unknown := relation.unknown_placeholders():
        hint = f"parameters= has no value for {', '.join(f':{each}' for each in unknown)}, which the SQL seems to name"
    elif DENIED.search(reason):
        role = connection.engine.url.username
        hint = (
            f"The connection's role{f' {role!r}' if role else ''} lacks a permission: GRANT SELECT ON {relation.table or 'the tables'}"
            f"{f' TO {role}' if role else ''}, and USAGE on the schema where the database has it. If it may read only some "
            "columns, name them in query="
        )
    elif relation.table is not None:
        connection.rollback()
        hint = "Check the table's name and schema, and that the connection may read it."
        try:
            *schema, table = name_parts(relation.table)
            inspector = sa.inspect(connection)
            place = schema[-1].text if schema else None
            names = [*inspector.get_table_names(schema=place), *inspector.get_view_names(schema=place)]
            hint += nearest(table.text, names)
        except (exc.SQLAlchemyError, NotImplementedError):  # SQLAlchemy's answer if a dialect cannot list tables
            hint += " The tables there could not be listed"
    return f"{name}: the database refuses to read it: {reason.rstrip('.')}. {hint}"
