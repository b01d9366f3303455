"""The page of the documentation that lists every rule and check: ``python -m airflow_sitemaps.protocol.rules_page``."""

from __future__ import annotations

import sys

from airflow_sitemaps.protocol.checks import CHECKS
from airflow_sitemaps.protocol.rules import RULES

_HEAD = """# Rules

Generated from the code (`python -m airflow_sitemaps.protocol.rules_page > docs/rules.md`); do not edit.

## What rows are held to

Every row is judged by these rules while it is written. `rules={"loc-duplicate": "fail"}` on a `Sitemap` or a
`Section` sets what becomes of a fault. The report counts faults by rule, with samples.

- `keep`: written as it is.
- `repair`: mended and written.
- `omit_field`: the faulty field is left out (of an extension: the field, or the image, video, article or alternate that
  cannot be without it); the URL stays.
- `drop_row`: the URL is not listed.
- `fail`: the run fails before anything is published.

| Rule | Says | Source | Default | Settable to |
|---|---|---|---|---|
"""

_CHECKS = """
## What published files are checked for

`airflow-sitemaps verify` and `SitemapVerifyOperator` read what is published, by whomever it was made. An error makes a
sitemap invalid or unread in part; a warning is a loss or a doubt.

| Check | Says | Source | Severity |
|---|---|---|---|
"""


def render() -> str:
    """The page, in Markdown."""
    rules = [
        f"| `{rule.name}` | {rule.text} | {rule.source} | `{rule.default.value}` | "
        f"{', '.join(f'`{verdict.value}`' for verdict in rule.allowed)} |\n"
        for rule in RULES.values()
    ]
    checks = [f"| `{c.name}` | {c.text} | {c.source} | {c.severity} |\n" for c in CHECKS.values()]
    return _HEAD + "".join(rules) + _CHECKS + "".join(checks)


if __name__ == "__main__":
    sys.stdout.write(render())
