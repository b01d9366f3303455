"""The plot of a stored result: ``python -m benchmarks.plot RESULT.json PLOT.svg``, in the bench environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.report import OURS, PEERS
from benchmarks.targets import rate


def main() -> None:
    """Draw bars on a logarithmic scale, the package's own in another colour."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "airflow-sitemaps"
    from matplotlib import pyplot as plt

    source, target = map(Path, sys.argv[1:])
    runs = json.loads(source.read_text())["runs"]
    names = [name for name in (*OURS, *PEERS) if runs.get(name)][::-1]
    rates = [rate(runs[name]) for name in names]
    figure, axes = plt.subplots(figsize=(8, 0.42 * len(names) + 0.9))
    colours = ["#017cee" if name in OURS else "#b4b8c0" for name in names]
    bars = axes.barh([f"airflow-sitemaps, {name}" if name in OURS else name for name in names], rates, color=colours)
    axes.bar_label(bars, [f"{value / 1000:,.0f} k" for value in rates], padding=4)
    axes.set_xscale("log")
    axes.set_xlim(min(rates) / 2, max(rates) * 2)
    axes.set_xlabel("URLs per second of CPU (logarithmic)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()
