"""The wheel and the source distribution: all that runs, nothing else, and the same bytes each time."""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the build backend is not installed")

ROOT = Path(__file__).parents[1]
DIST = os.environ.get("SITEMAPS_DIST")
"""The folder of a build to compare with: `make release-check` names its own."""

CODE = """
    cli example_dags http ledger notifications operators pipeline pipeline/plan pipeline/publish pipeline/state
    plugin plugin/pages ports protocol protocol/columnar protocol/extensions search_engines sensors shards shards/guards
    sources sources/dialects sources/queries stores stores/local stores/s3 triggers verification
"""
CONTENT = {
    **{f"airflow_sitemaps/{folder}": "*.py" for folder in CODE.split()},
    "airflow_sitemaps": "*.py py.typed",
    "airflow_sitemaps/plugin/static": "airflow-sitemaps.js icon.svg icon-dark.svg",
    "airflow_sitemaps/testing": "__init__.py",
    "*.dist-info": "METADATA WHEEL RECORD entry_points.txt",
    "*.dist-info/licenses": "LICENSE",
}
"""Every folder of the wheel, with the names of its files. Who adds a folder or a kind of file adds it here."""

AROUND = {
    "": "README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE pyproject.toml PKG-INFO .gitignore",
    "benchmarks": "README.md",
    "dags": "*.py .airflowignore",
    "dags/demo": "*.py",
    "docs": "*.md *.svg *.py grafana-dashboard.json",
    "docs/decisions": "*.md",
    "docs/pictures": "*.png",
}
"""What the source distribution has beside the package."""


def unexpected(names: list[str], content: dict[str, str]) -> list[str]:
    """The files that no line of a list allows, and the lines that no file needs."""
    used, others = set(), []
    for name in names:
        folder, _, file = name.rpartition("/")
        lines = [
            line for line, files in content.items()
            if fnmatch(folder, line) and any(fnmatch(file, pattern) for pattern in files.split())
            and folder.count("/") == line.count("/")
        ]  # fmt: skip
        used.update(lines)
        others += [] if lines else [name]
    return others + sorted(content.keys() - used)


def build(tree: Path, target: str, folder: Path) -> Path:
    """Build a distribution of a tree in a process of its own."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    environment = {"SOURCE_DATE_EPOCH": "1700000000", **os.environ}
    subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_the_listed_files_and_every_module(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert unexpected(names, CONTENT) == []
    sources = {str(path.relative_to(ROOT)) for path in (ROOT / "airflow_sitemaps").rglob("*.py")}
    assert sources <= set(names)


def test_the_source_distribution_holds_the_package_and_its_pages(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [member.name.partition("/")[2] for member in archive if member.isfile()]
    package = {line: files for line, files in CONTENT.items() if "dist-info" not in line}
    assert unexpected(names, {**package, **AROUND}) == []


def test_the_pages_of_the_source_distribution_link_to_files_that_it_holds(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        files = {member.name.partition("/")[2]: member for member in archive if member.isfile()}
        texts = {name: archive.extractfile(files[name]).read().decode() for name in files if name.endswith(".md")}  # type: ignore[union-attr]
    links = {
        posixpath.normpath(posixpath.join(posixpath.dirname(name), link))
        for name, text in texts.items()
        for link in re.findall(r"\]\(([^)\s#:]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    }
    assert "docs/install.md" in links
    assert sorted(links - files.keys()) == []


def test_a_file_that_is_not_listed_and_a_line_without_a_file_are_reported() -> None:
    content = {"a": "*.py", "a/b": "x.js", "c": "*.py"}
    assert unexpected(["a/one.py", "a/secret.env", "a/b/x.js", "a/b/y.js"], content) == [
        "a/secret.env",
        "a/b/y.js",
        "c",
    ]


def test_the_wheel_registers_its_command_provider_and_plugin(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = (
            archive.read(name).decode() for name in archive.namelist() if name.endswith("entry_points.txt")
        )
    assert set(re.findall(r"^\[(.+)\]$", entry_points, re.MULTILINE)) == {
        "console_scripts",
        "apache_airflow_provider",
        "airflow.plugins",
    }


def test_every_build_has_the_same_bytes(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """From the tree, and from the source distribution in another folder, with other times and permissions."""
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    for path in tree.rglob("*"):
        os.utime(path)
        path.chmod(0o700 if path.is_dir() else 0o600)
    assert build(tree, "wheel", tmp_path / "wheel").read_bytes() == wheel.read_bytes()
    assert build(ROOT, "sdist", tmp_path / "sdist").read_bytes() == sdist.read_bytes()


@pytest.mark.skipif(DIST is None, reason="no build to compare with: `make release-check` has one")
def test_the_build_to_upload_is_the_one_that_is_tested(sdist: Path, wheel: Path) -> None:
    assert {path.name: path.read_bytes() for path in Path(DIST or "").iterdir()} == {
        path.name: path.read_bytes() for path in (sdist, wheel)
    }
