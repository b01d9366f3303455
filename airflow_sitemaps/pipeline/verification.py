"""What verifying looks at, and what came of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_sitemaps.protocol.limits import CURRENT

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.checks import Severity
    from airflow_sitemaps.protocol.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One check that failed at one place: ``where`` is a file's or a page's address, ``count`` how often it failed."""

    rule: str
    where: str
    message: str
    severity: Severity
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What came of verifying. ``files`` were read, ``urls`` listed in them, ``sampled`` pages fetched."""

    addresses: tuple[str, ...]
    failures: tuple[Failure, ...]
    files: int
    urls: int
    index_urls: tuple[str, ...]
    sampled: int = 0

    @property
    def errors(self) -> tuple[Failure, ...]:
        """The failures that make the sitemap invalid; the rest are warnings."""
        return tuple(failure for failure in self.failures if failure.severity == "error")

    @property
    def valid(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "valid": self.valid}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to verify.

    ``sample``: pages to fetch, chosen by ``seed``. ``crawler``: product token that robots.txt is read for.
    ``robots``: whether robots.txt is looked at; only for http(s) addresses. ``cross_submit``: further hosts or origins
    that may be listed. ``public``: address under which a file given by path is served, for the rules of scope.
    """

    limits: Limits = CURRENT
    sample: int = 0
    seed: int = 0
    crawler: str = "Googlebot"
    robots: bool = True
    cross_submit: tuple[str, ...] = ()
    public: str | None = None
