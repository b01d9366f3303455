"""Statements with literal values, for commands that accept no binds: COPY and CREATE TABLE AS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_sitemaps.sources.statements.binds import Statement

COLON: Final = re.compile(r"\\:|(?<![:\w\\]):(\w+)(?![:\w])")
"""An escaped colon, or a placeholder."""


def literal(statement: Statement, dialect: sa.Dialect, text_literal: Callable[[str], str]) -> str:
    """Return a statement as final SQL with its values as literals.

    The text is scanned once. SQLAlchemy's ``literal_binds`` of a ``text`` also unescapes the colons inside the values.

    Args:
        dialect: The SQLAlchemy dialect that writes all values except texts. It must not double percent signs.
        text_literal: The function that writes a text. Some of SQLAlchemy's dialects double percent signs (BigQuery).
            Others leave backslashes that begin an escape (ClickHouse), with which a value could end its literal.
    """
    clause, values = statement

    def written(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return ":"
        value = values[match.group(1)]
        if isinstance(value, str):
            return text_literal(value)
        return str(sa.literal(value).compile(dialect=dialect, compile_kwargs={"literal_binds": True}))

    return COLON.sub(written, clause.text)
