"""Guards: what a run may change before somebody has to look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """Limits of one section's change, against the last generation and the greatest of the last seven days.

    ``max_shrink``, ``max_growth``: parts of the earlier number of URLs. ``min_rows``: below this many earlier URLs
    only emptiness is refused. ``max_dropped``: part of the rows read that rules may drop. ``max_touched``: part of
    the shards that may change before the run warns (never refused: a bulk load may stamp every row).
    """

    max_shrink: float = 0.1
    max_growth: float = 1.0
    min_rows: int = 1_000
    max_dropped: float = 0.01
    max_touched: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A guard that said no: which, for which section, and why, with the numbers."""

    guard: str
    section: str
    message: str

    @property
    def permit(self) -> str:
        """What ``--allow`` and the DAG param ``allow`` take to let one run pass."""
        return f"{self.guard}:{self.section}"

    def __str__(self) -> str:
        return f"{self.message} To let one run pass: --allow {self.permit}, or the DAG param allow=[{self.permit!r}]."


def judge_size(
    guards: Guards, section: str, *, now: int, before: int | None, peak: int, what: str
) -> tuple[Refusal, ...]:
    """Refusals over the number of rows or URLs (``what``) that a section would hold.

    ``before``: as last committed, None where the section was never committed. ``peak``: the greatest number of the
    last seven days.
    """
    if now == 0:
        known = "it was never published with any" if before is None else f"{before:,} are published"
        message = f"Section {section!r} has no {what} now; {known}. An empty or unreachable table looks like this."
        return (Refusal(guard="empty", section=section, message=message),) if before != 0 else ()
    if before is None:
        return ()
    refusals = []
    highest = max(before, peak)
    if highest >= guards.min_rows and now < highest * (1 - guards.max_shrink):
        message = (
            f"Section {section!r} would shrink from {highest:,} to {now:,} {what} "
            f"(-{(highest - now) / highest:.1%}; the limit is max_shrink={guards.max_shrink:.1%})."
        )
        refusals.append(Refusal(guard="shrink", section=section, message=message))
    if before >= guards.min_rows and now > before * (1 + guards.max_growth):
        message = (
            f"Section {section!r} would grow from {before:,} to {now:,} {what} "
            f"(+{(now - before) / before:.1%}; the limit is max_growth={guards.max_growth:.1%})."
        )
        refusals.append(Refusal(guard="growth", section=section, message=message))
    return tuple(refusals)


def judge_dropped(guards: Guards, section: str, *, rows: int, dropped: int) -> tuple[Refusal, ...]:
    """A refusal when too many of a section's rows were dropped by rules."""
    if rows < guards.min_rows or dropped <= rows * guards.max_dropped:
        return ()
    message = (
        f"Section {section!r}: {dropped:,} of {rows:,} rows were dropped by rules "
        f"({dropped / rows:.1%}; the limit is max_dropped={guards.max_dropped:.1%})."
    )
    return (Refusal(guard="dropped", section=section, message=message),)


def judge_vanished(section: str) -> Refusal:
    """The refusal of a section that is published but no longer in the code."""
    return Refusal(
        guard="vanished",
        section=section,
        message=f"Section {section!r} is published but no longer in the code; if that is meant, add it to retired=.",
    )


def permitted(refusals: Sequence[Refusal], allow: Sequence[str]) -> tuple[tuple[Refusal, ...], tuple[Refusal, ...]]:
    """Split into those that stand and those that ``allow`` lets pass (``shrink:products``, or ``shrink`` for all)."""
    stand = tuple(r for r in refusals if r.permit not in allow and r.guard not in allow)
    return stand, tuple(r for r in refusals if r not in stand)
