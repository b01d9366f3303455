"""The version of a SQL Server table with change tracking: its definition, and the database's last tracked change.

https://learn.microsoft.com/en-us/sql/relational-databases/system-functions/change-tracking-current-version-transact-sql and
https://learn.microsoft.com/en-us/sql/relational-databases/system-functions/change-tracking-min-valid-version-transact-sql
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Sequence

TRACKED: Final = sa.text(
    """
SELECT CONVERT(VARCHAR(30), t.object_id), CONVERT(VARCHAR(30), t.create_date, 126),
  CONVERT(VARCHAR(30), t.modify_date, 126), CHANGE_TRACKING_CURRENT_VERSION(),
  CHANGE_TRACKING_MIN_VALID_VERSION(t.object_id),
  (SELECT SUM(p.rows) FROM sys.partitions p WHERE p.object_id = t.object_id AND p.index_id IN (0, 1))
FROM sys.tables t JOIN sys.change_tracking_tables c ON c.object_id = t.object_id
WHERE t.object_id = OBJECT_ID(:name)
  AND NOT EXISTS (SELECT 1 FROM sys.computed_columns k WHERE k.object_id = t.object_id)
  AND NOT EXISTS (SELECT 1 FROM sys.security_predicates p WHERE p.target_object_id = t.object_id)
"""
)
"""A table without computed columns, and without a security policy, by which rows change while the table does not."""


def version_of(connection: sa.Connection, parts: Sequence[str]) -> str | None:
    """Return the version of a table, or None if its changes are not tracked.

    The version is that of the database, so a change of another tracked table changes it too. ``TRUNCATE`` is not
    tracked as a change of rows: it sets their number to 0, which is part of the version with the least valid version.

    Args:
        connection: A connection of the engine.
        parts: The parts of the table's name, quoted. One of another database has no version.
    """
    if len(parts) > 2:
        return None
    row = connection.execute(TRACKED, {"name": ".".join(parts)}).first()
    return None if row is None or None in tuple(row) else " ".join(map(str, row))
