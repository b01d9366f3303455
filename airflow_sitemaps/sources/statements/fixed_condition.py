"""Check whether a condition depends only on the row. The result for an unchanged table then stays the same.

The check accepts a small grammar: names, constants, operators, parentheses, and ``IN`` with a list of constants. Every other
condition counts as one whose result may change. ``id IN featured``, for example, reads another table in ClickHouse.
"""

from __future__ import annotations

import re
from typing import Final

TOKENS: Final = r"""
  (?P<skip>    \s+ | --[^\n]* | /\*.*?\*/ )
| (?P<l>       (?:\b(?:date|datetime|timestamp)\s*)? {text} | \b(?:null|true|false)\b | :[A-Za-z_]\w*
             | \b\d+(?:\.\d*)?(?:e[+-]?\d+)?\b )
| (?P<u>       \bnot\b )
| (?P<i>       \bin\b )
| (?P<o>       \b(?:and|or|is|like|ilike|rlike|regexp|between|escape)\b | <=>|<>|!=|<=|>=|==|\|\||[=<>+*/%] )
| (?P<n>       (?:{name}) (?:\.(?:{name}))* )
| (?P<sign>    [-(),] )
| (?P<quote>   ['"`] )
| (?P<other>   . )
"""
NAME: Final = r'[A-Za-z_]\w* | "(?:[^"]|"")*" | `[^`]*`'
READINGS: Final = tuple(
    re.compile(TOKENS.format(text=text, name=NAME), re.VERBOSE | re.DOTALL | re.IGNORECASE)
    for text in (r"'(?:[^'\\]|\\.|'')*'", r"'(?:[^']|'')*'")
)
"""The tokens. In some databases a backslash does not escape a quote, so there are two readings."""
CHANGING: Final = re.compile(
    r"current\w*|localtime\w*|sys\w*|utc_\w*|session\w*|user|now|today|yesterday|tomorrow|getdate|rownum|_part\w*",
    re.IGNORECASE,
)
"""Names without quotes that some databases read as a function or as the place of a row in storage."""
MOMENT: Final = re.compile(r"'\s*(?:now|today|yesterday|tomorrow)(?=[\s'])", re.IGNORECASE)
"""A text that some databases read as a time, such as Spark in ``date 'today'``."""
REDUCTIONS: Final = (
    (re.compile(r"u(?=[io])"), ""),  # NOT IN, NOT LIKE
    (re.compile(r"([nlv])i\(-?l(?:,-?l)*\)"), "v"),
    (re.compile(r"\([nlv]\)"), "v"),
    (re.compile(r"(?<![nlv)])[u-][nlv]"), "v"),
    (re.compile(r"[nlv][o-][nlv]"), "v"),
)
"""How parts of a condition join to a value ``v``: ``n`` is a name, ``l`` a constant, ``o`` an operator, ``u`` is NOT."""


def is_fixed(condition: str | None) -> bool:
    """Return whether a condition only compares columns and constants. It calls no function and reads no other table.

    Args:
        condition: The SQL of the condition, or None.
    """
    if condition is None:
        return True
    if MOMENT.search(condition) is not None:
        return False
    readings = [tokens for reading in READINGS if "q" not in (tokens := _tokens(reading, condition))]
    return bool(readings) and all(_is_value(tokens) for tokens in readings)


def _tokens(reading: re.Pattern[str], condition: str) -> str:
    """Return one letter for each token. ``q`` is a quote that nothing closes, so the reading is wrong."""
    letters = []
    for match in reading.finditer(condition):
        kind = match.lastgroup or "other"
        if kind == "n" and CHANGING.fullmatch(match.group()):
            kind = "other"
        letters.append({"skip": "", "sign": match.group(), "quote": "q", "other": "?"}.get(kind, kind))
    return "".join(letters)


def _is_value(tokens: str) -> bool:
    before = ""
    while before != tokens:
        before = tokens
        for pattern, value in REDUCTIONS:
            tokens = pattern.sub(value, tokens)
    return tokens in {"n", "l", "v"}
