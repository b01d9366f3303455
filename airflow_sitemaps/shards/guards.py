"""Guards: limits of the changes that a run may publish without a confirmation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards.schema import Number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SMALLEST: Final = 20
"""Number of earlier URLs or rows below which fractions mean nothing. Only an empty result is refused."""

LEARNED_SLACK: Final = 0.05
"""Fraction that is added to the greatest decline in the history of a section."""

LEARNED_MOST: Final = 0.3
"""Greatest value to which a section's history can raise ``max_shrink``."""

BARE_LIMITS: Final[Mapping[str, float]] = {
    "shrink": 0.5,
    "renamed": 0.5,
    "growth": 10.0,
    "dropped": 0.5,
    "churn": 0.8,
    "empty": 0.0,
    "vanished": 0.0,
    "must_list": 0.0,
    "first_build": 0.0,
    "total": 0.5,
    "adopt": 0.5,
}
"""The guards, each with the change that a permit without a bound allows.

``shrink:products``, for example, allows a decline by half. 0: the guard measures nothing.
"""

WHOLE: Final = ("total", "adopt")
"""Guards of the whole sitemap; their permits name no section."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Limits of one section's change, compared with the last generation and the maximum of the last seven days.

    Every fraction is a number from 0 to 1.

    Attributes:
        max_shrink: Fraction of the earlier URLs that may disappear. Default: 0.15.
        max_growth: Number of URLs that may be added, as a multiple of the earlier ones. At least 0. Default: 1.0.
        min_growth: Number of added URLs up to which growth is never refused. Default: 5,000.
        min_rows: Number of earlier URLs below which the limits of a small section apply. Default: 1,000.
        max_dropped: Fraction of the rows that rules may drop, without expired rows. Default: 0.01.
        max_touched: Fraction of the shards that may change without a warning. It never refuses, because a bulk load may
            change every row. Default: 0.5.
        max_churn: Fraction of the earlier URLs that may be replaced by others. Default: 0.5.
        max_shrink_small: ``max_shrink`` of a section with 20 up to ``min_rows`` earlier URLs. Default: 0.5.
        max_dropped_small: ``max_dropped`` of a section with 20 up to ``min_rows`` rows. Default: 0.25.
        first_rows: Smallest number of URLs in the first build of a section. Default: 1.
        max_shrink_total: Fraction of the earlier URLs of all sections together that may disappear, if there are at least
            ``min_rows``. Sections of news, sections with their own guards, and sections with a permit do not count.
            Only the sitemap's setting is used. Default: 0.3.
        learn: Whether the history of a section can raise ``max_shrink`` for it. The limit is then the greatest decline of
            the last 400 days, plus 0.05, but at most 0.3. The last seven days and declines that needed a permit do not
            count. Default: True.

    Raises:
        ConfigurationError: A limit is out of its range.
    """

    max_shrink: float = 0.15
    max_growth: float = 1.0
    min_growth: int = 5_000
    min_rows: int = 1_000
    max_dropped: float = 0.01
    max_touched: float = 0.5
    max_churn: float = 0.5
    max_shrink_small: float = 0.5
    max_dropped_small: float = 0.25
    first_rows: int = 1
    max_shrink_total: float = 0.3
    learn: bool = True

    def __post_init__(self) -> None:
        for name in ("max_shrink", "max_dropped", "max_touched", "max_churn", "max_shrink_small", "max_dropped_small"):
            setting_checks.number("Guards", name, getattr(self, name), 0, 1)
        setting_checks.number("Guards", "max_shrink_total", self.max_shrink_total, 0, 1)
        setting_checks.number("Guards", "max_growth", self.max_growth, 0)
        for name in ("min_growth", "min_rows", "first_rows"):
            setting_checks.whole_number("Guards", name, getattr(self, name), 0)
        setting_checks.flag("Guards", "learn", self.learn)

    @classmethod
    def disabled(cls) -> Guards:
        """Return guards that refuse only an empty section."""
        return cls(
            max_shrink=1.0,
            max_growth=1e9,
            min_rows=10**9,
            max_dropped=1.0,
            max_churn=1.0,
            max_shrink_small=1.0,
            max_dropped_small=1.0,
            max_shrink_total=1.0,
        )

    def shrink_limit(self, earlier: int, declines: Iterable[int] = ()) -> float:
        """Return the fraction of the earlier URLs that may disappear.

        Args:
            earlier: Number of earlier URLs.
            declines: Earlier declines of the section, in thousandths. Default: none.
        """
        if earlier < self.min_rows:
            return 1.0 if earlier < SMALLEST else max(self.max_shrink, self.max_shrink_small)
        greatest = max(declines, default=0) / 1_000
        learned = min(LEARNED_MOST, greatest + LEARNED_SLACK) if self.learn and greatest else 0.0
        return max(self.max_shrink, learned)

    def dropped_limit(self, rows: int) -> float:
        """Return the fraction of ``rows`` that rules may drop."""
        if rows >= self.min_rows:
            return self.max_dropped
        return 1.0 if rows < SMALLEST else max(self.max_dropped, self.max_dropped_small)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The refusal of a guard.

    Attributes:
        guard: The guard's name, such as ``shrink``.
        section: The section's name.
        message: What was measured, with the numbers and the limit.
        value: The measured value in the guard's unit, which is a fraction for most guards. Default: None, if the guard
            measures nothing.
    """

    guard: str
    section: str
    message: str
    value: Number | None = None

    @property
    def permit(self) -> str:
        """The permit, with its bound, that lets one run pass: the value of ``--allow`` and the DAG param ``allow``."""
        bound = "" if self.value is None else f"={_bound(self.value):g}"
        return f"{self.guard}{bound}" if self.guard in WHOLE else f"{self.guard}:{self.section}{bound}"

    def __str__(self) -> str:
        return f"{self.message} To let one run pass: --allow {self.permit}, or the DAG param allow=[{self.permit!r}]."


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """A change beyond a guard's limit that one run is allowed.

    Attributes:
        guard: The guard's name.
        section: The section's name. Default: None, every section.
        bound: The largest change, in the guard's unit. Default: None, the value in ``BARE_LIMITS``.
    """

    guard: str
    section: str | None = None
    bound: float | None = None

    @classmethod
    def of(cls, text: str) -> Permit:
        """Parse a permit: ``shrink:products=0.15``, ``shrink:products`` or ``shrink``.

        Raises:
            ConfigurationError: The guard does not exist, or the bound is not a number.
        """
        name, equals, bound = text.partition("=")
        guard, colon, section = name.partition(":")
        if guard not in BARE_LIMITS:
            raise ConfigurationError(f"allow={text!r}: there is no guard {guard!r}; they are {', '.join(BARE_LIMITS)}")
        try:
            number = float(bound) if equals else None
        except ValueError:
            number = math.nan
        if number is not None and not 0 <= number < math.inf:
            raise ConfigurationError(
                f"allow={text!r}: {bound!r} is not a valid bound; give a fraction, like {name}=0.15"
            )
        return cls(guard=guard, section=section if colon else None, bound=number)

    def lets_pass(self, refusal: Refusal) -> bool:
        """Return whether this permit covers a refusal."""
        if refusal.guard != self.guard or self.section not in (None, refusal.section):
            return False
        limit = BARE_LIMITS[self.guard] if self.bound is None else self.bound
        return refusal.value is None or refusal.value <= limit + 1e-9


def check_permits(allow: Sequence[str], sections: Iterable[str]) -> None:
    """Check that every permit names a guard and a section that exist.

    Raises:
        ConfigurationError: A guard or a section does not exist, or a bound is not a number.
    """
    names = set(sections)
    for text in allow:
        permit = Permit.of(text)
        if permit.section is not None and permit.section not in names:
            raise ConfigurationError(
                f"allow={text!r}: there is no section {permit.section!r}; the sections are {', '.join(sorted(names))}"
            )


def check_size(
    guards: Guards,
    section: str,
    *,
    now: int,
    before: int | None,
    peak: int,
    what: str,
    declines: Iterable[int] = (),
) -> tuple[Refusal, ...]:
    """Return refusals because of the number of rows or URLs that a section would have.

    Args:
        guards: The section's guards.
        section: The section's name.
        now: The number after the run.
        before: The number as last committed. None if the section was never committed.
        peak: The greatest number of the last seven days.
        what: The unit in the message: ``rows`` or ``URLs``.
        declines: Earlier declines, in thousandths. Default: none.
    """
    if now == 0:
        published = "none were ever published" if before is None else f"{before:,} are published"
        advice = " Check whether its table is empty or still being loaded." if what == "rows" else ""
        message = f"Section {section!r} has no {what} now; {published}.{advice}"
        return (Refusal(guard="empty", section=section, message=message),) if before != 0 else ()
    if before is None:
        return _check_first(guards, section, now, what)
    refusals = []
    highest = max(before, peak)
    limit = guards.shrink_limit(highest, declines)
    if now < highest * (1 - limit):
        part = (highest - now) / highest
        message = (
            f"Section {section!r} would shrink from {highest:,} to {now:,} {what} (-{part:.1%}; the limit is "
            f"{limit:.1%}, {_limit_name(guards, highest)})."
        )
        refusals.append(Refusal(guard="shrink", section=section, message=message, value=part))
    if before >= guards.min_rows and now > max(before * (1 + guards.max_growth), before + guards.min_growth):
        part = (now - before) / before
        message = (
            f"Section {section!r} would grow from {before:,} to {now:,} {what} "
            f"(+{part:.1%}; the limit is max_growth={guards.max_growth:.1%})."
        )
        refusals.append(Refusal(guard="growth", section=section, message=message, value=part))
    return tuple(refusals)


def _limit_name(guards: Guards, earlier: int) -> str:
    return "max_shrink" if earlier >= guards.min_rows else "max_shrink_small"


def _check_first(guards: Guards, section: str, now: int, what: str) -> tuple[Refusal, ...]:
    if now >= guards.first_rows:
        return ()
    message = (
        f"Section {section!r} has {now:,} {what} at its first build, and first_rows={guards.first_rows:,} are expected. "
        "Check whether its table is still being loaded."
    )
    return (Refusal(guard="first_build", section=section, message=message),)


def check_dropped(guards: Guards, section: str, *, rows: int, dropped: int) -> tuple[Refusal, ...]:
    """Return a refusal if rules dropped too many rows of a section.

    Args:
        guards: The section's guards.
        section: The section's name.
        rows: Number of rows, without expired ones.
        dropped: Number of dropped rows.
    """
    limit = guards.dropped_limit(rows)
    if not rows or dropped <= rows * limit:
        return ()
    message = (
        f"Section {section!r}: {dropped:,} of {rows:,} rows were dropped by rules "
        f"({dropped / rows:.1%}; the limit is max_dropped={limit:.1%})."
    )
    return (Refusal(guard="dropped", section=section, message=message, value=dropped / rows),)


def check_churn(guards: Guards, section: str, *, gone: float, earlier: int) -> tuple[Refusal, ...]:
    """Return a refusal if too many of a section's earlier URLs are replaced by others.

    Args:
        guards: The section's guards.
        section: The section's name.
        gone: Fraction of the earlier URLs that are no longer listed.
        earlier: Number of earlier URLs.
    """
    if earlier < SMALLEST or gone <= guards.max_churn:
        return ()
    message = (
        f"Section {section!r}: about {gone:.0%} of the {earlier:,} URLs published before are replaced by others (the "
        f"limit is max_churn={guards.max_churn:.0%}). Check whether the form of the URLs changed."
    )
    return (Refusal(guard="churn", section=section, message=message, value=gone),)


def check_missing(missing: Mapping[str, Sequence[str]]) -> tuple[Refusal, ...]:
    """Return refusals of sections without a URL that the sitemap must list.

    Args:
        missing: The missing URLs by section.
    """
    return tuple(
        Refusal(
            guard="must_list",
            section=section,
            message=f"Section {section!r}: no section lists {counted(len(locs), 'URL')} of must_list, such as {locs[0]}.",
        )
        for section, locs in missing.items()
    )


def check_renamed(guards: Guards, retired: Mapping[str, int], created: Mapping[str, int]) -> tuple[Refusal, ...]:
    """Return refusals of new sections that replace retired ones with far fewer URLs.

    Args:
        guards: The sitemap's guards.
        retired: Number of URLs by the name of each section that this run removes.
        created: Number of URLs by the name of each section that it builds for the first time.
    """
    before, now = sum(retired.values()), sum(created.values())
    limit = guards.shrink_limit(before)
    if not created or not before or now >= before * (1 - limit):
        return ()
    part = (before - now) / before
    message = (
        f"{', '.join(map(repr, created))} would replace {', '.join(map(repr, retired))} and hold {now:,} URLs where "
        f"{before:,} are published (-{part:.1%}; the limit is {limit:.1%}). Check whether a table is still being loaded."
    )
    return tuple(Refusal(guard="renamed", section=name, message=message, value=part) for name in created)


def check_adoption(guards: Guards, *, theirs: int, only_theirs: int) -> tuple[Refusal, ...]:
    """A refusal if a sitemap that another program wrote lists too many URLs that this one would not list.

    Args:
        guards: The sitemap's guards.
        theirs: Number of URLs in the other program's sitemap.
        only_theirs: Number of them that this sitemap does not list.
    """
    limit = guards.shrink_limit(theirs)
    if not theirs or only_theirs <= theirs * limit:
        return ()
    part = only_theirs / theirs
    message = (
        f"The sitemap to adopt lists {theirs:,} URLs, and {only_theirs:,} of them would be listed no more (-{part:.1%}; "
        f"the limit is {limit:.1%}, {_limit_name(guards, theirs)}). `airflow-sitemaps adopt` shows which. A table that is "
        "still loading looks like this."
    )
    return (Refusal(guard="adopt", section="", message=message, value=part),)


def check_vanished(section: str) -> Refusal:
    """Return the refusal of a section that is published but no longer in the code."""
    return Refusal(
        guard="vanished",
        section=section,
        message=f"Section {section!r} is published but no longer in the code; to remove it, add it to retired=.",
    )


def permitted(refusals: Sequence[Refusal], allow: Sequence[str]) -> tuple[tuple[Refusal, ...], tuple[Refusal, ...]]:
    """Split refusals into those that remain and those that permits (``shrink:products=0.15``, ``shrink``) allow."""
    permits = [Permit.of(text) for text in allow]
    passed = tuple(r for r in refusals if any(permit.lets_pass(r) for permit in permits))
    return tuple(r for r in refusals if r not in passed), passed


def _bound(value: float) -> float:
    """Return a measured value rounded up to hundredths, as a permit states it."""
    return math.ceil(value * 100 - 1e-9) / 100
