"""What the guards refuse: the rows of a section at the plan, its URLs at the commit, and the sitemap as a whole.

Guards compare a run with what a section listed on each of the last seven days, not only with the last run. Articles of
news leave because of their age, so only those that are still young count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.protocol.lastmod import LastmodTrust
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards import url_sample
from airflow_sitemaps.shards.guards import SMALLEST, Guards, Permit, Refusal, RowLosses
from airflow_sitemaps.shards.manifest import Day, SectionManifest

if TYPE_CHECKING:
    from airflow_sitemaps.shards.plan import SectionPlan

ADDED: Final = 5_000
"""Number of added URLs up to which growth is never refused."""

AGED: Final = ("empty", "shrink")
"""Guards that the age of articles may concern."""

DAYS: Final = 7
"""Number of days that guards look back."""

GROWN: Final = 1_000
"""Smallest number of URLs that is recorded as a day's least: a smaller section may grow without a limit."""

UNREAD: Final = 3
"""Number of files that cannot be counted which the refusal of an adoption names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionChange:
    """What both judgements of a section's change need.

    ``young`` counts the published articles that are not past their age (None: a file is missing), in a section of news.
    """

    name: str
    guards: Guards
    before: SectionManifest | None
    now: datetime
    young: Callable[[], int | None] | None = None

    @property
    def peak(self) -> int:
        """The greatest number of URLs of the last seven days, or 0."""
        days = {} if self.before is None else recent_days(self.before, self.now)
        return max((day.most for day in days.values()), default=0)

    def by_age(self, refusals: Sequence[Refusal], number: int, what: str) -> tuple[Refusal, ...]:
        """Return a news section's refusals, after ``number`` rows or URLs, that its articles' age does not cause."""
        assert self.young is not None
        young = 0 if self.before is None else self.young()
        if young is None:
            return tuple(refusals)
        articles = check_size(self.guards, self.name, now=number, before=young, peak=0, what=what)
        others = (refusal for refusal in refusals if refusal.guard not in AGED)
        return (*others, *(refusal for refusal in articles if refusal.guard in AGED))


# ------------------------------------------------------------ the week


def recent_days(section: SectionManifest, now: datetime) -> dict[str, Day]:
    """Return the recorded days of the week that ends now, by date (ISO), oldest first."""
    first = (now.date() - timedelta(days=DAYS - 1)).isoformat()
    return {date: day for date, day in sorted(section.days.items()) if date >= first}


def size_of(section: SectionManifest) -> int:
    """Return the number of a section's URLs, expired rows included: what guards compare."""
    return section.urls + section.expired_rows


def day_of(section: SectionManifest) -> Day:
    """Return the record of a day that begins with a state of a section."""
    return Day(most=size_of(section), least=least_of(section), urls=section.urls, sample=url_sample.thinned(section))


def least_of(section: SectionManifest) -> int:
    """Return the number of a section's URLs as a day's least, or 0 if the section is too small for it."""
    number = size_of(section)
    return number if number >= GROWN else 0


def changes_by_day(section: SectionManifest, now: datetime) -> dict[str, int]:
    """Return the number of URLs whose fingerprint changed on each day of the week on which the ledger saw one."""
    return {date: day.changed for date, day in recent_days(section, now).items() if day.changed is not None}


def trust_of_week(section: SectionManifest, now: datetime) -> LastmodTrust | None:
    """Return how far the dates of the week can be trusted; None if they were not compared."""
    return LastmodTrust.total(day.trust for _, day in sorted(recent_days(section, now).items(), reverse=True))


# ------------------------------------------------------------ one section


def rows_at_plan(change: SectionChange, plan: SectionPlan) -> tuple[Refusal, ...]:
    """Judge the rows that a plan counts."""
    before = change.before
    earlier = None if before is None else before.rows - before.null_keys  # as counted by the plan
    size = check_size(
        change.guards, change.name, now=plan.rows, moved=plan.moved, before=earlier, peak=change.peak, what="rows"
    )
    if size and change.young is not None:
        size = change.by_age(size, plan.rows, "rows")
    cause = (
        f" They have a NULL key (rule key-null), such as {'; '.join(plan.null_key_samples[:2])}. Use key columns that are "
        "never NULL."
    )
    null_keys = check_dropped(change.guards, change.name, rows=plan.rows + plan.null_keys, dropped=plan.null_keys)
    redated = _check_lost_dates(change.guards, plan)
    return (*size, *(replace(refusal, message=refusal.message + cause) for refusal in null_keys), *redated)


def urls_at_commit(change: SectionChange, after: SectionManifest, base_url: str, moved: int = 0) -> tuple[Refusal, ...]:
    """Judge the URLs that a run rendered. ``base_url`` is the address of the files' folder; ``moved`` URLs left for new sections."""
    guards, name, before = change.guards, change.name, change.before
    due = after.rows - after.expired_rows
    days = {} if before is None else recent_days(before, change.now)
    earlier = None if before is None else size_of(before)
    least = min((day.least for day in days.values() if day.least), default=0)
    refusals = check_size(
        guards, name, now=size_of(after), moved=moved, before=earlier, peak=change.peak, what="URLs", least=least
    )
    if change.young is None:
        refusals += _check_replaced(change, after, moved)
    elif after.urls or not due:  # age may empty it, rules may not
        refusals = change.by_age(refusals, after.urls, "URLs")
    refusals += check_dropped(guards, name, rows=due, dropped=due - after.urls)
    cause = RowLosses.of_section(after, base_url).explanation() if refusals else ""
    return tuple(
        replace(r, message=f"{r.message} {cause}") if cause and r.guard in ("empty", "shrink", "dropped") else r
        for r in refusals
    )


def check_size(
    guards: Guards, section: str, *, now: int, before: int | None, peak: int, what: str, least: int = 0, moved: int = 0
) -> tuple[Refusal, ...]:
    """Return refusals because of the number of rows or URLs (``what``) that a section would have.

    ``before`` is the number as last committed, None if the section never was. ``peak`` and ``least`` are the greatest and the
    smallest number of the last seven days (0: not known). ``moved`` rows move to new sections, which is no loss.
    """
    if now == 0 and not moved:
        published = "none were ever published" if before is None else f"{before:,} are published"
        advice = " Check whether its table is empty or still being loaded." if what == "rows" else ""
        message = f"Section {section!r} has no {what} now; {published}.{advice}"
        return (Refusal(guard="empty", section=section, message=message),) if before != 0 else ()
    if before is None:
        return ()
    refusals = []
    highest = max(before, peak)
    limit = guards.shrink_limit(highest)
    left = now + moved
    if left < highest * (1 - limit):
        part = (highest - left) / highest
        of_week = f" (the most of the last seven days; {before:,} are published)" if highest > before else ""
        message = (
            f"Section {section!r} would shrink from {highest:,}{of_week} to {left:,} {what} (-{part:.1%}; the limit is "
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
    """Return a refusal if rules dropped too many of a section's rows, which do not include expired ones."""
    limit = guards.dropped_limit(rows)
    if not rows or dropped <= rows * limit:
        return ()
    message = (
        f"Section {section!r}: {dropped:,} of {rows:,} rows were dropped by rules "
        f"({dropped / rows:.1%}; the limit is max_dropped={limit:.1%})."
    )
    return (Refusal(guard="dropped", section=section, message=message, value=dropped / rows),)


def _check_replaced(change: SectionChange, after: SectionManifest, moved: int) -> tuple[Refusal, ...]:
    """Compare the URLs with those of the last generation, and of the first day of the week, without those that ``moved``."""
    before, limit = change.before, change.guards.max_churn
    if before is None or not before.urls:
        return ()
    lost = [(before.urls, url_sample.gone(before, after))]
    first = next((day for day in recent_days(before, change.now).values() if day.sample), None)
    if first is not None:
        lost.append((first.urls, url_sample.gone_since(first.sample, after)))
    for earlier, gone in lost:
        part = _replaced((gone or 0.0) - moved / max(1, earlier), earlier=earlier, now=after.urls + moved)
        if earlier >= SMALLEST and part > limit:
            message = (
                f"Section {change.name!r}: about {part:.0%} of the {earlier:,} URLs of the last generation, or of the last "
                f"seven days, are replaced by others (the limit is max_churn={limit:.0%}). Check whether the form of the URLs "
                "changed."
            )
            return (Refusal(guard="churn", section=change.name, message=message, value=part),)
    return ()


def check_redated(guards: Guards, section: str, *, changed: int, compared: int) -> tuple[Refusal, ...]:
    """Return a refusal if the observed dates of too many URLs would move: a reformatted column changes no page.

    ``compared`` is the number of URLs with a known earlier fingerprint, in shards that were not read too.
    """
    if compared < guards.min_rows or changed <= compared * guards.max_redated:
        return ()
    part = changed / compared
    message = (
        f"Section {section!r}: the observed columns of {changed:,} of {compared:,} URLs changed ({part:.1%}; the limit is "
        f"max_redated={guards.max_redated:.1%}). If the pages did not change, keep their dates: --keep-lastmods {section}, "
        f"or the DAG param keep_lastmods=[{section!r}]."
    )
    return (Refusal(guard="redated", section=section, message=message, value=part),)


def _check_lost_dates(guards: Guards, plan: SectionPlan) -> tuple[Refusal, ...]:
    """Return a refusal if observed dates begin again, because the state that had them is lost."""
    if guards.max_redated >= 1:
        return ()
    lost = plan.ledger.dates.lost if plan.ledger is not None and plan.ledger.dates is not None else 0
    message = (
        f"Section {plan.name!r}: the state that recorded its observed dates is lost, and its public files list {lost:,} URLs or "
        "more, which are too many to take their dates over: the dates would begin again."
    )
    return (Refusal(guard="redated", section=plan.name, message=message, value=1.0),) if lost else ()


def _replaced(gone: float, *, earlier: int, now: int) -> float:
    """Return the fraction of URLs that others replaced. ``check_size`` covers those that are gone without another."""
    return gone - max(0.0, 1 - now / max(1, earlier))


# ------------------------------------------------------------ the sitemap as a whole


def check_total(
    guards: Guards, before: Mapping[str, SectionManifest], after: Mapping[str, int], *, now: datetime, what: str
) -> tuple[Refusal, ...]:
    """Return refusals of the sections that shrink, if all sections together lose more than ``max_shrink_total``.

    The earlier number is the greatest of the last generation and of each of the last seven days. ``before`` are the sections
    whose own guards refuse nothing; ``after`` is what the run would publish of each, with expired rows or URLs.
    """
    sizes = {name: size_of(section) for name, section in before.items()}
    highest = max(sum(sizes.values()), *_totals(list(before.values()), now), 0)
    total = sum(after[name] for name in before)
    if highest < guards.min_rows or total >= highest * (1 - guards.max_shrink_total):
        return ()
    part = (highest - total) / highest
    text = (
        f"All sections together would shrink from {highest:,} to {total:,} {what} (-{part:.1%}; the limit is "
        f"max_shrink_total={guards.max_shrink_total:.1%})."
    )
    messages = {
        name: f"Section {name!r} would shrink from {size:,} to {after[name]:,} {what}. {text}"
        for name, size in sizes.items()
        if after[name] < size
    }
    return tuple(Refusal(guard="total", section=name, message=said, value=part) for name, said in messages.items())


def is_judged_apart(name: str, refused: Sequence[Refusal], allow: Sequence[str]) -> bool:
    """Return whether a section is not part of the total: its own guards refuse it, or a permit lets it shrink."""
    permits = (Permit.of(text) for text in allow)
    return any(refusal.section == name for refusal in refused) or any(
        permit.guard in ("shrink", "empty") and permit.section in (None, name) for permit in permits
    )


def _totals(sections: Sequence[SectionManifest], now: datetime) -> list[int]:
    """Return the total of each recorded day. A section without a record of a day has that of the day before."""
    days = sorted({day for section in sections for day in recent_days(section, now)})
    return [sum(_on(section, day, now) for section in sections) for day in days]


def _on(section: SectionManifest, day: str, now: datetime) -> int:
    recorded = [record.most for each, record in recent_days(section, now).items() if each <= day]
    return recorded[-1] if recorded else section.urls


def check_missing(missing: Mapping[str, Sequence[str]]) -> tuple[Refusal, ...]:
    """Return refusals of sections without a URL that the sitemap must list, which are given by section."""
    return tuple(
        Refusal(
            guard="must_list",
            section=section,
            message=f"Section {section!r}: no section lists {counted(len(locs), 'URL')} of must_list, such as {locs[0]}.",
        )
        for section, locs in missing.items()
    )


def check_renamed(guards: Guards, retired: Mapping[str, int], created: Mapping[str, int]) -> tuple[Refusal, ...]:
    """Return refusals of new sections that replace retired ones with far fewer URLs, by names and numbers of URLs."""
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
