"""Suggestions for messages: existing names that are similar to a name that does not exist."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests existing names for one that does not exist.

    Args:
        name: The name that does not exist.

    Returns:
        The sentence with a leading space, or the empty text if ``known`` is empty.
    """
    names = list(dict.fromkeys(known))
    if not names:
        return ""
    folded = {candidate.casefold(): candidate for candidate in reversed(names)}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=5, cutoff=0.5)]
    if close:
        return f" Did you mean {', '.join(map(repr, close))}?"
    shown = ", ".join(map(repr, sorted(names)[:20]))
    return f" There {'is' if len(names) == 1 else 'are'} {shown}{', …' if len(names) > 20 else ''}."
