"""The canary of a section: its settings, and the sequential test that says when enough pages were judged. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Final

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.protocol.rules import CHECKS

if TYPE_CHECKING:
    from airflow_sitemaps.http.page_judge import Site

FALSE_REFUSALS: Final = 0.02
"""Wald's bound for the probability of refusing a section with ``GOOD`` times ``max_bad`` faulty pages."""
MISSES: Final = 0.065
"""Wald's bound for the probability of passing a section with ``BAD`` times ``max_bad`` faulty pages."""
GOOD: Final = 0.5
BAD: Final = 2.5
LEAST_FAULTY: Final = 3
"""Number of faulty pages below which no section is refused."""
MOST_BAD: Final = 0.3
PAGE_CHECKS: Final = tuple(name for name in CHECKS if name.startswith("page-"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """A check before the commit: random pages that a run adds or changes are requested, as a crawler would.

    A page is faulty as for ``airflow-sitemaps verify --sample``. A section with too many faulty pages stays as published. Where
    the site does not answer, the run publishes with a warning.

    Attributes:
        sample: Most pages of a section that are requested, at least 10. A clean section needs fewer, a bad one very few.
            Default: 200.
        max_bad: Fraction of faulty pages that may be published, from 0.001 to 0.3. Default: 0.02.
        ignore: Checks of pages that do not count, such as ``page-noindex`` on a staging site. Default: none.
        per_second: Most requests in a second. Default: 5.
        site: How to request the pages: a ``Website``. Default: None, as anyone on the Internet does, over https only.

    Raises:
        ConfigurationError: A setting is out of its range.
    """

    sample: int = 200
    max_bad: float = 0.02
    ignore: Sequence[str] = ()
    per_second: float = 5.0
    site: Site | None = None

    def __post_init__(self) -> None:
        setting_checks.whole_number("Canary", "sample", self.sample, 10)
        setting_checks.number("Canary", "max_bad", self.max_bad, 0.001, MOST_BAD)
        setting_checks.number("Canary", "per_second", self.per_second, 0.01)
        setting_checks.texts("Canary", "ignore", self.ignore)
        for check in self.ignore:
            setting_checks.one_of("Canary", "ignore", check, PAGE_CHECKS)
        if self.site is not None and not hasattr(self.site, "fetcher"):
            raise ConfigurationError(f"Canary: site={self.site!r}; give a Website, like Website(conn_id='my_site')")


@dataclass(slots=True)
class SequentialTest:
    """Wald's sequential probability ratio test of the fraction of faulty pages. It ends as soon as the pages decide."""

    max_bad: float
    judged: int = 0
    faulty: int = 0

    def add(self, *, is_faulty: bool) -> bool | None:
        """Count a page. Return whether to refuse the section, or None while that is open."""
        self.judged += 1
        self.faulty += is_faulty
        good, bad = GOOD * self.max_bad, BAD * self.max_bad
        ratio = self.faulty * log(bad / good) + (self.judged - self.faulty) * log((1 - bad) / (1 - good))
        if ratio <= log(MISSES / (1 - FALSE_REFUSALS)):
            return False
        return True if ratio >= log((1 - MISSES) / FALSE_REFUSALS) and self.faulty >= LEAST_FAULTY else None

    @property
    def is_bad(self) -> bool:
        """Whether to refuse the section if there is no further page."""
        return self.faulty >= LEAST_FAULTY and self.faulty > self.max_bad * self.judged
