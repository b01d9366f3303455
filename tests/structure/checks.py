"""The structure checks: each returns its offences by path or module name."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from airflow_sitemaps import _HOME
from tests.structure.inventory import PACKAGE, ROOT, import_circles, matching, modules, packages, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Offences = dict[str, list[str]]

MAX_MODULES = 14

# Names that end like a gerund or participle but are nouns. This list may only shrink.
NOUNS = {"mapping", "ping", "testing"}
PARTICIPLES = {"made", "told", "found", "known", "written", "seen", "left", "kept", "given", "taken"}

# Packages whose modules a reader may confuse by name.
CORE = ("protocol", "shards", "pipeline", "verification", "http", "sources", "stores")
# Packages that share names on purpose: the same thing in columns, for another store, or a client of another service.
MIRRORS = [
    ("protocol", "protocol.columnar"),
    ("protocol.columnar", "protocol.extensions"),
    ("stores.s3", "stores.local"),
]

# `import_module` hides an import from the layer check; these packages also import each name for type checkers.
DYNAMIC_IMPORTS = {
    "__init__.py",
    "airflow_compat.py",
    "sources/dialects/__init__.py",
    "sitemap.py",
}

# The module that imports what Airflow does not promise to keep; the others import its public SDK and its providers.
AIRFLOW = "airflow_compat.py"
STABLE = ("airflow.sdk", "airflow.providers")

# Packages that take long to import. A DAG file is parsed again for each task, so nothing that it names may import them.
HEAVY = {
    "adbc_driver_manager",
    "boto3",
    "botocore",
    "duckdb",
    "fastapi",
    "lxml",
    "numpy",
    "pyarrow",
    "pydantic",
    "sqlalchemy",
}

VAGUE_LOCALS = {"found", "made", "told", "known"}

# Words that a reader of technical English stumbles over, with what to write instead.
UNPLAIN_WORDS = {
    r"\bmend(s|ed|ing)?\b": "repair, fix",
    r"\bdear(er|est|ly)?\b": "expensive",
    r"\banew\b": "again",
    r"\b(un)?told\b": "name who does what: informed, notified, recorded",
    r"\bnobody\b": "no one, or say what is missing",
    r"\bsomebody\b": "someone, another process, another program",
    r"\bwhoever\b": "name the actor",
    r"\botherwise than\b": "differently from",
    r"\b(come|comes|came|coming) of\b": "result from",
    r"\bwhat(ever)? became of\b": "the result of",
    r"\bfor good\b": "permanently",
    r"\bin vain\b": "without effect",
    r"\bby (itself|himself|themselves)\b": "alone, separately, automatically",
    r"\bthat is none\b": "that is not one",
    r"\bas ever\b": "as usual",
    r"\bhear[sd]?\b": "receive, learn",
    r"\bstands? in\b": "is in",
    r"\b(lies|lie|lay)\b": "is stored, is",
    r"\basked\b": "queried, requested",
}
_UNPLAIN = {re.compile(pattern, re.IGNORECASE): better for pattern, better in UNPLAIN_WORDS.items()}
_ANY_UNPLAIN = re.compile("|".join(f"(?:{pattern})" for pattern in UNPLAIN_WORDS), re.IGNORECASE)


def crowded_folders() -> Offences:
    """Folders with more modules than a reader takes in."""
    counts = Counter("/".join(name.split(".")[:-1]) for name in modules())
    return {
        folder: [f"module {number} of at most {MAX_MODULES}" for number in range(MAX_MODULES + 1, count + 1)]
        for folder, count in counts.items()
        if count > MAX_MODULES
    }


def circular_imports() -> Offences:
    """Modules that import each other, directly or through others, type-checking imports included."""
    return {name: ["imports itself through " + ", ".join(circle)] for circle in import_circles() for name in circle}


def names_that_are_no_nouns() -> Offences:
    """Modules named by a gerund or participle."""
    offences: Offences = {}
    for name in modules():
        word = name.rsplit(".", 1)[-1].rsplit("_", 1)[-1]
        if word not in NOUNS and (word.endswith(("ing", "ed")) or word in PARTICIPLES):
            offences[name] = ["name the module by its noun"]
    return offences


def repeated_basenames() -> Offences:
    """Core modules of one basename, unless one package mirrors the other."""
    homes: dict[str, list[str]] = defaultdict(list)
    for name in modules():
        parts = name.split(".")[1:]
        if parts[0] in CORE and len(parts) > 1:
            homes[parts[-1]].append(".".join(parts[:-1]))
    return {
        basename: [f"{first} and {second}" for first, second in pairs]
        for basename, packages in homes.items()
        if (pairs := [pair for pair in combinations(sorted(packages), 2) if not _mirrored(*pair)])
    }


def _mirrored(first: str, second: str) -> bool:
    return (first, second) in MIRRORS or (second, first) in MIRRORS


def hidden_imports() -> Offences:
    """Modules of ours imported by `import_module`, where the layer check cannot see them."""
    offences: Offences = {}
    for path in matching(f"{PACKAGE}/*.py"):
        if str(path.relative_to(PACKAGE)) in DYNAMIC_IMPORTS:
            continue
        lines = [
            f"line {node.lineno}: import_module({ast.unparse(node.args[0])})"
            for node in ast.walk(ast.parse((ROOT / path).read_text()))
            if isinstance(node, ast.Call) and _called(node) == "import_module" and _ours(node.args[0])
        ]
        if lines:
            offences[str(path)] = lines
    return offences


def unstable_imports() -> Offences:
    """Modules that import of Airflow what may move between its releases, other than by `airflow_compat`."""
    offences: Offences = {}
    for path in matching(f"{PACKAGE}/*.py"):
        if path == Path(PACKAGE, AIRFLOW):
            continue
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            offences.setdefault(str(path), []).extend(
                f"line {node.lineno}: {name}"
                for name in names
                if f"{name}.".startswith("airflow.") and not name.startswith(STABLE)
            )
    return {path: lines for path, lines in offences.items() if lines}


def _called(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def _ours(argument: ast.expr) -> bool:
    return not isinstance(argument, ast.Constant) or str(argument.value).startswith(PACKAGE)


def heavy_imports() -> Offences:
    """Modules of public names that import a package of `HEAVY` when they are imported, themselves or through others."""
    graph = {name: _imported_at_once(name) for name in [*modules(), *packages()]}
    offences: Offences = {}
    for home in sorted(set(_HOME.values())):
        reached, waiting = set(), [f"{PACKAGE}.{home}"]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += [found for found in graph[name] if found in graph]
        chains = sorted(f"{name} imports {found}" for name in reached for found in graph[name] & HEAVY)
        if chains:
            offences[f"{PACKAGE}.{home}"] = chains
    return offences


def _imported_at_once(name: str) -> set[str]:
    """Return what a module imports when it is imported: our modules by name, other packages by their first part."""
    path = ROOT / Path(*name.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: set[str] = set()
    for node in _statements_at_import(ast.parse(source.read_text()).body):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            targets = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for target in targets:
            parts = target.split(".")
            ours = parts[0] == PACKAGE
            found |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)} if ours else {parts[0]}
    return found


def _statements_at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        if isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            yield from _statements_at_import([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _statements_at_import(
                [*node.body, *(each for h in node.handlers for each in h.body), *node.orelse]
            )


def vague_locals() -> Offences:
    """Local variables named by a participle where a noun says more."""
    offences: Offences = {}
    for path in matching(f"{PACKAGE}/*.py"):
        tree = ast.parse((ROOT / path).read_text())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        names = {(node.lineno, node.id) for function in functions for node in ast.walk(function) if _is_vague(node)}
        if names:
            lines = [f"{path}:{number}: {name}" for number, name in sorted(names)]
            offences.setdefault(_area(path), []).extend(lines)
    return offences


def _is_vague(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE_LOCALS


def unplain_words() -> Offences:
    """Words of `UNPLAIN_WORDS` in docstrings, comments, messages and documents."""
    offences: Offences = defaultdict(list)
    for path in matching(
        "*.py", "*.md", "ui/src/*.ts", "ui/src/*.tsx", "Makefile", ".ci/run", "*.toml", "*.yml", "*.yaml"
    ):
        if path.parts[:2] == ("tests", "structure"):
            continue
        for number, text in texts(path, messages=path.parts[0] == PACKAGE):
            if not _ANY_UNPLAIN.search(text):
                continue
            for pattern, better in _UNPLAIN.items():
                for match in pattern.finditer(text):
                    offences[_area(path)].append(f"{path}:{number}: {match.group()!r} ({better}): {text.strip()[:100]}")
    return dict(offences)


def _area(path: Path) -> str:
    """Return the package or test folder of a file, so that moving a file within it changes no count."""
    return "/".join(path.parts[:2]) if len(path.parts) > 2 else path.as_posix()


CHECKS: dict[str, Callable[[], Offences]] = {
    check.__name__.replace("_", "-"): check
    for check in (
        crowded_folders,
        circular_imports,
        names_that_are_no_nouns,
        repeated_basenames,
        hidden_imports,
        unstable_imports,
        heavy_imports,
        vague_locals,
        unplain_words,
    )
}
