"""A picture of the dashboard's panels: their grid, titles, kinds, units and legends, drawn by Matplotlib, not by Grafana."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import matplotlib
import matplotlib.dates
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COLUMNS = 24
Line = tuple[str, dict[str, Any]]


def legend(template: str, labels: dict[str, str]) -> str:
    """The text of a legend, as Grafana fills it in."""
    for name, value in labels.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def amount(value: float, unit: str) -> str:
    """A value in its unit, in few characters."""
    if unit == "s":
        for seconds, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
            if value >= seconds:
                return f"{value / seconds:.3g} {name}"
        return f"{value:.3g} s"
    if unit == "bytes":
        for size, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
            if value >= size:
                return f"{value / size:.3g} {name}"
        return f"{value:.0f} B"
    return f"{value:.0%}" if unit == "percentunit" else f"{value:,.0f}"


def draw(panels: Sequence[dict[str, Any]], shown: dict[str, list[Line]], target: Path) -> None:
    """Draw the panels in their grid.

    Args:
        panels: The dashboard's panels.
        shown: By title, each line's legend and series.
        target: The picture.
    """
    matplotlib.rcParams["font.size"] = 7
    rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = Figure(figsize=(13, rows * 0.32))
    grid = figure.add_gridspec(rows, COLUMNS, left=0.05, right=0.99, top=0.985, bottom=0.02, wspace=8, hspace=0)
    moments = [at for lines in shown.values() for _, line in lines for at, _ in line["values"]]
    span = [datetime.fromtimestamp(at, timezone.utc) for at in (min(moments), max(moments))]
    for panel in panels:
        box = panel["gridPos"]
        axes = figure.add_subplot(grid[box["y"] : box["y"] + box["h"] - 3, box["x"] : box["x"] + box["w"]])
        axes.set_title(panel["title"], loc="left", fontsize=8, fontweight="bold")
        unit = panel["fieldConfig"]["defaults"].get("unit", "short")
        lines = shown[panel["title"]]
        if not lines or panel["type"] == "stat":
            axes.axis("off")
            text = amount(float(lines[0][1]["values"][-1][1]), unit) if lines else "No data"
            axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=22 if lines else 9, transform=axes.transAxes)
            continue
        for template, line in lines:
            times = [datetime.fromtimestamp(at, timezone.utc) for at, _ in line["values"]]
            values = [float(value) for _, value in line["values"]]
            axes.plot(times, values, linewidth=1.2, label=legend(template, line["metric"]))
        axes.yaxis.set_major_formatter(lambda value, _, unit=unit: amount(value, unit))
        axes.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%m-%d"))
        axes.xaxis.set_major_locator(matplotlib.dates.DayLocator(interval=2 if box["w"] > 6 else 5))
        axes.set_xlim(*span)
        axes.set_ylim(bottom=0)
        axes.yaxis.get_major_locator().set_params(integer=unit not in ("s", "bytes", "percentunit"))
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(
            fontsize=5, loc="upper left", bbox_to_anchor=(0, -0.12), frameon=False, ncols=2 if box["w"] > 6 else 1
        )
    figure.savefig(target, dpi=110)
