"""The page of rules says what the code says."""

from __future__ import annotations

from pathlib import Path

from airflow_sitemaps.protocol.extensions import RULE_OF
from airflow_sitemaps.protocol.rules import CHECKS, RULES

PAGE = Path(__file__).parents[2] / "docs" / "rules.md"


def test_every_rule_and_check_is_on_the_page_with_its_source() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for rule in RULES.values():
        assert any(line.startswith(f"| `{rule.name}` |") and rule.source in line for line in lines)
    for check in CHECKS.values():
        assert any(line.startswith(f"| `{check.name}` |") and check.source in line for line in lines)


def test_every_extension_has_a_rule_and_a_check() -> None:
    assert set(RULE_OF.values()) <= set(RULES) & set(CHECKS)
