"""The documentation site: its contents name every page, and its reference names every public name."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import airflow_sitemaps

if TYPE_CHECKING:
    from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"
MOST_WORDS = 1_200
OF_ANY_LENGTH = {"guarantees.md", "reference.md", "rules.md", "settings.md", "decisions/protocol-policy.md"}
"""Pages to look things up in."""


@pytest.fixture
def conf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))  # restored after the test: conf.py sets its own
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    spec = importlib.util.spec_from_file_location("docs_conf", DOCS / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_contents(conf: ModuleType) -> None:
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")} - {"index"}
    listed = set(conf.contents().split())
    assert pages <= listed
    assert all((DOCS / f"{page}.md").is_file() for chapter in conf.CONTENTS.values() for page in chapter)


def test_the_reference_documents_every_public_name(conf: ModuleType) -> None:
    text = conf.reference()
    for name in set(airflow_sitemaps.__all__) - {"__version__"}:
        assert f".{name}\n" in text
    assert ".. autofunction:: airflow_sitemaps.pipeline.build\n" in text
    assert ".. autoclass:: airflow_sitemaps.errors.GuardError\n" in text


def test_the_side_bar_has_the_needs_of_the_landing_page(conf: ModuleType) -> None:
    assert list(conf.CONTENTS)[:3] == ["Start", "Write sections", "Publish"]
    pages = [page for chapter in conf.CONTENTS.values() for page in chapter]
    assert len(pages) == len(set(pages))
    assert {"readme", "changelog", "contributing"} <= set(pages)


def test_the_reference_has_each_name_once_under_the_need_that_it_serves(conf: ModuleType) -> None:
    names = [name for module, group in conf.PUBLIC.values() if module == "airflow_sitemaps" for name in group]
    assert sorted(names) == sorted(conf.EXPORTED)
    groups = [len(conf.PUBLIC[need][1]) for need in conf.NEEDS]
    assert min(groups) > 3
    assert "Sitemap" in conf.PUBLIC["Sitemaps, sections and their sources"][1]
    assert "SitemapRollbackOperator" in conf.PUBLIC["Task group, operators, sensor and messages"][1]


def test_pages_from_the_root_keep_no_link_that_leads_out(conf: ModuleType) -> None:
    for page in conf.INCLUDED:
        source = [""]
        conf.on_source_read(None, page, source)
        assert "](docs/" not in source[0]
        assert "](dags/" not in source[0]
        assert source[0].startswith("# ")


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.name)
def test_no_page_has_too_many_words(path: Path) -> None:
    page = path.relative_to(DOCS).as_posix()
    words = len(path.read_text(encoding="utf-8").split())
    assert words <= MOST_WORDS or page in OF_ANY_LENGTH


def test_the_landing_page_shows_the_dag_of_the_readme_and_leads_to_every_page() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n.*?```", (DOCS.parent / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    assert block[0] in text
    pages = {path.name for path in DOCS.glob("*.md")} - {"index.md", "readme.md", "contributing.md", "changelog.md"}
    assert pages - {"benchmarks.md"} <= set(re.findall(r"\]\(([\w-]+\.md)\)", text))
