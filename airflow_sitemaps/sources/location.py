"""Where a row's ``loc`` comes from: one column, or a template over several."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Location:
    """``text`` is a column's name, or a template when it has braces: ``https://host/p/{slug}``."""

    text: str

    @property
    def is_template(self) -> bool:
        """Whether the URL is put together here."""
        return "{" in self.text

    @property
    def columns(self) -> tuple[str, ...]:
        """The source's columns that the URL needs, each once.

        Raises:
            ConfigurationError: a template that cannot be read.
        """
        return tuple(dict.fromkeys(self._template().columns)) if self.is_template else (self.text,)

    def expand(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """The URLs of string columns, by name."""
        return self._template().expand(dict(columns)) if self.is_template else columns[self.text]

    def _template(self) -> Any:
        # Late: the templates need pyarrow, and this module is imported where DAG files are parsed.
        return import_module("airflow_sitemaps.protocol.template").Template.parse(self.text)
