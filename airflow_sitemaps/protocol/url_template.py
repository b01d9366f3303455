"""URL templates: ``https://host/p/{slug}?q={name}``, expanded from columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.loc import UNRESERVED

if TYPE_CHECKING:
    import pyarrow as pa

_TOKEN: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_COLUMN: Final = re.compile(r"([^\W\d][\w.$ -]*)(?::(\w+))?")
_SAFE: Final = {"": "", "path": "/"}
"""Characters that each conversion leaves unencoded, in addition to the unreserved ones of RFC 3986."""


@dataclass(frozen=True, slots=True)
class Field:
    """A placeholder for the value of a column. The conversion ``path`` keeps slashes; without one, they are encoded."""

    column: str
    conversion: str = ""


@dataclass(frozen=True, slots=True)
class Template:
    """A URL with placeholders for columns: the text as the user wrote it, and its texts and fields, in order."""

    text: str
    parts: tuple[str | Field, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Parse a template. ``{column}`` is a placeholder, ``{column:path}`` keeps slashes, and ``{{`` is a brace."""
        parts: list[str | Field] = []
        literal, end = "", 0
        for token in _TOKEN.finditer(text):
            literal, end = literal + text[end : token.start()], token.end()
            if token[1] is not None:
                parts += [*filter(None, [literal]), _field(token[1], text)]
                literal = ""
            elif len(token[0]) == 2:
                literal += token[0][0]
            else:
                raise ConfigurationError(
                    f"template {text!r}: the {token[0]!r} at character {token.start() + 1} has no matching brace; "
                    "write {{ or }} for a brace that belongs to the URL"
                )
        literal += text[end:]
        return cls(text, (*parts, literal) if literal else tuple(parts))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in the order of their first placeholders."""
        return tuple(dict.fromkeys(part.column for part in self.parts if isinstance(part, Field)))

    def expand(self, columns: Mapping[str, pa.Array]) -> pa.StringArray:
        """Return the URL of each row, with percent-encoded values; null if a value is missing.

        Numbers, decimals and dates are written as Arrow writes them as text. An empty value of ``{column}`` counts as
        missing, because ``/p/{slug}`` without a slug is another page. An empty ``{column:path}`` is kept, because the home page
        has an empty path. It raises ConfigurationError if a column is missing, or the template has none.
        """
        import pyarrow.compute as pc  # noqa: PLC0415

        fault = (
            None if self.columns else "it has no {column}; give a column that holds whole URLs, or a template with one"
        )
        for name in self.columns:
            if name not in columns:
                fault = fault or f"no column {name!r}; there are {', '.join(columns)}"
        if fault:
            raise ConfigurationError(f"template {self.text!r}: {fault}")
        joined = (
            part if isinstance(part, str) else _values(columns[part.column], part.conversion) for part in self.parts
        )
        return pc.binary_join_element_wise(*joined, "", null_handling="emit_null")


def _field(inside: str, text: str) -> Field:
    match = _COLUMN.fullmatch(inside)
    if match is None:
        raise ConfigurationError(
            f"template {text!r}: {{{inside}}} is not a column name; write {{{{ for a literal brace"
        )
    if match[2] is not None and match[2] not in _SAFE:
        raise ConfigurationError(
            f"template {text!r}: {{{inside}}} has an unknown conversion {match[2]!r}; there is only 'path', which "
            "keeps slashes"
        )
    return Field(match[1], match[2] or "")


def _values(column: pa.Array, conversion: str) -> pa.StringArray:
    """Return the values of a placeholder, percent-encoded; null if a value is missing. Few rows are processed one by one."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    from airflow_sitemaps.protocol.columnar import as_texts, value_bytes  # noqa: PLC0415

    values, safe = as_texts(column), _SAFE[conversion]
    if value_bytes(values).translate(None, (UNRESERVED + safe).encode()):
        special = pc.match_substring_regex(values, f"[^{re.escape(UNRESERVED + safe)}]")
        dirty = pc.fill_null(pc.or_(special, pc.invert(pc.string_is_ascii(values))), False)
        rows = values.filter(dirty).cast(pa.binary()).to_pylist()
        encoded = pa.array([_quote(row, safe) for row in rows], pa.binary()).view(pa.string())
        values = pc.replace_with_mask(values, dirty, encoded)
    if conversion:
        return values
    empty = pc.equal(pc.binary_length(values), 0)
    return pc.if_else(empty, None, values) if empty.true_count else values


def _quote(value: bytes, safe: str) -> bytes:
    """Percent-encode UTF-8 with surrogate pairs joined. Bytes that are not text stay: ``loc-characters`` drops the row."""
    try:
        value.decode()
    except UnicodeDecodeError:
        try:
            units = value.decode("utf-8", "surrogatepass").encode("utf-16-le", "surrogatepass")
            value = units.decode("utf-16-le").encode()
        except UnicodeDecodeError:
            return value
    return quote(value, safe=safe).encode()
