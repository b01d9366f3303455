"""What a dry run tells: the plan that a run executes in sentences, and each rule's effect on a section's first rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.pipeline.refusals import Judgment
from airflow_sitemaps.pipeline.request import SectionContext, row_context_of
from airflow_sitemaps.protocol.rules import RULES, Tally
from airflow_sitemaps.quantities import counted, size
from airflow_sitemaps.shards.guards import FREQUENT, RowLosses
from airflow_sitemaps.shards.guards.judgement import check_dropped, check_size
from airflow_sitemaps.shards.plan import Action, Plan, RuleCheck, SectionCheck, SectionPlan
from airflow_sitemaps.shards.url_sample import TOP, prefix_of

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Source
    from airflow_sitemaps.protocol import RowContext
    from airflow_sitemaps.shards.guards import Refusal
    from airflow_sitemaps.shards.ranges import KeyRange
    from airflow_sitemaps.shards.shard_file import ShardFile

SHOWN: Final = 10
"""Maximum number of ranges named per section; further ranges are only counted."""


def explain(plan: Plan) -> list[str]:
    """Return lines that explain to people the actions of the run and the reasons."""
    lines = [f"run {plan.run}, on generation {plan.base_generation}"]
    for section in plan.sections.values():
        lines.extend(_section(section))
    for check in plan.checks:
        lines.extend(_check_lines(check))
    lines.extend(f"section {name}: retired, its files leave the index" for name in plan.retired)
    lines.extend(f"drift: the index {name} is not as we left it; it is written again" for name in plan.index_drift)
    lines.extend(f"drift: {r.name} is not as we left it; it is put again from its copy" for r in plan.repairs_elsewhere)
    lines.extend(f"published URLs below {count.prefix}: about {count.urls:,}" for count in plan.prefixes)
    lines.extend(plan.notes)
    lines.extend(f"warning: {warning}" for warning in plan.warnings)
    lines.extend(f"refused: {refusal}" for refusal in plan.refusals)
    lines.extend(f"not published: {failure}" for failure in plan.failures if failure.error != "GuardError")
    if plan.changes:
        left_out = {*(refusal.section for refusal in plan.refusals), *(failure.section for failure in plan.failures)}
        batches = [batch for batch in plan.batches if batch.section not in left_out]
        lines.append(f"{counted(len(batches), 'batch')} to read {counted(sum(batch.rows for batch in batches), 'row')}")
    else:
        waits = any(action.kind is Action.WAIT for section in plan.sections.values() for action in section.actions)
        is_unchanged = not (waits or plan.refusals or plan.failures)
        lines.append(f"{'nothing changed: ' if is_unchanged else ''}nothing will be written")
    return lines


def _section(section: SectionPlan) -> list[str]:
    counts = ", ".join(f"{number:,} {action}" for action, number in sorted(section.count().items()))
    lines = [
        f"section {section.name}: {counted(section.rows, 'row')} in {counted(len(section.actions), 'range')}: {counts}"
    ]
    if section.scan is not None:
        lines.append(f"  the survey was estimated to scan {size(section.scan)}")
    if section.survey_note:
        lines.append(f"  survey: {section.survey_note}")
    if section.null_keys:
        samples = "; ".join(section.null_key_samples)
        lines.append(
            f"  rows with a NULL key, which are left out (rule key-null): {section.null_keys:,}, such as {samples}"
        )
    if section.early is not None:
        lines.append(f"  recent entries list {counted(section.early.urls, 'URL')} before their shards do")
    lines.extend(f"  drift: {sentence}" for sentence in section.drift)
    busy = [t for t in section.actions if t.kind not in (Action.KEEP, Action.EMPTY)]
    lines.extend(f"  {t.kind.value} {t.range}: {counted(t.digest.rows, 'row')}; {t.reason}" for t in busy[:SHOWN])
    if len(busy) > SHOWN:
        rest = Counter(action.reason for action in busy[SHOWN:])
        lines.extend(f"  and {number:,} more: {reason}" for reason, number in rest.most_common())
    return lines


def _check_lines(check: SectionCheck) -> list[str]:
    share = f"all {check.rows:,}" if check.rows == check.all_rows else f"the first {check.rows:,} of {check.all_rows:,}"
    listed = f"{check.urls:,} are listed, in {check.xml_byte_size:,} bytes of XML"
    lines = [f"check of section {check.section}: of {share} rows, {listed}"]
    for each in check.rules:
        samples = "; ".join(map(repr, each.samples))
        shown = f", such as {samples}" if samples else ""
        lines.append(f"  {each.rule} ({each.verdict}): {each.rows:,} {each.effect}{shown}. {each.setting}")
    lines.append(f"  no row breaks: {', '.join(check.unbroken)}")
    return lines


SAMPLE_ROWS: Final = 10_000
"""Maximum number of rows that a dry run reads of each section that a build would write, unless the request names a number."""


@dataclass(slots=True)
class _Rendered:
    """The rows that were rendered, and the number of valid URLs by prefix."""

    rows: int = 0
    urls: int = 0
    xml_byte_size: int = 0
    tally: Tally = field(default_factory=Tally)
    prefixes: Counter[str] = field(default_factory=Counter)

    def add(self, files: Sequence[ShardFile]) -> None:
        """Add the files of some rows."""
        for file in files:
            self.urls += file.urls
            self.xml_byte_size += file.xml_byte_size
            self.tally.add(file.tally)


def judge_sample(context: SectionContext, plan: SectionPlan) -> Judgment:
    """Check the first rows that a build would read, or as many of the section's rows as the request says."""
    wanted = context.request.check_rows
    actions = plan.actions if wanted is not None else [action for action in plan.actions if action.kind.writes]
    settings = row_context_of(context.sitemap, context.section, context.clock)
    sample = _rendered(context.source, [action.range for action in actions], settings, wanted or SAMPLE_ROWS)
    checks = () if wanted is None else (_check(sample, plan, settings),)
    if not actions:
        return Judgment(checks=checks)
    return replace(_judged(sample, context, plan, settings), checks=checks)


def _rendered(source: Source, ranges: Sequence[KeyRange], settings: RowContext, most: int) -> _Rendered:
    """Render the first rows of ranges, each range to files of its own, as a build does."""
    from airflow_sitemaps.protocol.columnar.batch import clean  # noqa: PLC0415 - pyarrow is loaded where work is done
    from airflow_sitemaps.shards.stream import ShardStream, split_by_range  # noqa: PLC0415

    result = _Rendered()
    stream, place = ShardStream(settings), -1
    if not ranges:
        return result
    with closing(source.read(ranges)) as batches:  # type: ignore[type-var]
        for batch in batches:
            part = batch.slice(0, most - result.rows)
            for number, rows in split_by_range(part):
                if number != place:
                    result.add(stream.finish())
                    stream, place = ShardStream(settings), number
                result.add(stream.add(rows))
            result.prefixes.update(map(prefix_of, clean(part, settings, Tally()).loc.to_pylist()))
            result.rows += part.num_rows
            if result.rows >= most:
                break
    result.add(stream.finish())
    return result


def _judged(sample: _Rendered, context: SectionContext, plan: SectionPlan, settings: RowContext) -> Judgment:
    guards, name = context.sitemap.guards_of(context.section), context.section.name
    tally, rows = sample.tally, sample.rows
    dropped = sum(tally.dropped.values())
    whole = rows == plan.rows
    due = rows - sum(tally.expired.values())
    losses = RowLosses(
        rows=rows, base_url=settings.base_url, dropped=tally.dropped, expired=tally.expired, samples=tally.samples
    )
    refusals: tuple[Refusal, ...] = ()
    if whole:
        refusals = check_dropped(guards, name, rows=due, dropped=dropped)
        if due and not sample.urls and context.section.kind != "news":
            before = None if context.before is None else context.before.urls
            refusals += check_size(guards, name, now=0, before=before, peak=0, what="URLs")
    share = "all" if whole else f"the first {rows:,} of {plan.rows:,}"
    warnings = [f"section {name}: of {share} rows, {line}" for line in _lines(tally, settings.base_url)]
    if cause := losses.likely_cause():
        warnings.insert(0, f"section {name}: {cause}")
    if not whole and due and dropped > due * guards.dropped_limit(plan.rows):
        warnings.append(
            f"section {name}: of {share} rows, {dropped:,} are left out: if the others are alike, a build is refused "
            "(guard dropped)"
        )
    notes = [
        f"section {name}: of {share} rows, {number:,} have a URL below {prefix}"
        for prefix, number in sample.prefixes.most_common(TOP)
    ]
    explained = tuple(replace(r, message=f"{r.message} {losses.explanation()}") for r in refusals)
    return Judgment(refusals=explained, warnings=tuple(warnings), notes=tuple(notes))


def _lines(tally: Tally, base_url: str) -> list[str]:
    """Write one line for each of the most frequent rules: number, rule, sample, and the setting to change."""
    lines = []
    for counts, what in (
        (tally.dropped, "are left out by rule {}"),
        (tally.fixed, "break rule {} and are listed all the same"),
    ):
        for rule, number in Counter(counts).most_common(FREQUENT):
            samples = tally.samples.get(rule) or ()
            shown = f", such as {samples[0]!r}" if samples else ""
            advice = _SETTINGS.get(rule, "").format(base_url)
            lines.append(f"{number:,} {what.format(rule)}{shown}.{' ' if advice else ''}{advice}")
    return lines


def _check(sample: _Rendered, plan: SectionPlan, settings: RowContext) -> SectionCheck:
    """Report the effect of each rule on a sample and on the section's rows without a key."""
    tally = sample.tally
    if plan.null_keys:
        tally.count("key-null", settings.rulebook["key-null"], plan.null_key_samples, plan.null_keys)
    effects: tuple[tuple[Mapping[str, int], str], ...] = (
        (tally.dropped, "left out"), (tally.expired, "past its age"), (tally.fixed, "listed"),
    )  # fmt: skip
    rules = [
        RuleCheck(
            rule=rule,
            verdict=settings.rulebook[rule].value,
            effect=effect,
            rows=number,
            samples=tuple(tally.samples.get(rule, ())),
            setting=_setting(rule, settings),
        )
        for counts, effect in effects
        for rule, number in Counter(counts).most_common()
    ]
    broken = {check.rule for check in rules}
    return SectionCheck(
        section=plan.name,
        rows=sample.rows,
        all_rows=plan.rows,
        urls=sample.urls,
        xml_byte_size=sample.xml_byte_size,
        rules=tuple(rules),
        unbroken=tuple(rule for rule in RULES if rule not in broken),
    )


def _setting(rule: str, settings: RowContext) -> str:
    """Return the advice for a rule: the settings that change its effect."""
    others = [v.value for v in RULES[rule].allowed if v is not settings.rulebook[rule]]
    choice = f"Set rules={{{rule!r}: …}} to {' or '.join(map(repr, others))}."
    advice = _SETTINGS.get(rule, "").format(settings.base_url)
    return f"{advice} {choice}".strip()


_SETTINGS: Final = {
    "scope-host": "The sitemap's base_url is {}: change base_url= or loc=, or name the host in cross_submit=.",
    "scope-path": "The sitemap's base_url is {}: name the sitemap in robots.txt, or publish it higher up.",
    "key-null": "Use key columns that are never NULL.",
    "loc-slash": "Write {{column:path}} in loc= where slashes part the path.",
    "loc-missing": "Check loc=: it names a column, or a template over columns, that are never NULL.",
    "lastmod-format": "Check lastmod=: for a column of numbers, give their lastmod_unit=, 's', 'ms' or 'us'.",
    "loc-scheme": "Check loc=: a URL begins with https:// or http://.",
}
"""Setting to change, by rule; ``{}`` is the base URL."""
