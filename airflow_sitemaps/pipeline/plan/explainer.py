"""Explain a plan in sentences. The dry run and the log explain the same plan that the run executes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.quantities import counted, size
from airflow_sitemaps.shards.plan import Action

if TYPE_CHECKING:
    from airflow_sitemaps.shards.plan import Plan, SectionCheck, SectionPlan

SHOWN: Final = 10
"""Maximum number of ranges named per section; further ranges are only counted."""


def explain(plan: Plan) -> list[str]:
    """Return lines that explain to people the actions of the run and the reasons."""
    lines = [f"run {plan.run}, on generation {plan.base_generation}"]
    for section in plan.sections.values():
        lines.extend(_section(section))
    for check in plan.checks:
        lines.extend(_check(check))
    lines.extend(f"section {name}: retired, its files leave the index" for name in plan.retired)
    lines.extend(f"drift: the index {name} is not as we left it; it is written again" for name in plan.index_drift)
    lines.extend(f"drift: {r.name} is not as we left it; it is put again from its copy" for r in plan.repairs_elsewhere)
    lines.extend(f"published URLs below {count.prefix}: about {count.urls:,}" for count in plan.prefixes)
    lines.extend(plan.notes)
    lines.extend(f"warning: {warning}" for warning in plan.warnings)
    lines.extend(f"refused: {refusal}" for refusal in plan.refusals)
    lines.extend(f"not published: {failure}" for failure in plan.failures if failure.error != "GuardError")
    if plan.changes:
        rows = sum(batch.rows for batch in plan.batches)
        lines.append(f"{counted(len(plan.batches), 'batch')} to read {counted(rows, 'row')}")
    else:
        lines.append("nothing changed: nothing will be written")
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
    lines.extend(f"  drift: {sentence}" for sentence in section.drift)
    busy = [t for t in section.actions if t.kind not in (Action.KEEP, Action.EMPTY)]
    lines.extend(f"  {t.kind.value} {t.range}: {counted(t.digest.rows, 'row')}; {t.reason}" for t in busy[:SHOWN])
    if len(busy) > SHOWN:
        rest = Counter(action.reason for action in busy[SHOWN:])
        lines.extend(f"  and {number:,} more: {reason}" for reason, number in rest.most_common())
    return lines


def _check(check: SectionCheck) -> list[str]:
    """Describe the effect of each rule on the checked rows."""
    share = f"all {check.rows:,}" if check.rows == check.all_rows else f"the first {check.rows:,} of {check.all_rows:,}"
    listed = f"{check.urls:,} are listed, in {check.xml_byte_size:,} bytes of XML"
    lines = [f"check of section {check.section}: of {share} rows, {listed}"]
    for each in check.rules:
        samples = "; ".join(map(repr, each.samples))
        shown = f", such as {samples}" if samples else ""
        lines.append(f"  {each.rule} ({each.verdict}): {each.rows:,} {each.effect}{shown}. {each.setting}")
    lines.append(f"  no row breaks: {', '.join(check.unbroken)}")
    return lines
