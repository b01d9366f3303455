"""Check whether a condition depends only on the row. The result for an unchanged table then stays the same."""

from __future__ import annotations

import re
from typing import Final

LITERAL: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""A text, a quoted name or a comment, in which no word has a meaning."""
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
    bare = LITERAL.sub(" x ", condition)
    return CALL.search(bare) is None and CHANGING.search(bare) is None
