"""The pages for contributors name files, commands and targets that exist."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from airflow_sitemaps.ports import ObjectInfo, ObjectStore

ROOT = Path(__file__).parents[2]
PAGES = ("CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", *(f"docs/decisions/{n}" for n in ("README.md",)))
WALK = re.compile(r"^\| (add a dialect|add a rule about URLs|find [^|]+) \| ([^|]+) \|$", re.MULTILINE)
PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?|[A-Z]+\.md)`")


def test_the_four_walks_name_four_files_at_most() -> None:
    walks = dict(WALK.findall((ROOT / "CONTRIBUTING.md").read_text()))
    assert set(walks) == {
        "add a dialect",
        "add a rule about URLs",
        "find where a shard's name is allocated",
        "find how the code handles a lost answer to a PUT",
    }
    for walk, files in walks.items():
        paths = re.findall(r"`([^`]+)`", files)
        assert 1 <= len(paths) <= 4, walk
        assert all((ROOT / path).is_file() for path in paths), walk


def test_the_walks_lead_to_what_they_promise() -> None:
    package = ROOT / "airflow_sitemaps"
    assert "def _allocate" in (package / "shards/section_commit.py").read_text()
    assert "def put_verified" in (package / "pipeline/state/repository.py").read_text()
    assert "DIALECTS" in (package / "sources/dialects/__init__.py").read_text()
    assert "_rule(" in (package / "protocol/rules.py").read_text()


def test_what_the_pages_need_of_a_store_is_named() -> None:
    walk = (ROOT / "CONTRIBUTING.md").read_text().partition("### Add a store\n")[2].partition("###")[0]
    assert all(name in walk for name in ("`state_uri`", "`conn_id`", '`url("")`', "`_CONNECTIONS`", "slash"))
    assert "``open_area``" in (ObjectStore.url.__doc__ or "")


def test_the_ports_say_that_times_have_a_zone() -> None:
    assert "modified_at: Time of the last write, with its time zone." in (ObjectInfo.__doc__ or "")


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page: str) -> None:
    text = (ROOT / page).read_text()
    paths = {path for path in PATH.findall(text) if "<" not in path and not path.startswith(("runs/", "dist/"))}
    missing = [path for path in paths if not any((base / path).exists() for base in (ROOT, ROOT / "airflow_sitemaps"))]
    assert not missing, f"{page} names {missing}"


@pytest.mark.parametrize("page", ["guarantees.md", "security.md"])
def test_every_test_that_a_promise_names_exists(page: str) -> None:
    named = set(re.findall(r"`((?:tests/[\w/]+/)?test_\w+\.py)`", (ROOT / "docs" / page).read_text()))
    files = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(named) > 10
    assert [name for name in sorted(named) if not any(name in (str(path), path.name) for path in files)] == []


def test_the_layout_lists_every_package() -> None:
    layout = (ROOT / "CONTRIBUTING.md").read_text().partition("## Layout")[2].partition("## Where to start")[0]
    packages = {path.parent.name for path in (ROOT / "airflow_sitemaps").glob("*/__init__.py")}
    assert packages == {name for name in re.findall(r"`(?:airflow_sitemaps/)?(\w+)/`", layout) if name in packages}


def test_every_target_that_a_page_names_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for command in re.findall(r"`make ([\w -]+)`", (ROOT / page).read_text()):
            assert set(command.split()) <= targets, f"{page}: make {command}"


def test_every_decision_record_is_listed_and_complete() -> None:
    folder = ROOT / "docs/decisions"
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    listed = re.findall(r"\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text())
    assert records == listed
    for record in records:
        text = (folder / record).read_text()
        for heading in ("## Problem", "## Decision", "## Rejected alternatives", "## Figures"):
            assert heading in text, f"{record} has no {heading!r}"


def test_the_workflow_calls_the_ci_script() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert any(step.get("run") == ".ci/run" for step in steps)
    assert (ROOT / ".ci/run").stat().st_mode & 0o111


def test_the_release_publishes_what_one_job_without_rights_has_built() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    workflow = yaml.safe_load(text)
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {}
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert "make release-check" in [step.get("run") for step in jobs["build"]["steps"]]
    assert {name for name, job in jobs.items() if "id-token" in job["permissions"]} == {"attest", "pypi"}
    assert set(jobs["pypi"]["needs"]) == {"ci", "build", "attest"}
    assert "secrets." not in text


def _run_of_release(job: str, step: str, folder: Path, tag: str) -> subprocess.CompletedProcess[str]:
    """Run one shell step of the release as GitHub does, with the tag as the only value of its context."""
    steps = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"][job]["steps"]
    script = next(each["run"] for each in steps if each.get("name", "").startswith(step))
    assert "${{" not in script, "a tag's name could hold shell code: pass it in env"
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "TAG": tag}
    return subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("tag", "heading", "passes"),
    [
        ("v0.1.0", "## 0.1.0, 2026-01-31", True),
        ("v0.1.0", "## 0.1.0, not released yet", False),
        ("v0.1.0", "## 0.2.0, 2026-01-31", False),
        ("v0.1.0", "## 0x1.0, 2026-01-31", False),
        ("v0.2.0", "## 0.2.0, 2026-01-31", False),
    ],
)
def test_the_release_needs_the_version_of_the_code_in_the_tag_and_the_changelog(
    tmp_path: Path, tag: str, heading: str, passes: bool
) -> None:
    (tmp_path / "airflow_sitemaps").mkdir()
    (tmp_path / "airflow_sitemaps/__init__.py").write_text('"""Text."""\n__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n\nThe first release.\n")
    assert (_run_of_release("build", "The tag and the changelog", tmp_path, tag).returncode == 0) is passes


def test_the_page_of_the_release_has_the_files_that_the_artifacts_hold(tmp_path: Path) -> None:
    for name in ("dist/a.whl", "dist/a.tar.gz", "sbom/sbom.cdx.json"):  # one folder for each artifact
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "gh").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "gh").chmod(0o755)
    files = "dist/a.tar.gz dist/a.whl sbom/sbom.cdx.json"
    printed = _run_of_release("page", "The release's page", tmp_path, "v0.1.0").stdout
    assert printed == f"release create v0.1.0 --verify-tag --generate-notes {files}\n"


def test_the_actions_of_the_release_are_pinned_by_their_commits() -> None:
    lines = re.findall(r"uses: ([^./].+)", (ROOT / ".github/workflows/release.yml").read_text())
    unpinned = [line for line in lines if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)]
    assert len(lines) > 5
    assert unpinned == ["pypa/gh-action-pypi-publish@v1.14.0"]  # its commit could not be verified yet


def test_each_version_has_twenty_lines_at_most_in_the_changelog() -> None:
    _, *versions = (ROOT / "CHANGELOG.md").read_text().split("\n## ")
    assert versions
    assert [text.partition("\n")[0] for text in versions if len(text.strip().splitlines()) > 20] == []


def test_pre_commit_runs_what_make_lint_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    entries = " ".join(hook["entry"] for hook in hooks)
    assert all(tool in entries for tool in ("ruff check", "ruff format", "mypy", "lint-imports"))
