"""The JSON of a column: parsed within limits, and shown in messages without recursion."""

from __future__ import annotations

import json
from typing import Any, Final

MAX_DEPTH: Final = 32
"""Maximum number of levels of lists and objects. A meaningful record has at most five.

A fixed limit gives the same result for any depth of the caller's stack.
"""

SHOWN_CHARACTERS: Final = 60
"""Maximum number of characters of a value in a message."""

_SHOWN_LEVELS: Final = 2
_SHOWN_PARTS: Final = 5
_SHOWN_DIGITS: Final = 10**18
_MAX_DIGITS: Final = 400


def _integer(digits: str) -> int:
    """Parse a whole number. The number of digits is limited, because the time would grow with its square."""
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits):,} digits (limit {_MAX_DIGITS})")
    return int(digits)


_decode: Final = json.JSONDecoder(parse_int=_integer).decode


class JsonFault(ValueError):  # noqa: N818 - a value that breaks a rule, not a failure
    """A text is not usable JSON. The message says why."""


def parse(text: str) -> Any:
    """Parse the JSON of a column.

    Args:
        text: JSON. The constants NaN and Infinity are parsed; the fields that contain them are refused later.

    Returns:
        The value, with at most ``MAX_DEPTH`` levels.

    Raises:
        JsonFault: The text is not JSON, or its values are nested too deeply.
    """
    try:
        value = _decode(text)
    except json.JSONDecodeError as error:
        raise JsonFault(_reason(text, error)) from error
    except RecursionError as error:
        raise JsonFault(f"lists and objects are nested too deeply (limit {MAX_DEPTH} levels)") from error
    except ValueError as error:
        raise JsonFault(str(error)) from error
    return value


def check_depth(value: Any) -> None:
    """Refuse a value whose lists and objects are nested deeper than ``MAX_DEPTH``.

    Raises:
        JsonFault: The value is nested too deeply.
    """
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            part
            for whole in level
            for part in (whole.values() if isinstance(whole, dict) else whole)
            if isinstance(part, (dict, list))
        ]
    if level:
        raise JsonFault(f"lists and objects are nested too deeply (limit {MAX_DEPTH} levels)")


def shown(value: Any) -> str:
    """Return a value for a message: text as Python writes it, other values as JSON. Long values are shortened."""
    text = repr(value[: SHOWN_CHARACTERS + 1]) if isinstance(value, str) else json.dumps(_pruned(value, _SHOWN_LEVELS))
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def _pruned(value: Any, levels: int) -> Any:
    """Return the outer levels of a value, with a few parts of each."""
    if isinstance(value, str):
        return value[:SHOWN_CHARACTERS]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _SHOWN_DIGITS:
        return "a very large number"
    if not isinstance(value, (dict, list)) or not value:
        return value
    if not levels:
        return "…"
    if isinstance(value, dict):
        pairs = [
            (str(name)[:SHOWN_CHARACTERS], value[name]) for name, _ in zip(value, range(_SHOWN_PARTS), strict=False)
        ]
        return {name: _pruned(part, levels - 1) for name, part in pairs}
    return [_pruned(part, levels - 1) for part in value[:_SHOWN_PARTS]]


def _reason(text: str, error: json.JSONDecodeError) -> str:
    if text.lstrip()[:8].lower().startswith(("http://", "https://")):
        return 'a bare URL is not JSON; write it in double quotes, or as a list: ["https://…"]'
    return f"not JSON: {error.msg} at character {error.pos + 1:,}"
