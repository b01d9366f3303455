"""Verification of a published sitemap: read it as a crawler does, and check it against all rules.

Files are read one at a time and not kept. The checks that span files need twelve bytes of memory per URL. The rules
of a single file are pure and are in ``protocol.validator``; this module applies them to the files.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from blake3 import blake3

from airflow_sitemaps.errors import ConfigurationError, StoreError
from airflow_sitemaps.http import Fetched, FetchError
from airflow_sitemaps.http.page_judge import Fetcher, PageJudge, RobotsCache
from airflow_sitemaps.ports import QUIET, Progress
from airflow_sitemaps.protocol import MAX_INDEXES
from airflow_sitemaps.protocol.markup import without_comment
from airflow_sitemaps.protocol.reader import GZIP_MAGIC, ReadEntry, ReadUrlset, read, unpack
from airflow_sitemaps.protocol.rules import CHECKS, Findings
from airflow_sitemaps.protocol.validator import (
    Duplicates,
    Reciprocity,
    ValidationContext,
    hash_of,
    moment,
    validate,
    validate_index,
)
from airflow_sitemaps.shards import layout
from airflow_sitemaps.verification.result import Failure, Verification, VerificationOptions

if TYPE_CHECKING:
    from airflow_sitemaps.shards.manifest import Manifest


def verify(
    fetcher: Fetcher,
    addresses: str | Sequence[str],
    *,
    manifest: Manifest | None = None,
    options: VerificationOptions = VerificationOptions(),  # noqa: B008 - frozen
    pages: Fetcher | None = None,
    now: datetime | None = None,
    progress: Progress = QUIET,
) -> Verification:
    """Check sitemaps or indexes, and every file that they list, against all rules.

    A published file never makes this function raise: an address that cannot be read is a failure in the result.
    ``manifest`` is None for a sitemap of another program; ``pages`` reads the sampled pages (None: ``fetcher``).
    """
    requested = (addresses,) if isinstance(addresses, str) else tuple(addresses)
    run = _VerificationRun(fetcher, options, now or datetime.now(timezone.utc), manifest_files(manifest))
    run.read_all(requested, progress)
    urls = sorted(run.sampled)
    pages = pages or fetcher
    judge = PageJudge(fetcher=pages, robots=RobotsCache(pages), product=options.crawler)
    for url in urls:
        for check, message in judge.judge(url).faults:
            run.findings_of(url).note(check, message)
    return run.verification(requested, len(urls))


@dataclass(slots=True)
class _VerificationRun:
    """One verification in progress. Mutable. ``expected`` holds the files of the manifest by address.

    ``files`` and ``indexes`` were read, ``urls`` is the number of their URLs, ``sampled`` are those chosen so far.
    """

    fetcher: Fetcher
    options: VerificationOptions
    now: datetime
    expected: dict[str, ManifestFile]
    files: list[str] = field(default_factory=list)
    urls: int = 0
    indexes: list[str] = field(default_factory=list)
    sampled: list[str] = field(default_factory=list)
    _findings: dict[str, Findings] = field(default_factory=dict)
    _duplicates: Duplicates = field(default_factory=Duplicates)
    _links: Reciprocity = field(default_factory=Reciprocity)
    _listed: set[str] = field(default_factory=set)
    _robots: RobotsCache | None = None
    _random: random.Random = field(default_factory=random.Random)

    def findings_of(self, where: str) -> Findings:
        """Return the findings of an address. Faults are added to them."""
        return self._findings.setdefault(where, Findings())

    def read_all(self, addresses: Sequence[str], progress: Progress) -> None:
        """Read every address and the files that the indexes list; then run the checks that span files."""
        self._random.seed(self.options.seed)
        for address in addresses:
            file = self._read_file(address, self._public_address(address), as_child=False)
            if file is not None and file.kind == "sitemapindex":
                self._read_children(address, file, progress)
        for address in [each for each, file in self.expected.items() if not file.listed and each not in addresses]:
            if (response := self._fetch(address, self.findings_of(address))) is not None:
                self._compare_content(address, response.body)
        self._check_across_files()

    def _public_address(self, address: str) -> str | None:
        return self.options.public or (address if _is_http(address) else None)

    def _read_children(self, address: str, index: ReadUrlset, progress: Progress) -> None:
        """Read the files of an index. It cannot direct requests at any host: files of other sites are not requested."""
        self.indexes.append(address)
        foreign = validate_index(
            index, self._public_address(address), self.findings_of(address), self.options.cross_submit
        )
        entries = {entry.loc: entry for entry in index.entries if entry.loc}
        progress.start("verify", len(entries), "files")
        for loc, entry in list(entries.items())[: self.options.limits.max_sitemaps]:
            self._listed.add(loc)
            if loc in foreign and loc not in self.expected:
                continue
            child = self._read_file(loc, loc if _is_http(loc) else None, as_child=True)
            if child is not None:
                self._check_index_lastmod(address, entry, child)
            progress.advance(1)
        progress.finish()

    def _read_file(self, address: str, public: str | None, *, as_child: bool) -> ReadUrlset | None:
        """Fetch, parse and check one file; None if it cannot be read."""
        findings = self.findings_of(address)
        response = self._fetch(address, findings)
        if response is None:
            return None
        body = _decoded(address, response, findings)
        file = read(body, limits=self.options.limits)
        for problem in file.problems:
            for number, sample in enumerate(problem.samples):
                findings.note(problem.check, sample, problem.count - len(problem.samples) + 1 if number == 0 else 1)
        if as_child and file.kind == "sitemapindex":
            findings.note("index-nested", "the file is an index; the files that it lists are not read")
            return None
        context = ValidationContext(
            limits=self.options.limits, now=self.now, address=public, cross_submit=self.options.cross_submit,
            path_scope=not self._is_named_by_robots(public, as_child=as_child),
        )  # fmt: skip
        validate(file, context, findings)
        is_feed = file.kind in ("rss", "atom")  # which may be empty, unless an index lists it
        if as_child and is_feed and not (file.entries or file.problems):
            findings.note("empty", "the index lists this feed, and the feed lists nothing")
        if file.kind != "sitemapindex":
            self._record(address, file)
            self._compare_with_manifest(address, file, findings)
        self._compare_content(address, body)
        return file

    def _fetch(self, address: str, findings: Findings) -> Fetched | None:
        try:
            response = self.fetcher.get(address)
        except (ConfigurationError, FetchError, StoreError) as error:
            if isinstance(error, ConfigurationError) and not self.indexes:
                raise  # the store denies all; after an index it is one file, which may be archived
            findings.note("unreachable", str(error))
            return None
        if response.status != 200:
            missing = "no such file: " if response.status in (404, 410) else ""
            findings.note("unreachable", f"{missing}the status is {response.status}, not 200")
            return None
        if len(response.chain) > 1:
            findings.note("redirect", " → ".join(response.chain))
        return response

    def _record(self, address: str, file: ReadUrlset) -> None:
        """Keep the data that the checks across files need. The URLs of this package's extra files are also in a shard."""
        self.files.append(address)
        expected = self.expected.get(address)
        if expected is not None and expected.urls is None:
            return
        if expected is None and address.rpartition("/")[2] == layout.GONE:  # its pages answer 404
            return
        self._duplicates.add(len(self.files) - 1, (entry.loc for entry in file.entries if entry.loc))
        for entry in file.entries:
            self.urls += 1
            if links := entry.extensions.get("alternates"):
                hrefs = (link["href"] for link in links if link.get("hreflang") and link.get("href"))
                self._links.add(entry.loc, hrefs)
            self._sample(entry)

    def _sample(self, entry: ReadEntry) -> None:
        """Choose each URL with the same probability, for any number of URLs (reservoir sampling)."""
        size = self.options.sample
        if not size or not _is_http(entry.loc):
            return
        if len(self.sampled) < size:
            self.sampled.append(entry.loc)
        elif (position := self._random.randrange(self.urls)) < size:
            self.sampled[position] = entry.loc

    def _is_named_by_robots(self, public: str | None, *, as_child: bool) -> bool:
        """Return whether robots.txt names this file or its index. Reports one that it disallows, or a requested one without a name."""
        if public is None or not self.options.robots or not _is_http(public) or self.options.public is not None:
            return False
        self._robots = self._robots or RobotsCache(self.fetcher)
        if not self._robots.robots_of(public).allows(public, self.options.crawler):
            self.findings_of(public).note("robots-file", f"{self._robots.address(public)} disallows it")
        if as_child:
            return any(self._robots.names(index) for index in self.indexes) or self._robots.names(public)
        is_named = self._robots.names(public)
        if not is_named:
            file = self._robots.address(public)
            message = f"{file} has no line 'Sitemap: {public}'"
            if (reason := self._robots.unread.get(file)) is not None:
                message = f"{file} cannot be read ({reason}). Crawlers may read nothing of its host until it can be"
            self.findings_of(public).note("robots-index", message)
        return is_named

    def _check_index_lastmod(self, index: str, entry: ReadEntry, child: ReadUrlset) -> None:
        timed = (each for each in child.entries if "T" in (each.lastmod or ""))  # a date says nothing of its zone
        stated, newest = moment(entry), max(filter(None, map(moment, timed)), default=None)
        if stated is not None and newest is not None and stated < newest <= self.now and "T" in (entry.lastmod or ""):
            self.findings_of(index).note(
                "index-lastmod", f"{entry.loc}: the index says {entry.lastmod}, the file has {newest.isoformat()}"
            )

    def _compare_with_manifest(self, address: str, file: ReadUrlset, findings: Findings) -> None:
        if not self.expected:
            return
        expected = self.expected.get(address)
        if expected is None:
            findings.note("manifest-extra", "the file is listed, and the manifest has no file of this name")
            return
        if expected.urls is not None and expected.urls != len(file.entries):
            findings.note("manifest-count", f"{len(file.entries):,} URLs; the manifest says {expected.urls:,}")

    def _compare_content(self, address: str, body: bytes) -> None:
        if (expected := self.expected.get(address)) is None:
            return
        content = without_comment(unpack(body, Findings(), self.options.limits))
        if blake3(content).hexdigest() != expected.xml_hash:
            message = "the content differs from the manifest: another program wrote the file, or its promotion is not finished"
            self.findings_of(address).note("manifest-content", message)

    def _check_across_files(self) -> None:
        for address, expected in self.expected.items():
            if expected.listed and address not in self._listed:
                self.findings_of(address).note("manifest-missing", "the manifest has the file, and no index lists it")
        shared = dict(self._duplicates.shared())
        for value, files in shared.items():
            names = ", ".join(self.files[number] for number in files[:3])
            message = f"{self._url_of(value, files[-1])} is listed in {names}"
            self.findings_of(self.files[files[-1]]).note("loc-duplicate", message)
        of_site: dict[str, list[str]] = {}
        for index in filter(_is_http, self.indexes):
            of_site.setdefault(urlsplit(index).netloc, []).append(index)
        for site, indexes in of_site.items():
            if len(indexes) > MAX_INDEXES:
                message = f"{site} has {len(indexes):,} index files (limit {MAX_INDEXES})"
                self.findings_of(indexes[0]).note("limit-indexes", message)
        one_way = self._links.one_way()
        listed = self._duplicates.known({other for _, other in one_way})
        for page, other in one_way:
            if other in listed and hash_of(page) not in shared:  # a page that is read twice opens its links again
                self.findings_of(page).note("alternate-return", f"{page} names {other}, which does not name it back")

    def _url_of(self, value: int, file: int) -> str:
        """Return a URL by its hash. Its file is read again, for the first few duplicates only."""
        findings = self.findings_of(self.files[file])
        if any(finding.check == "loc-duplicate" and finding.count >= 3 for finding in findings.listed()):
            return "a URL"
        try:
            entries = read(self.fetcher.get(self.files[file]).body, limits=self.options.limits).entries
        except (FetchError, StoreError):
            return "a URL"
        return next((entry.loc for entry in entries if hash_of(entry.loc) == value), "a URL")

    def verification(self, requested: tuple[str, ...], sampled: int) -> Verification:
        """Return the result, errors first, then in the order of reading."""
        failures = [
            Failure(rule=f.check, where=where, message=f.message, severity=CHECKS[f.check].severity, count=f.count)
            for where, findings in self._findings.items()
            for f in findings.listed()
        ]
        failures.sort(key=lambda failure: failure.severity)
        return Verification(
            addresses=requested, failures=tuple(failures), files=len(self.files) + len(self.indexes), urls=self.urls,
            index_urls=tuple(self.indexes), sampled=sampled,
        )  # fmt: skip


def _decoded(address: str, response: Fetched, findings: Findings) -> bytes:
    """Return the file without its transport encoding, and report an encoding that clients do not expect."""
    body, named_gz = response.body, address.partition("?")[0].endswith(".gz")
    encoding = response.headers.get("content-encoding", "").strip().lower()
    is_sent_as_gzip = encoding in ("gzip", "x-gzip")
    if is_sent_as_gzip and named_gz:
        findings.note("content-encoding", "a .gz file with Content-Encoding: gzip; some clients decompress it once")
    elif not is_sent_as_gzip and encoding not in ("", "identity", "aws-chunked"):
        findings.note("content-encoding", f"Content-Encoding {encoding!r} was not requested")
    if (named_gz or is_sent_as_gzip) and not body.startswith(GZIP_MAGIC):
        claim = "Content-Encoding is gzip" if is_sent_as_gzip else "the name ends in .gz"
        findings.note("gzip", f"{claim}, but the file is not compressed: it begins with {body[:8]!r}")
    return body


def _is_http(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """The manifest's description of one file. ``urls`` is None for recent entries, a feed or an index: they are not counted."""

    urls: int | None
    xml_hash: str
    listed: bool


def manifest_files(manifest: Manifest | None) -> dict[str, ManifestFile]:
    """Return every file of a generation by its public address; none without a manifest."""
    if manifest is None:
        return {}
    shards = {
        layout.address(section, shard.file.name): ManifestFile(
            urls=shard.urls, xml_hash=shard.file.xml_hash, listed=True
        )
        for section in manifest.sections.values()
        for shard in section.shards
        if shard.file is not None
    }
    extras = {
        manifest.base_url + file.name: ManifestFile(urls=None, xml_hash=file.xml_hash, listed=file.listed)
        for file in (*manifest.extras, *manifest.indexes)
        if file.listed or file.etag is not None  # an unfinished promotion has not replaced it yet
    }
    return shards | extras
