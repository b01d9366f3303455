"""The tree keeps its shape: few modules a folder, no import circle, nouns for names, plain English."""

from __future__ import annotations

import re

import grimp
import pytest

from tests.structure import budget
from tests.structure.allowances import allowances, verdict
from tests.structure.checks import CHECKS, UNPLAIN_WORDS
from tests.structure.inventory import import_circles, import_graph, modules

MAX_LINES = 46_915
MAX_MODULES = 198
"""The whole package, whatever its folders have."""


@pytest.mark.parametrize("check", CHECKS)
def test_offences_stay_within_the_shrinking_lists(check: str) -> None:
    lines = verdict(check, CHECKS[check]())
    assert not lines, "\n".join(lines)


def test_each_folder_keeps_to_its_budget() -> None:
    lines = budget.excess()
    assert not lines, "\n".join([*lines, "Shorten it, or raise budget.txt in a commit of its own that says why"])
    allowed = budget.total(budget.budget())
    assert allowed.lines <= MAX_LINES
    assert allowed.modules <= MAX_MODULES


def test_a_folder_that_grew_and_one_that_is_gone_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "sizes", lambda: {"cli": budget.Size(101, 2), "new": budget.Size(5, 1)})
    monkeypatch.setattr(budget, "budget", lambda: {"cli": budget.Size(100, 2), "gone": budget.Size(9, 1)})
    assert budget.excess() == [
        "cli: 101 lines in 2 modules; the budget allows 100 in 2",
        "new: 5 lines in 1 modules; the budget allows 0 in 0",
        "gone: no such folder; remove its line",
    ]


def test_every_module_is_in_the_import_graph() -> None:
    assert set(modules()) <= import_graph().modules
    assert len(modules()) > 100


def test_a_circle_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = grimp.ImportGraph()
    graph.add_import(importer="a", imported="b")
    graph.add_import(importer="b", imported="c")
    graph.add_import(importer="c", imported="a")
    graph.add_import(importer="d", imported="a")
    monkeypatch.setattr("tests.structure.inventory.import_graph", lambda: graph)
    assert import_circles() == [["a", "b", "c"]]


def test_an_excess_and_a_stale_allowance_are_both_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.structure.allowances.allowances", lambda: {"any": {"a.py": 1, "clean.py": 2}})
    assert verdict("any", {"a.py": ["one"]}) == ["clean.py: clean now; run `python -m tests.structure --shrink`"]
    lines = verdict("any", {"a.py": ["one", "two"], "b.py": ["three"], "clean.py": ["four"]})
    assert [line for line in lines if not line.startswith(" ")] == [
        "a.py: 2 offences, allowed 1",
        "b.py: 1 offences, allowed 0",
    ]


def test_allowances_name_known_checks_only() -> None:
    table = allowances()
    assert table.keys() <= CHECKS.keys()
    assert all(count > 0 for counts in table.values() for count in counts.values())


def test_the_word_list_matches_words_and_nothing_within_words() -> None:
    def hits(text: str) -> bool:
        return any(re.search(pattern, text, re.IGNORECASE) for pattern in UNPLAIN_WORDS)

    assert all(hits(text) for text in ("nobody knows", "Mended by hand", "too dear", "it came of this", "lies there"))
    assert not any(hits(text) for text in ("amended", "earlier", "recommend", "a shard", "otherwise", "task", "layout"))
