"""The documentation site: its contents name every page, and its reference names every public name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import airflow_sitemaps

if TYPE_CHECKING:
    from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


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


def test_pages_from_the_root_keep_no_link_that_leads_out(conf: ModuleType) -> None:
    for page in conf.INCLUDED:
        source = [""]
        conf.on_source_read(None, page, source)
        assert "](docs/" not in source[0]
        assert "](dags/" not in source[0]
        assert source[0].startswith("# ")
