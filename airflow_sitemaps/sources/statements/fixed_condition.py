"""Check whether a condition depends only on the row. The result for an unchanged table then stays the same."""

from __future__ import annotations

import re
from typing import Final

OTHERS: Final = r"|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/"
LITERALS: Final = (
    re.compile(r"'(?:[^'\\]|\\.|'')*'" + OTHERS, re.DOTALL),
    re.compile(r"'(?:[^']|'')*'" + OTHERS, re.DOTALL),
)
"""A text, a quoted name or a comment, in which no word has a meaning. In some databases a backslash does not escape a quote."""
MOMENT: Final = re.compile(r"'\s*(?:now|today|yesterday|tomorrow)(?=[\s'])", re.IGNORECASE)
"""A text that some databases read as a time, such as Spark in ``date 'today'``."""
CALL: Final = re.compile(r"\b(?!(?:in|and|or|not|between|like|when|then|else|case)\b)\w+\s*\(", re.IGNORECASE)
CHANGING: Final = re.compile(
    r"\b(select|with|current\w*|local\w*|sys\w*|session\w*|user|now|today|yesterday|tomorrow|getdate|rownum)\b",
    re.IGNORECASE,
)


def is_fixed(condition: str | None) -> bool:
    """Return whether a condition only compares columns and constants. It calls no function and reads no other table.

    Args:
        condition: The SQL of the condition, or None.
    """
    if condition is None:
        return True
    if MOMENT.search(condition) is not None:
        return False
    bare = [literal.sub(" x ", condition) for literal in LITERALS]
    return all(CALL.search(text) is None and CHANGING.search(text) is None for text in bare)
