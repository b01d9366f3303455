"""The verdict on a sitemap, or on one of its sections: one state and one reason, from a few facts. Pure. ``docs/ui.md`` has the same table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

State = Literal["healthy", "warning", "failing", "not_verified", "unknown"]
"""State that a badge shows. The current activity (running, queued, paused) has its own badge."""

Publishers = Literal["none", "one", "several"]
Result = Literal["none", "ok", "refused", "failed"]
Check = Literal["none", "passed", "outdated", "incomplete", "invalid", "invalid_before"]
Freshness = Literal["no_objective", "fresh", "idle", "behind_schedule", "missed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The facts that the verdict depends on.

    Attributes:
        publishers: Number of DAGs that publish the sitemap. Only DAGs that Airflow finds count. Default: ``one``.
        published: Whether a run has ever published it. Default: True.
        result: The last result of the section; for a sitemap the worst of its sections. Dry, running and queued runs
            have none. Default: ``ok``.
        verification: Result of the newest verification that ended, for the files that are public now. ``outdated``: it
            passed, but too long ago. ``incomplete``: it ended without a result, or failed because of warnings.
            ``invalid``: it reported errors. ``invalid_before``: it reported errors, and a run has published since.
            Default: ``passed``.
        freshness: Age of the section's data against its objective; for a sitemap the oldest of its sections.
            ``behind_schedule``: the objective comes from the DAG's schedule. ``missed``: the objective is set on the
            sitemap. ``idle``: there is none, and the data was read long ago. Default: ``no_objective``.
        paused: Whether every DAG that publishes it is paused. Default: False.
        import_errors: Whether the file of a publishing DAG fails to import. Default: False.
        warned: Whether the last report needs attention: dropped rows, drift, a limit or a warning. Default: False.
    """

    publishers: Publishers = "one"
    published: bool = True
    result: Result = "ok"
    verification: Check = "passed"
    freshness: Freshness = "no_objective"
    paused: bool = False
    import_errors: bool = False
    warned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The state that is shown, and its reason.

    Attributes:
        state: The state.
        reason: The first reason for the state, in a few words.
        kind: Kind of the problem that says what to do; empty if there is none. Default: empty.
    """

    state: State
    reason: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table. The first row that applies gives the verdict.

    Attributes:
        applies: Returns whether the row applies to the evidence.
        verdict: The verdict of the row.
    """

    applies: Callable[[Evidence], bool]
    verdict: Verdict


def _rule(state: State, reason: str, kind: str, applies: Callable[[Evidence], bool]) -> Rule:
    return Rule(applies, Verdict(state=state, reason=reason, kind=kind))


RULES: Final[Sequence[Rule]] = (
    _rule("unknown", "Orphaned: no DAG publishes it", "orphaned", lambda e: e.publishers == "none"),
    _rule("failing", "Last run blocked by a safety check", "refused", lambda e: e.result == "refused"),
    _rule("failing", "Last run failed", "failed", lambda e: e.result == "failed"),
    _rule("failing", "Published files are invalid", "invalid", lambda e: e.published and e.verification == "invalid"),
    _rule("failing", "The DAG's file cannot be imported", "dag-broken", lambda e: e.import_errors),
    _rule(
        "failing",
        "Freshness objective missed",
        "late",
        lambda e: e.published and e.freshness == "missed" and not e.paused,
    ),
    _rule("unknown", "Never published", "unpublished", lambda e: not e.published),
    _rule("warning", "Several DAGs publish it", "several-publishers", lambda e: e.publishers == "several"),
    _rule(
        "warning",
        "Paused and out of date",
        "late",
        lambda e: e.freshness in ("missed", "behind_schedule") and e.paused,
    ),
    _rule("warning", "Behind its schedule", "late", lambda e: e.freshness == "behind_schedule"),
    _rule("warning", "No data read for 30 days", "late", lambda e: e.published and e.freshness == "idle"),
    _rule("warning", "Verification did not finish", "unverified", lambda e: e.verification == "incomplete"),
    _rule(
        "warning",
        "Verification found errors before the last run",
        "invalid",
        lambda e: e.verification == "invalid_before",
    ),
    _rule("warning", "The last run reported warnings", "warned", lambda e: e.warned),
    _rule("not_verified", "Not verified", "not-verified", lambda e: e.verification == "none"),
    _rule("not_verified", "Last verified too long ago", "not-verified", lambda e: e.verification == "outdated"),
)
"""The table, in order. The first row that applies decides. If no row applies, the sitemap is healthy."""

HEALTHY: Final = Verdict(state="healthy", reason="Healthy")


def judge(evidence: Evidence) -> Verdict:
    """Return the verdict on a sitemap."""
    return next((rule.verdict for rule in RULES if rule.applies(evidence)), HEALTHY)
