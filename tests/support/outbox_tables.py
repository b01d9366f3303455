"""Tables whose changes an outbox records: by triggers on PostgreSQL, by the writing program on DuckDB."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_sitemaps import ChangeLog, SqlSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.databases import Database

NEVER = timedelta(days=3_650)
"""An interval of full surveys that no test reaches."""
FIELDS = {"key": "id", "loc": "url", "lastmod": "lm"}


class TriggeredTable:
    """A PostgreSQL table with the triggers of docs/change-logs.md. The query leaves out what is not yet in commit order."""

    def __init__(self, base: Database, script: Sequence[str], changes: str) -> None:
        self.base = base
        self.changes = changes
        base.run(
            "DROP TABLE IF EXISTS products CASCADE",
            "DROP TABLE IF EXISTS product_changes CASCADE",
            "CREATE TABLE products (rid integer PRIMARY KEY, id bigint, url text, lm timestamp, prio double precision)",
            *script,
        )
        self.engine = base.engine()
        self.open: sa.Connection | None = None

    def clear(self) -> None:
        self.release()
        self.base.run("TRUNCATE products")

    def insert(self, rows: Sequence[dict[str, Any]]) -> None:
        self.base.insert("products", list(rows))

    def update(self, rid: int, **values: Any) -> None:
        ((column, value),) = values.items()
        engine = self.base.engine()
        with engine.begin() as connection:
            connection.execute(sa.text(f"UPDATE products SET {column} = :v WHERE rid = :rid"), {"v": value, "rid": rid})
        engine.dispose()

    def delete(self, rids: Sequence[int]) -> None:
        self.base.run(f"DELETE FROM products WHERE rid IN ({', '.join(map(str, rids))})")

    def hold(self, row: dict[str, Any]) -> None:
        """Insert a row in a transaction that stays open."""
        if self.open is None:
            self.open = self.engine.connect()
        statement = sa.text("INSERT INTO products (rid, id, url) VALUES (:rid, :id, :url)")
        self.open.execute(statement, {name: row[name] for name in ("rid", "id", "url")})

    def release(self) -> None:
        """Commit the open transaction."""
        if self.open is not None:
            self.open.commit()
            self.open.close()
            self.open = None

    @property
    def is_behind(self) -> bool:
        """Whether an open transaction keeps later changes out of the log."""
        return self.open is not None

    def trim(self) -> None:
        """Delete all changes but the newest."""
        last = "(SELECT MAX(changed_in) FROM product_changes)"
        self.base.run(f"DELETE FROM product_changes WHERE changed_in < {last}")

    def source(self, *, priority: bool) -> SqlSource:
        change_log = ChangeLog(query=self.changes, position="changed_in", full_every=NEVER)
        return SqlSource(
            "machine", table="products", priority="prio" if priority else None, change_log=change_log, **FIELDS
        )


class RecordedTable:
    """A table whose changes the writing program records, each commit under one number; some commit late."""

    OVERLAP = 6

    def __init__(self, base: Database) -> None:
        self.base = base
        self.number = 0
        self.held: tuple[int, dict[str, Any]] | None = None
        self.keys: dict[int, Any] = {}
        base.run(
            "DROP TABLE IF EXISTS products",
            "DROP TABLE IF EXISTS product_changes",
            "CREATE TABLE products (rid integer, id bigint, url varchar, lm timestamp, prio double)",
            "CREATE TABLE product_changes (id bigint, changed_in bigint)",
        )

    def _record(self, keys: Sequence[Any]) -> None:
        self.number += 1
        if self.held is not None and self.number - self.held[0] >= self.OVERLAP:
            self.release()
        self._write(self.number, keys)

    def _write(self, number: int, keys: Sequence[Any]) -> None:
        self.base.insert("product_changes", [{"id": key, "changed_in": number} for key in keys])

    def clear(self) -> None:
        self.release()
        self._record([*self.keys.values(), None])
        self.base.run("DELETE FROM products")
        self.keys.clear()

    def insert(self, rows: Sequence[dict[str, Any]]) -> None:
        self._record([row["id"] for row in rows])
        self.base.insert("products", list(rows))
        self.keys |= {row["rid"]: row["id"] for row in rows}

    def update(self, rid: int, **values: Any) -> None:
        ((column, value),) = values.items()
        literal = "NULL" if value is None else f"'{value}'" if not isinstance(value, (int, float)) else repr(value)
        self._record([self.keys[rid], *([value] if column == "id" else [])])
        self.base.run(f"UPDATE products SET {column} = {literal} WHERE rid = {rid}")
        self.keys[rid] = value if column == "id" else self.keys[rid]

    def delete(self, rids: Sequence[int]) -> None:
        self._record([self.keys.pop(rid) for rid in rids])
        self.base.run(f"DELETE FROM products WHERE rid IN ({', '.join(map(str, rids))})")

    def hold(self, row: dict[str, Any]) -> None:
        """Take a number for a row that is committed later."""
        if self.held is None:
            self.number += 1
            self.held = (self.number, row)

    def release(self) -> None:
        """Commit the row that is held, under its older number."""
        if self.held is not None:
            number, row = self.held
            self.held = None
            self.base.insert("products", [{name: row[name] for name in ("rid", "id", "url")}])
            self._write(number, [row["id"]])
            self.keys[row["rid"]] = row["id"]

    is_behind = False

    def trim(self) -> None:
        """Delete all changes but those of the overlap."""
        self.base.run(f"DELETE FROM product_changes WHERE changed_in < {self.number - self.OVERLAP}")

    def source(self, *, priority: bool) -> SqlSource:
        change_log = ChangeLog(table="product_changes", position="changed_in", overlap=self.OVERLAP, full_every=NEVER)
        return SqlSource(
            "machine", table="products", priority="prio" if priority else None, change_log=change_log, **FIELDS
        )
