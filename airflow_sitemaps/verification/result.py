"""The options and the result of a verification, and its formats: text, JSON and JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol import CURRENT, Limits
from airflow_sitemaps.protocol.markup import FORBIDDEN, attributes, element, escape
from airflow_sitemaps.protocol.rules import CHECKS, Severity
from airflow_sitemaps.quantities import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One check that failed in one place.

    ``rule`` is stable and serves as a code (``docs/rules.md``). ``message`` describes the first few occurrences.
    ``severity`` is ``error`` (the sitemap is invalid, or was not read completely) or ``warning``.
    """

    rule: str
    where: str
    message: str
    severity: Severity
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of verifying a sitemap. ``failures`` has errors first; ``files`` counts indexes, too.

    ``urls`` counts the URLs that the files list, ``sampled`` the listed pages that were fetched.
    """

    addresses: tuple[str, ...]
    failures: tuple[Failure, ...]
    files: int
    urls: int
    index_urls: tuple[str, ...]
    sampled: int = 0

    @property
    def errors(self) -> tuple[Failure, ...]:
        """The failures of severity ``error``."""
        return tuple(failure for failure in self.failures if failure.severity == "error")

    @property
    def warnings(self) -> tuple[Failure, ...]:
        """The failures of severity ``warning``."""
        return tuple(failure for failure in self.failures if failure.severity != "error")

    @property
    def valid(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def count_by_rule(self) -> dict[str, int]:
        """Return the number of occurrences of each failed rule: errors first, then the most frequent."""
        counts: dict[str, int] = {}
        severities: dict[str, str] = {}
        for failure in self.failures:
            counts[failure.rule] = counts.get(failure.rule, 0) + failure.count
            severities[failure.rule] = failure.severity
        return dict(sorted(counts.items(), key=lambda item: (severities[item[0]], -item[1], item[0])))

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {**asdict(self), "valid": self.valid, "rules": self.count_by_rule()}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationOptions:
    """The settings of a verification.

    Attributes:
        sample: Number of listed pages to fetch. Default: 0.
        seed: The same seed chooses the same pages. Default: 0.
        crawler: Product token for which robots.txt is read. Default: ``Googlebot``.
        robots: Whether robots.txt is checked. It is checked for http and https addresses only. Default: True.
        cross_submit: Other hosts or origins whose URLs the sitemap may list. Default: none.
        public: Address at which a file given by its path is served. The scope rules need it. Default: None.

    Raises:
        ConfigurationError: ``sample`` is negative.
    """

    limits: Limits = CURRENT
    sample: int = 0
    seed: int = 0
    crawler: str = "Googlebot"
    robots: bool = True
    cross_submit: tuple[str, ...] = ()
    public: str | None = None

    def __post_init__(self) -> None:
        if self.sample < 0:
            raise ConfigurationError(f"sample={self.sample}: give the number of pages to fetch, 0 or more")


JSON_FORMAT: Final = 1
"""Version of the JSON document. It grows when a field changes its meaning."""


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
    *_, total = text_lines(result)
    cases = [_case("read", element("system-out", _xml(f"{', '.join(result.addresses)}: {total}")))]
    failed = 0
    for rule in result.count_by_rule():
        failures = [failure for failure in result.failures if failure.rule == rule]
        lines = _xml("\n".join(f"{failure.where}: {failure.message}" for failure in failures))
        if failures[0].severity == "error":
            failed += 1
            body = element("failure", lines, attributes(type=rule, message=CHECKS[rule].text))
        else:
            body = element("system-out", f"warning: {lines}")
        cases.append(_case(rule, body))
    return _junit(cases, failures=failed, errors=0)


def junit_of_error(error: Exception) -> str:
    """Return JUnit XML for a verification that could not run."""
    message = FORBIDDEN.sub("\ufffd", str(error))
    body = element("error", "", attributes(type=type(error).__name__, message=message))
    return _junit([_case("read", body)], failures=0, errors=1)


def _case(name: str, body: str) -> str:
    return f"    {element('testcase', body, attributes(classname='sitemap', name=name))}"


def _junit(cases: Sequence[str], *, failures: int, errors: int) -> str:
    counts = f'tests="{len(cases)}" failures="{failures}" errors="{errors}"'
    suite = [f'  <testsuite name="airflow-sitemaps verify" {counts}>', *cases, "  </testsuite>"]
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {counts}>", *suite, "</testsuites>"])


def _xml(value: str) -> str:
    return escape(FORBIDDEN.sub("\ufffd", value))
