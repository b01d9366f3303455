"""A statement with its values written into it, for the places that take no binds: COPY, and CREATE TABLE AS."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

if TYPE_CHECKING:
    from airflow_sitemaps.sources.statement import Statement

COLON: Final = re.compile(r"\\:|(?<![:\w\\]):(\w+)(?![:\w])")
"""An escaped colon, or a placeholder."""


def literal(statement: Statement, dialect: sa.Dialect) -> str:
    """The statement as final SQL, its values written as literals by SQLAlchemy, which escapes what must be escaped.

    The text is walked once: SQLAlchemy's own way (``literal_binds`` of a ``text``) would unescape the colons inside
    the values as well. ``dialect`` must not be one that doubles percent signs for its driver.
    """
    clause, values = statement
    if dialect.name == "postgresql":
        # SQLAlchemy 2.0 doubles backslashes until it has asked a server; ours are told standard_conforming_strings.
        dialect._backslash_escapes = False  # type: ignore[attr-defined]  # noqa: SLF001 - it has no other switch

    def written(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return ":"
        value = sa.literal(values[match.group(1)])
        return str(value.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))

    return COLON.sub(written, clause.text)
