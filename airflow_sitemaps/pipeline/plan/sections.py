"""Plan the sections of a run one by one: those of the code, and those that a run makes of ``Section.each``."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from msgspec.structs import replace

from airflow_sitemaps.errors import (
    ConfigurationError,
    RefusedError,
    RuleError,
    SitemapError,
    SourceError,
    TransientError,
)
from airflow_sitemaps.pipeline.plan.dry_run import judge_sample
from airflow_sitemaps.pipeline.plan.section_planner import plan_section
from airflow_sitemaps.pipeline.plan.surveys import SharedSurveys
from airflow_sitemaps.pipeline.refusals import Judgment, change_of, published_sections
from airflow_sitemaps.pipeline.request import RunContext, chosen, expanded, member_name, members_of
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards import Member
from airflow_sitemaps.shards.guards import Permit, permitted
from airflow_sitemaps.shards.guards.judgement import rows_at_plan
from airflow_sitemaps.shards.plan import SectionPlan

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Section, Sitemap

log = logging.getLogger(__name__)

OF_ONE_SECTION: Final = (ConfigurationError, RefusedError, SourceError)
"""Errors of one section's source or rows, which need not stop the other sections."""
MOST_MEMBERS: Final = 200
"""Most sections that a run makes of one ``Section.each``, without the one of all other values."""
MOST_VALUES: Final = 1_000
"""Most values of a column that a run reads to find those that get a section."""


@dataclass(slots=True)
class Surveyed:
    """The plans of a run's sections by name, with what is said of each, and the errors of those that could not be planned.

    Rows move between the sections of each group in ``tied``; ``moved`` is how many leave a section for new ones.
    """

    sections: dict[str, tuple[SectionPlan, Judgment]] = field(default_factory=dict)
    errors: dict[str, SitemapError] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    tied: list[tuple[str, ...]] = field(default_factory=list)
    moved: dict[str, int] = field(default_factory=dict)

    @property
    def plans(self) -> dict[str, SectionPlan]:
        """The plans of the sections."""
        return {name: plan for name, (plan, _) in self.sections.items()}

    def all_of(self, what: Literal["refusals", "warnings", "notes", "checks"]) -> list[Any]:
        """Return what is said of all sections."""
        return [each for _, judgment in self.sections.values() for each in getattr(judgment, what)]


def survey(context: RunContext) -> tuple[RunContext, Surveyed]:
    """Plan each section; after the others, try a section whose database failed once more. Return the sections of this run too."""
    sections, surveyed = chosen(context.sitemap, context.request), Surveyed()
    context.progress.start("survey", len(sections), "sections")
    published = published_sections(context.manifest)
    ready = [section for section in sections if section.split is None or section.name in published]
    with ExitStack() as kept:
        _plan_all(context, ready, surveyed, SharedSurveys(context, ready, kept) if len(ready) > 1 else None)
    for rest in (section for section in sections if section.split is not None):
        try:
            context = _split(context, rest, {section.name for section in sections}, surveyed)
        except OF_ONE_SECTION as error:
            if context.sitemap.on_section_failure == "fail_all":
                raise
            surveyed.errors[rest.name] = error
    context.progress.finish()
    order = {section.name: number for number, section in enumerate(context.sitemap.sections)}
    surveyed.sections = dict(sorted(surveyed.sections.items(), key=lambda item: order[item[0]]))
    return context, surveyed


def _plan_all(
    context: RunContext, sections: Sequence[Section], surveyed: Surveyed, shared: SharedSurveys | None
) -> None:
    waiting = list(sections)
    for attempt in (1, 2):
        again = []
        for section in waiting:
            try:
                _plan_one(context, section, surveyed, shared)
            except OF_ONE_SECTION as error:
                if context.sitemap.on_section_failure == "fail_all":
                    raise
                if attempt == 1 and len(sections) > 1 and isinstance(error, TransientError):
                    again.append(section)
                    continue
                log.error("section %s: %s: %s", section.name, type(error).__name__, error)
                surveyed.errors[section.name] = error
            context.progress.advance(1)
        waiting = again


def _plan_one(run: RunContext, section: Section, surveyed: Surveyed, shared: SharedSurveys | None) -> None:
    """Plan one section, and in a dry run also check its first rows."""
    with section.source.open(section=section.name) if shared is None else shared.open(section) as source:
        context = run.of_section(section, source)
        plan = replace(plan_section(context, shared), moved=surveyed.moved.get(section.name, 0))
        check_null_keys(run.sitemap, section, plan)
        sample = judge_sample(context, plan) if run.request.dry_run else Judgment()
    refusals = rows_at_plan(change_of(run, section, context.before, run.clock.now()), plan)
    guards = {refusal.guard for refusal in refusals}
    refusals += tuple(refusal for refusal in sample.refusals if refusal.guard not in guards)
    judgment = dataclasses.replace(sample, refusals=refusals, warnings=(*plan.warnings, *sample.warnings))
    surveyed.sections[section.name] = plan, judgment


def check_null_keys(sitemap: Sitemap, section: Section, plan: SectionPlan) -> None:
    """Refuse rows with a NULL key if the rule ``key-null`` is set to ``fail``."""
    if plan.null_keys and sitemap.rulebook(section)["key-null"].value == "fail":
        samples = "; ".join(plan.null_key_samples)
        raise RuleError(
            f"section {section.name!r}: NULL key in {counted(plan.null_keys, 'row')}, and the rule 'key-null' is set "
            f"to 'fail': {samples}. The section was not published. Fix the rows, or use a key that is never NULL.",
            rule="key-null",
            section=section.name,
        )


# ------------------------------------------------------------ the sections of ``Section.each``


def _split(context: RunContext, rest: Section, names: Collection[str], surveyed: Surveyed) -> RunContext:
    """Plan a section for each value with enough rows in ``rest``, and release sections that are published without rows.

    It happens only if the run builds the whole family (``names`` are the sections that it builds); another run plans ``rest``
    if it was never published. If the new sections cannot be planned, or guards refuse them, the family stays as published.
    Return the context of the sections then.
    """
    published = published_sections(context.manifest)
    before, request = published.get(rest.name), context.request
    own = {n: m for n, m in members_with_values(context.sitemap).items() if m.family == rest.family}
    is_whole = own.keys() <= {*names}
    if before is not None and not (is_whole and rest.name in surveyed.sections):
        return context
    is_empty = {name for name, plan in surveyed.plans.items() if not plan.rows and name in published}
    released = [n for n in own if n in is_empty and not request.sections and not published[n].urls + published[n].rows]
    appeared = _appeared(context, rest, own, surveyed) if is_whole else {}
    if before is not None and not appeared and not released:
        return context
    members = {n: m for n, m in members_with_values(context.sitemap).items() if n not in released}
    wider = _with_members(context, members, {name: member for name, (member, _) in appeared.items()}, released)
    new = [section for section in wider.sitemap.sections if section.name in appeared]
    moved = sum(appeared[section.name][1] for section in new)
    trial = Surveyed(moved={rest.name: moved} if moved else {})
    again = next(section for section in wider.sitemap.sections if section.name == rest.name)
    try:
        _plan_all(wider, [*new, again], trial, None)
    except OF_ONE_SECTION as error:
        if before is None:
            raise
        trial.errors[rest.name] = error
    reasons = (
        *map(str, trial.errors.values()),
        *(r.message for r in permitted(trial.all_of("refusals"), request.allow)[0]),
    )
    if before is not None and reasons:
        surveyed.warnings.append(f"the sections of {rest.family!r} stay the same in this run: {reasons[0]}")
        return context
    for name in released:
        del surveyed.sections[name]
    surveyed.sections |= trial.sections
    surveyed.errors |= trial.errors
    if before is not None and new:
        surveyed.tied.append(tuple(section.name for section in (*new, again)))
        surveyed.warnings += [
            f"section {name!r} is new: {appeared[name][1]:,} rows have its value, and leave {rest.name!r}"
            for name in (section.name for section in new)
        ]
    return wider


def _appeared(
    context: RunContext, rest: Section, own: Mapping[str, Member], surveyed: Surveyed
) -> dict[str, tuple[Member, int]]:
    """Return the new sections of values with enough rows in ``rest``, by name, with the number of these rows.

    A value whose section is published and was written in the code before gets it with fewer rows too.
    """
    assert rest.split is not None
    plan, family, column = surveyed.plans.get(rest.name), rest.family, rest.split.column
    code = {section.name for section in context.sitemap.sections}
    before = {n for n in published_sections(context.manifest).keys() - code if n.startswith(f"{family}-")}
    least = 1 if before else rest.split.least
    if plan is not None and plan.rows < least:
        return {}
    try:
        with rest.source.open(section=rest.name) as source:
            counts = cast("Any", source).values(column, least, MOST_VALUES)
    except OF_ONE_SECTION as error:
        if plan is None:
            raise
        surveyed.warnings.append(f"the sections of {family!r} stay the same in this run: {error}")
        return {}
    counts = [(v, n) for v, n in counts if n >= rest.split.least or member_name(family, v) in before]
    names = [member_name(family, value) for value, _ in counts]
    usable = Counter(names)
    values = {
        name: (Member(family=family, column=column, value=value), rows)
        for name, (value, rows) in zip(names, counts, strict=True)
        if name and usable[name] == 1 and name not in own
    }
    unnamed = [repr(value) for name, (value, _) in zip(names, counts, strict=True) if name not in values]
    if unnamed:
        log.info(
            "section %s: it keeps the rows of values that give no name of their own: %s",
            rest.name,
            ", ".join(unnamed[:10]),
        )
    if len(values) > (room := max(0, MOST_MEMBERS - len(own))):
        surveyed.warnings.append(
            f"section {rest.name!r}: {len(values):,} more values of {column} have {rest.split.least:,} rows or more, and a "
            f"Section.each makes at most {MOST_MEMBERS} sections: the largest get one. Raise least="
        )
    permits = [Permit.of(text) for text in context.request.allow]
    may_date = any(permit.guard == "redated" and permit.section in (None, rest.name) for permit in permits)
    if values and plan is not None and rest.observed and not may_date:
        surveyed.warnings.append(
            f"section {rest.name!r}: {', '.join(map(repr, list(values)[:5]))} would be new, and the observed dates of the URLs that "
            f"move there would begin again. To let one run do it: --allow redated:{rest.name}"
        )
        return {}
    return dict(list(values.items())[:room])


def _with_members(
    context: RunContext, members: Mapping[str, Member], new: Mapping[str, Member], released: Sequence[str]
) -> RunContext:
    """Return the context of a run with other members. A new one whose file names could collide with others is left out."""
    try:
        sitemap = expanded(context.sitemap, {**members, **new}, released)
    except ConfigurationError as error:
        if len(new) == 1:
            log.warning("%s gets no section of its own: %s", next(iter(new)), error)
            return _with_members(context, members, {}, released)
        wider = context
        for name, member in new.items():
            wider = _with_members(wider, {**members, **members_with_values(wider.sitemap)}, {name: member}, released)
        return wider
    return dataclasses.replace(context, sitemap=sitemap)


def members_with_values(sitemap: Sitemap) -> dict[str, Member]:
    """Return the members of a sitemap that have a value, by the names of their sections."""
    return {s.name: s.member for s in sitemap.sections if s.member is not None and s.member.value is not None}


def check_columns(sitemap: Sitemap, manifest: Manifest | None) -> None:
    """Refuse a family whose published sections are those of another column: its rows would be listed twice.

    The quotes around a column's name make no other column of it.
    """
    for section in sitemap.sections:
        own = [member for member in members_of(manifest).values() if member.family == section.family]
        columns = {member.column.strip('"`') for member in own}
        if section.split is not None and (other := columns - {section.split.column.strip('"`')}):
            raise ConfigurationError(
                f"Section.each({section.split.column!r}, name={section.family!r}): its published sections are those of the column "
                f"{min(other)!r}. Give it another name=, and name {section.family!r} in retired= in the same change"
            )
