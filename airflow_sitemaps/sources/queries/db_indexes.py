"""The indexes of a key: whether an index makes the key unique, and whether an index begins with the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import exc

from airflow_sitemaps.sources.statements.table_name import NamePart, name_parts, written_name

if TYPE_CHECKING:
    from airflow_sitemaps.sources.dialects.base import Dialect
    from airflow_sitemaps.sources.statements.relation import Relation

Index = tuple[list["str | None"], bool]
"""The columns of an index that covers all rows, in order, and whether it is unique. None is an expression."""


def of_key(connection: sa.Connection, dialect: Dialect, relation: Relation, key: list[str]) -> tuple[bool, bool]:
    """Return whether the key is unique, and whether an index begins with it.

    Args:
        connection: A connection in a transaction.
        dialect: The database's SQL.
        relation: The table or query.
        key: The names of the key's columns.

    Returns:
        Both answers. They are False if the relation is a query or the indexes cannot be read.
    """
    if relation.table is None:
        return False, False
    try:
        indexes_of_table = (
            _asked(connection, dialect, relation.table)
            if dialect.indexes_sql
            else _inspected(connection, relation.table)
        )
    except (exc.SQLAlchemyError, NotImplementedError):  # SQLAlchemy's answer if a dialect cannot look up indexes
        return False, False
    unique = dialect.enforces_keys and any(
        only and columns and set(columns) <= set(key) for columns, only in indexes_of_table if None not in columns
    )
    leading = any(columns[: len(key)] == key for columns, _only in indexes_of_table)
    return unique, leading


def _asked(connection: sa.Connection, dialect: Dialect, table: str) -> list[Index]:
    """Return the indexes by the dialect's own query, which costs a tenth of SQLAlchemy's inspector."""
    quoted = written_name(NamePart(part.text, is_quoted=True) for part in name_parts(table))
    rows = connection.execute(sa.text(dialect.indexes_sql or ""), {"relation": quoted}).all()
    return [(list(columns), bool(unique)) for columns, unique in rows]


def _inspected(connection: sa.Connection, table: str) -> list[Index]:
    *schema, name = (part.text for part in name_parts(table))
    place = schema[-1] if schema else None
    inspector = sa.inspect(connection)
    primary = list(inspector.get_pk_constraint(name, schema=place).get("constrained_columns") or [])
    indexes = inspector.get_indexes(name, schema=place)
    plain = [index for index in indexes if not index.get("dialect_options", {}).get("postgresql_where")]
    indexes_of_table: list[Index] = [
        (list(index.get("column_names") or []), bool(index.get("unique"))) for index in plain
    ]
    return [*indexes_of_table, ([*primary], True)] if primary else indexes_of_table
