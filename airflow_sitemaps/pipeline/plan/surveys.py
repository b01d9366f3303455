"""Surveys of a part: of the ranges that may have changed, and of the sections that read one table.

Three things say what may have changed: the version of its table, its change log, and a watermark, for tables so large
that a digest of all rows at every run is too expensive. Each is read before the survey, so a change that comes after it
is found by the next run. ``shards.ranges.Known`` holds what the next run needs; it is committed with the digests.

A run that publishes nothing has no commit. It stores its ``Known`` beside the manifest, which only saves work: if that
record is lost, damaged or of another state of the section, the run uses the manifest's.

By watermark, a run surveys the ranges in which a lastmod changed, the last range, and those of the other ranges whose
last survey is oldest. It therefore finds deletes and silent updates within ``SLICES`` runs.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from msgspec import structs

from airflow_sitemaps.errors import SitemapError
from airflow_sitemaps.pipeline.publish.early_entries import changed_entries
from airflow_sitemaps.pipeline.state.repository import StateRepository, known_key, put_record, read_record
from airflow_sitemaps.ports import ChangeReading, SiblingSurvey, Source
from airflow_sitemaps.quantities import counted
from airflow_sitemaps.shards import Count, Decoder, Record
from airflow_sitemaps.shards.ranges import Digest, EarlyEntry, Key, KeyRange, Known, Survey, fits_kinds, same_kinds

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.request import RunContext, SectionContext
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest
    from airflow_sitemaps.shards.plan import Plan, RangeAction
    from airflow_sitemaps.sitemap import Section

log = logging.getLogger(__name__)

SLICES: Final = 24
"""Number of runs within which every range is surveyed once, whether or not its lastmods changed."""

CLOCK_CHANGE: Final = timedelta(hours=2)
"""Time after a clock change during which local times without a time zone may be ambiguous."""


@dataclass(slots=True, kw_only=True)
class Narrowed:
    """The survey of a section: of the ranges ``wanted``, which may have changed, or of every range if it is None.

    ``known`` is what the next run may rely on, None if nothing: it surveys every range. ``surveyed`` has the digests of the
    wanted ranges that this run surveyed, by position; the others have the digests of the last survey.
    """

    known: Known | None = None
    wanted: set[int] | None = None
    note: str = ""
    warnings: tuple[str, ...] = ()
    earlier: Known | None = None
    changed: tuple[EarlyEntry, ...] = ()
    surveyed: dict[int, Digest] = field(default_factory=dict)

    def include(self, positions: Iterable[int]) -> bool:
        """Include ranges that the run reads; return whether one was not surveyed: a plan needs its present number of rows."""
        if self.wanted is None:
            return False
        self.wanted.update(positions)
        return not self.wanted <= self.surveyed.keys()

    def survey(self, context: SectionContext, ranges: Sequence[KeyRange]) -> Survey:
        """Return the digests of all ranges of the section as it was."""
        before = context.before
        if self.wanted is None or before is None:
            return survey_of(context, ranges)
        asked = sorted(self.wanted - self.surveyed.keys())
        null_keys, samples = before.null_keys, before.samples.get("key-null", ())
        if asked:
            survey = survey_of(context, [ranges[position] for position in asked])
            self.surveyed.update(zip(asked, survey.digests, strict=True))
            null_keys, samples = survey.null_keys, survey.null_key_samples
        digests = [self.surveyed.get(position, shard.digest) for position, shard in enumerate(before.shards)]
        return Survey(digests=tuple(digests), null_keys=null_keys, null_key_samples=samples)

    def with_ages(self, before: SectionManifest | None, actions: Sequence[RangeAction]) -> Known | None:
        """Return what the next run may rely on, with the number of runs since the range of each action was surveyed.

        An action that joins earlier ranges has the age of the oldest of them. Boundaries are compared only for equality.
        """
        if self.known is None or self.known.watermark is None:
            return self.known
        ages = [0] * len(actions)
        if before is not None and self.wanted is not None and self.earlier is not None:
            places: dict[Key | None, int] = {action.range.lower: number for number, action in enumerate(actions)}
            place = 0
            for at, shard in enumerate(before.shards):
                place = places.get(shard.range.lower, place)
                if not actions[place].kind.writes and at not in self.surveyed:
                    ages[place] = max(ages[place], _age(self.earlier, at) + 1)
        return structs.replace(self.known, ages=tuple(ages))


def survey_of(context: SectionContext, ranges: Sequence[KeyRange]) -> Survey:
    """Survey ranges, with the checksum of urgent columns if the changes of others may wait."""
    if context.policy.rewrite_after is None:
        return context.source.survey(ranges)
    return context.source.survey(ranges, urgent=True)


def narrow(context: SectionContext, cause: str) -> Narrowed:
    """Decide which ranges are surveyed: all if there is a ``cause`` for it, else those that may have changed."""
    sitemap, section, before = context.sitemap, context.section, context.before
    detection = sitemap.change_detection_of(section)
    version = context.source.table_version() if sitemap.table_versions and detection == "digest" else None
    interval = sitemap.change_log_interval_of(section)
    if not version and interval is None and detection != "watermark":
        return Narrowed()
    earlier = None if before is None or cause else remembered(StateRepository(context.store.state), before)
    whole = Known(surveyed_at=context.now, version=version or "")
    changed = _version_change(context, earlier, version) if version else ""
    if before is not None and earlier is not None and version and not changed:
        note = f"its table has not changed since {earlier.surveyed_at}; nothing is surveyed"
        narrowed = Narrowed(known=earlier, wanted=set(), note=note)
    elif interval is not None:
        narrowed = _by_change_log(context, earlier, whole, interval, cause)
    elif detection == "watermark":
        narrowed = _by_watermark(context, earlier, cause)
    else:
        narrowed = Narrowed(known=whole, note=f"every range is surveyed: {cause or changed}")
    if narrowed.note:
        log.info("section %s: %s", section.name, narrowed.note)
    return narrowed


def _version_change(context: SectionContext, known: Known | None, version: str) -> str:
    """Return why a table's version does not stand for a survey, or "" if its digests are still right."""
    longest = context.sitemap.table_versions
    if known is None or not known.version:
        return "no table version is recorded"
    if known.version != version:
        return f"its table changed since {known.surveyed_at}"
    if longest is None or not _is_within(longest, known.surveyed_at, context.now):
        return f"its table has not changed since {known.surveyed_at}, but that survey is older than {longest}"
    return ""


def _is_within(longest: timedelta, at: datetime, now: datetime) -> bool:
    """Return whether a time is at most so long ago. A clock may have been set back: then it is not."""
    return at <= now < at + longest


# ------------------------------------------------------------ by change log


def _by_change_log(
    context: SectionContext, known: Known | None, whole: Known, interval: timedelta, cause: str
) -> Narrowed:
    """Read the change log: only the ranges of the keys that it names have changed."""
    source, before = context.source, context.before
    if not cause and (known is None or known.position is None):
        cause = "no position of its change log is known"
    elif known is not None and not _is_within(interval, known.surveyed_at, context.now):
        cause = f"the last survey of every range, of {known.surveyed_at}, is older than full_every={interval}"
    if cause or before is None or known is None:
        return _whole(context, whole, source.changes((), None), cause)
    reading = source.changes([shard.range for shard in before.shards], known.position)
    if reading.ranges is None:
        return _whole(context, whole, reading, reading.cause)
    note = (
        f"the change log names {counted(reading.changes, 'change')} in {len(reading.ranges):,} of "
        f"{len(before.shards):,} ranges; only these are surveyed (the last survey of every range: {known.surveyed_at})"
    )
    return Narrowed(
        known=structs.replace(whole, surveyed_at=known.surveyed_at, position=reading.position),
        wanted={*reading.ranges, *(at for at, age in enumerate(known.ages) if age)},
        note=note,
        warnings=_warnings(context, reading),
    )


def _whole(context: SectionContext, whole: Known, reading: ChangeReading, cause: str) -> Narrowed:
    note = f"every range is surveyed: {'; '.join(dict.fromkeys(each for each in (cause, reading.cause) if each))}"
    gap = (f"section {context.section.name!r}: {note}",) if reading.is_gap else ()
    return Narrowed(
        known=structs.replace(whole, position=reading.position),
        note=note,
        warnings=(*gap, *_warnings(context, reading)),
    )


def _warnings(context: SectionContext, reading: ChangeReading) -> tuple[str, ...]:
    return (f"section {context.section.name!r}: the change log: {reading.warning}",) if reading.warning else ()


# ------------------------------------------------------------ by watermark


def _by_watermark(context: SectionContext, known: Known | None, cause: str) -> Narrowed:
    """Query the lastmods: ranges with newer ones have changed, and a part of the others is surveyed too.

    Without a watermark, as after a rollback, every range is surveyed, and may wait if there is no ``cause`` to write it.
    """
    source, before, moment = context.source, context.before, context.source.now()
    whole = Known(surveyed_at=context.now, watermark=moment)
    if before is None or known is None or known.watermark is None:
        return Narrowed(known=whole, changed=() if cause else changed_entries(context, ()))
    since = begins_at(known.watermark, context.sitemap.watermark_lag, moment, context.section.source.timezone)
    ranges = [shard.range for shard in before.shards]
    touched = set(source.touched(ranges, since))
    positions = touched | {len(ranges) - 1} | _slice(known, len(ranges))
    note = (
        f"rows modified since {since} in {len(touched):,} of {counted(len(ranges), 'range')}; "
        f"surveyed: {counted(len(positions), 'range')}"
    )
    whole = structs.replace(whole, surveyed_at=known.surveyed_at)
    changed = changed_entries(context, sorted(touched), since)
    return Narrowed(known=whole, wanted=positions, note=note, earlier=known, changed=changed)


def begins_at(watermark: datetime, lag: timedelta, now: datetime, timezone: str) -> datetime:
    """Return the earliest lastmod to search for: ``lag`` before the watermark.

    If clocks were set back since the watermark or shortly before it, local times without a time zone repeat. The search
    then begins earlier by the same amount.
    """
    since = watermark - lag
    zone = ZoneInfo(timezone)
    before, after = ((moment.astimezone(zone).utcoffset() or timedelta(0)) for moment in (since - CLOCK_CHANGE, now))
    return since - max(timedelta(0), before - after)


def _slice(known: Known, number: int) -> set[int]:
    """Return the ranges with the oldest surveys, one in ``SLICES``, and all ranges whose survey is due."""
    ages = [_age(known, at) for at in range(number)]
    oldest = sorted(range(number), key=lambda at: (-ages[at], at))
    quota = -(-number // SLICES)
    return {at for place, at in enumerate(oldest) if place < quota or ages[at] >= SLICES - 1}


def _age(known: Known, at: int) -> int:
    """Return the number of runs since a range's last survey. A range that the record lacks is due."""
    return known.ages[at] if at < len(known.ages) else SLICES - 1


# ------------------------------------------------------------ between runs


class _Stored(Record, frozen=True, kw_only=True):
    """``Known`` beside the manifest, with the generation that had last changed the section when it was stored."""

    known: Known
    changed_in: Count


_RECORD: Final = Decoder(_Stored)


def remembered(state: StateRepository, section: SectionManifest) -> Known | None:
    """Return what the last run left, if it fits this state of the section; else what its commit left."""
    record = read_record(state.objects, known_key(section.name), _RECORD, None)
    return record.known if record is not None and record.changed_in == section.changed_in else section.known


def remember_all(state: StateRepository, plan: Plan, manifest: Manifest) -> None:
    """Store what a plan found out about its sections, whose result the manifest now holds."""
    for name, section_plan in plan.sections.items():
        section = manifest.sections.get(name)
        generations = {section_plan.base, manifest.generation if manifest.run == plan.run else section_plan.base}
        if section is None or section.changed_in not in generations:
            continue
        if (later := section_plan.known_of(section.shards)) is not None:
            put_record(state.objects, known_key(name), _Stored(known=later, changed_in=section.changed_in))


def key_change(source: Source, section: SectionManifest) -> str:
    """Return why a section's boundaries are no longer valid keys of its source, or "" if they are valid."""
    now = tuple(source.key_kinds)
    if section.key_kinds:
        if same_kinds(section.key_kinds, now):
            return ""
        return f"the section's key changed: {', '.join(section.key_kinds)} before, {', '.join(now)} now"
    boundaries = (shard.range.lower for shard in section.shards if shard.range.lower is not None)
    return "" if fits_kinds(boundaries, now) else f"the section's key changed: it is {', '.join(now)} now"


# ------------------------------------------------------------ sections that differ by one equality, as ``locale = 'de'``
# The first section whose ranges are all surveyed surveys those of its siblings too, in one scan; each takes its digests
# when its turn comes.


MOST_SUMS: Final = 500_000
"""The most digests of one shared survey, sections times ranges of all. They are about 200 bytes each. Larger families share several."""


class SharedSurveys:
    """The connections and surveys that sections of a run share. ``kept`` closes the last connection when none needs it."""

    def __init__(self, run: RunContext, sections: Iterable[Section], kept: ExitStack) -> None:
        self._kept = kept
        self._last: tuple[str, Source] | None = None
        families: dict[tuple[object, ...], list[Section]] = defaultdict(list)
        for section in sections:
            key = getattr(section.source, "sibling_key", None)  # a user's own source may lack the attribute
            before = None if run.manifest is None else run.manifest.sections.get(section.name)
            surveys_all = run.sitemap.change_detection_of(section) != "watermark"
            if key is not None and surveys_all and before is not None and before.shards:
                name = section.member.family if section.member is not None else ""  # each has its own other values
                families[key, name, run.sitemap.shards_of(section).rewrite_after is not None].append(section)
        self._families = {section.name: family for family in families.values() for section in family}
        self._surveys: dict[str, SiblingSurvey] = {}

    @contextmanager
    def open(self, section: Section) -> Iterator[Source]:
        """Yield a section's source. It shares the connection of the section before it if that is a sibling and did not fail."""
        key = getattr(section.source, "sibling_key", None)
        last, self._last = self._last, None
        shared = last[1].sibling(section.source, section=section.name) if last is not None and last[0] == key else None
        if shared is None:
            self._kept.close()
        if key is None:
            with section.source.open(section=section.name) as source:
                yield source
            return
        source = shared or self._kept.enter_context(section.source.open(section=section.name))
        yield source
        self._last = key, source

    def take(self, context: SectionContext, version: str | None) -> Survey | None:
        """Return the digests of a section's ranges from a shared survey, or None if the section surveys them alone.

        ``version`` is that of its table, which the run records with the digests, or "". The shared survey may be older; then
        a later run would take the digests for those of the version. None: the section does not survey all its ranges.
        """
        name = context.section.name
        family = self._families.pop(name, ())
        others = [section for section in family if section.name in self._families]
        if version is not None and name not in self._surveys and others:
            self._survey(context, [context.section, *others])
        shared = self._surveys.pop(name, None)
        return None if shared is None or version not in ("", shared.version) else shared.survey

    def _survey(self, context: SectionContext, family: list[Section]) -> None:
        """Survey the ranges of a section and of as many siblings as possible. If it fails, each surveys its own."""
        assert context.manifest is not None
        ranges: dict[str, list[KeyRange]] = {}
        sources = []
        for section in family:
            before = context.manifest.sections[section.name]
            if key_change(context.source, before):
                continue  # its own plan starts afresh
            own = [shard.range for shard in before.shards]
            if (len(ranges) + 1) * sum(map(len, [*ranges.values(), own])) > MOST_SUMS:
                break
            ranges[section.name] = own
            sources.append(section.source)
        names = list(ranges)
        if len(names) < 2:
            return
        urgent = context.policy.rewrite_after is not None
        shown = f"section {names[0]}: one survey with {counted(len(names) - 1, 'section')} of its table"
        try:
            surveys = context.source.survey_siblings(sources, list(ranges.values()), urgent=urgent)
        except SitemapError as error:
            log.warning("%s failed, so each of them surveys alone: %s", shown, error)
            surveys = None
        if surveys is not None:
            self._surveys.update(zip(names, surveys, strict=True))
            log.info("%s, in %s: %s", shown, counted(sum(map(len, ranges.values())), "range"), ", ".join(names[1:]))
        for name in names:
            self._families.pop(name, None)
