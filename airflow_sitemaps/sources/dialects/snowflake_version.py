"""The version of a Snowflake table: its last change, and its last definition.

https://docs.snowflake.com/en/sql-reference/functions/system_last_change_commit_time and
https://docs.snowflake.com/en/sql-reference/info-schema/tables
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from airflow_sitemaps.sources.statements.binds import guarded

if TYPE_CHECKING:
    from collections.abc import Sequence


def version_of(connection: sa.Connection, parts: Sequence[str]) -> str | None:
    """Return the version of a table, or None if its rows can change without a change of the table.

    A row access or masking policy decides with rows of other tables. An Iceberg or hybrid table may be written elsewhere.

    Args:
        connection: A connection in a session of the source.
        parts: The parts of the table's name as Snowflake writes them, quoted if they are not in upper case.
    """
    names = [part[1:-1].replace('""', '"') if part.startswith('"') else part.upper() for part in parts]
    catalog = f"{guarded(parts[-3])}." if len(parts) > 2 else ""
    table = connection.execute(
        sa.text(
            f"SELECT CREATED, LAST_DDL FROM {catalog}INFORMATION_SCHEMA.TABLES WHERE TABLE_NAME = :name"
            " AND TABLE_SCHEMA = COALESCE(:space, CURRENT_SCHEMA()) AND TABLE_TYPE = 'BASE TABLE'"
            " AND IS_ICEBERG = 'NO' AND IS_HYBRID = 'NO'"
        ),
        {"name": names[-1], "space": names[-2] if len(names) > 1 else None},
    ).first()
    if table is None:
        return None
    whole = {"whole": ".".join(parts)}
    policies = connection.execute(
        sa.text(
            f"SELECT COUNT(*) FROM TABLE({catalog}INFORMATION_SCHEMA.POLICY_REFERENCES("
            "REF_ENTITY_NAME => :whole, REF_ENTITY_DOMAIN => 'TABLE'))"
        ),
        whole,
    ).scalar_one()
    if int(policies):
        return None
    token = connection.execute(sa.text("SELECT SYSTEM$LAST_CHANGE_COMMIT_TIME(:whole)"), whole).scalar_one()
    return None if token is None else f"{table[0]} {table[1]} {token}"
