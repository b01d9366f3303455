"""The verdict: every combination, judged by the table in docs/verdict.md and by the code."""

from __future__ import annotations

import itertools
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from airflow_sitemaps.plugin.pages import verdict
from airflow_sitemaps.plugin.pages.verdict import Evidence, judge

DOCS = Path(__file__).parents[2] / "docs" / "verdict.md"
VALUES: dict[str, tuple[Any, ...]] = {
    "publishers": get_args(verdict.Publishers),
    "published": (True, False),
    "result": get_args(verdict.LastResult),
    "verification": get_args(verdict.Check),
    "freshness": get_args(verdict.Freshness),
    "paused": (True, False),
    "import_errors": (True, False),
    "warned": (True, False),
}
"""Every value of every field of the evidence."""


def table() -> list[tuple[dict[str, set[str]], str, str]]:
    """The rows of the docs' table: conditions by field, the state, the reason."""
    text = DOCS.read_text()
    section = text[text.index("<!-- verdicts -->") : text.index("<!-- /verdicts -->")]
    rows = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[0] == "when" or set(cells[0]) <= {"-", " ", ":"}:
            continue
        conditions = dict(re.findall(r"`(\w+)` is ((?:`\w+`(?: or )?)+)", cells[0]))
        wanted = {name: set(re.findall(r"`(\w+)`", values)) for name, values in conditions.items()}
        assert wanted or cells[0] == "anything else", f"a row that cannot be read: {line}"
        rows.append((wanted, cells[1].replace("*", "").lower().replace(" ", "_"), cells[2]))
    return rows


def of_table(evidence: Evidence, rows: list[tuple[dict[str, set[str]], str, str]]) -> tuple[str, str]:
    for wanted, state, reason in rows:
        if all(str(getattr(evidence, name)).lower() in values for name, values in wanted.items()):
            return state, reason
    raise AssertionError(f"no row for {evidence}")


def test_every_field_has_its_values_here() -> None:
    assert list(VALUES) == [field.name for field in fields(Evidence)]


def test_the_docs_table_and_the_code_agree_on_every_combination() -> None:
    rows = table()
    differing = []
    for combination in itertools.product(*VALUES.values()):
        evidence = Evidence(**dict(zip(VALUES, combination, strict=True)))
        found = judge(evidence)
        if (found.state, found.reason) != of_table(evidence, rows):
            differing.append((evidence, found, of_table(evidence, rows)))

    assert differing[:3] == []


def test_every_row_of_the_table_decides_something() -> None:
    decided = {judge(Evidence(**dict(zip(VALUES, c, strict=True)))) for c in itertools.product(*VALUES.values())}

    assert {(v.state, v.reason) for v in decided} == {(state, reason) for _, state, reason in table()}
