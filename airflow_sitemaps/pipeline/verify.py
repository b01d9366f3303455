"""Verify: read a published sitemap as a crawler would, and judge it by all rules, whoever made it.

Files are read one at a time and forgotten; what spans files costs twelve bytes a URL. The rules are pure and stand in
``protocol.judgement`` and ``protocol.checks``; here they are brought to the files.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.pipeline.expected import expected_files
from airflow_sitemaps.pipeline.fetching import FetchError
from airflow_sitemaps.pipeline.pages import judge_pages
from airflow_sitemaps.pipeline.robots_files import RobotsFiles
from airflow_sitemaps.pipeline.verification import Failure, Options, Verification
from airflow_sitemaps.protocol.checks import CHECKS
from airflow_sitemaps.protocol.duplicates import Duplicates, hash_of
from airflow_sitemaps.protocol.findings import Findings
from airflow_sitemaps.protocol.judgement import Yardstick, judge, judge_index, moment
from airflow_sitemaps.protocol.limits import MAX_INDEXES
from airflow_sitemaps.protocol.reading import GZIP_MAGIC, read, unpack
from airflow_sitemaps.protocol.reciprocity import Reciprocity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_sitemaps.pipeline.expected import Expected
    from airflow_sitemaps.pipeline.fetching import Fetched, Fetcher
    from airflow_sitemaps.ports import Progress
    from airflow_sitemaps.protocol.reading import ReadEntry, ReadUrlset
    from airflow_sitemaps.shards.manifest import Manifest


def verify(
    fetch: Fetcher,
    addresses: str | Sequence[str],
    *,
    manifest: Manifest | None = None,
    options: Options = Options(),  # noqa: B008 - frozen
    pages: Fetcher | None = None,
    now: datetime | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Judge the sitemap or index at one address, or the indexes at several, and every file that they list.

    Args:
        fetch: reads the files.
        addresses: of an index, a urlset, a text sitemap or a feed.
        manifest: what should be there; None for a sitemap that is not ours.
        options: what to look at.
        pages: reads the sampled pages; ``fetch`` where None.
        now: the moment of judging, aware; the present where None.
        progress: told how many files are read.

    Never raises for what is published: an address that cannot be read is a failure too.
    """
    asked = (addresses,) if isinstance(addresses, str) else tuple(addresses)
    run = _Run(fetch, options, now or datetime.now(timezone.utc), expected_files(manifest))
    run.all_of(asked, progress)
    sampled = 0
    if options.sample:
        chosen = sorted(run.sampled)
        sampled = len(chosen)
        judge_pages(pages or fetch, chosen, run.robots_of(pages), options.crawler, run.findings_of)
    return run.verification(asked, sampled)


@dataclass(slots=True)
class _Run:
    """One verification under way. Mutable."""

    fetch: Fetcher
    options: Options
    now: datetime
    expected: dict[str, Expected]
    files: list[str] = field(default_factory=list)
    urls: int = 0
    indexes: list[str] = field(default_factory=list)
    sampled: list[str] = field(default_factory=list)
    _findings: dict[str, Findings] = field(default_factory=dict)
    _duplicates: Duplicates = field(default_factory=Duplicates)
    _links: Reciprocity = field(default_factory=Reciprocity)
    _listed: set[str] = field(default_factory=set)
    _robots: RobotsFiles | None = None
    _random: random.Random = field(default_factory=random.Random)

    def findings_of(self, where: str) -> Findings:
        """Where to note what is wrong at an address."""
        return self._findings.setdefault(where, Findings())

    def robots_of(self, pages: Fetcher | None) -> RobotsFiles:
        """The robots.txt files of the pages' hosts."""
        if pages is not None or self._robots is None:
            return RobotsFiles(pages or self.fetch)
        return self._robots

    def all_of(self, addresses: Sequence[str], progress: Progress | None) -> None:
        """Read every address, and what they list."""
        self._random.seed(self.options.seed)
        for address in addresses:
            file = self._file(address, self.options.public or (address if _is_http(address) else None), as_child=False)
            if file is not None and file.kind == "sitemapindex":
                self._children(address, file, progress)
        self._across_files()

    def _children(self, address: str, index: ReadUrlset, progress: Progress | None) -> None:
        """Read what an index lists; not files of other sites, or a stranger's index could turn us against them."""
        self.indexes.append(address)
        public = self.options.public or (address if _is_http(address) else None)
        foreign = judge_index(index, public, self.findings_of(address), self.options.cross_submit)
        listed = {entry.loc: entry for entry in index.entries if entry.loc}
        if progress is not None:
            progress.start("verify", len(listed), "files")
        for loc, entry in list(listed.items())[: self.options.limits.max_sitemaps]:
            self._listed.add(loc)
            if loc in foreign and loc not in self.expected:
                continue
            child = self._file(loc, loc if _is_http(loc) else None, as_child=True)
            if child is not None:
                self._index_date(address, entry, child)
            if progress is not None:
                progress.advance(1)
        if progress is not None:
            progress.finish()

    def _file(self, address: str, public: str | None, *, as_child: bool) -> ReadUrlset | None:
        """Fetch, read and judge one file; None where it could not be read."""
        findings = self.findings_of(address)
        fetched = self._fetched(address, findings)
        if fetched is None:
            return None
        body = _transported(address, fetched, findings)
        file = read(body, limits=self.options.limits)
        for problem in file.problems:
            for number, sample in enumerate(problem.samples):
                findings.note(problem.check, sample, problem.count - len(problem.samples) + 1 if number == 0 else 1)
        if as_child and file.kind == "sitemapindex":
            findings.note("index-nested", "the file is an index itself: what it lists is not read")
            return None
        yardstick = Yardstick(
            limits=self.options.limits, now=self.now, address=public, cross_submit=self.options.cross_submit,
            path_scope=not self._named_by_robots(public, as_child=as_child),
        )  # fmt: skip
        judge(file, yardstick, findings)
        if file.kind != "sitemapindex":
            self._take(address, file)
            self._against_manifest(address, body, file, findings)
        return file

    def _fetched(self, address: str, findings: Findings) -> Fetched | None:
        try:
            fetched = self.fetch.get(address)
        except (FetchError, StoreError) as error:
            findings.note("unreachable", str(error))
            return None
        if fetched.status != 200:
            gone = "nothing is there: " if fetched.status in (404, 410) else ""
            findings.note("unreachable", f"{gone}the answer is {fetched.status}, not 200")
            return None
        if len(fetched.chain) > 1:
            findings.note("redirect", " → ".join(fetched.chain))
        return fetched

    def _take(self, address: str, file: ReadUrlset) -> None:
        """Remember of a file's entries what spans files. Those of our extra files stand in a shard as well."""
        self.files.append(address)
        known = self.expected.get(address)
        if known is not None and known.urls is None:
            return
        self._duplicates.add(len(self.files) - 1, (entry.loc for entry in file.entries if entry.loc))
        for entry in file.entries:
            self.urls += 1
            links = entry.extensions.get("alternates", ())
            if links:
                self._links.add(
                    entry.loc, (link["href"] for link in links if link.get("hreflang") and link.get("href"))
                )
            self._sample(entry)

    def _sample(self, entry: ReadEntry) -> None:
        """Keep each URL with the same chance, however many there are (reservoir sampling)."""
        wanted = self.options.sample
        if not wanted or not _is_http(entry.loc):
            return
        if len(self.sampled) < wanted:
            self.sampled.append(entry.loc)
        elif (place := self._random.randrange(self.urls)) < wanted:
            self.sampled[place] = entry.loc

    def _named_by_robots(self, public: str | None, *, as_child: bool) -> bool:
        """Whether robots.txt names this file, or the index that lists it; noted once for each address asked for."""
        if public is None or not self.options.robots or not _is_http(public) or self.options.public is not None:
            return False
        self._robots = self._robots or RobotsFiles(self.fetch)
        if as_child:
            return any(self._robots.names(index) for index in self.indexes) or self._robots.names(public)
        named = self._robots.names(public)
        if not named:
            self.findings_of(public).note(
                "robots-index", f"{self._robots.address(public)} has no line 'Sitemap: {public}'"
            )
        return named

    def _index_date(self, index: str, entry: ReadEntry, child: ReadUrlset) -> None:
        told, newest = moment(entry), max(filter(None, map(moment, child.entries)), default=None)
        if told is not None and newest is not None and told < newest <= self.now and "T" in (entry.lastmod or ""):
            self.findings_of(index).note(
                "index-lastmod", f"{entry.loc}: the index says {entry.lastmod}, the file has {newest.isoformat()}"
            )

    def _against_manifest(self, address: str, body: bytes, file: ReadUrlset, findings: Findings) -> None:
        if not self.expected:
            return
        expected = self.expected.get(address)
        if expected is None:
            findings.note("manifest-extra", "the file is listed, and no shard of the manifest has this name")
            return
        if expected.urls is not None and expected.urls != len(file.entries):
            findings.note("manifest-count", f"{len(file.entries):,} URLs, the manifest says {expected.urls:,}")
        content = unpack(body, Findings(), self.options.limits)
        if hashlib.sha256(content).hexdigest() != expected.xml_sha256:
            findings.note("manifest-content", "the content is not what was committed: somebody else wrote the file")

    def _across_files(self) -> None:
        for address, expected in self.expected.items():
            if expected.listed and address not in self._listed:
                self.findings_of(address).note("manifest-missing", "the manifest has the file, and no index lists it")
        self._note_duplicates()
        self._note_indexes()
        one_way = self._links.one_way()
        listed = self._duplicates.known({other for _, other in one_way})
        for page, other in one_way:
            if other in listed:
                self.findings_of(page).note("alternate-return", f"{page} names {other}, which does not name it back")

    def _note_duplicates(self) -> None:
        for value, files in self._duplicates.found():
            names = ", ".join(self.files[number] for number in files[:3])
            self.findings_of(self.files[files[-1]]).note(
                "loc-duplicate", f"{self._name(value, files[-1])} stands in {names}"
            )

    def _note_indexes(self) -> None:
        for site, count in Counter(index.split("/", 3)[2] for index in self.indexes if _is_http(index)).items():
            if count > MAX_INDEXES:
                first = next(index for index in self.indexes if _is_http(index) and index.split("/", 3)[2] == site)
                self.findings_of(first).note("limit-indexes", f"{site} has {count:,} index files (limit {MAX_INDEXES})")

    def _name(self, value: int, file: int) -> str:
        """A URL by its hash: its file is read once more, for the first few only."""
        findings = self.findings_of(self.files[file])
        if any(finding.check == "loc-duplicate" and finding.count >= 3 for finding in findings.listed()):
            return "a URL"
        try:
            entries = read(self.fetch.get(self.files[file]).body, limits=self.options.limits).entries
        except (FetchError, StoreError):
            return "a URL"
        return next((entry.loc for entry in entries if hash_of(entry.loc) == value), "a URL")

    def verification(self, asked: tuple[str, ...], sampled: int) -> Verification:
        """What was found, errors first, then by address."""
        failures = [
            Failure(rule=f.check, where=where, message=f.message, severity=CHECKS[f.check].severity, count=f.count)
            for where, findings in self._findings.items()
            for f in findings.listed()
        ]
        failures.sort(key=lambda failure: failure.severity)
        return Verification(
            addresses=asked, failures=tuple(failures), files=len(self.files) + len(self.indexes), urls=self.urls,
            index_urls=tuple(self.indexes), sampled=sampled,
        )  # fmt: skip


def _transported(address: str, fetched: Fetched, findings: Findings) -> bytes:
    """The file as it lies there: a transport encoding is taken off, and what is odd about it is noted."""
    body, named_gz = fetched.body, address.partition("?")[0].endswith(".gz")
    encoding = fetched.headers.get("content-encoding", "").strip().lower()
    if encoding in ("gzip", "x-gzip"):
        if named_gz:
            findings.note("content-encoding", "a .gz file with Content-Encoding: gzip")
        return body
    if encoding not in ("", "identity", "aws-chunked"):
        findings.note("content-encoding", f"Content-Encoding {encoding!r} was not asked for")
    if named_gz and not body.startswith(GZIP_MAGIC):
        findings.note("gzip", f"the name ends in .gz, and the file is not compressed: it begins with {body[:8]!r}")
    return body


def _is_http(address: str) -> bool:
    return address.lower().startswith(("http://", "https://"))
