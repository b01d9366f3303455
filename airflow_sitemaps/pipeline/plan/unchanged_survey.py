"""A survey of only those ranges that may have changed; the others have the digests of the last survey."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_sitemaps.shards.digest import Digest, Survey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_sitemaps.ports import Source
    from airflow_sitemaps.shards.key import KeyRange
    from airflow_sitemaps.shards.manifest import SectionManifest


class UnchangedSurvey:
    """A surveyor that returns the last digests, and queries only some ranges.

    Args:
        changed: Positions of ranges that may have changed. Default: none. Ranges that the run reads for another reason
            are added by ``ask_also``.
    """

    def __init__(self, source: Source, section: SectionManifest, changed: Iterable[int] = ()) -> None:
        self._source = source
        self._section = section
        self._also: set[int] = set(changed)
        self._known: dict[int, Digest] = {}

    def ask_also(self, positions: Iterable[int]) -> bool:
        """Include ranges in the next survey; return whether one of them was not included before."""
        self._also.update(positions)
        return not self._also <= self._known.keys()

    def survey(self, ranges: Sequence[KeyRange]) -> Survey:
        """Return the digests of all ranges; for ranges that are not queried, those of the last survey."""
        asked = sorted(self._also - self._known.keys())
        if asked:
            survey = self._source.survey([ranges[position] for position in asked])
            self._known.update(zip(asked, survey.digests, strict=True))
        digests = [self._known.get(position, shard.digest) for position, shard in enumerate(self._section.shards)]
        samples = self._section.samples.get("key-null", ())
        return Survey(digests=tuple(digests), null_keys=self._section.null_keys, null_key_samples=samples)
