"""The version of a Delta table: its identity and the number of its newest commit.

https://docs.databricks.com/en/delta/history.html and https://docs.databricks.com/en/delta/table-details.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Sequence

HIDING: Final = ("row filter", "column mask")
"""Parts of a table's description that make its rows depend on something else."""


def commit_of(connection: sa.Connection, table: str) -> int:
    """Return the number of a Delta table's newest commit.

    Args:
        connection: A connection in a session of the source.
        table: The table's name, quoted.
    """
    return int(connection.execute(sa.text(f"DESCRIBE HISTORY {table} LIMIT 1")).mappings().one()["version"])


def version_of(connection: sa.Connection, table: str) -> str | None:
    """Return the version of a Delta table, or None if it is another kind of table or has filters or masks.

    The numbers of a table that was dropped and created again begin at 0, so its identity is part of the version.

    Args:
        connection: A connection in a session of the source.
        table: The table's name, quoted.
    """
    detail = connection.execute(sa.text(f"DESCRIBE DETAIL {table}")).mappings().one()
    if str(detail["format"]).lower() != "delta":
        return None
    described: Sequence[sa.Row[tuple[object, ...]]] = connection.execute(
        sa.text(f"DESCRIBE TABLE EXTENDED {table}")
    ).all()
    if any(word in str(row[0]).lower() for row in described for word in HIDING):
        return None
    return f"{detail['id']} {commit_of(connection, table)}"
