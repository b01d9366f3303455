"""Which URLs a generation added, changed or removed, found by comparing its private bodies with earlier ones.

Only files whose content differs are read. Key ranges are in the same order in both generations, so the files between
two boundaries that both have are compared with each other, and a few shards at a time are in memory; beside them only
what differs is kept. A URL that moved between files, or sections, is no change.
"""

from __future__ import annotations

import hashlib
import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError, RefusedError, StoreContentError
from airflow_sitemaps.pipeline.parallel import mapped
from airflow_sitemaps.pipeline.state import State
from airflow_sitemaps.protocol import gzip
from airflow_sitemaps.protocol.urlset import escape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_sitemaps.shards.key import Key
    from airflow_sitemaps.shards.manifest import Manifest, PublicFile, SectionState, Shard
    from airflow_sitemaps.sitemap import Sitemap

MOST: Final = 1_000_000
"""URLs that may differ, unless told otherwise: about 300 MB of memory."""

MOVED: Final = 4
"""URLs that may have moved between files, as a multiple of those that may differ."""

_ENTRY: Final = re.compile(rb"<url><loc>([^<]*)</loc>.*?</url>\n", re.DOTALL)
_LINE: Final = re.compile(rb"([^\n]+)\n")
_NOTHING: Final = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What generation ``generation`` lists otherwise than ``since`` (0: before the first); each in order of the URL."""

    generation: int
    since: int
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.added, *self.changed, *self.removed)


class TooManyChangesError(RefusedError):
    """More URLs differ, from generation ``since`` to ``generation``, than were asked for."""

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
    """Compare a generation (the current one) with an earlier one (the one before).

    The first generation is compared with nothing, and nothing is what it gives, unless ``backfill``. ``most``: URLs
    that may differ.

    Raises:
        ConfigurationError: nothing was published yet, or one of the generations is not kept any more.
        TooManyChangesError: more than ``most`` URLs differ.
        StoreContentError: a body is gone or damaged.
        StoreError: the store failed.
    """
    state = State(sitemap.store.open().state)
    root = state.root()
    if root is None:
        raise ConfigurationError(f"{sitemap.store.describe()}: nothing was published yet; build the sitemap first")
    current = root.manifest
    number = current.generation if generation is None else generation
    base = number - 1 if since is None else since
    if not 0 <= base <= number:
        raise ConfigurationError(f"changes from generation {base} to {number}: give an earlier one as since=")
    if base == number or (base == 0 and not backfill):
        return Changes(generation=number, since=base)
    new = _kept(state, current, number)
    old = _kept(state, current, base) if base else None
    return _Comparison(state, old, new, most).changes()


def _kept(state: State, current: Manifest, number: int) -> Manifest:
    found = current if number == current.generation else state.generation(number)
    if found is None:
        kept = ", ".join(str(note.generation) for note in current.history)
        raise ConfigurationError(f"generation {number} is not kept; those kept are {kept} (Sitemap(history=…))")
    return found


class _Comparison:
    """Gathers what differs: entry → the fingerprint it had, and has."""

    def __init__(self, state: State, old: Manifest | None, new: Manifest, most: int) -> None:
        self._state = state
        self._sections = dict(old.sections) if old is not None else {}, new.sections
        self._generations = old.generation if old is not None else 0, new.generation
        self._most = most
        self._gone: dict[bytes, bytes] = {}
        self._come: dict[bytes, bytes] = {}
        self._changed: set[bytes] = set()

    def changes(self) -> Changes:
        """Compare section by section, then settle what moved between files."""
        before, after = self._sections
        for name in dict.fromkeys((*before, *after)):
            for files in _unlike(before.get(name), after.get(name)):
                self._compare(*files)
        moved = self._gone.keys() & self._come.keys()
        changed = self._changed | {loc for loc in moved if self._gone[loc] != self._come[loc]}
        self._check(len(changed) + len(self._come) + len(self._gone) - 2 * len(moved))
        return Changes(
            since=self._generations[0],
            generation=self._generations[1],
            added=_urls(self._come.keys() - moved - self._changed),
            changed=_urls(changed),
            removed=_urls(self._gone.keys() - moved - self._changed),
        )

    def _compare(self, old: Sequence[PublicFile], new: Sequence[PublicFile]) -> None:
        before, after = self._read(old), self._read(new)
        for loc, fingerprint in before.items():
            if loc not in after:
                self._gone[loc] = fingerprint
            elif after.pop(loc) != fingerprint:
                self._changed.add(loc)
        self._come.update(after)
        # What moved between files stands on both sides until the end: it is not counted, only bounded.
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
        found: dict[bytes, bytes] = {}
        for entries in mapped(self._entries, list(files), "sitemap-changes"):
            found.update(entries)
        return found

    def _entries(self, file: PublicFile) -> dict[bytes, bytes]:
        """loc, as XML has it → a fingerprint of its element; the first of duplicates."""
        body = self._state.objects.get(file.body)
        if body is None:
            raise StoreContentError(
                f"{self._state.objects.url(file.body)}, the body of {file.name}, is gone: it cannot be compared. "
                "Compare with a later generation."
            )
        content = gzip.decompress(body.body, max_byte_size=file.xml_byte_size)
        if file.name.endswith(".txt.gz"):
            return {escape(line.decode()).encode(): _NOTHING for line in _LINE.findall(content)}
        return {m[1]: hashlib.blake2b(m[0], digest_size=12).digest() for m in _ENTRY.finditer(content)}


def _urls(locs: set[bytes]) -> tuple[str, ...]:
    return tuple(sorted(html.unescape(loc.decode()) for loc in locs))


def _unlike(old: SectionState | None, new: SectionState | None) -> Iterator[tuple[list[PublicFile], list[PublicFile]]]:
    """The files of both generations between boundaries they share, without those whose content is on both sides."""
    before, after = list(old.shards) if old else [], list(new.shards) if new else []
    shared = {shard.range.lower for shard in before} & {shard.range.lower for shard in after}
    pieces, others = _cut(before, shared), _cut(after, shared)
    for number in range(max(len(pieces), len(others))):
        left = _files(pieces[number] if number < len(pieces) else [])
        right = _files(others[number] if number < len(others) else [])
        same = {file.xml_sha256 for file in left} & {file.xml_sha256 for file in right}
        files = [f for f in left if f.xml_sha256 not in same], [f for f in right if f.xml_sha256 not in same]
        if any(files):
            yield files


def _cut(shards: list[Shard], boundaries: set[Key | None]) -> list[list[Shard]]:
    """Shards in key order, cut where one begins at a boundary."""
    pieces: list[list[Shard]] = []
    for shard in shards:
        if not pieces or shard.range.lower in boundaries:
            pieces.append([])
        pieces[-1].append(shard)
    return pieces


def _files(shards: list[Shard]) -> list[PublicFile]:
    return [shard.file for shard in shards if shard.file is not None]
