"""Share a connection and a survey between sections that read one table and differ only by one equality.

An example is ``locale = 'de'``. The first section whose ranges are all surveyed surveys those of its siblings too, in one
scan; each takes its digests when its turn comes.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import SitemapError
from airflow_sitemaps.pipeline.plan.partial_survey import key_change
from airflow_sitemaps.quantities import counted

if TYPE_CHECKING:
    from airflow_sitemaps.pipeline.request import RunContext, SectionContext
    from airflow_sitemaps.ports import SiblingSurvey, Source
    from airflow_sitemaps.shards.ranges import KeyRange, Survey
    from airflow_sitemaps.sitemap import Section

log = logging.getLogger(__name__)

MOST_SUMS: Final = 500_000
"""The most digests of one shared survey, sections times ranges of all. They are about 200 bytes each. Larger families share several."""


class SharedSurveys:
    """The connections and surveys that sections of a run share.

    Args:
        run: The input of the run's plan.
        sections: The sections that the run plans.
        kept: Closes the last connection when no section needs it any more.
    """

    def __init__(self, run: RunContext, sections: Iterable[Section], kept: ExitStack) -> None:
        self._kept = kept
        self._last: tuple[str, Source] | None = None
        families: dict[tuple[str, bool], list[Section]] = defaultdict(list)
        for section in sections:
            key = getattr(section.source, "sibling_key", None)  # a user's own source may lack the attribute
            before = None if run.manifest is None else run.manifest.sections.get(section.name)
            surveys_all = run.sitemap.change_detection_of(section) != "watermark"
            if key is not None and surveys_all and before is not None and before.shards:
                families[key, run.sitemap.shards_of(section).rewrite_after is not None].append(section)
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

        Args:
            context: The input of the section's plan.
            version: The version of its table that the run records with the digests, or "". The shared survey may be
                older than the version; then a later run would take the digests for those of the version. None: the
                section does not survey all its ranges.
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
