"""What is known of each section of a sitemap: its last result, its age and its content. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from airflow_sitemaps.plugin.event_payload import moment_of
from airflow_sitemaps.plugin.outcomes import GOOD, WORST, Outcome, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from airflow_sitemaps.plugin.event_payload import RunSummary
    from airflow_sitemaps.plugin.freshness import Freshness
    from airflow_sitemaps.plugin.store_state import StoreState


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionState:
    """What is known of one section.

    Attributes:
        name: Its name; empty for all sections of a sitemap whose sections are not known yet.
        published: Whether the live generation has the section.
        result: Result of the last run that attempted the section; ``none`` if no such run is known.
        outcome: Outcome of that run. Default: None.
        read_at: Time at which a successful run last began to read its data. Default: None, not known.
        changed_at: Time of the last change of its files. Default: None, not known.
        newest_lastmod: Newest lastmod of its entries. Default: None.
        urls: Number of its URLs. Default: 0.
        trend: Its number of URLs after each of the last runs, oldest first. Default: none.
        freshness: Age of its data, and the objective.
    """

    name: str
    published: bool
    result: Literal["none"] | Result
    freshness: Freshness
    outcome: Outcome | None = None
    read_at: datetime | None = None
    changed_at: datetime | None = None
    newest_lastmod: str | None = None
    urls: int = 0
    trend: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What events, runs and the store say of a sitemap.

    Attributes:
        summaries: Reports of runs, oldest first.
        report: The newest report.
        outcomes: Outcomes of runs, in any order.
        dags: The DAGs that publish it.
        live: What the store says of it. Default: None, it is not known.
    """

    summaries: Sequence[RunSummary]
    report: Mapping[str, Any]
    outcomes: Sequence[Outcome]
    dags: Collection[str]
    live: StoreState | None = None


def section_states(history: History, age: Callable[[datetime | None], Freshness]) -> list[SectionState]:
    """Return the state of each section: those that are published, then those that no run has published yet.

    Args:
        history: What events, runs and the store say of the sitemap.
        age: Returns the freshness of data that was read at a time.
    """
    published = _published(history)
    return [_state(name, history, age, published=name in published) for name in (*published, *_unpublished(history))]


def _published(history: History) -> list[str]:
    names = list(history.report["sections"])
    if history.live is None:
        return names
    return [name for name in dict.fromkeys((*names, *history.live.sections)) if name in history.live.sections]


def _unpublished(history: History) -> list[str]:
    """Return the sections that a run failed to publish, and that no run has published.

    A run of all sections ends what earlier runs said of sections that have been removed since.
    """
    published = set(_published(history))
    whole = [moment_of(s.at) for s in history.summaries if s.action == "build" and published <= {*s.planned}]
    since = max(whole, default=None)
    bad = [o for o in history.outcomes if o.result not in GOOD and (since is None or o.at > since)]
    names = (name for outcome in bad for name, result in outcome.sections.items() if result not in GOOD)
    missing = [name for name in dict.fromkeys(names) if name not in published]
    is_unknown = any(outcome.others is not None for outcome in bad)  # the run ended before it named its sections
    return missing or ([""] if is_unknown and not published else [])


def _state(
    name: str, history: History, age: Callable[[datetime | None], Freshness], *, published: bool
) -> SectionState:
    outcome = last_outcome(name, history)
    result = outcome.of_section(name) if outcome is not None else None
    read_at = max((o.read_at for o in history.outcomes if o.of_section(name) in GOOD), default=None)
    if read_at is None and published and history.summaries:
        read_at = moment_of(history.summaries[0].data_at or history.summaries[0].at)  # at that time, or earlier
    section = history.report["sections"].get(name, {})
    live = history.live.sections.get(name) if history.live is not None else None
    changes = [moment_of(s.at) for s in history.summaries if s.sections.get(name, (0, False))[1]]
    changes += [live.changed_at] if live is not None and live.changed_at is not None else []
    return SectionState(
        name=name,
        published=published,
        result=result or "none",
        outcome=outcome,
        read_at=read_at,
        changed_at=max(changes, default=None),
        newest_lastmod=live.newest_lastmod if live is not None else section.get("newest_lastmod"),
        urls=live.urls if live is not None else section.get("urls", 0),
        trend=[s.sections[name][0] for s in history.summaries if name in s.sections],
        freshness=age(read_at),
    )


def last_outcome(name: str, history: History) -> Outcome | None:
    """Return the outcome that counts for a section: the worst of the last ones of the DAGs that publish it.

    A run outside these DAGs, such as one in the shell, counts in place of the earlier ones. The last outcome is the one
    that ended last: an old run that is cleared and publishes ends a later failure.

    Args:
        history: What events, runs and the store say of the sitemap.
    """
    newest: dict[str, Outcome] = {}
    for outcome in sorted(history.outcomes, key=lambda o: o.at):
        if outcome.of_section(name) is not None:
            newest[outcome.run.dag_id if outcome.run.dag_id in history.dags else ""] = outcome
    outside = newest.pop("", None)
    if outside is not None:
        newest = {dag_id: max(o, outside, key=lambda each: each.at) for dag_id, o in newest.items()} or {"": outside}
    return min(
        newest.values(), key=lambda o: (WORST.index(o.of_section(name) or "unchanged"), -o.at.timestamp()), default=None
    )
