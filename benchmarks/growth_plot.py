"""The plots of scale: ``python -m benchmarks.growth_plot KIND RESULT.json PLOT.svg``, in an environment with matplotlib."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

COLOURS: Final = ("#017cee", "#e8590c", "#2f9e44", "#9c36b5", "#868e96")
STAGES: Final = dict(zip(("plan", "write", "publish"), COLOURS, strict=False))
"""Colours of the stages."""
SHORT: Final = 20
"""Points up to which each has a mark."""

Lines = dict[str, tuple[list[float], list[float]]]
Bars = dict[str, dict[str, float]]
"""Values by run, by the name of the series."""


def billion(result: dict[str, Any]) -> dict[str, tuple[Lines, bool]]:
    """CPU, bytes and memory by the number of URLs; panels by title, and whether both axes are logarithmic."""
    sizes = result["sizes"]
    urls = [one["rows"] for one in sizes]

    def of(kind: str, stage: str, name: str) -> list[float]:
        return [one[kind][stage][name] for one in sizes]

    def run(kind: str, name: str) -> list[float]:
        pairs = zip(of(kind, "plan", name), of(kind, "publish", name), strict=True)
        return [sum(pair) if name == "cpu_s" else max(pair) for pair in pairs]

    runs = {
        "first": "first build",
        "part": "1 % of shards changed",
        "one": "one shard changed",
        "unchanged": "unchanged",
    }
    return {
        "CPU seconds of plan and publication": ({t: (urls, run(k, "cpu_s")) for k, t in runs.items()}, True),
        "bytes": (
            {
                "manifest": (urls, [one["manifest_bytes"] for one in sizes]),
                "index": (urls, [one["index_bytes"] for one in sizes]),
                "plan of the first build": (urls, of("first", "plan", "plan_bytes")),
                "XCom of the first plan": (urls, of("first", "plan", "xcom_bytes")),
                "XCom of a later plan": (urls, of("one", "plan", "xcom_bytes")),
            },
            True,
        ),
        "MB that a task grows by": ({t: (urls, run(k, "grown_mb")) for k, t in runs.items()}, True),
    }


def soak(result: dict[str, Any]) -> dict[str, tuple[Lines, bool]]:
    """What is kept after each run, by the run's number; panels by title."""
    marks = result["marks"]
    runs = [one["run"] for one in marks]
    panels = {
        "objects": ("public_objects", "state_objects"),
        "kB": ("manifest_kb", "index_kb"),
        "MB of memory": ("memory_mb",),
        "mean fill of a shard": ("fill",),
        "files written ÷ files that had to change": ("rewrites_per_change",),
    }
    names = {
        "public_objects": "public", "state_objects": "private, without reports", "manifest_kb": "manifest",
        "index_kb": "index", "memory_mb": "process", "fill": "rows ÷ limit", "rewrites_per_change": "a day's runs",
    }  # fmt: skip
    return {
        title: ({names[key]: (runs, [one[key] for one in marks]) for key in keys}, False)
        for title, keys in panels.items()
    }


def rows(result: dict[str, Any]) -> dict[str, Bars]:
    """CPU by stage, memory and bytes of each run; panels by title."""
    runs = result["runs"]

    def of(stage: str, name: str) -> dict[str, float]:
        return {run: one["stages"].get(stage, {}).get(name, 0) for run, one in runs.items()}

    return {
        "wall seconds": {"": {run: one["wall_s"] for run, one in runs.items()}},
        "CPU seconds": {stage: of(stage, "cpu_s") for stage in STAGES},
        "peak MB of a task": {stage: of(stage, "peak_mb") for stage in ("write", "publish")},
        "MB sent": {"": {run: one["bytes_sent"] / 1e6 for run, one in runs.items()}},
    }


def ledger(result: dict[str, Any]) -> dict[str, Bars]:
    """CPU and memory of each kind of run, in each way; panels by title."""
    runs = result["runs"]
    ways = list(next(iter(runs.values())))
    panels = {"CPU seconds": "cpu_s", "peak MB": "peak_mb"}
    return {
        title: {way: {step: one[way][name] for step, one in runs.items()} for way in ways}
        for title, name in panels.items()
    }


def draw_bars(place: Any, series: Bars) -> None:
    """Draw a group of bars for each run, the first run on top."""
    height = 0.8 / len(series)
    for number, (name, values) in enumerate(series.items()):
        across = [at + (number - (len(series) - 1) / 2) * height for at in range(len(values))]
        colour = STAGES.get(name, COLOURS[number if len(series) > 1 else -1])
        place.barh(across, list(values.values()), height=height, color=colour, label=name)
        place.set_yticks(range(len(values)), list(values), fontsize=8)
        place.set_ylim(len(values) - 0.5, -0.5)
    if len(series) > 1:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.1)}
        place.legend(fontsize=7, frameon=False, ncols=len(series), **below)


def main() -> None:
    """Draw one panel beside the other."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "airflow-sitemaps", "svg.fonttype": "none", "font.family": "sans-serif"}
    from matplotlib import pyplot as plt

    kind, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    result = json.loads(source.read_text())
    if kind in ("rows", "ledger"):
        bars = {"rows": rows, "ledger": ledger}[kind](result)
        figure, axes = plt.subplots(1, len(bars), figsize=(3.6 * len(bars), 3.4), sharey=True)
        for place, (title, series) in zip(axes, bars.items(), strict=True):
            draw_bars(place, series)
            place.set_title(title, fontsize=10)
            place.spines[["top", "right"]].set_visible(False)
        figure.tight_layout()
        figure.savefig(target, metadata={"Date": None})
        return
    panels = {"billion": billion, "soak": soak}[kind](result)
    figure, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 3.4))
    for place, (title, (lines, logarithmic)) in zip(axes, panels.items(), strict=True):
        for colour, (name, (across, up)) in zip(COLOURS, lines.items(), strict=False):
            place.plot(
                across, up, color=colour, label=name, marker="o" if len(across) < SHORT else None, markersize=3.5
            )
        if logarithmic:
            place.set_xscale("log")
            place.set_yscale("log")
        else:
            place.set_ylim(bottom=0)
        place.set_title(title, fontsize=10)
        place.set_xlabel("URLs" if kind == "billion" else "hourly run")
        place.legend(fontsize=7, frameon=False)
        place.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
