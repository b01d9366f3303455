"""The wheel with every extra: a resolver finds versions that fit together, and each extra exists where it is named."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 reads TOML")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = sorted(PROJECT["optional-dependencies"])


def test_nothing_is_excluded_that_a_constraints_file_may_hold() -> None:
    requirements = [*PROJECT["dependencies"], *(r for extra in EXTRAS for r in PROJECT["optional-dependencies"][extra])]

    assert [requirement for requirement in requirements if "!=" in requirement] == []


def test_every_extra_that_the_pages_name_exists() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {extra for page in pages for extra in re.findall(r"airflow-sitemaps\[([a-z-]+)\]", page.read_text())}

    assert named <= set(EXTRAS)


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("extra", EXTRAS)
def test_the_wheel_resolves_with_each_extra(extra: str, tmp_path: Path) -> None:
    """Dry run of a resolver over the wheel; a warning says where a package has no such extra."""
    if importlib.util.find_spec("uv") is None:
        pytest.skip("uv is not installed: pip install uv")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    requirement = tmp_path / "requirements.in"
    requirement.write_text(f"airflow-sitemaps[{extra}] @ {wheel.as_uri()}\n")
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", str(requirement)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "Failed to fetch" in done.stderr or "error sending request" in done.stderr:
        pytest.skip(f"no package index can be reached: {done.stderr[-200:]}")

    assert done.returncode == 0, done.stderr[-2_000:]
    assert "does not have an extra" not in done.stderr
    assert "apache-airflow==" in done.stdout
