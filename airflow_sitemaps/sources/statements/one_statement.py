"""The one SELECT of a user's query, which other statements take in parentheses."""

from __future__ import annotations

import re
from typing import Final

from airflow_sitemaps.errors import SourceConfigurationError

OTHERS: Final = r"""|"(?:[^"]|"")*"|`[^`]*`|\$(\w*)\$.*?\$\1\$|--[^\n]*|/\*.*?\*/|;|['"]"""
READINGS: Final = tuple(re.compile(text + OTHERS, re.DOTALL) for text in (r"'(?:[^']|'')*'", r"'(?:[^'\\]|\\.|'')*'"))
"""Texts, names and comments, in which a semicolon ends nothing. In some databases a backslash escapes a quote."""
NOTHING: Final = re.compile(r"(?:[\s;]|--[^\n]*|/\*.*?\*/)*", re.DOTALL)


def one_statement(sql: str, argument: str) -> str:
    """Return a query without the semicolon and the comments at its end.

    Raises:
        SourceConfigurationError: There is another statement after the semicolon.
    """
    is_several = False
    for reading in READINGS:
        tokens = list(reading.finditer(sql))
        if any(token.group() in {"'", '"'} for token in tokens):
            continue  # a quote that nothing closes: the database reads it in the other way
        end = next((token.start() for token in tokens if token.group() == ";"), len(sql))
        if NOTHING.fullmatch(sql, end):
            return sql[:end]
        is_several = True
    if is_several:
        raise SourceConfigurationError(
            f"{argument}: it holds several statements, separated by a semicolon; give one SELECT. Statements that set up the "
            "session belong in session="
        )
    return sql
