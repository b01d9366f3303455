"""The tables of pages that the code's registries fill: ``python docs/tables.py`` writes them again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.metrics.registry import METRICS, TAGS
from airflow_sitemaps.protocol.rules import RULES
from airflow_sitemaps.protocol.validation.checks import CHECKS

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGES: Final = ("rules.md", "watch.md")
TABLE: Final = re.compile(r"(<!-- table of (\w+): [^\n]*-->\n\n).*?(\n<!-- end of table -->)", re.DOTALL)
"""A table, between the two comments that mark its place in a page."""


def _table(names: str, rows: Iterable[Iterable[str]]) -> str:
    head = [f"| {' | '.join(names.split(', '))} |", "|" + "---|" * len(names.split(", "))]
    return "".join(f"{line}\n" for line in [*head, *(f"| {' | '.join(row)} |" for row in rows)])


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


TABLES: Final = {
    "rules": _table(
        "Rule, Says, Source, Default, Settable to",
        (
            (f"`{r.name}`", r.text, r.source, f"`{r.default.value}`", _code(verdict.value for verdict in r.allowed))
            for r in RULES.values()
        ),
    ),
    "checks": _table(
        "Check, Says, Source, Severity", ((f"`{c.name}`", c.text, c.source, c.severity) for c in CHECKS.values())
    ),
    "metrics": _table(
        "Metric, Kind, Unit, Tags, Meaning",
        ((f"`{m.name}`", m.kind, m.unit, _code(m.tags), m.text) for m in METRICS.values()),
    ),
    "tags": _table("Tag, Value", ((f"`{name}`", text) for name, text in TAGS.items())),
}


def written(page: str) -> str:
    """Return a page with its tables as the registries have them."""
    return TABLE.sub(lambda match: match[1] + TABLES[match[2]] + match[3], page)


if __name__ == "__main__":
    for path in (Path(__file__).parent / name for name in PAGES):
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
