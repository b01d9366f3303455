"""The tables for people, the README's section, and the files that are kept."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any, Final

from benchmarks.targets import middle, rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

OURS: Final = ("to disk", "to S3", "small preset", "cursor fallback", "DuckDB to disk")
PEERS: Final = (
    "a plain loop", "sitemap.js buffered", "pandas and a loop", "Django sitemaps", "sitemap.js as documented",
)  # fmt: skip
BEGIN: Final = "<!-- performance: begin -->"
END: Final = "<!-- performance: end -->"


def line(name: str, found: Mapping[str, Any]) -> str:
    """One measurement, as it is done."""
    if "urls" in found:
        return f"{name}: {found['urls'] / found['cpu_s']:,.0f} URLs per CPU second, {found['peak_mb']:.0f} MB"
    if "cpu_s" in found:
        return f"{name}: {found['cpu_s']:.2f} s of CPU, {found['wall_s']:.2f} s"
    return name


def rows_of(result: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Name, URLs per CPU second, times the plain loop, peak memory."""
    runs = result["runs"]
    base = rate(runs["a plain loop"])
    found = []
    for name in (*OURS, *PEERS):
        if runs.get(name):
            mine = rate(runs[name])
            shown = f"this package, {name}" if name in OURS else name
            found.append((shown, f"{mine:,.0f}", f"{mine / base:.2f}", f"{middle(runs[name], 'peak_mb'):.0f}"))
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, its columns aligned for the terminal too; numbers to the right."""
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]

    def one(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "| " + " | ".join(cells) + " |"

    rule = ["-" * width if n == 0 else "-" * (width - 1) + ":" for n, width in enumerate(widths)]
    return "\n".join([one(head), one(rule), *map(one, rows)])


def peers_table(result: Mapping[str, Any]) -> str:
    """Who does how much."""
    return table(("", "URLs per CPU second", "÷ plain loop", "peak MB"), rows_of(result))


def targets_table(result: Mapping[str, Any]) -> str:
    """Every target with its figure."""
    rows = []
    for verdict in result["targets"]:
        measured = verdict["measured"]
        sign = "≥" if verdict["at_least"] else "≤"
        shown, passed = (
            ("not measured", "–") if measured is None else (f"{measured:.3g}", "yes" if verdict["passed"] else "no")
        )
        rows.append((f"{verdict['number']}. {verdict['what']}", f"{sign} {verdict['target']:g}", shown, passed))
    return table(("target", "", "measured", "met"), rows)


def stages_table(result: Mapping[str, Any]) -> str:
    """CPU seconds of each part for a million rows."""
    runs = result["runs"]
    millions = result["rows"] / 1e6
    rows = [("drain (ADBC, the same select list)", middle(runs["drain"], "cpu_s") / millions)]
    rows += [(name, middle(runs["parts"], name)) for name in ("render", "gzip fast", "gzip small", "gzip zlib 6")]
    rows += [(f"whole, {name}", middle(runs[name], "cpu_s") / millions) for name in ("to disk", "to S3")]
    rows += [
        ("survey: PostgreSQL's own CPU", middle(runs["digest"], "server_cpu_s") / millions),
        ("bare scan (count, max): PostgreSQL's own CPU", middle(runs["digest"], "bare_server_cpu_s") / millions),
        (
            "one hash of the columns joined: PostgreSQL's own CPU",
            middle(runs["digest"], "joined_server_cpu_s") / millions,
        ),
    ]
    return table(("CPU seconds per million rows", ""), [(name, f"{value:.3f}") for name, value in rows])


def text(result: Mapping[str, Any]) -> str:
    """Everything, for the terminal."""
    head = (
        f"{result['rows']:,} rows in PostgreSQL, medians of {result['rounds']} interleaved run(s), "
        f"{result['cores']} cores, Python {result['python']}, {result['measured_at']}, commit {result['commit']}; S3 is {result['s3']}."
    )
    sizes = [f"{run['urls']:,} rows: {run['peak_mb']:.0f} MB" for run in result["runs"].get("memory", ())]
    flat = [f"Peak memory by size of the table: {', '.join(sizes)}."] if sizes else []
    return "\n\n".join([head, peers_table(result), stages_table(result), targets_table(result), *flat])


def section(result: Mapping[str, Any]) -> str:
    """The text of the README between the markers."""
    met = sum(bool(verdict["passed"]) for verdict in result["targets"])
    return "\n\n".join(
        [
            BEGIN,
            (
                f"URLs per second of CPU, {result['rows']:,} rows from PostgreSQL, gzip included, medians of "
                f"{result['rounds']} interleaved runs on {result['cores']} cores at commit {result['commit']} ([method](benchmarks/README.md); "
                f"{met} of {len(result['targets'])} [targets](docs/performance.md) met):"
            ),
            "![URLs per CPU second](docs/performance.svg)",
            END,
        ]
    )


def store(result: Mapping[str, Any], folder: Path, python: Path) -> None:
    """Keep the result, draw the plot, and put the tables between the markers of README and docs."""
    folder.mkdir(exist_ok=True)
    (folder / "latest.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    root = folder.parent.parent
    subprocess.run(
        [str(python), "-m", "benchmarks.plot", str(folder / "latest.json"), str(root / "docs" / "performance.svg")],
        check=True,
        cwd=root,
    )
    between(root / "README.md", section(result))
    between(root / "docs" / "performance.md", "\n\n".join([BEGIN, text(result), END]))


def known(folder: Path) -> dict[str, float | None]:
    """What the kept result says of each target."""
    path = folder / "latest.json"
    if not path.exists():
        return {}
    return {verdict["what"]: verdict["measured"] for verdict in json.loads(path.read_text())["targets"]}


def between(path: Path, new: str) -> None:
    """Replace what stands between the markers of a file, where it has them."""
    if not path.exists():
        return
    old = path.read_text()
    head, begin, rest = old.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if begin and end:
        path.write_text(head + new + tail)
