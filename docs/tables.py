"""The tables of pages that the code's registries and docstrings fill: ``python docs/tables.py`` writes them again."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_sitemaps import (
    Approval,
    Canary,
    Guards,
    Section,
    ShardPolicy,
    Sitemap,
    SitemapTaskGroup,
    SqlSource,
    Website,
)
from airflow_sitemaps.metrics import METRICS
from airflow_sitemaps.protocol.rules import CHECKS, RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGES: Final = ("rules.md", "settings.md", "metrics.md")
TABLE: Final = re.compile(r"(<!-- table of (\w+): [^\n]*-->\n\n).*?(\n<!-- end of table -->)", re.DOTALL)
"""A table, between the two comments that mark its place in a page."""

TAGS: Final = {
    "sitemap": "Host and path of the index, such as `www.example.com_sitemap.xml`",
    "section": "Name of the section; `index` for the index itself",
    "result": "Result of the run",
    "guard": "Name of the guard, such as `shrink`",
    "rule": "Name of the rule, such as `loc-missing`",
    "outcome": "What happened to the shards",
    "change": "What changed: `both`, `date_only` or `page_only`",
    "stage": "Stage of the run",
    "engine": "Search engine, such as `google`",
    "state": "`crawled`, `errors`, `blocked` or `in_index`",
}
"""The tags of metrics."""


CLASSES: Final = {
    kind.__name__: kind
    for kind in (Sitemap, Section, SqlSource, ShardPolicy, Guards, Canary, Website, SitemapTaskGroup, Approval)
}
"""The classes whose settings a user gives."""

SETTINGS: Final = {
    "first_hour": {
        "Sitemap": "store sections",
        "Section": "name source",
        "SqlSource": "conn_id table query where key loc lastmod",
        "SitemapTaskGroup": "group_id sitemap",
    },
    "entries": {
        "SqlSource": "changefreq priority images videos news alternates group language title description",
        "Section": "kind format path base_url ledger",
        "Sitemap": "feeds recent gone stylesheet cross_submit",
    },
    "sizes": {
        "Sitemap": "shards limits index compression",
        "Section": "shards limits",
        "ShardPolicy": "max_urls fill merge_below",
        "SitemapTaskGroup": "batch_size",
    },
    "guards": {
        "Sitemap": "guards rules must_list on_section_failure owner",
        "Section": "guards rules",
        "Guards": "max_shrink max_growth max_dropped max_churn max_redated max_shrink_total min_rows canary",
        "Canary": "sample max_bad ignore per_second site",
        "Website": "conn_id user_agent allow_http allow_private",
        "SitemapTaskGroup": "approval",
        "Approval": "timeout assigned_users",
    },
    "dates": {"SqlSource": "page timezone lastmod_unit", "Sitemap": "freshness grace"},
    "costs": {
        "Sitemap": "change_detection table_versions watermark_lag",
        "Section": "change_detection",
        "ShardPolicy": "rewrite_after",
        "SqlSource": "change_log materialize max_scan_bytes",
        "SitemapTaskGroup": "pool",
    },
    "rare": {
        "Sitemap": "history retired",
        "SqlSource": "parameters session as_of reader",
        "SitemapTaskGroup": "plan_kwargs write_kwargs publish_kwargs kwargs",
    },
}
"""The settings by need: for each table its classes, each with the names of its arguments."""

ENTRY: Final = re.compile(r"^ {4}\**(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
"""An argument in a docstring: its name and its text."""


def _settings(group: str) -> str:
    return _table(
        "Setting, Meaning",
        (
            (f"`{kind}({'**kwargs' if name == 'kwargs' else f'{name}=…'})`", texts_of(kind)[name])
            for kind, names in SETTINGS[group].items()
            for name in names.split()
        ),
    )


def texts_of(kind: str) -> dict[str, str]:
    """Return the arguments of a class with their texts, from its docstring."""
    doc = inspect.getdoc(CLASSES[kind]) or ""
    part = re.split(r"^(?:Attributes|Args):\n", doc, flags=re.MULTILINE)[1].partition("\nRaises:")[0]
    return {name: " ".join(text.replace("``", "`").replace("|", "\\|").split()) for name, text in ENTRY.findall(part)}


def _table(names: str, rows: Iterable[Iterable[str]]) -> str:
    head = [f"| {' | '.join(names.split(', '))} |", "|" + "---|" * len(names.split(", "))]
    return "".join(f"{line}\n" for line in [*head, *(f"| {' | '.join(row)} |" for row in rows)])


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


TABLES: Final = {
    **{name: _settings(name) for name in SETTINGS},
    "rules": _table(
        "Rule, Says, Source, Default, Settable to",
        (
            (f"`{r.name}`", r.text, r.source, f"`{r.default.value}`", _code(verdict.value for verdict in r.allowed))
            for r in RULES.values()
        ),
    ),
    "checks": _table(
        "Check, Says, Source, Severity", ((f"`{c.name}`", c.text, c.source, c.severity) for c in CHECKS.values())
    ),
    "metrics": _table(
        "Metric, Kind, Unit, Tags, Meaning",
        ((f"`{m.name}`", m.kind, m.unit, _code(m.tags), m.text) for m in METRICS.values()),
    ),
    "tags": _table("Tag, Value", ((f"`{name}`", text) for name, text in TAGS.items())),
}


def written(page: str) -> str:
    """Return a page with its tables as the registries have them."""
    return TABLE.sub(lambda match: match[1] + TABLES[match[2]] + match[3], page)


if __name__ == "__main__":
    for path in (Path(__file__).parent / name for name in PAGES):
        path.write_text(written(path.read_text(encoding="utf-8")), encoding="utf-8")
