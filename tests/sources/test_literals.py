"""Values written into SQL: what stands between the quotes is what the server reads, in each SQLAlchemy."""

from __future__ import annotations

from datetime import datetime

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

from airflow_sitemaps.sources.literals import literal


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a\\:b", "'a\\:b'"),
        ("\\", "'\\'"),
        ("it's :x \\:y", "'it''s :x \\:y'"),
        (7, "7"),
        (datetime(2026, 1, 2, 3), "'2026-01-02 03:00:00'"),
    ],
)
def test_postgresql_reads_backslashes_as_they_are(value: object, written: str) -> None:
    statement = sa.text("SELECT \\:\\:x, :value"), {"value": value}
    assert literal(statement, postgresql.dialect(paramstyle="named")) == f"SELECT ::x, {written}"


def test_mysql_has_them_doubled() -> None:
    assert literal((sa.text(":value"), {"value": "\\"}), mysql.dialect(paramstyle="named")) == "'\\\\'"
