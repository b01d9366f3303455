"""Alternates that are not mutual: a page names another, and the other does not name it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_OPEN: Final = 500_000
"""Links remembered while they wait for the link back; beyond this nothing more can be said with certainty."""


class Reciprocity:
    """Links between pages in the order of the files; a link that is answered is forgotten."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], None] = {}
        self._listed_only = True

    @property
    def complete(self) -> bool:
        """Whether every link was looked at; False when more were open at once than are remembered."""
        return self._listed_only

    def add(self, page: str, others: Iterable[str]) -> None:
        """Take one page's alternates; itself among them is no link."""
        for other in others:
            if other == page:
                continue
            if (other, page) in self._open:
                del self._open[other, page]
            elif len(self._open) < MAX_OPEN:
                self._open[page, other] = None
            else:
                self._listed_only = False

    def one_way(self) -> list[tuple[str, str]]:
        """The links that nobody answered, as (page, the page it names), in the order found."""
        return list(self._open) if self._listed_only else []
