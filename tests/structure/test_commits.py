"""Commit subjects have at most 72 characters, from the first commit after `BASE` on."""

from __future__ import annotations

import subprocess

import pytest

from tests.structure.inventory import ROOT

BASE = "6393ec4"
"""The last commit whose subject may be longer, like those before it."""
MAX_CHARACTERS = 72


def test_commit_subjects_are_short() -> None:
    """Merges are left out: their subjects are made by Git and its hosts."""
    try:
        log = ["git", "log", "--no-merges", "--format=%h %s", f"{BASE}..HEAD"]
        found = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no history back to {BASE} here: {error.stderr.strip()}")
    lines = [line for line in found.stdout.splitlines() if len(line.partition(" ")[2]) > MAX_CHARACTERS]
    assert not lines, f"subjects of more than {MAX_CHARACTERS} characters:\n" + "\n".join(lines)
