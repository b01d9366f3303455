"""Alternates that are not mutual: a page links to another, which does not link back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_OPEN: Final = 500_000
"""Maximum number of links that wait for the link back. If there are more, the check is incomplete."""


class Reciprocity:
    """Links between pages in the order of the files. A link is removed when the link back is read."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], None] = {}
        self._listed_only = True

    @property
    def complete(self) -> bool:
        """Whether every link was checked. False if more links than ``MAX_OPEN`` waited at the same time."""
        return self._listed_only

    def add(self, page: str, others: Iterable[str]) -> None:
        """Add one page's alternates. A link to the page itself does not count."""
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
        """Return the links without a link back, as (page, linked page), in their order."""
        return list(self._open) if self._listed_only else []
