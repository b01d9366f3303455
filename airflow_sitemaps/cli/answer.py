"""The result of a command: a document for programs, lines for people, and the success."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a command.

    Attributes:
        document: The result as JSON values.
        lines: The result as text. Default: none.
        well: Whether the exit status is 0; otherwise it is 1. Default: True.
        json: Whether to print the document, regardless of ``--json``. Default: None, which follows ``--json``.
    """

    document: Mapping[str, Any]
    lines: Iterable[str] = ()
    well: bool = True
    json: bool | None = None
