"""Numbers with their nouns, for lines that people read."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the right form: ``1 range``, ``2,000 ranges``, ``3 batches``.

    Args:
        number: The number.
        noun: The noun in the singular. Its last word takes the ending.
    """
    if number == 1:
        return f"1 {noun}"
    ending = "es" if noun.endswith(("ch", "x", "s")) else "s"
    return f"{number:,} {noun}{ending}"
