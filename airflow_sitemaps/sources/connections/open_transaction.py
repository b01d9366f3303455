"""A transaction of another session that is still open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has written and has not ended.

    Attributes:
        name: What identifies it.
        description: Its session, for messages.
        age: How long it has been open, or None if the role may not see it.
    """

    name: str
    description: str
    age: timedelta | None
