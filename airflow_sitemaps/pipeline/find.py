"""Find out whether a published sitemap lists a URL, in which file, and with which fields.

If the URL contains the key (an integer key in the URL template), the search reads one shard. Otherwise it reads the
files one after another up to a limit, and the result says whether it read all of them.
"""

from __future__ import annotations

import bisect
import html
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.changes import AGES
from airflow_sitemaps.pipeline.concurrency import mapped
from airflow_sitemaps.pipeline.earlier_parts import read_part
from airflow_sitemaps.pipeline.publish.gone_urls import gone_urls
from airflow_sitemaps.pipeline.request import SYSTEM_CLOCK, row_context_of, with_published_members
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.protocol.loc import normalise, origin_of
from airflow_sitemaps.protocol.markup import EXTENSION_MARKS, escape
from airflow_sitemaps.protocol.rules import Tally
from airflow_sitemaps.protocol.url_template import Field, Template
from airflow_sitemaps.shards.ranges import INTEGER, KeyRange, show

if TYPE_CHECKING:
    from airflow_sitemaps.ports import Clock, ObjectStore
    from airflow_sitemaps.shards.manifest import Manifest, SectionManifest, Shard
    from airflow_sitemaps.sitemap import Section, Sitemap

AT_ONCE: Final = 16
"""Number of files that are read between two checks of the limits."""

MAX_KEY: Final = 10**18
"""Greater numbers are not taken for keys: the greatest key of a 64-bit column is near."""

_ENTRY: Final = re.compile(rb"<url><loc>([^<]*)</loc>(.*?)</url>\n", re.DOTALL)
_FIELD: Final = re.compile(rb"<(lastmod|changefreq|priority)>([^<]*)</")
_EXTENSIONS: Final = {name: mark.encode() for name, mark in EXTENSION_MARKS.items()}

UNREAD: Final = "{:,} files were not read: the URL does not say its key, so every file may list it."
NO_KEY: Final = "The source was not queried: the URL does not contain its key."


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlMatch:
    """An entry that lists the URL. Its fields include how many images, videos, news and alternates it has."""

    section: str
    shard: str
    file_url: str
    range: KeyRange
    written_in: int
    fields: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON values, the keys of its shard as people read them."""
        lower, upper = (None if key is None else show(key) for key in (self.range.lower, self.range.upper))
        place = {"section": self.section, "shard": self.shard, "file_url": self.file_url}
        return {**place, "lower": lower, "upper": upper, "written_in": self.written_in, "fields": dict(self.fields)}


UNPROMOTED: Final = "the generation is committed, and not all its files are public yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlSearch:
    """Result of a search; the note says why the URL is not listed, or what was not read if it is not ``complete``."""

    url: str
    generation: int
    matches: tuple[UrlMatch, ...] = ()
    shards_read: int = 0
    shards_total: int = 0
    complete: bool = True
    note: str = ""

    @property
    def listed(self) -> bool:
        """Whether an entry lists the URL."""
        return bool(self.matches)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        names = ("url", "generation", "listed", "matches", "shards_read", "shards_total", "complete", "note")
        values = {name: getattr(self, name) for name in names}
        return {**values, "matches": [match.to_dict() for match in self.matches]}


def find(sitemap: Sitemap, url: str, *, max_shards: int | None = None, max_seconds: float | None = None) -> UrlSearch:
    """Search the published generation of a sitemap for a URL.

    Raises:
        ConfigurationError: Nothing was published yet, or the URL is invalid.
    """
    sections = with_published_members(sitemap).sections
    templates = {section.name: getattr(section.source, "loc", "") for section in sections}
    state = StateRepository(sitemap.store.open().state)
    return find_in_manifest(
        state.objects, state.published(), url, templates=templates, max_shards=max_shards, max_seconds=max_seconds
    )


def find_in_manifest(
    objects: ObjectStore,
    manifest: Manifest,
    url: str,
    *,
    templates: Mapping[str, str],
    max_shards: int | None = None,
    max_seconds: float | None = None,
) -> UrlSearch:
    """Search like ``find``, in a manifest already read; ``templates`` are the URL templates or columns by section."""
    search = _Search(StateRepository(objects), manifest, normal_url(url, manifest.base_url), templates)
    result = search.run(max_shards, max_seconds)
    return replace(result, note=UNPROMOTED) if result.listed and not manifest.promoted else result


def normal_url(url: str, base_url: str) -> str:
    """Return a URL in normal form, or raise ``ConfigurationError``; a root-relative one gets the sitemap's origin."""
    reading = normalise(url.strip(), origin=origin_of(base_url))
    if reading.loc is None:
        raise ConfigurationError(f"{url!r} is not a URL that a sitemap can list (rule {reading.faults[-1]})")
    return reading.loc


class _Search:
    """One search through one manifest."""

    def __init__(self, state: StateRepository, manifest: Manifest, url: str, templates: Mapping[str, str]) -> None:
        self._state = state
        self._manifest = manifest
        self._url = url
        self._templates = templates
        self._needle = b"<loc>" + escape(url).encode() + b"</loc>"

    def run(self, max_shards: int | None, max_seconds: float | None) -> UrlSearch:
        """Read the shards of the URL's key, or else one shard after another within the limits."""
        total = sum(1 for section in self._manifest.sections.values() for _ in section.files())
        answer = UrlSearch(url=self._url, generation=self._manifest.generation, shards_total=total)
        derived = {name: self._shard_of_key(section) for name, section in self._manifest.sections.items()}
        of_key = [(name, shard) for name, shard in derived.items() if shard is not None]
        if matches := self._read(of_key):
            return replace(answer, matches=tuple(matches), shards_read=len(of_key))
        others = [
            (n, s) for n, section in self._manifest.sections.items() if derived[n] is None for s in section.shards
        ]
        candidates = [(name, shard) for name, shard in others if shard.file is not None]
        matches, read = self._read_in_turn(candidates, max_shards, max_seconds)
        complete = bool(matches) or read == len(candidates)
        note = "" if matches else self._reason(of_key) if complete else UNREAD.format(len(candidates) - read)
        note = note if matches else f"{self._gone_note()}{note}"
        read += len(of_key)
        return replace(answer, matches=tuple(matches), shards_read=read, complete=complete, note=note)

    def _shard_of_key(self, section: SectionManifest) -> Shard | None:
        """Return the shard whose range holds the URL's key, or None if the URL does not contain its key."""
        key = key_in_section(self._url, self._templates.get(section.name, ""), section)
        if key is None:
            return None
        lowers = [shard.range.lower[0] for shard in section.shards if shard.range.lower is not None]
        if not all(isinstance(lower, int) for lower in lowers):
            return None
        offset = 1 if section.shards[0].range.lower is None else 0
        position = bisect.bisect_right([int(lower) for lower in lowers], key) - 1 + offset
        return section.shards[position] if position >= 0 else None

    def _read_in_turn(
        self, candidates: Sequence[tuple[str, Shard]], max_shards: int | None, max_seconds: float | None
    ) -> tuple[list[UrlMatch], int]:
        """Read shards until one matches or a limit is reached; return the matches and the number of shards read."""
        end = None if max_seconds is None else time.monotonic() + max_seconds
        bound = len(candidates) if max_shards is None else min(max_shards, len(candidates))
        read = 0
        while read < bound and (end is None or time.monotonic() < end):
            part = candidates[read : min(read + AT_ONCE, bound)]
            matches = self._read(part)
            read += len(part)
            if matches:
                return matches, read
        return [], read

    def _read(self, shards: Sequence[tuple[str, Shard]]) -> list[UrlMatch]:
        matches = mapped(self._match, shards, "sitemap-find")
        return [match for match in matches if match is not None]

    def _match(self, place: tuple[str, Shard]) -> UrlMatch | None:
        name, shard = place
        file = shard.file
        if file is None:
            return None
        content = self._state.content(file)
        if file.name.endswith(".txt.gz"):
            fields: dict[str, str] | None = {} if self._url.encode() in content.split(b"\n") else None
        else:
            fields = self._fields(content) if self._needle in content else None
        section = self._manifest.sections[name]
        return None if fields is None else UrlMatch(
            section=name,
            shard=file.name,
            file_url=section.base_url + file.name.removeprefix(section.path),
            range=shard.range,
            written_in=shard.written_in,
            fields={**fields, **self._history(shard)},
        )  # fmt: skip

    def _history(self, shard: Shard) -> dict[str, str]:
        """Return when the URL was listed first and changed last, as far as the ledger knows."""
        rows = None if shard.part is None else read_part(self._state.objects, shard.part, ["loc", *AGES])
        if rows is None or self._url not in (locs := rows["loc"].to_pylist()):
            return {}
        moments = {name: rows[name][locs.index(self._url)].as_py() for name in AGES}
        return {name: moment.isoformat() for name, moment in moments.items() if moment is not None}

    def _fields(self, content: bytes) -> dict[str, str]:
        start = content.rindex(b"<url>", 0, content.index(self._needle) + 1)
        entry = _ENTRY.match(content, start)
        rest = entry[2] if entry is not None else b""
        fields = {name.decode(): html.unescape(value.decode()) for name, value in _FIELD.findall(rest)}
        counts = {name: rest.count(mark) for name, mark in _EXTENSIONS.items()}
        return {**fields, **{name: str(number) for name, number in counts.items() if number}}

    def _gone_note(self) -> str:
        gone = gone_urls(self._state.objects, self._manifest.gone)
        left_at = None if gone is None else gone.urls.get(self._url)
        return "" if left_at is None else f"Gone: its row left the source at {left_at:%Y-%m-%d %H:%M} UTC. "

    def _reason(self, of_key: Sequence[tuple[str, Shard]]) -> str:
        """Return what the manifest records about the rows of the shard that would list the URL."""
        dropped = {rule: number for _, shard in of_key for rule, number in {**shard.dropped, **shard.expired}.items()}
        if dropped:
            rules = ", ".join(f"{rule} ({number:,})" for rule, number in sorted(dropped.items()))
            return f"The shard of its key range left out rows by these rules: {rules}."
        if of_key:
            return "No row of its key range was left out: the source has no such row, or its URL differs."
        served = sorted({origin_of(section.base_url) for section in self._manifest.sections.values()})
        if served and origin_of(self._url) not in served:
            return (
                f"The sitemap is on {' and '.join(served)}: rows with URLs of {origin_of(self._url)} are left out by the rule "
                "scope-host, unless cross_submit= names it."
            )
        return ""


def key_in_section(url: str, template: str, section: SectionManifest) -> int | None:
    """Extract a section's integer key from a URL by a template or column; None if the URL does not contain it."""
    if len(section.key_kinds) != 1 or not section.key_kinds[0].endswith(INTEGER) or not section.shards:
        return None
    return key_of(url, template, section.key_kinds[0].removesuffix(INTEGER), section.base_url)


def key_of(url: str, template: str, column: str, base_url: str) -> int | None:
    """Extract the integer key from a URL by its template; return None if the URL has none, or could have several.

    The origin of ``base_url`` completes a root-relative template. A template may also be the name of a column.
    """
    try:
        parts = Template.parse(template).parts
    except ConfigurationError:
        return None
    place = next((n for n, part in enumerate(parts) if isinstance(part, Field) and part.column == column), None)
    if place is None:
        return None
    origin = origin_of(base_url) if template.startswith("/") else ""
    before, after = (origin, *parts[:place]), parts[place + 1 :]
    for text in (url, unquote(url)):
        keys = set(_keys(text, _pattern(before, column), _pattern(after, column)))
        if keys:
            key = keys.pop()
            return key if not keys and abs(key) < MAX_KEY else None
    return None


def _pattern(parts: Sequence[str | Field], column: str) -> re.Pattern[str]:
    fields = (r"-?\d+" if isinstance(part, Field) and part.column == column else ".*?" for part in parts)
    return re.compile("".join(re.escape(p) if isinstance(p, str) else f for p, f in zip(parts, fields, strict=True)))


def _keys(text: str, before: re.Pattern[str], after: re.Pattern[str]) -> Iterator[int]:
    """Yield the integers in a text that stand between two patterns, such as both 25 and 5 of "item25" after a field."""
    for digits in re.finditer(r"-?[0-9]+", text):
        starts = [n for n in range(digits.start(), digits.end()) if before.fullmatch(text, 0, n)]
        ends = [n for n in range(digits.start() + 1, digits.end() + 1) if after.fullmatch(text, n)]
        for written in {text[start:end] for start in starts for end in ends if start < end}:
            if written != "-" and written == str(int(written)):
                yield int(written)


def with_source(sitemap: Sitemap, search: UrlSearch, *, clock: Clock = SYSTEM_CLOCK) -> UrlSearch:
    """Add the source's row for the URL's key to a search. A URL that is listed is returned as it is."""
    if search.listed:
        return search
    published = StateRepository(sitemap.store.open().state).manifest()
    manifests = published.sections if published is not None else {}
    url = normal_url(search.url, sitemap.store.base_url)
    notes = []
    for section in with_published_members(sitemap).sections:
        manifest = manifests.get(section.name)
        key = key_in_section(url, str(getattr(section.source, "loc", "")), manifest) if manifest is not None else None
        if key is not None:
            notes.append(_note(sitemap, section, key, url, clock))
    return replace(search, note=" ".join([search.note, *(notes or [NO_KEY])]).strip())


def _note(sitemap: Sitemap, section: Section, key: int, url: str, clock: Clock) -> str:
    """Describe the source's current row for a key, and the result that a run gets from it."""
    from airflow_sitemaps.protocol.columnar.batch import clean  # noqa: PLC0415 - pyarrow is loaded where work is done

    tally, rows, urls = Tally(), 0, []
    context = row_context_of(sitemap, section, clock)
    with (
        section.source.open(section=section.name) as source,
        closing(source.read([KeyRange((key,), (key + 1,))])) as batches,  # type: ignore[type-var]
    ):
        for batch in batches:
            rows += batch.num_rows
            urls += clean(batch, context, tally).loc.to_pylist()
    where = f"Source of section {section.name}:"
    if not rows:
        return f"{where} no row has the key {key}."
    if url in urls:
        return f"{where} the row with the key {key} is valid; the next run that sees the change lists it."
    if urls:
        return f"{where} the row with the key {key} has the URL {urls[0]}."
    rules = ", ".join(sorted({**tally.dropped, **tally.expired}))
    samples = next((texts[0] for texts in tally.samples.values() if texts), "")
    shown = f": {samples}" if samples else ""
    return f"{where} the row with the key {key} is left out by the rule {rules}{shown}."
