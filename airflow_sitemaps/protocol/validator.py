"""Checks of one published file, and the data for checks across files. Pure."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, groupby
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.protocol import CHANGEFREQS, Limits, RowContext, lastmod
from airflow_sitemaps.protocol.extensions import RULE_OF, faults
from airflow_sitemaps.protocol.extensions.languages import MAX_NEWS, NEWS_WINDOW
from airflow_sitemaps.protocol.loc import Scope, is_clean, normalise, scope_fault, scope_of
from airflow_sitemaps.protocol.rules import Findings, rulebook_of

if TYPE_CHECKING:
    from airflow_sitemaps.protocol.reader import ReadEntry, ReadUrlset

_XSD_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))?", re.ASCII)
_W3C_DATE: Final = re.compile(r"\d{4}(?:-\d\d)?|\d{4}-\d\d-\d\dT\d\d:\d\d(?:Z|[+-]\d\d:\d\d)", re.ASCII)
_PUBLISHED_FORM: Final = re.compile(r"[\d-]+(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
"""The form of a date in an extension, of those forms that a column may have."""
_PRIORITY: Final = re.compile(r"\+?(?:0*1(?:\.0*)?|0*(?:\.[0-9]+)?|0+\.)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationContext:
    """The settings with which a file is checked.

    ``now`` decides what is in the future and how old an article is. ``address`` None: the scope is not checked.
    ``path_scope``: URLs must be below the file's folder; False if robots.txt names the sitemap.
    """

    limits: Limits
    now: datetime
    address: str | None = None
    cross_submit: tuple[str, ...] = ()
    path_scope: bool = True


def folder_of(address: str) -> str | None:
    """Return the folder of a file's address in normal form, ending in ``/``, or None if the address is not absolute."""
    reading = normalise(address, origin="https://unknown.invalid")
    if reading.loc is None or "loc-relative" in reading.faults:
        return None
    return reading.loc.partition("#")[0].partition("?")[0].rpartition("/")[0] + "/"


def validate(file: ReadUrlset, context: ValidationContext, findings: Findings) -> None:
    """Record all faults in the size and the entries of a file. Findings of the reader are not repeated."""
    _check_size(file, context.limits, findings)
    folder = None if context.address is None else folder_of(context.address)
    scope = scope_of(folder, context.cross_submit) if folder is not None else None
    master = RowContext(
        base_url=folder or "https://unknown.invalid/", rulebook=rulebook_of({"video-title": "keep"}),
        limits=context.limits, max_urls=context.limits.max_urls, now=context.now,
    )  # fmt: skip
    seen: set[str] = set()
    for entry in file.entries:
        if entry.loc:
            loc = check_loc(entry, findings)
            if file.kind != "sitemapindex":
                _check_scope(loc, entry, scope, context, findings)
            if entry.loc in seen:
                check = "index-duplicate" if file.kind == "sitemapindex" else "loc-duplicate"
                findings.note(check, f"line {entry.line}: {entry.loc} stands twice in this file")
            seen.add(entry.loc)
        _check_hints(entry, context.now, findings)
        if entry.extensions:
            _check_extensions(entry, master, findings)


def check_loc(entry: ReadEntry, findings: Findings) -> str | None:
    """Record the faults of a URL. Return its normal form, or None if it has none."""
    if is_clean(entry.loc):
        return entry.loc
    reading = normalise(entry.loc, origin="https://unknown.invalid")
    for fault in reading.faults:
        findings.note("loc" if fault == "loc-missing" else fault, f"line {entry.line}: {entry.loc!r}")
    return None if "loc-relative" in reading.faults else reading.loc


def validate_index(
    index: ReadUrlset, address: str | None, findings: Findings, cross_submit: tuple[str, ...] = ()
) -> frozenset[str]:
    """Record files that an index of this address (None: not known) must not list. Return those of other sites.

    They are of another site, or of a folder above or beside the index's own.
    """
    folder = None if address is None else folder_of(address)
    if folder is None:
        return frozenset()
    scope = scope_of(folder, cross_submit)
    foreign: set[str] = set()
    for entry in index.entries:
        reading = normalise(entry.loc, origin=scope.origin)
        fault = scope_fault(reading.loc, scope) if reading.loc is not None else None
        if fault == "scope-host":
            foreign.add(entry.loc)
            findings.note("index-host", f"line {entry.line}: {entry.loc}")
        elif fault is not None:
            findings.note("index-path", f"line {entry.line}: {entry.loc}")
    return frozenset(foreign)


def moment(entry: ReadEntry) -> datetime | None:
    """Return an entry's lastmod as a time in UTC, or None if it has no valid one."""
    value = lastmod.parse_or_none(entry.lastmod)
    return None if value is None else lastmod.begins(value)


def _check_size(file: ReadUrlset, limits: Limits, findings: Findings) -> None:
    is_index = file.kind == "sitemapindex"
    most = limits.max_sitemaps if is_index else limits.max_urls
    for check, unit, size, limit in (
        ("limit-sitemaps" if is_index else "limit-urls", "entries", len(file.entries), most),
        ("limit-bytes", "bytes", file.byte_size, limits.max_byte_size),
    ):
        if size > limit:
            findings.note(check, f"{size:,} {unit} (limit {limit:,}, {limits.name} profile)")
    is_read = all(problem.check == "bom" for problem in file.problems)
    if not file.entries and file.kind in ("urlset", "sitemapindex", "text") and is_read:
        findings.note("empty", "the file lists nothing")
    articles = sum(len(entry.extensions.get("news", ())) for entry in file.entries if entry.extensions)
    if articles > MAX_NEWS:
        findings.note("limit-news", f"{articles:,} articles (limit {MAX_NEWS:,})")


def _check_scope(
    loc: str | None, entry: ReadEntry, scope: Scope | None, context: ValidationContext, findings: Findings
) -> None:
    if scope is None or loc is None or loc.startswith(scope.folder):
        return
    fault = scope_fault(loc, scope)
    if fault == "scope-host" or (fault == "scope-path" and context.path_scope):
        findings.note(fault, f"line {entry.line}: {entry.loc} (sitemap in {scope.folder})")


def _check_hints(entry: ReadEntry, now: datetime, findings: Findings) -> None:
    if entry.lastmod is not None:
        _check_lastmod(entry, now, findings)
    if entry.changefreq is not None and entry.changefreq not in CHANGEFREQS:
        findings.note("changefreq", f"line {entry.line}: {entry.changefreq!r}")
    if entry.priority is not None and (not _PRIORITY.fullmatch(entry.priority) or entry.priority in ("", "+", ".")):
        findings.note("priority", f"line {entry.line}: {entry.priority!r}")


def _check_lastmod(entry: ReadEntry, now: datetime, findings: Findings) -> None:
    written = entry.lastmod or ""
    if not _XSD_DATE.fullmatch(written):
        check = "lastmod-xsd" if _W3C_DATE.fullmatch(written) else "lastmod-format"
        findings.note(check, f"line {entry.line}: {written[:60]!r}")
        return
    value = lastmod.parse_or_none(written)
    if value is None:
        findings.note("lastmod-format", f"line {entry.line}: {written[:60]!r} is no date of the calendar")
    elif lastmod.is_future(value, now, "Pacific/Kiritimati"):  # the first zone in which a date begins
        findings.note("lastmod-future", f"line {entry.line}: {written}")


def _check_extensions(entry: ReadEntry, master: RowContext, findings: Findings) -> None:
    for kind, records in entry.extensions.items():
        rule = RULE_OF[kind]
        if kind == "alternates":  # a link of another rel (amphtml) is no alternate, and none of our business
            records = [link for link in records if link.get("rel") in (None, "not given")]  # noqa: PLW2901
            if records and not any(link.get("href") == entry.loc or "media" in link for link in records):
                findings.note("alternate-self", f"line {entry.line}: {entry.loc} is not among its own alternates")
        broken_fields, broken_urls = faults(kind, records, context=master, page=entry.loc)
        for fault in broken_fields:
            findings.note(rule, f"line {entry.line}: {fault}")
        for broken in broken_urls:
            check = rule if broken == "loc-relative" else broken
            findings.note(check, f"line {entry.line}: {rule}: a URL breaks {broken}")
        dated = [*records, *(video.get("tvshow", {}) for video in records)] if kind in ("news", "videos") else ()
        for name, written in chain.from_iterable(each.items() for each in dated if isinstance(each, dict)):
            if name.endswith("_date") and lastmod.parse_or_none(written) and not _PUBLISHED_FORM.fullmatch(written):
                findings.note(rule, f"line {entry.line}: {name} {written!r} is not W3C Datetime")
    for article in entry.extensions.get("news", ()):
        _check_age(entry, article.get("publication_date"), master.now, findings)


def _check_age(entry: ReadEntry, published: str | None, now: datetime, findings: Findings) -> None:
    value = lastmod.parse_or_none(published)
    if value is None:
        return
    age = now - lastmod.begins(value)
    if age > NEWS_WINDOW and (isinstance(value, datetime) or age.days > NEWS_WINDOW.days):
        findings.note("news-old", f"line {entry.line}: published {published}")


# ---------------------------------------------------------------- across files

_BUCKETS: Final = 256


class Duplicates:
    """64-bit hashes of all URLs, with the numbers of their files, sorted in buckets when they are compared.

    Among ten million different URLs, two have the same hash with a probability of about 3 in a million.
    """

    def __init__(self) -> None:
        self._hashes = [array("Q") for _ in range(_BUCKETS)]
        self._files = [array("L") for _ in range(_BUCKETS)]

    def add(self, file: int, locs: Iterable[str]) -> None:
        """Add the different URLs of one file. ``file`` is its number."""
        for loc in set(locs):
            value = hash_of(loc)
            bucket = value >> 56
            self._hashes[bucket].append(value)
            self._files[bucket].append(file)

    def shared(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield each hash that several files share, with their numbers in order."""
        for hashes, files in zip(self._hashes, self._files, strict=True):
            order = sorted(range(len(hashes)), key=hashes.__getitem__)
            for value, places in groupby(order, key=hashes.__getitem__):
                numbers = [files[place] for place in places]
                if len(numbers) > 1:
                    yield value, tuple(sorted(numbers))

    def known(self, locs: Iterable[str]) -> set[str]:
        """Return those of the URLs that any file lists."""
        wanted = {hash_of(loc): loc for loc in locs}
        if not wanted:
            return set()
        return {wanted[value] for hashes in self._hashes for value in wanted.keys() & set(hashes)}


def hash_of(loc: str) -> int:
    """Return the 64-bit hash of a URL."""
    import xxhash  # noqa: PLC0415

    return xxhash.xxh3_64_intdigest(loc.encode("utf-8", "surrogatepass"))


MAX_OPEN: Final = 500_000
"""Maximum number of links that wait for the link back. If there are more, the check is incomplete."""


class Reciprocity:
    """Links between pages in the order of the files. A link is removed when the link back is read."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], None] = {}
        self.complete = True

    def add(self, page: str, others: Iterable[str]) -> None:
        """Add one page's alternates. A link to the page itself does not count."""
        for other in dict.fromkeys(others):
            if other == page:
                continue
            if (other, page) in self._open:
                del self._open[other, page]
            elif len(self._open) < MAX_OPEN:
                self._open[page, other] = None
            else:
                self.complete = False

    def one_way(self) -> list[tuple[str, str]]:
        """Return the links without a link back, as (page, linked page). None, if ``MAX_OPEN`` waited at the same time."""
        return list(self._open) if self.complete else []
