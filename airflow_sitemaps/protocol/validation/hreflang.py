"""Alternates that are not mutual: a page names another, and the other does not name it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_OPEN: Final = 500_000
"""Links kept while they wait for the link back; with more, the check is incomplete."""


class Reciprocity:
    """Links between pages in the order of the files; a link whose answer was read is removed."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], None] = {}
        self._listed_only = True

    @property
    def complete(self) -> bool:
        """Whether every link was looked at; False when more were open at once than are remembered."""
        return self._listed_only

    def add(self, page: str, others: Iterable[str]) -> None:
        """Add one page's alternates; the page itself is not a link."""
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
        """The links without a link back, as (page, the page it names), in their order."""
        return list(self._open) if self._listed_only else []
