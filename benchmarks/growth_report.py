"""Keep the results of the benchmarks of scale: their JSON, their plots, and their tables in the pages on scale."""

from __future__ import annotations

import json
import subprocess
import sys
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.report import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"
PAGES: Final = {"billion": "scale-urls.md", "ledger": "ledger.md", "siblings": "database-costs.md"}
"""The page of a benchmark in ``docs``, where it is not ``scale-runs.md``."""
LARGE_SHARDS: Final = 2_000
"""Shards from which growth is fitted: with fewer, what a run costs at any size outweighs the rest."""


def exponent(shards: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of a line through the logarithms, by least squares: 1 is linear, 2 quadratic."""
    across, up = [log(value) for value in shards], [log(max(value, 1e-9)) for value in costs]
    middle, height = sum(across) / len(across), sum(up) / len(up)
    spread = sum((value - middle) ** 2 for value in across)
    return sum((x - middle) * (y - height) for x, y in zip(across, up, strict=True)) / spread


def of_sizes(sizes: Sequence[Mapping[str, Any]], *path: str) -> list[float]:
    """One figure at every size."""
    found = []
    for one in sizes:
        value: Any = one
        for name in path:
            value = value[name]
        found.append(float(value))
    return found


BILLION_LINES: Final = {
    "first build: plan, CPU s": ("first", "plan", "cpu_s"),
    "first build: publication, CPU s": ("first", "publish", "cpu_s"),
    "unchanged: plan, CPU s": ("unchanged", "plan", "cpu_s"),
    "unchanged: publication, CPU s": ("unchanged", "publish", "cpu_s"),
    "one shard changed: plan, CPU s": ("one", "plan", "cpu_s"),
    "one shard changed: publication, CPU s": ("one", "publish", "cpu_s"),
    "1 % of shards changed: publication, CPU s": ("part", "publish", "cpu_s"),
    "a writing task reads the first plan, CPU s": ("first", "task", "cpu_s"),
    "manifest, kB": ("manifest_bytes",),
    "index, kB": ("index_bytes",),
    "plan of the first build, kB": ("first", "plan", "plan_bytes"),
    "XCom of the first plan, kB": ("first", "plan", "xcom_bytes"),
    "XCom of a plan of one shard, kB": ("one", "plan", "xcom_bytes"),
    "mapped tasks of the first build": ("first", "plan", "tasks"),
    "first publication: MB it grows by": ("first", "publish", "grown_mb"),
    "one shard changed: MB the publication grows by": ("one", "publish", "grown_mb"),
}


def billion(result: Mapping[str, Any]) -> str:
    """The figures of ``make bench-billion``, with how each grows between the large sizes."""
    sizes = result["sizes"]
    large = [one for one in sizes if one["shards"] >= LARGE_SHARDS]
    rows = []
    for name, path in BILLION_LINES.items():
        values = [value / (1_000 if name.endswith("kB") else 1) for value in of_sizes(sizes, *path)]
        grown = "" if len(large) < 2 else f"{exponent(of_sizes(large, 'shards'), of_sizes(large, *path)):.2f}"
        rows.append((name, *(f"{value:,.3g}" if value < 1_000 else f"{value:,.0f}" for value in values), grown))
    head = ("", *(f"{one['rows'] // 1_000_000:,} M" for one in sizes), "exponent")
    shards = ("shards", *(f"{one['shards']:,}" for one in sizes), "")
    return table(head, [shards, *rows])


def rows_runs(result: Mapping[str, Any]) -> str:
    """The figures of ``make bench-rows``, one line a run."""
    lines = []
    for name, one in result["runs"].items():
        stages = one["stages"]
        cpu = [f"{stages[stage]['cpu_s']:,.1f}" if stage in stages else "–" for stage in ("plan", "write", "publish")]
        peak = [
            f"{stages[stage]['peak_mb']:,.0f}" if stage in stages else "–" for stage in ("plan", "write", "publish")
        ]
        lines.append(
            (
                name, f"{one['wall_s']:,.0f}", " / ".join(cpu), " / ".join(peak), f"{one['tasks']:,}",
                f"{sum(one['requests'].values()):,}", f"{one['bytes_sent'] / 1e6:,.1f}", f"{one['xcom_bytes'] / 1e3:,.1f}",
            )
        )  # fmt: skip
    head = (
        "run",
        "wall s",
        "CPU s: plan / write / publish",
        "peak MB: the same",
        "tasks",
        "requests",
        "MB sent",
        "XCom kB",
    )
    return table(head, lines)


def said(result: Mapping[str, Any]) -> str:
    """Where and when, in one sentence."""
    load, rounds = result["load_average"][0], result["rounds"]
    counted = "one round" if rounds == 1 else f"medians of {rounds} rounds"
    return (
        f"{result['cores']} cores, Python {result['python']}, {result['measured_at'][:10]}, {counted}; the load average was "
        f"{load:.0f} at the end, so that wall times are upper bounds."
    )


def keep(kind: str, result: Mapping[str, Any], tables: str, folder: Path, *, plot: bool) -> None:
    """Write the JSON, the plot, and what stands between the markers of the page."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{kind}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    if plot:
        target = ROOT / "docs" / f"{kind}.svg"
        command = [str(plotter(folder)), "-m", "benchmarks.growth_plot", kind, str(path), str(target)]
        subprocess.run(command, check=True, cwd=ROOT)
    begin, end = f"<!-- {kind}: begin -->", f"<!-- {kind}: end -->"
    page = ROOT / "docs" / PAGES.get(kind, "scale-runs.md")
    head, found, rest = page.read_text().partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{page} has no place for {kind}: it needs the lines {begin} and {end}")
    page.write_text(f"{head}{begin}\n\n{said(result)}\n\n{tables}\n\n{end}{tail}")


def plotter(folder: Path) -> Path:
    """An interpreter with matplotlib, in an environment of its own in the folder."""
    python = folder / "plot-venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / "plot-venv")], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "matplotlib>=3.9"], check=True)
    return python
