"""The files, modules, imports and texts that the structure checks read."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import grimp

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_sitemaps"
GENERATED = {"node_modules", "__pycache__", "demo-site", "dist", "build", "site"}
HIDDEN = {".ci", ".github"}


@cache
def files() -> tuple[Path, ...]:
    """Return the repository's files, relative to its root, without what builds and tools leave there."""
    paths = []
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [name for name in subfolders if name not in GENERATED and (name[0] != "." or name in HIDDEN)]
        paths += [(Path(folder) / name).relative_to(ROOT) for name in names]
    return tuple(sorted(paths))


def matching(*patterns: str) -> list[Path]:
    """Return the files whose path matches one of the patterns; `*` crosses folders."""
    return [path for path in files() if any(fnmatch(path.as_posix(), pattern) for pattern in patterns)]


@cache
def import_graph() -> grimp.ImportGraph:
    """Return every import within the package, those for type checkers included."""
    return grimp.build_graph(PACKAGE, exclude_type_checking_imports=False, cache_dir=None)


@cache
def modules() -> tuple[str, ...]:
    """Return the names of the package's modules, packages excluded."""
    sources = matching(f"{PACKAGE}/*.py")
    return tuple(".".join(path.with_suffix("").parts) for path in sources if path.name != "__init__.py")


@cache
def packages() -> tuple[str, ...]:
    """Return the names of the package and its subpackages."""
    return tuple(".".join(path.parent.parts) for path in matching(f"{PACKAGE}/*.py") if path.name == "__init__.py")


def import_circles() -> list[list[str]]:
    """Return the groups of modules that reach each other by imports."""
    graph = import_graph()
    circles = {
        frozenset((graph.find_upstream_modules(name) & graph.find_downstream_modules(name)) | {name})
        for name in graph.modules
    }
    return sorted(sorted(circle) for circle in circles if len(circle) > 1)


def texts(path: Path, *, messages: bool) -> Iterator[tuple[int, str]]:
    """Yield what people read in a file, with its line number.

    Args:
        path: The file, relative to the repository's root.
        messages: Whether string literals other than docstrings count in Python files.

    Yields:
        Whole lines for text files; comments, docstrings and (on request) string literals for Python files.
    """
    source = (ROOT / path).read_text()
    if path.suffix != ".py":
        yield from enumerate(_without_code(source).splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    tree = ast.parse(source)
    docstrings = {id(text) for node in ast.walk(tree) if (text := _docstring(node)) is not None}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (messages or id(node) in docstrings):
            yield from enumerate(node.value.splitlines(), node.lineno)


def _docstring(node: ast.AST) -> ast.Constant | None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or not node.body:
        return None
    first = node.body[0]
    text = first.value if isinstance(first, ast.Expr) else None
    return text if isinstance(text, ast.Constant) and isinstance(text.value, str) else None


def _without_code(text: str) -> str:
    """Blank `inline code`, which may quote names and data."""
    return re.sub(r"`[^`\n]+`", lambda match: " " * len(match.group()), text)
