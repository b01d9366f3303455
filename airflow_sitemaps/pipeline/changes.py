"""Find the URLs that a generation added, changed or removed, by a comparison of its private bodies with earlier ones.

Only files whose content differs are read. Key ranges are in the same order in both generations. The files between two
boundaries that both generations have are therefore compared with each other. Only a few shards at a time, and the
differences, are in memory. A URL that moved between files or sections does not count as a change.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError, RefusedError
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.earlier_parts import read_part
from airflow_sitemaps.pipeline.publish.gone_urls import gone_urls
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.protocol.markup import escape
from airflow_sitemaps.shards.gone import GoneUrls

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import Manifest, PublicFile, SectionManifest, Shard
    from airflow_sitemaps.shards.ranges import Key
    from airflow_sitemaps.sitemap import Sitemap

MOST: Final = 1_000_000
"""Default maximum number of URLs that may differ; they need about 350 MB of memory."""

AGES: Final = ("first_listed", "changed_at")
"""Columns of a ledger part that say how old a URL is."""

MOVED: Final = 4
"""Maximum number of URLs that may have moved between files, as a multiple of those that may differ."""

_ENTRY: Final = re.compile(rb"<url><loc>([^<]*)</loc>.*?</url>\n", re.DOTALL)
_LINE: Final = re.compile(rb"([^\n]+)\n")
_NOTHING: Final = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionCounts:
    """How many URLs of a section differ. A changed URL has an entry with other fields."""

    added: int = 0
    changed: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Differences to an earlier generation, 0 if before the first. URLs are in alphabetical order."""

    generation: int
    since: int
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    sections: Mapping[str, SectionCounts] = field(default_factory=dict, hash=False)
    """The counts of each section. A URL that several sections list counts in the first; a moved one, where it is now."""

    @property
    def urls(self) -> tuple[str, ...]:
        """All URLs that differ."""
        return (*self.added, *self.changed, *self.removed)


class TooManyChangesError(RefusedError):
    """More URLs differ, from generation ``since`` to ``generation``, than the caller allows."""

    def __init__(self, message: str, *, generation: int, since: int) -> None:
        super().__init__(message)
        self.generation = generation
        self.since = since


def changes(
    sitemap: Sitemap,
    generation: int | None = None,
    *,
    since: int | None = None,
    backfill: bool = False,
    most: int = MOST,
) -> Changes:
    """Compare a generation with an earlier one.

    Args:
        generation: Number of the generation. Default: the current one.
        since: Number of the generation to compare with. Default: the previous generation.
        backfill: Whether generation 1 counts all its URLs as added. Default: False, so it has no changes.
        most: Maximum number of URLs that may differ. Default: 1,000,000.

    Raises:
        ConfigurationError: Nothing was published yet, or one of the generations is no longer kept.
        TooManyChangesError: More than ``most`` URLs differ.
        StoreContentError: A body is missing or damaged.
    """
    state = StateRepository(sitemap.store.open().state)
    current = state.published()
    number = current.generation if generation is None else generation
    base = number - 1 if since is None else since
    if not 0 <= base <= number:
        raise ConfigurationError(f"changes from generation {base} to {number}: since= must be an earlier generation")
    if base == number or (base == 0 and not backfill):
        return Changes(generation=number, since=base)
    new = kept_manifest(state, current, number)
    old = kept_manifest(state, current, base) if base else None
    return _Comparison(state, old, new, most).changes()


def ages(state: StateRepository, before: Manifest, after: Manifest, urls: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return when URLs that differ were listed first and changed last, and when they left, as far as the ledger knows.

    Only the parts that one generation has and the other has not are read. The later generation's word counts.
    """
    import pyarrow as pa  # noqa: PLC0415 - heavy; loaded where work is done
    import pyarrow.compute as pc  # noqa: PLC0415

    old, new, gone = before.parts(), after.parts(), gone_urls(state.objects, after.gone) or GoneUrls()
    differing = [part for mine, other in ((old, new), (new, old)) for body, part in mine.items() if body not in other]
    by_url: dict[str, dict[str, str]] = {}
    for rows in mapped(partial(read_part, state.objects, columns=["loc", *AGES]), differing, "sitemap-ages"):
        if rows is None:
            continue
        for row in rows.filter(pc.is_in(rows["loc"], value_set=pa.array(urls, pa.string()))).to_pylist():
            by_url[row["loc"]] = {name: row[name].isoformat() for name in AGES if row[name] is not None}
    for url in urls:
        if url in gone.urls:
            by_url.setdefault(url, {})["gone"] = gone.urls[url].isoformat()
    return by_url


def compare(state: StateRepository, old: Manifest, new: Manifest, *, most: int, at_once: int | None = None) -> Changes:
    """Compare two manifests whose bodies the state area holds. ``new`` may be the earlier one.

    ``at_once`` limits the URLs of the files between two common boundaries: after a change of key, the whole section.
    """
    return _Comparison(state, old, new, most, at_once).changes()


def kept_manifest(state: StateRepository, current: Manifest, number: int) -> Manifest:
    """Return the manifest of a generation. Raises ConfigurationError if it is no longer kept."""
    contents = current if number == current.generation else state.generation(number)
    if contents is None:
        kept = ", ".join(str(note.generation) for note in current.history)
        raise ConfigurationError(f"generation {number} is not kept; those kept are {kept} (Sitemap(history=…))")
    return contents


class _Comparison:
    """Collector of differences: the section and the earlier or present fingerprint of each entry that differs."""

    def __init__(
        self, state: StateRepository, old: Manifest | None, new: Manifest, most: int, at_once: int | None = None
    ) -> None:
        self._state = state
        self._sections = dict(old.sections) if old is not None else {}, new.sections
        self._generations = old.generation if old is not None else 0, new.generation
        self._most, self._at_once = most, at_once
        self._gone: dict[bytes, tuple[str, bytes]] = {}
        self._come: dict[bytes, tuple[str, bytes]] = {}
        self._changed: dict[bytes, str] = {}

    def changes(self) -> Changes:
        """Compare section by section, then remove the URLs that only moved between files."""
        before, after = self._sections
        names = dict.fromkeys((*before, *after))
        for name in names:
            for files in _differing_files(before.get(name), after.get(name)):
                self._compare(name, *files)
        moved = self._gone.keys() & self._come.keys()
        changed = dict(self._changed)
        for loc in moved:
            section, fingerprint = self._come[loc]
            if self._gone[loc][1] != fingerprint:
                changed.setdefault(loc, section)
        self._check(len(changed) + len(self._come) + len(self._gone) - 2 * len(moved))
        added, removed = (side.keys() - moved - self._changed.keys() for side in (self._come, self._gone))
        new, old = Counter(self._come[loc][0] for loc in added), Counter(self._gone[loc][0] for loc in removed)
        other = Counter(changed.values())
        return Changes(
            since=self._generations[0],
            generation=self._generations[1],
            added=_urls(added),
            changed=_urls(changed.keys()),
            removed=_urls(removed),
            sections={n: SectionCounts(added=new[n], changed=other[n], removed=old[n]) for n in names},
        )

    def _compare(self, section: str, old: Sequence[PublicFile], new: Sequence[PublicFile]) -> None:
        before, after = self._read(old), self._read(new)
        for loc, fingerprint in before.items():
            if loc not in after:
                self._gone.setdefault(loc, (section, fingerprint))
            elif after.pop(loc) != fingerprint:
                self._changed.setdefault(loc, section)
        for loc, fingerprint in after.items():
            self._come.setdefault(loc, (section, fingerprint))
        # URLs that moved between files are on both sides until the end: they are limited, but do not count.
        self._check(len(self._changed) + abs(len(self._come) - len(self._gone)))
        self._check(min(len(self._come), len(self._gone)) // MOVED)

    def _check(self, number: int) -> None:
        if number > self._most:
            since, generation = self._generations
            raise TooManyChangesError(
                f"more than {self._most:,} URLs were added, changed or removed from generation {since} to {generation}",
                generation=generation,
                since=since,
            )

    def _read(self, files: Sequence[PublicFile]) -> dict[bytes, bytes]:
        contents: dict[bytes, bytes] = {}
        for entries in mapped(self._entries, list(files), "sitemap-changes"):
            contents.update(entries)
            self._check(self._most + 1 if self._at_once and len(contents) > self._at_once else 0)
        return contents

    def _entries(self, file: PublicFile) -> dict[bytes, bytes]:
        """Map each loc, as the XML has it, to a fingerprint of its element; the first of duplicates counts."""
        content = self._state.content(file)
        if file.name.endswith(".txt.gz"):
            return {escape(line.decode()).encode(): _NOTHING for line in _LINE.findall(content)}
        return {m[1]: hashlib.blake2b(m[0], digest_size=12).digest() for m in _ENTRY.finditer(content)}


def _urls(locs: Set[bytes]) -> tuple[str, ...]:
    return tuple(sorted(html.unescape(loc.decode()) for loc in locs))


def _differing_files(
    old: SectionManifest | None, new: SectionManifest | None
) -> Iterator[tuple[list[PublicFile], list[PublicFile]]]:
    """Yield the files of both generations between shared boundaries, without those whose content is on both sides."""
    before, after = list(old.shards) if old else [], list(new.shards) if new else []
    shared = {shard.range.lower for shard in before} & {shard.range.lower for shard in after}
    pieces, others = (map(_files, _cut(shards, shared)) for shards in (before, after))
    for left, right in zip_longest(pieces, others, fillvalue=()):
        same = {file.xml_hash for file in left} & {file.xml_hash for file in right}
        files = [f for f in left if f.xml_hash not in same], [f for f in right if f.xml_hash not in same]
        if any(files):
            yield files


def _cut(shards: list[Shard], boundaries: set[Key | None]) -> list[list[Shard]]:
    """Group shards, in key order; each group begins at a boundary."""
    pieces: list[list[Shard]] = []
    for shard in shards:
        if not pieces or shard.range.lower in boundaries:
            pieces.append([])
        pieces[-1].append(shard)
    return pieces


def _files(shards: list[Shard]) -> list[PublicFile]:
    return [shard.file for shard in shards if shard.file is not None]
