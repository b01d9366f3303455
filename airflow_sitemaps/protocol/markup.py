"""Text in XML: the characters that XML 1.0 forbids, and escaping."""

from __future__ import annotations

import re
from typing import Final

FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that no XML 1.0 document may contain, not even as a reference: controls, lone surrogates, U+FFFE, U+FFFF."""

_VARIANT: Final = re.compile(rb"<!-- variant \d+ -->\n\Z", re.ASCII)

_TEXT: Final = {"&": "&amp;", "'": "&apos;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_ATTRIBUTE: Final = {**_TEXT, "\t": "&#9;", "\n": "&#10;"}
_IN_TEXT: Final = re.compile("[&'\"<>\r]")
_IN_ATTRIBUTE: Final = re.compile("[&'\"<>\r\t\n]")


def text(value: str) -> str:
    """Escape a value without forbidden characters as the text of an element."""
    return _IN_TEXT.sub(lambda match: _TEXT[match[0]], value) if _IN_TEXT.search(value) else value


def attribute(value: str) -> str:
    """Escape a value without forbidden characters as an attribute in double quotes."""
    return _IN_ATTRIBUTE.sub(lambda match: _ATTRIBUTE[match[0]], value) if _IN_ATTRIBUTE.search(value) else value


def element(name: str, value: str, attributes: str = "") -> str:
    """Return ``<name attributes>value</name>``. ``value`` and ``attributes`` must be escaped already."""
    return f"<{name}{attributes}>{value}</{name}>"


def attributes(**values: str | None) -> str:
    """Return escaped attributes in the given order, each after a space. Those that are None are omitted."""
    return "".join(f' {name}="{attribute(value)}"' for name, value in values.items() if value is not None)


def with_comment(xml: bytes, variant: int) -> bytes:
    """Return the same document with a comment at its end, so that its bytes differ from those of other variants.

    The content stays the same. Variant 0 is the plain form.
    """
    return xml + b"<!-- variant %d -->\n" % variant if variant else xml


def without_comment(xml: bytes) -> bytes:
    """Return a document as it was before ``with_comment``."""
    comment = _VARIANT.search(xml, max(0, len(xml) - 64))
    return xml[: comment.start()] if comment else xml
