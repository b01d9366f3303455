"""Check the first rows of a section in a dry run, to show which rows a build would omit."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.row_context import judge_of
from airflow_sitemaps.protocol.rules import Tally
from airflow_sitemaps.shards.guards import Refusal, check_dropped
from airflow_sitemaps.shards.url_sample import TOP, prefix_of

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Clock, Source
    from airflow_sitemaps.shards.plan import SectionPlan
    from airflow_sitemaps.sitemap import Section, Sitemap

SAMPLE_ROWS: Final = 10_000
"""Maximum number of rows that a dry run reads of each section that a build would write."""
FREQUENT: Final = 3
"""Maximum number of rules named, the most frequent first."""


@dataclass(frozen=True, slots=True)
class Judgment:
    """Result of a dry run's check of a section's first rows.

    Attributes:
        refusals: What a build would refuse, if the checked rows are all rows of the section. Default: none.
        warnings: Rules that drop or repair rows, with counts and samples. Default: none.
        notes: The most frequent prefixes of the URLs. Default: none.
    """

    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())


def judge_sample(sitemap: Sitemap, section: Section, plan: SectionPlan, source: Source, clock: Clock) -> Judgment:
    """Check the first rows that a build would read.

    Args:
        sitemap: The sitemap.
        section: The section.
        plan: The section's plan.
        source: The section's open source.
        clock: Source of the time at which rows are checked.

    Raises:
        RuleError: A row breaks a rule that is set to ``fail``.
        SourceError: The database failed.
    """
    from airflow_sitemaps.protocol.columnar.batch import clean  # noqa: PLC0415 - pyarrow is loaded where work is done

    ranges = [target.range for target in plan.targets if target.action.writes]
    if not ranges:
        return Judgment()
    tally, rows = Tally(), 0
    prefixes: Counter[str] = Counter()
    context = judge_of(sitemap, section, clock)
    with closing(source.read(ranges)) as batches:  # type: ignore[type-var]
        for batch in batches:
            part = batch.slice(0, SAMPLE_ROWS - rows)
            prefixes.update(map(prefix_of, clean(part, context, tally).loc.to_pylist()))
            rows += part.num_rows
            if rows >= SAMPLE_ROWS:
                break
    dropped = sum(tally.dropped.values())
    whole = rows == plan.rows
    due = rows - sum(tally.expired.values())
    refusals = check_dropped(sitemap.guards_of(section), section.name, rows=due, dropped=dropped) if whole else ()
    share = "all" if whole else f"the first {rows:,} of {plan.rows:,}"
    text = f"section {section.name}: of {share} rows,"
    warnings = [f"{text} {line}" for line in _lines(tally, context.base_url)]
    if not whole and due and dropped > due * sitemap.guards_of(section).dropped_limit(plan.rows):
        warnings.append(f"{text} {dropped:,} are left out: if the others are alike, a build is refused (guard dropped)")
    notes = [f"{text} {number:,} have a URL below {name}" for name, number in prefixes.most_common(TOP)]
    return Judgment(refusals=refusals, warnings=tuple(warnings), notes=tuple(notes))


def _lines(tally: Tally, base_url: str) -> list[str]:
    """Write one line for each of the most frequent rules: number, rule, sample, and the setting to change."""
    lines = []
    for counts, what in ((tally.dropped, "left out"), (tally.mended, "listed with a fix, or as they are")):
        for rule, number in Counter(counts).most_common(FREQUENT):
            samples = tally.samples.get(rule) or ()
            shown = f", such as {samples[0]!r}" if samples else ""
            lines.append(f"{number:,} are {what} by rule {rule}{shown}.{_SETTINGS.get(rule, '').format(base_url)}")
    return lines


_SETTINGS: Final = {
    "scope-host": " The sitemap's base_url is {}: change base_url= or loc=, or name the host in cross_submit=.",
    "scope-path": " The sitemap's base_url is {}: name the sitemap in robots.txt, or publish it higher up.",
    "loc-slash": " Write {{column:path}} in loc= where slashes part the path.",
    "loc-missing": " Check loc=: it names a column, or a template over columns, that are never NULL.",
    "loc-scheme": " Check loc=: a URL begins with https:// or http://.",
}
"""Setting to change, by rule; ``{}`` is the base URL."""
