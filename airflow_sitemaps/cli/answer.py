"""What a command answers: a document for programs, lines for people, and whether all is well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``document``: JSON values. ``lines``: the same for people. ``well`` is False for exit status 1."""

    document: Mapping[str, Any]
    lines: Iterable[str] = ()
    well: bool = True
