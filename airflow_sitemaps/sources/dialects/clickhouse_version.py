"""The version of a ClickHouse table: its definition and the content of its active parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.sources.statements.table_name import NamePart

TABLE: Final = sa.text(
    """
SELECT engine, concat(toString(uuid), ' ', hex(MD5(create_table_query)))
FROM system.tables WHERE database = if(:base = '', currentDatabase(), :base) AND name = :name
"""
)
PARTS: Final = sa.text(
    """
SELECT count(), sum(rows), hex(MD5(arrayStringConcat(arraySort(groupArray(concat(name, ' ', hash_of_all_files))), '\n')))
FROM system.parts WHERE active AND database = if(:base = '', currentDatabase(), :base) AND table = :name
"""
)
INEXACT: Final = sa.text(
    """
SELECT
  (SELECT count() FROM system.mutations WHERE NOT is_done
    AND database = if(:base = '', currentDatabase(), :base) AND table = :name)
  + (SELECT count() FROM system.columns WHERE (default_kind = 'ALIAS' OR position(default_expression, '(') > 0)
    AND database = if(:base = '', currentDatabase(), :base) AND table = :name)
"""
)
"""What makes rows change while no part does: mutations under way, and columns that are computed when they are read."""

REPLICATED: Final = ("Replicated", "Shared")
"""How the engines of replicated tables begin: ``ReplicatedMergeTree``, and ``SharedMergeTree`` of ClickHouse Cloud."""


def version_of(connection: sa.Connection, table: Sequence[NamePart], from_item: str) -> str | None:
    """Return the version of a table of the MergeTree family, or None if its parts do not determine its rows.

    A replicated table has no version: each statement may reach another replica, and the survey may read one that has
    not received the parts of the version yet.

    Rows that a policy or a lightweight delete hides are in the parts, so the table then has fewer rows than its parts.

    Args:
        connection: A connection in a transaction.
        table: The parts of the table's name.
        from_item: The table for ``FROM``.
    """
    *database, name = [part.text for part in table]
    values = {"base": database[-1] if database else "", "name": name}
    table_row = connection.execute(TABLE, values).first()
    engine = "" if table_row is None else str(table_row[0])
    if table_row is None or not engine.endswith("MergeTree") or engine.startswith(REPLICATED):
        return None
    parts = connection.execute(PARTS, values).one()
    rows = connection.execute(sa.text(f"SELECT count() FROM {from_item}")).scalar_one()
    # No part is also what a role sees that may not look at them.
    if not int(parts[1]) or int(parts[1]) != int(rows) or int(connection.execute(INEXACT, values).scalar_one()):
        return None
    return f"{table_row[1]} {parts[0]} {parts[1]} {parts[2]}"
