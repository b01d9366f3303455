"""The source of a row's ``loc``: one column, or a template over several."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from airflow_sitemaps.protocol.url_template import Template

if TYPE_CHECKING:
    from collections.abc import Mapping

MARK: Final = "\x1a"
"""The character before a byte that is not UTF-8; see ``readers.cursor``."""


@dataclass(frozen=True, slots=True)
class LocMapping:
    """The columns of a URL, and how they are combined.

    Attributes:
        text: A column's name, or a template if it has braces: ``https://host/p/{slug}``.
    """

    text: str

    @property
    def is_template(self) -> bool:
        """Whether a template builds the URL."""
        return "{" in self.text

    @property
    def columns(self) -> tuple[str, ...]:
        """The source's columns that the URL needs, each once.

        Raises:
            ConfigurationError: The template is invalid.
        """
        return tuple(dict.fromkeys(self._template().columns)) if self.is_template else (self.text,)

    def expand(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Return the URLs of a batch.

        A value with the mark of bytes that are not UTF-8 (U+001A) is not percent-encoded, because the encoded mark would be a
        valid character of the URL.
        """
        if not self.is_template:
            return columns[self.text]
        locs = self._template().expand(dict(columns))
        marks = [pc.match_substring(columns[name], MARK) for name in self.columns if _is_text(columns[name])]
        marked = reduce(pc.or_kleene, marks) if marks else None
        if marked is None or not pc.any(marked).as_py():
            return locs
        return pc.if_else(marked, pc.replace_substring(locs, quote(MARK), MARK), locs)

    def _template(self) -> Template:
        return Template.parse(self.text)


def _is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))
