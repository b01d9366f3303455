"""Guards: limits of the changes that a run may publish without a confirmation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import RequestError
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards.schema import Number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SMALLEST: Final = 20
"""Number of earlier URLs or rows below which fractions mean nothing. Only an empty result is refused."""

MOST_LOST: Final = 0.5
"""Greatest fraction of its URLs that a small section may lose."""

MOST_DROPPED: Final = 0.25
"""Greatest fraction of its rows that rules may drop in a small section."""

ADDED: Final = 5_000
"""Number of added URLs up to which growth is never refused."""

UNREAD: Final = 3
"""Number of files that cannot be counted which the refusal of an adoption names."""

BARE_LIMITS: Final[Mapping[str, float]] = {
    "shrink": 0.5,
    "renamed": 0.5,
    "growth": 10.0,
    "dropped": 0.5,
    "churn": 0.8,
    "empty": 0.0,
    "vanished": 0.0,
    "must_list": 0.0,
    "total": 0.5,
    "adopt": 0.5,
    "moved": 0.0,
}
"""The guards, each with the change that a permit without a bound allows.

``shrink:products``, for example, allows a decline by half. 0: the guard measures nothing.
"""

ADDRESS: Final = ("adopt", "moved")
"""Guards of the whole sitemap that no section's change can pass."""

WHOLE: Final = ("total", *ADDRESS)
"""Guards of the whole sitemap; their permits name no section."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Limits of one section's change, compared with the last generation and with the last seven days.

    Every fraction is a number from 0 to 1. A section with fewer than ``min_rows`` URLs may lose as many URLs as one with
    ``min_rows``, but at most half of them, and rules may drop a quarter of its rows.

    Attributes:
        max_shrink: Fraction of the earlier URLs that may disappear. Default: 0.15.
        max_growth: Number of URLs that may be added, as a multiple of the earlier ones. 5,000 may always be added.
            At least 0. Default: 1.0.
        min_rows: Number of URLs or rows from which the fractions hold as they are. A smaller section may grow without
            a limit. Default: 1,000.
        max_dropped: Fraction of the rows that rules may drop, without expired rows. Default: 0.01.
        max_churn: Fraction of the earlier URLs that may be replaced by others. Default: 0.5.
        max_shrink_total: Fraction of the earlier URLs of all sections together that may disappear, if there are at least
            ``min_rows``. Sections of news, sections with their own guards, and sections with a permit do not count.
            Only the sitemap's setting is used. Default: 0.3.

    Raises:
        ConfigurationError: A limit is out of its range.
    """

    max_shrink: float = 0.15
    max_growth: float = 1.0
    min_rows: int = 1_000
    max_dropped: float = 0.01
    max_churn: float = 0.5
    max_shrink_total: float = 0.3

    def __post_init__(self) -> None:
        for name in ("max_shrink", "max_dropped", "max_churn", "max_shrink_total"):
            setting_checks.number("Guards", name, getattr(self, name), 0, 1)
        setting_checks.number("Guards", "max_growth", self.max_growth, 0)
        setting_checks.whole_number("Guards", "min_rows", self.min_rows, 0)

    @classmethod
    def strict(cls) -> Guards:
        """Return guards for a section whose URLs hardly change: about a third of the default limits."""
        return cls(max_shrink=0.05, max_growth=0.3, max_dropped=0.003, max_churn=0.15, max_shrink_total=0.1)

    @classmethod
    def loose(cls) -> Guards:
        """Return guards for a section that changes much by design, such as offers of a day or a table in migration."""
        return cls(max_shrink=0.4, max_growth=5.0, max_dropped=0.1, max_churn=0.9, max_shrink_total=0.6)

    @classmethod
    def disabled(cls) -> Guards:
        """Return guards that refuse only an empty section."""
        return cls(max_shrink=1.0, max_growth=1e9, max_dropped=1.0, max_churn=1.0, max_shrink_total=1.0)

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
            RequestError: The guard does not exist, or the bound is not a number.
        """
        name, equals, bound = text.partition("=")
        guard, colon, section = name.partition(":")
        if guard not in BARE_LIMITS:
            raise RequestError(f"allow={text!r}: there is no guard {guard!r}; they are {', '.join(BARE_LIMITS)}")
        try:
            number = float(bound) if equals else None
        except ValueError:
            number = math.nan
        if number is not None and not 0 <= number < math.inf:
            raise RequestError(f"allow={text!r}: {bound!r} is not a valid bound; give a fraction, like {name}=0.15")
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
        RequestError: A guard or a section does not exist, or a bound is not a number.
    """
    names = set(sections)
    for text in allow:
        permit = Permit.of(text)
        if permit.section is not None and permit.section not in names:
            raise RequestError(
                f"allow={text!r}: there is no section {permit.section!r}; the sections are {', '.join(sorted(names))}"
            )


def check_size(
    guards: Guards, section: str, *, now: int, before: int | None, peak: int, what: str, least: int = 0
) -> tuple[Refusal, ...]:
    """Return refusals because of the number of rows or URLs that a section would have.

    Args:
        guards: The section's guards.
        section: The section's name.
        now: The number after the run.
        before: The number as last committed. None if the section was never committed.
        peak: The greatest number of the last seven days.
        what: The unit in the message: ``rows`` or ``URLs``.
        least: The smallest number of the last seven days. Default: 0, not known.
    """
    if now == 0:
        published = "none were ever published" if before is None else f"{before:,} are published"
        advice = " Check whether its table is empty or still being loaded." if what == "rows" else ""
        message = f"Section {section!r} has no {what} now; {published}.{advice}"
        return (Refusal(guard="empty", section=section, message=message),) if before != 0 else ()
    if before is None:
        return ()
    refusals = []
    highest = max(before, peak)
    limit = guards.shrink_limit(highest)
    if now < highest * (1 - limit):
        part = (highest - now) / highest
        of_week = f" (the most of the last seven days; {before:,} are published)" if highest > before else ""
        message = (
            f"Section {section!r} would shrink from {highest:,}{of_week} to {now:,} {what} (-{part:.1%}; the limit is "
            f"{limit:.1%}, {_limit_name(guards, highest)})."
        )
        refusals.append(Refusal(guard="shrink", section=section, message=message, value=part))
    lowest = min(before, least) if least >= guards.min_rows else before
    if before >= guards.min_rows and now - lowest > max(lowest * guards.max_growth, ADDED):
        part = (now - lowest) / max(1, lowest)
        message = (
            f"Section {section!r} would grow from {lowest:,} to {now:,} {what} "
            f"(+{part:.1%}; the limit is max_growth={guards.max_growth:.1%})."
        )
        refusals.append(Refusal(guard="growth", section=section, message=message, value=part))
    return tuple(refusals)


def _limit_name(guards: Guards, earlier: int) -> str:
    return "max_shrink" if earlier >= guards.min_rows else f"max_shrink below min_rows={guards.min_rows:,}"


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
        f"Section {section!r}: about {gone:.0%} of the {earlier:,} URLs of the last generation, or of the last seven days, "
        f"are replaced by others (the limit is max_churn={guards.max_churn:.0%}). Check whether the form of the URLs changed."
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


def check_adoption(guards: Guards, *, theirs: int, only_theirs: int, unread: Sequence[str] = ()) -> tuple[Refusal, ...]:
    """Return a refusal if too many URLs of a sitemap that another program wrote would no longer be listed.

    Files whose URLs cannot be counted may list any number of URLs, so only a permit for all of them allows their loss.

    Args:
        guards: The sitemap's guards.
        theirs: Number of URLs in the other program's sitemap that can be counted.
        only_theirs: Number of them that this sitemap does not list.
        unread: Files whose URLs cannot be counted, each with the reason. Default: none.
    """
    limit = guards.shrink_limit(theirs)
    if not unread and only_theirs <= theirs * limit:
        return ()
    part = only_theirs / max(1, theirs)
    message = (
        f"The sitemap to adopt lists {theirs:,} URLs, and {only_theirs:,} of them would be listed no more (-{part:.1%}; "
        f"the limit is {limit:.1%}, {_limit_name(guards, theirs)}). `airflow-sitemaps adopt` shows which. A table that is "
        "still loading looks like this."
    )
    if unread:
        message = (
            f"The URLs of {counted(len(unread), 'file')} of the sitemap to adopt cannot be counted: "
            f"{'; '.join(unread[:UNREAD])}. Of the {theirs:,} URLs that can be counted, {only_theirs:,} would be listed no "
            "more. `airflow-sitemaps adopt` names each file. Check by hand what they list."
        )
    return (Refusal(guard="adopt", section="", message=message, value=1.0 if unread else part),)


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
