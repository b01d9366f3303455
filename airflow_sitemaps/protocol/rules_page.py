"""The documentation page of all rules and checks: ``python -m airflow_sitemaps.protocol.rules_page``."""

from __future__ import annotations

import sys

from airflow_sitemaps.protocol.rules import RULES
from airflow_sitemaps.protocol.validation.checks import CHECKS

_HEAD = """# Rules

Generated from the code (`python -m airflow_sitemaps.protocol.rules_page > docs/rules.md`); do not edit.

## Rules of rows

Every row is checked against these rules while it is written. `rules={"loc-duplicate": "fail"}` on a `Sitemap` or a
`Section` sets what happens on a fault. The report counts faults by rule, with samples that carry the row's key.

- `keep`: written as it is.
- `repair`: fixed and written.
- `omit_field`: the faulty field is left out (of an extension: the field, or the image, video, article or alternate that
  cannot be without it); the URL stays. Rows that `news-age` leaves out are counted as expired, which is no fault.
- `drop_row`: the URL is not listed.
- `fail`: the run fails before anything is published.

| Rule | Says | Source | Default | Settable to |
|---|---|---|---|---|
"""

_CHECKS = """
## Checks of published files

`airflow-sitemaps verify` and `SitemapVerifyOperator` read published files, whatever program wrote them. An error makes a
sitemap invalid or unreadable in part; a warning names a loss or a risk.

| Check | Says | Source | Severity |
|---|---|---|---|
"""


def render() -> str:
    """Return the page in Markdown."""
    rules = [
        f"| `{rule.name}` | {rule.text} | {rule.source} | `{rule.default.value}` | "
        f"{', '.join(f'`{verdict.value}`' for verdict in rule.allowed)} |\n"
        for rule in RULES.values()
    ]
    checks = [f"| `{c.name}` | {c.text} | {c.source} | {c.severity} |\n" for c in CHECKS.values()]
    return _HEAD + "".join(rules) + _CHECKS + "".join(checks)


if __name__ == "__main__":
    sys.stdout.write(render())
