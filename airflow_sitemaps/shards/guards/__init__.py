"""Guards: limits of the changes that a run may publish unconfirmed, permits, the canary, and why rows are not listed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError, RequestError
from airflow_sitemaps.protocol.rules import CHECKS
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards import Number

if TYPE_CHECKING:
    from airflow_sitemaps.http.page_judge import Site
    from airflow_sitemaps.shards.manifest import SectionManifest

SMALLEST: Final = 20
"""Number of earlier URLs or rows below which fractions mean nothing. Only an empty result is refused."""

MOST_LOST: Final = 0.5
"""Greatest fraction of its URLs that a small section may lose."""

MOST_DROPPED: Final = 0.25
"""Greatest fraction of its rows that rules may drop in a small section."""

BARE_LIMITS: Final[Mapping[str, float]] = {
    "shrink": 0.5,
    "renamed": 0.5,
    "growth": 10.0,
    "dropped": 0.5,
    "churn": 0.8,
    "empty": 0.0,
    "vanished": 0.0,
    "must_list": 0.0,
    "redated": 1.0,
    "total": 0.5,
    "adopt": 0.5,
    "moved": 0.0,
    "canary": 0.0,
}
"""The guards, each with the change that a permit without a bound allows.

``shrink:products``, for example, allows a decline by half. 0: the guard measures nothing.
"""

ADDRESS: Final = ("adopt", "moved")
"""Guards of the whole sitemap that no section's change can pass."""

WHOLE: Final = ("total", *ADDRESS)
"""Guards of the whole sitemap; their permits name no section."""


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
        if self.site is not None and (isinstance(self.site, type) or not hasattr(self.site, "fetcher")):
            raise ConfigurationError(f"Canary: site={self.site!r}; give a Website, like Website(conn_id='my_site')")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Limits of one section's change, compared with the last generation and with the last seven days.

    Every fraction is a number from 0 to 1. A section with fewer than ``min_rows`` URLs may lose as many URLs as one
    with ``min_rows``, but at most half of them, and rules may drop a quarter of its rows; below 20 URLs, all but one.

    Attributes:
        max_shrink: Fraction of the earlier URLs that may disappear. Default: 0.15.
        max_growth: Number of URLs that may be added, as a multiple of the earlier ones. 5,000 may always be added. At
            least 0. Default: 1.0.
        min_rows: Number of URLs or rows from which the fractions hold as they are. A smaller section may grow without a
            limit. Default: 1,000.
        max_dropped: Fraction of the rows that rules may drop, without expired rows. Default: 0.01.
        max_churn: Fraction of the earlier URLs that may be replaced by others. Default: 0.5.
        max_redated: Fraction of the URLs with a known fingerprint whose observed dates may move, if there are at least
            ``min_rows``. Default: 0.5.
        max_shrink_total: Fraction of the earlier URLs of all sections together that may disappear, if there are at
            least ``min_rows``. Sections of news, sections with their own guards, and sections with a permit do not
            count. Only the sitemap's setting is used. Default: 0.3.
        canary: A check of pages that the run adds or changes, before the commit. Default: None, no page is requested.

    Raises:
        ConfigurationError: A limit is out of its range.
    """

    max_shrink: float = 0.15
    max_growth: float = 1.0
    min_rows: int = 1_000
    max_dropped: float = 0.01
    max_churn: float = 0.5
    max_redated: float = 0.5
    max_shrink_total: float = 0.3
    canary: Canary | None = None

    def __post_init__(self) -> None:
        for name in ("max_shrink", "max_dropped", "max_churn", "max_redated", "max_shrink_total"):
            setting_checks.number("Guards", name, getattr(self, name), 0, 1)
        setting_checks.number("Guards", "max_growth", self.max_growth, 0)
        setting_checks.whole_number("Guards", "min_rows", self.min_rows, 0)
        if self.canary is not None:
            setting_checks.instance("Guards", "canary", self.canary, Canary)

    @classmethod
    def strict(cls) -> Guards:
        """Return guards for a section whose URLs hardly change: about a third of the default limits."""
        return cls(
            max_shrink=0.05, max_growth=0.3, max_dropped=0.003, max_churn=0.15, max_redated=0.15, max_shrink_total=0.1
        )

    @classmethod
    def loose(cls) -> Guards:
        """Return guards for a section that changes much by design, such as offers of a day or a table in migration."""
        return cls(
            max_shrink=0.4, max_growth=5.0, max_dropped=0.1, max_churn=0.9, max_redated=0.9, max_shrink_total=0.6
        )

    @classmethod
    def disabled(cls) -> Guards:
        """Return guards that refuse only an empty section."""
        return cls(
            max_shrink=1.0, max_growth=1e9, max_dropped=1.0, max_churn=1.0, max_redated=1.0, max_shrink_total=1.0
        )

    def shrink_limit(self, earlier: int) -> float:
        """Return the fraction of the earlier URLs that may disappear."""
        if earlier >= self.min_rows:
            return self.max_shrink
        as_many = min(MOST_LOST, self.max_shrink * self.min_rows / max(1, earlier))
        return 1.0 if earlier < SMALLEST else max(self.max_shrink, as_many)

    def dropped_limit(self, rows: int) -> float:
        """Return the fraction of ``rows`` that rules may drop."""
        if rows >= self.min_rows:
            return self.max_dropped
        return 1.0 if rows < SMALLEST else max(self.max_dropped, MOST_DROPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The refusal of a guard.

    Attributes:
        message: What was measured, with the numbers and the limit.
        value: The measured value in the guard's unit, a fraction for most. None (default): it measures nothing.
    """

    guard: str
    section: str
    message: str
    value: Number | None = None

    @property
    def permit(self) -> str:
        """The permit, its bound rounded up to hundredths, that lets one run pass: the value of ``--allow`` and the DAG param ``allow``."""
        bound = "" if self.value is None else f"={math.ceil(self.value * 100 - 1e-9) / 100:.15g}"
        return f"{self.guard}{bound}" if self.guard in WHOLE else f"{self.guard}:{self.section}{bound}"

    def __str__(self) -> str:
        param = f", or the DAG param allow=[{self.permit!r}]" if self.guard != "adopt" else ""  # no DAG adopts
        return f"{self.message} To let one run pass: --allow {self.permit}{param}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """A change beyond a guard's limit that one run is allowed.

    Attributes:
        section: The section's name. Default: None, every section.
        bound: The largest change, in the guard's unit. Default: None, the value in ``BARE_LIMITS``.
    """

    guard: str
    section: str | None = None
    bound: float | None = None

    @classmethod
    def of(cls, text: str) -> Permit:
        """Parse a permit: ``shrink:products=0.15``, ``shrink:products`` or ``shrink``."""
        name, equals, bound = text.partition("=")
        guard, colon, section = name.partition(":")
        if guard not in BARE_LIMITS:
            raise RequestError(f"allow={text!r}: there is no guard {guard!r}; they are {', '.join(BARE_LIMITS)}")
        try:
            number = float(bound) if equals else None
        except ValueError:
            number = math.nan
        if number is not None and not (0 <= number < math.inf and (guard == "growth" or number <= 1)):
            raise RequestError(f"allow={text!r}: {bound!r} is not a valid bound; give a fraction, like {name}=0.15")
        return cls(guard=guard, section=section if colon else None, bound=number)

    def lets_pass(self, refusal: Refusal) -> bool:
        """Return whether this permit covers a refusal."""
        if refusal.guard != self.guard or self.section not in (None, refusal.section):
            return False
        limit = BARE_LIMITS[self.guard] if self.bound is None else self.bound
        return refusal.value is None or refusal.value <= limit + 1e-9


def check_permits(allow: Sequence[str], sections: Iterable[str]) -> None:
    """Check that every permit names a guard and a section that exist, or raise ``RequestError``."""
    names = set(sections)
    for text in allow:
        permit = Permit.of(text)
        if permit.section is not None and permit.section not in names:
            raise RequestError(
                f"allow={text!r}: there is no section {permit.section!r}; the sections are {', '.join(sorted(names))}"
            )


def permitted(refusals: Sequence[Refusal], allow: Sequence[str]) -> tuple[tuple[Refusal, ...], tuple[Refusal, ...]]:
    """Split refusals into those that remain and those that permits (``shrink:products=0.15``, ``shrink``) allow."""
    permits = [Permit.of(text) for text in allow]
    passed = tuple(r for r in refusals if any(permit.lets_pass(r) for permit in permits))
    return tuple(r for r in refusals if r not in passed), passed


def refusal_text(refusals: Sequence[object]) -> str:
    """Write one message, for an operator, about all refusals."""
    lines = "\n".join(f"  - {refusal}" for refusal in refusals)
    return (
        f"This run was refused by {counted(len(refusals), 'guard')}. The published sitemap is unchanged. A retry cannot help: "
        f"correct the data, or allow the change for one run:\n{lines}"
    )


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


# ------------------------------------------------------------ why rows are not listed


FREQUENT: Final = 3
"""Maximum number of rules that an explanation names, the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLosses:
    """Rows of a section that are not listed: ``dropped`` for a fault, ``expired`` for their age. Both are by rule.

    ``rows`` are those of the section, or those of them that were read.
    """

    rows: int
    base_url: str
    dropped: Mapping[str, int] = field(default_factory=dict)
    expired: Mapping[str, int] = field(default_factory=dict)
    samples: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of_section(cls, section: SectionManifest, base_url: str) -> RowLosses:
        """Collect the losses of a section as rendered."""
        dropped: Counter[str] = Counter()
        expired: Counter[str] = Counter()
        for shard in section.shards:
            dropped.update(shard.dropped)
            expired.update(shard.expired)
        if section.null_keys:
            dropped["key-null"] += section.null_keys
        return cls(rows=section.rows, base_url=base_url, dropped=dropped, expired=expired, samples=section.samples)

    def explanation(self) -> str:
        """Return sentences for people, or "" if every row is listed. The cause is first: a reader may cut the end."""
        parts = []
        for counts, what in ((self.dropped, "dropped"), (self.expired, "past their age")):
            if counts:
                parts.append(f"Rows {what} by rule: {'; '.join(self._rules(counts))}.")
        return " ".join((self.likely_cause(), *parts)).strip()

    def _rules(self, counts: Mapping[str, int]) -> list[str]:
        rules = []
        for rule, number in Counter(counts).most_common(FREQUENT):
            samples = self.samples.get(rule, ())
            shown = f", such as {samples[0]!r}" if samples else ""
            rules.append(f"{rule} {number:,}{shown}")
        return rules

    def likely_cause(self) -> str:
        """Return a sentence about the most frequent fault, or "" if its cause is not known."""
        if not self.dropped:
            return ""
        rule, number = Counter(self.dropped).most_common(1)[0]
        all_rows = number == self.rows
        some = f"all {number:,}" if all_rows else f"{number:,}"
        samples = self.samples.get(rule, ())
        origins, verb = " and ".join(_origins(samples, self.base_url)), "are" if all_rows else "seem to be"
        # The rule of the field names what the article lacks; that of the row shows its value.
        reasons = self.samples.get("news") or self.samples.get("extension-json")
        causes = {
            "scope-host": origins and f"{some} URLs {verb} on {origins}; base_url is {self.base_url}",
            "key-null": f"the key is NULL in {some} rows; use key columns that are never NULL",
            "loc-missing": f"a column of loc= is NULL or empty in {some} rows",
            "loc-relative": f"{some} values of loc= are only parts of URLs; {_advice(samples, self.base_url)}",
            "loc-scheme": f"{some} values of loc= begin with neither https:// nor http://",
            "news-missing": reasons and f"the article is not complete in {some} rows, such as {reasons[0]!r}",
            "loc-duplicate": f"{some} rows repeat the URL of another row; check loc= and the joins of the query",
        }
        return f"Likely cause: {cause}." if (cause := causes.get(rule)) else ""


def _advice(samples: Sequence[str], base_url: str) -> str:
    """Return the template that makes URLs of values such as ``products/1`` or ``www.example.com/products/1``."""
    value = samples[0].strip("'") if samples else ""
    field = "{slug:path}" if "/" in value.partition(" (")[0] else "{slug}"
    scheme, _, rest = base_url.partition("://")
    if value.startswith(rest):
        return f'begin the template of loc= with {scheme}://, or for a column write loc="{scheme}://{field}"'
    return f'write a template, such as loc="{base_url}{field}"'


def _origins(samples: Sequence[str], base_url: str) -> list[str]:
    """Return the hosts of the URLs in samples of faulty rows, in order, with the scheme where only that is another one."""
    origins: list[str] = []
    for sample in samples:
        start = sample.find("http")
        scheme, host = _scheme_and_host(sample[start:].split()[0].strip("'\",;)")) if start >= 0 else ("", "")
        origin = f"{scheme}://{host}" if host and host == _scheme_and_host(base_url)[1] else host
        if origin and origin not in origins:
            origins.append(origin)
    return origins


def _scheme_and_host(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:  # such as an unclosed bracket
        return "", ""
    return parts.scheme, parts.netloc
