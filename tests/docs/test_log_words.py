"""The lines of the log that the pages quote are those that the code writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text()
QUOTES = re.findall(r"^\| (`.+?`) \|", PAGE.split("## Reading the log")[1].split("\n## ")[0], re.MULTILINE)
CODE = "\n".join(path.read_text() for path in (ROOT / "airflow_sitemaps").rglob("*.py"))
# Numbers, names, and where the code puts a text together from several.
BETWEEN = re.compile(r"\d+|products|loc-missing|…|`|[;:,.()]|WARNING|\bby (?=rule)|(?<=database )")


@pytest.mark.parametrize("quote", QUOTES)
def test_a_quoted_line_is_in_the_code(quote: str) -> None:
    """Each part of the line between its numbers, names and omissions is a text of the code."""
    for part in (part.strip() for part in BETWEEN.split(quote)):
        assert part in CODE, f"{quote}: {part!r}"


def test_there_are_quotes() -> None:
    assert len(QUOTES) >= 10
