"""The options and the result of a verification."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.limits import CURRENT

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.limits import Limits
    from airflow_sitemaps.protocol.validation.checks import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One check that failed in one place.

    Attributes:
        rule: Name of the check, as in ``docs/rules.md``. The name is stable and serves as a code.
        where: Address of the file or page.
        message: Description of the first few occurrences.
        severity: ``error`` (the sitemap is invalid, or was not read completely) or ``warning``.
        count: Number of occurrences. Default: 1.
    """

    rule: str
    where: str
    message: str
    severity: Severity
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of verifying a sitemap.

    Attributes:
        addresses: The addresses that were verified.
        failures: The checks that failed, errors first.
        files: Number of files that were read, including indexes.
        urls: Number of URLs that those files list.
        index_urls: Addresses of the indexes that were read.
        sampled: Number of listed pages that were fetched. Default: 0.
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
        limits: Limit profile that the files must comply with. Default: the current limits of sitemaps.org.
        sample: Number of listed pages to fetch. Default: 0.
        seed: Seed for the choice of pages. The same seed chooses the same pages. Default: 0.
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
