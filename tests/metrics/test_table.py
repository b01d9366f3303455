"""The documentation's tables and dashboard say what the registries say."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

from airflow_sitemaps.metrics import METRICS

DOCS = Path(__file__).parents[2] / "docs"
PANELS = json.loads((DOCS / "grafana-dashboard.json").read_text(encoding="utf-8"))["panels"]
EXPRESSIONS = [(target["expr"], target["legendFormat"]) for panel in PANELS for target in panel["targets"]]
METRIC = re.compile(r"airflow_(sitemaps_[a-z_]+)")


def test_the_tables_of_every_page_are_up_to_date() -> None:
    tables = runpy.run_path(str(DOCS / "tables.py"))
    pages = {name: (DOCS / name).read_text(encoding="utf-8") for name in tables["PAGES"]}
    placed = [match[2] for page in pages.values() for match in tables["TABLE"].finditer(page)]

    assert placed == ["rules", "checks", *tables["SETTINGS"], "metrics", "tags"]
    assert all(page == tables["written"](page) for page in pages.values()), "run python docs/tables.py"
    page = pages["metrics.md"]
    assert all(f"| `{name}` | {metric.kind} | {metric.unit} |" in page for name, metric in METRICS.items())


def test_every_tag_is_explained() -> None:
    tags = runpy.run_path(str(DOCS / "tables.py"))["TAGS"]
    assert {tag for metric in METRICS.values() for tag in metric.tags} == set(tags)


def test_the_dashboard_uses_just_these_metrics_and_all_of_them() -> None:
    names = {name.replace(".", "_") for name in METRICS}

    assert {name for expression, _ in EXPRESSIONS for name in METRIC.findall(expression)} == names


def test_the_dashboard_groups_and_labels_by_tags_that_the_metrics_have() -> None:
    of_name = {name.replace(".", "_"): metric for name, metric in METRICS.items()}
    for expression, legend in EXPRESSIONS:
        (name,) = set(METRIC.findall(expression))
        metric = of_name[name]
        grouped = {tag for tags in re.findall(r"by \(([^)]*)\)", expression) for tag in tags.split(", ")}
        labels = set(re.findall(r"{{(\w+)}}", legend))
        assert grouped <= set(metric.tags)
        assert labels <= (grouped or set(metric.tags))
        assert ("increase(" in expression) == (metric.kind == "counter")
        assert ("(_total)?" in expression) == (metric.kind == "counter")
        # increase() alone does not count the value that a new series starts with, such as a section's first refusal.
        assert ("min_over_time(" in expression) == (metric.kind == "counter")


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        box = panel["gridPos"]
        cells = {(box["x"] + x, box["y"] + y) for x in range(box["w"]) for y in range(box["h"])}
        assert not cells & taken
        assert box["x"] + box["w"] <= 24
        taken |= cells
