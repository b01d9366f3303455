"""Guards: what a run may change before a person has to confirm it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SMALLEST: Final = 20
"""Earlier URLs, or rows, below which parts say nothing: only emptiness is refused."""

LEARNED_SLACK: Final = 0.05
"""What is added to the greatest decline that a section is known for."""

LEARNED_MOST: Final = 0.3
"""The most that ``max_shrink`` is widened to by a section's history."""

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
}
"""Guards, and how much a permit without a number lets pass: ``shrink:products`` at most a half. 0: it has no measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Limits of one section's change, against the last generation and the greatest of the last seven days.

    Attributes:
        max_shrink: Part of the earlier URLs that may go, 0 to 1. Default: 0.15.
        max_growth: Part of the earlier URLs that may be added, at least 0. Default: 1.0.
        min_growth: Added URLs up to which growth is never refused. Default: 5,000.
        min_rows: Earlier URLs below which the limits of a small section hold. Default: 1,000.
        max_dropped: Part of the rows due that rules may drop, 0 to 1. Default: 0.01.
        max_touched: Part of the shards that may change before the run warns, 0 to 1. It never refuses, because a bulk
            load may change every row. Default: 0.5.
        max_churn: Part of the earlier URLs that may be replaced by others, 0 to 1. Default: 0.5.
        max_shrink_small: ``max_shrink`` of a section of 20 up to ``min_rows`` earlier URLs. Default: 0.5.
        max_dropped_small: ``max_dropped`` of a section of 20 up to ``min_rows`` rows. Default: 0.25.
        first_rows: URLs that the first build of a section must have at least. Default: 1.
        learn: Whether a section that is known to decline more than ``max_shrink`` may do so again: its limit is its
            greatest decline that no permit let pass, of the last 400 days but for the last seven, and 5 points, up to
            0.3. Default: True.

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
    learn: bool = True

    def __post_init__(self) -> None:
        for name in ("max_shrink", "max_dropped", "max_touched", "max_churn", "max_shrink_small", "max_dropped_small"):
            setting_checks.number("Guards", name, getattr(self, name), 0, 1)
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
        )

    def shrink_limit(self, earlier: int, declines: Iterable[int] = ()) -> float:
        """Part of ``earlier`` URLs that may go, by the section's size and its known declines (in thousandths)."""
        if earlier < self.min_rows:
            return 1.0 if earlier < SMALLEST else max(self.max_shrink, self.max_shrink_small)
        greatest = max(declines, default=0) / 1_000
        learned = min(LEARNED_MOST, greatest + LEARNED_SLACK) if self.learn and greatest else 0.0
        return max(self.max_shrink, learned)

    def dropped_limit(self, rows: int) -> float:
        """Part of ``rows`` that rules may drop."""
        if rows >= self.min_rows:
            return self.max_dropped
        return 1.0 if rows < SMALLEST else max(self.max_dropped, self.max_dropped_small)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A guard that refused.

    Attributes:
        guard: The guard's name, such as ``shrink``.
        section: The section's name.
        message: What was measured, with the numbers and the limit.
        value: What was measured, in the guard's unit (a part, for most); None where the guard has no measure.
    """

    guard: str
    section: str
    message: str
    value: float | None = None

    @property
    def permit(self) -> str:
        """What ``--allow`` and the DAG param ``allow`` take to let one run pass, with its bound."""
        bound = "" if self.value is None else f"={_bound(self.value):g}"
        return f"{self.guard}:{self.section}{bound}"

    def __str__(self) -> str:
        return f"{self.message} To let one run pass: --allow {self.permit}, or the DAG param allow=[{self.permit!r}]."


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """What a run was allowed to change beyond a guard.

    Attributes:
        guard: The guard's name.
        section: The section's name; None: every section.
        bound: How much may pass, in the guard's unit; None: as much as ``BARE_LIMITS`` says.
    """

    guard: str
    section: str | None = None
    bound: float | None = None

    @classmethod
    def of(cls, text: str) -> Permit:
        """Read a permit: ``shrink:products=0.15``, ``shrink:products`` or ``shrink``.

        Raises:
            ConfigurationError: The guard does not exist, or the bound is no number.
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
            raise ConfigurationError(f"allow={text!r}: {bound!r} is no bound; give a part, like {name}=0.15")
        return cls(guard=guard, section=section if colon else None, bound=number)

    def lets_pass(self, refusal: Refusal) -> bool:
        """Whether a refusal is within this permit."""
        if refusal.guard != self.guard or self.section not in (None, refusal.section):
            return False
        limit = BARE_LIMITS[self.guard] if self.bound is None else self.bound
        return refusal.value is None or refusal.value <= limit + 1e-9


def check_permits(allow: Sequence[str], sections: Iterable[str]) -> None:
    """Refuse permits that can let nothing pass.

    Raises:
        ConfigurationError: A guard or a section does not exist, or a bound is no number.
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
    """Refusals over the number of rows or URLs that a section would hold.

    Args:
        guards: The section's guards.
        section: Its name.
        now: The number it would hold.
        before: The number as last committed; None where the section was never committed.
        peak: The greatest number of the last seven days.
        what: What is counted, for the message: ``rows`` or ``URLs``.
        declines: Earlier declines, in thousandths.
    """
    if now == 0:
        published = "it was never published with any" if before is None else f"{before:,} are published"
        message = f"Section {section!r} has no {what} now; {published}. An empty or unreachable table looks like this."
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
        "A table that is still loading looks like this."
    )
    return (Refusal(guard="first_build", section=section, message=message),)


def check_dropped(guards: Guards, section: str, *, rows: int, dropped: int) -> tuple[Refusal, ...]:
    """A refusal when rules dropped too many of a section's rows; ``rows`` are those due, without expired ones."""
    limit = guards.dropped_limit(rows)
    if not rows or dropped <= rows * limit:
        return ()
    message = (
        f"Section {section!r}: {dropped:,} of {rows:,} rows were dropped by rules "
        f"({dropped / rows:.1%}; the limit is max_dropped={limit:.1%})."
    )
    return (Refusal(guard="dropped", section=section, message=message, value=dropped / rows),)


def check_churn(guards: Guards, section: str, *, gone: float, earlier: int) -> tuple[Refusal, ...]:
    """A refusal when too many of a section's earlier URLs are replaced by others; ``gone`` is their part."""
    if earlier < SMALLEST or gone <= guards.max_churn:
        return ()
    message = (
        f"Section {section!r}: about {gone:.0%} of the {earlier:,} URLs published before are replaced by others (the "
        f"limit is max_churn={guards.max_churn:.0%}). A change of the URL's form looks like this."
    )
    return (Refusal(guard="churn", section=section, message=message, value=gone),)


def check_missing(missing: Mapping[str, Sequence[str]]) -> tuple[Refusal, ...]:
    """Refusals of sections without a URL that the sitemap must list; ``missing``: those URLs by section."""
    return tuple(
        Refusal(
            guard="must_list",
            section=section,
            message=f"Section {section!r}: must_list names {len(locs):,} URL(s) that no section lists, such as {locs[0]}.",
        )
        for section, locs in missing.items()
    )


def check_renamed(guards: Guards, retired: Mapping[str, int], created: Mapping[str, int]) -> tuple[Refusal, ...]:
    """Refusals of sections that are built for the first time while others are retired, and hold far fewer URLs.

    Args:
        guards: The sitemap's guards.
        retired: URLs of the sections that this run takes out, by name.
        created: URLs of the sections that it builds for the first time, by name.
    """
    before, now = sum(retired.values()), sum(created.values())
    limit = guards.shrink_limit(before)
    if not created or not before or now >= before * (1 - limit):
        return ()
    part = (before - now) / before
    message = (
        f"{', '.join(map(repr, created))} would replace {', '.join(map(repr, retired))} and hold {now:,} URLs where "
        f"{before:,} are published (-{part:.1%}; the limit is {limit:.1%}). A table that is still loading looks like this."
    )
    return tuple(Refusal(guard="renamed", section=name, message=message, value=part) for name in created)


def check_vanished(section: str) -> Refusal:
    """Return the refusal of a section that is published but no longer in the code."""
    return Refusal(
        guard="vanished",
        section=section,
        message=f"Section {section!r} is published but no longer in the code; if that is meant, add it to retired=.",
    )


def permitted(refusals: Sequence[Refusal], allow: Sequence[str]) -> tuple[tuple[Refusal, ...], tuple[Refusal, ...]]:
    """Split refusals into those that remain and those that permits (``shrink:products=0.15``, ``shrink``) allow."""
    permits = [Permit.of(text) for text in allow]
    passed = tuple(r for r in refusals if any(permit.lets_pass(r) for permit in permits))
    return tuple(r for r in refusals if r not in passed), passed


def _bound(value: float) -> float:
    """A measure rounded up to hundredths, as a permit states it."""
    return math.ceil(value * 100 - 1e-9) / 100
