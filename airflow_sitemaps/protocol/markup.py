"""Text in XML: what XML 1.0 forbids, and how the rest is escaped."""

from __future__ import annotations

import re
from typing import Final

FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that no XML 1.0 document can hold, not even as a reference: controls, lone surrogates, U+FFFE, U+FFFF."""

_TEXT: Final = {"&": "&amp;", "'": "&apos;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_ATTRIBUTE: Final = {**_TEXT, "\t": "&#9;", "\n": "&#10;"}
_IN_TEXT: Final = re.compile("[&'\"<>\r]")
_IN_ATTRIBUTE: Final = re.compile("[&'\"<>\r\t\n]")


def text(value: str) -> str:
    """A value as the text of an element; a parser gives back exactly the value. It has no forbidden character."""
    return _IN_TEXT.sub(lambda match: _TEXT[match[0]], value) if _IN_TEXT.search(value) else value


def attribute(value: str) -> str:
    """A value for between double quotes; a parser gives back exactly the value. It has no forbidden character."""
    return _IN_ATTRIBUTE.sub(lambda match: _ATTRIBUTE[match[0]], value) if _IN_ATTRIBUTE.search(value) else value


def element(name: str, value: str, attributes: str = "") -> str:
    """``<name attributes>value</name>``; ``value`` and ``attributes`` are escaped already."""
    return f"<{name}{attributes}>{value}</{name}>"


def attributes(**values: str | None) -> str:
    """Escaped attributes with a leading space each, in the order given; those that are None are left out."""
    return "".join(f' {name}="{attribute(value)}"' for name, value in values.items() if value is not None)
