"""Output formats of a verification: text, JSON and JUnit XML. The names of the rules are the stable codes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal
from xml.sax.saxutils import quoteattr

from airflow_sitemaps.protocol.validation.checks import CHECKS
from airflow_sitemaps.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.verification.result import Verification

Format = Literal["text", "json", "junit"]
FORMATS: Final[tuple[Format, ...]] = ("text", "json", "junit")
"""The output formats of ``airflow-sitemaps verify``."""

JSON_FORMAT: Final = 1
"""Version of the JSON document. It grows when a field changes its meaning."""

_UNRENDERABLE: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow (w3.org/TR/xml, 2.2)."""


def text_lines(result: Verification) -> Iterator[str]:
    """Return a line for each failure, the number of failures by rule, and the total."""
    for failure in result.failures:
        times = f" ({failure.count:,} times)" if failure.count > 1 else ""
        yield f"{failure.severity.upper()} {failure.rule}: {failure.where}: {failure.message}{times}"
    for name, failures in (("errors", result.errors), ("warnings", result.warnings)):
        if failures:
            rules = {failure.rule for failure in failures}
            counts = (f"{rule} {count:,}" for rule, count in result.count_by_rule().items() if rule in rules)
            yield f"{name} by rule: {', '.join(counts)}"
    sampled = f", {result.sampled:,} pages fetched" if result.sampled else ""
    yield (
        f"{'valid' if result.valid else 'NOT valid'}: {counted(result.files, 'file')}, {counted(result.urls, 'URL')}{sampled}; "
        f"{counted(len(result.errors), 'error')}, {counted(len(result.warnings), 'warning')}"
    )


def to_json(result: Verification) -> dict[str, Any]:
    """Return the result as a JSON document."""
    return {"format": JSON_FORMAT, **result.to_dict()}


def to_junit(result: Verification) -> str:
    """Return the result as JUnit XML.

    Each rule that fails is a test case. Errors are failures; warnings are in ``system-out`` of a test case that
    passes. One more test case, ``read``, represents the addresses themselves, so that the suite is never empty.
    """
    cases = [
        f'    <testcase classname="sitemap" name="read"><system-out>{_xml(_totals(result))}</system-out></testcase>'
    ]
    failed = 0
    for rule in result.count_by_rule():
        failures = [failure for failure in result.failures if failure.rule == rule]
        lines = _xml("\n".join(f"{failure.where}: {failure.message}" for failure in failures))
        if failures[0].severity == "error":
            failed += 1
            message = _attribute(CHECKS[rule].text)
            body = f'<failure type="{rule}" message={message}>{lines}</failure>'
        else:
            body = f"<system-out>warning: {lines}</system-out>"
        cases.append(f'    <testcase classname="sitemap" name="{rule}">{body}</testcase>')
    return _junit(cases, failures=failed, errors=0)


def junit_of_error(error: Exception) -> str:
    """Return JUnit XML for a verification that could not run."""
    body = f'<error type="{type(error).__name__}" message={_attribute(str(error))}/>'
    return _junit([f'    <testcase classname="sitemap" name="read">{body}</testcase>'], failures=0, errors=1)


def _totals(result: Verification) -> str:
    *_, total = text_lines(result)
    return f"{', '.join(result.addresses)}: {total}"


def _junit(cases: Sequence[str], *, failures: int, errors: int) -> str:
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}"'
    suite = [f'  <testsuite name="airflow-sitemaps verify" {counts}>', *cases, "  </testsuite>"]
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {counts}>", *suite, "</testsuites>"])


def _renderable(text: str) -> str:
    return _UNRENDERABLE.sub("\ufffd", text)


def _xml(text: str) -> str:
    return _renderable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(text: str) -> str:
    return quoteattr(_renderable(text))
