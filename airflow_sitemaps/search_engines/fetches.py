"""Who fetched the files: the last fetch of each public file by each crawler, as an access log says.

The record has the last fetch by file and crawler, and each task extends it. The summary has its numbers by section.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import msgspec

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.state.repository import StateRepository, put_record, read_record
from airflow_sitemaps.ports import ObjectStore, Requests
from airflow_sitemaps.protocol.markup import STYLESHEET_NAME
from airflow_sitemaps.quantities import counted, duration
from airflow_sitemaps.shards import Decoder

if TYPE_CHECKING:
    from airflow_sitemaps.search_engines.crawlers import Crawler
    from airflow_sitemaps.shards.manifest import Manifest

log = logging.getLogger(__name__)

FORMAT: Final = 1
RECORD: Final = "fetches/by_file.json"
SUMMARY: Final = "fetches/summary.json"
MAX_GROUPS: Final = 1_000_000
"""Number of groups of requests that a task keeps in memory: about 200 MB."""
SAMPLES: Final = 3
FUTURE: Final = timedelta(days=1)
"""How far a logged time may be in the future, as one in the wrong zone is."""
_ORIGIN: Final = re.compile(r"(?i)\A(https?://[^/:]+)(?::443|:80)?(?=/)")
SUCCESS: Final = frozenset({"", "200", "206", "304"})
"""Statuses of a fetch. 304: the crawler has the present content of the file. Empty: the log has no status."""
NEXT_STEP: Final = "Check that robots.txt allows these files, and that the server answers the crawler with 200. Then submit the sitemap."

_Seconds = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799)]


class FetchRecord(msgspec.Struct, kw_only=True):
    """The last fetch by file and crawler, in seconds since 1970. ``since`` is the day from which on no fetch is missing.

    ``begun`` is that day for each crawler of the task, and ``waiting`` has its files with a change that it has not fetched: the
    time of the oldest such change.
    """

    format: Literal[1] = FORMAT
    since: date = date.max
    until: str = ""
    files: dict[str, dict[str, _Seconds]] = {}
    begun: dict[str, date] = {}
    waiting: dict[str, dict[str, _Seconds]] = {}


class SectionFetches(msgspec.Struct, kw_only=True):
    """The files of a section: those with a fetch, those fetched since their last change, and those that are late.

    A late file changed more than the crawler's ``max_delay`` ago, perhaps again later, and was not fetched since. ``urls`` are those in files
    with a fetch, ``samples`` a few late files, and ``last`` is the time of the newest fetch.
    """

    files: int = 0
    fetched: int = 0
    current: int = 0
    late: int = 0
    urls: int = 0
    last: str | None = None
    samples: list[str] = []


class CrawlerFetches(msgspec.Struct, kw_only=True):
    """A crawler's requests for files in the days that the task read, and its fetches by section (empty: the index).

    ``refused`` got no success; ``false`` came from addresses that are not the crawler's; ``unchecked`` have no address.
    """

    max_delay_s: int = 0
    fetches: int = 0
    refused: int = 0
    false: int = 0
    unchecked: int = 0
    sections: dict[str, SectionFetches] = {}

    @property
    def late(self) -> int:
        """Number of late files."""
        return sum(section.late for section in self.sections.values())


class Fetches(msgspec.Struct, kw_only=True):
    """The summary of a task ``at`` a time, for a published generation. ``since`` is that of the record."""

    format: Literal[1] = FORMAT
    at: str = ""
    generation: int = 0
    since: str = ""
    crawlers: dict[str, CrawlerFetches] = {}


_RECORD: Final = Decoder(FetchRecord)
_SUMMARY: Final = Decoder(Fetches)


class _File(NamedTuple):
    """A public file: its section (empty for an index), name and URL, the number of its URLs, and its last change."""

    section: str
    name: str
    url: str
    urls: int
    changed: datetime


def observe(
    objects: ObjectStore,
    requests: Callable[[Sequence[str]], Iterable[Requests]],
    crawlers: Sequence[Crawler],
    own: Callable[[Crawler, Collection[str]], Collection[str]],
    first: date,
    now: datetime,
) -> Fetches:
    """Add the fetches of a log to the record, and return what it says of the published files.

    ``requests`` returns those from the day ``first`` on, for paths with the given endings; ``own`` the addresses that are a
    crawler's own. Raises ConfigurationError if nothing is published, or if the log has too many requests.
    """
    manifest = StateRepository(objects).published()
    files = list(_files(manifest))
    names = _names(files)
    record = _extended(record_of(objects), first, now, {each.name for each in files}, [each.name for each in crawlers])
    groups: defaultdict[str, list[Requests]] = defaultdict(list)
    early = 0
    endings = sorted({"." + each.name.rpartition("/")[2].partition(".")[2] for each in files})
    for number, group in enumerate(requests(endings)):
        if number == MAX_GROUPS:
            raise ConfigurationError(
                f"the log has over {MAX_GROUPS:,} groups of requests by crawler, file and address; read fewer days"
            )
        if group.at > now + FUTURE:
            early += group.number
        elif (path := _plain(group.path)) in names:
            groups[group.crawler].append(group._replace(path=path))
    if early:
        text = "%s not counted: the newest of a crawler, file and address is in the future. Correct requested_at in the query"
        log.warning(text, counted(early, "request"))
    summary = Fetches(at=now.isoformat(), generation=manifest.generation, since=record.since.isoformat())
    for crawler in crawlers:
        counts = _counted(groups[crawler.name], names, record, partial(own, crawler))
        counts.max_delay_s = int(crawler.max_delay.total_seconds())
        counts.sections = _sections(crawler, files, record, now)
        summary.crawlers[crawler.name] = counts
    put_record(objects, RECORD, record)
    put_record(objects, SUMMARY, summary)
    return summary


def _files(manifest: Manifest) -> Iterator[_File]:
    for name, section in manifest.sections.items():
        for shard in section.shards:
            if (file := shard.file) is not None:
                url = section.base_url + file.name.removeprefix(section.path)
                yield _File(name, file.name, url, shard.urls, file.modified_at)
    for file in (*manifest.extras, *manifest.indexes):
        if file.name != STYLESHEET_NAME:  # only browsers fetch it
            yield _File("", file.name, manifest.base_url + file.name, 0, file.modified_at)


def _names(files: Sequence[_File]) -> dict[str, str]:
    """Return the name of each file by its URL, and by the path of the URL where no other host has the same path."""
    paths = Counter(urlsplit(each.url).path for each in files)
    by_path = {path: each.name for each in files if paths[path := urlsplit(each.url).path] == 1}
    return by_path | {_plain(each.url): each.name for each in files}


def _plain(path: str) -> str:
    """Return a logged whole URL with its host in lower case and without a default port; a path as it is."""
    return _ORIGIN.sub(lambda match: match[1].lower(), path)


def _extended(
    record: FetchRecord, first: date, now: datetime, names: Collection[str], crawlers: Iterable[str]
) -> FetchRecord:
    """Return the record of these files and crawlers. If days are missing between it and ``first``, its ``since`` is that day."""
    since = min(record.since, first) if record.until >= first.isoformat() else first
    latest = (now + FUTURE).timestamp()
    kept = {name: times for name, times in record.files.items() if name in names}
    files = {name: {crawler: at for crawler, at in times.items() if at <= latest} for name, times in kept.items()}
    begun = {name: min(record.begun.get(name, first), first) for name in crawlers}
    return FetchRecord(since=since, until=now.isoformat(), files=files, begun=begun, waiting=record.waiting)


def _counted(
    groups: Sequence[Requests],
    names: dict[str, str],
    record: FetchRecord,
    own: Callable[[Collection[str]], Collection[str]],
) -> CrawlerFetches:
    addresses = Counter[str]()
    for group in groups:
        addresses.update({group.address: group.number} if group.address is not None else {})
    confirmed = own([address for address, _ in addresses.most_common()]) if addresses else ()
    counts = CrawlerFetches()
    for group in groups:
        if group.address is not None and group.address not in confirmed:
            counts.false += group.number
            continue
        counts.unchecked += group.number if group.address is None else 0
        if group.status not in SUCCESS:
            counts.refused += group.number
            continue
        counts.fetches += group.number
        times = record.files.setdefault(names[group.path], {})
        times[group.crawler] = max(times.get(group.crawler, 0), int(group.at.timestamp()))
    return counts


def _sections(
    crawler: Crawler, files: Iterable[_File], record: FetchRecord, now: datetime
) -> dict[str, SectionFetches]:
    sections: defaultdict[str, SectionFetches] = defaultdict(SectionFetches)
    day = max(record.since, record.begun[crawler.name])
    begins = int(datetime.combine(day, time(), timezone.utc).timestamp())
    before, waiting = record.waiting.get(crawler.name, {}), dict[str, int]()
    for file in files:
        section, last = sections[file.section], record.files.get(file.name, {}).get(crawler.name)
        changed = int(file.changed.timestamp())
        is_current = last is not None and last >= changed
        if not is_current:
            oldest = before.get(file.name, changed)
            waiting[file.name] = changed if oldest <= max(last or 0, begins - 1) else oldest
        section.files += 1
        section.current += is_current
        if last is not None:
            section.fetched += 1
            section.urls += file.urls
            section.last = max(section.last or "", datetime.fromtimestamp(last, timezone.utc).isoformat())
        if begins <= waiting.get(file.name, -1) < (now - crawler.max_delay).timestamp():
            section.late += 1
            section.samples = [*section.samples, file.url][:SAMPLES]
    record.waiting[crawler.name] = waiting
    return dict(sections)


def late(summary: Fetches) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield a sentence, the sections and some URLs for each crawler that has not fetched changed files in time."""
    for name, crawler in summary.crawlers.items():
        sections = [section for section, each in crawler.sections.items() if each.late]
        if sections:
            samples = [url for section in sections for url in crawler.sections[section].samples][:SAMPLES]
            delay = duration(crawler.max_delay_s)
            title = f"{name} has not fetched {counted(crawler.late, 'file')} that changed more than {delay} ago"
            yield title, sections, samples


def lines(summary: Fetches) -> Iterator[str]:
    """Yield the summary as text, a line for each crawler and each problem."""
    for name, crawler in summary.crawlers.items():
        files, current = (sum(getattr(each, key) for each in crawler.sections.values()) for key in ("files", "current"))
        yield (
            f"{name}: {current:,} of {counted(files, 'file')} fetched since their last change; {crawler.fetches:,} fetches, "
            f"{crawler.refused:,} without success, {crawler.false:,} by false crawlers, {crawler.unchecked:,} unchecked "
            f"({summary.at})"
        )
    yield from (f"NOT fetched: {title}: {', '.join(urls)}. {NEXT_STEP}" for title, _, urls in late(summary))


def record_of(objects: ObjectStore) -> FetchRecord:
    """Return the record; an empty one if there is none, or it is damaged."""
    return read_record(objects, RECORD, _RECORD, FetchRecord())


def summary_of(objects: ObjectStore) -> Fetches:
    """Return the newest summary; an empty one if there is none, or it is damaged."""
    return read_record(objects, SUMMARY, _SUMMARY, Fetches())
