"""Generator of the metrics tables in ``docs/watch.md``: ``python -m airflow_sitemaps.metrics.table docs/watch.md``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from airflow_sitemaps.metrics.registry import METRICS, TAGS

BEGIN: Final = "<!-- metrics: generated from the code by `python -m airflow_sitemaps.metrics.table docs/watch.md` -->"
END: Final = "<!-- end of metrics -->"


def render() -> str:
    """Return the tables of metrics and of tags in Markdown."""
    metrics = [
        f"| `{metric.name}` | {metric.kind} | {metric.unit} | {', '.join(f'`{tag}`' for tag in metric.tags)} | "
        f"{metric.text} |\n"
        for metric in METRICS.values()
    ]
    tags = [f"| `{name}` | {text} |\n" for name, text in TAGS.items()]
    return (
        "| Metric | Kind | Unit | Tags | Meaning |\n|---|---|---|---|---|\n"
        + "".join(metrics)
        + "\n| Tag | Value |\n|---|---|\n"
        + "".join(tags)
    )


def inserted(page: str) -> str:
    """Return a page with the tables between the two markers replaced.

    Raises:
        ValueError: The page has no markers.
    """
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no line {BEGIN!r} followed by {END!r}")
    return f"{head}{BEGIN}\n\n{render()}\n{END}{tail}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(inserted(path.read_text(encoding="utf-8")), encoding="utf-8")
