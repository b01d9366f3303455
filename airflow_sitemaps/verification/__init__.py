"""Verification: read a published sitemap as a crawler does, and check it against the rules.

A subject is a sitemap, folder, file or address, with its reader and its manifest. The age of what is served is determined
here too.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urljoin, urlsplit

from blake3 import blake3

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.http import Fetched, FetchError, HttpClient
from airflow_sitemaps.http.page_judge import NOT_FOUND, Fetcher, robots_text
from airflow_sitemaps.pipeline.state.repository import StateRepository
from airflow_sitemaps.pipeline.status import last_check
from airflow_sitemaps.ports import QUIET, ObjectStore, Progress, StoreConfig
from airflow_sitemaps.protocol import robots
from airflow_sitemaps.protocol.markup import without_comment
from airflow_sitemaps.protocol.reader import read, unpack
from airflow_sitemaps.protocol.rules import Findings
from airflow_sitemaps.protocol.validator import moment
from airflow_sitemaps.shards import layout
from airflow_sitemaps.stores import is_key, open_area
from airflow_sitemaps.verification.result import Verification, VerificationOptions
from airflow_sitemaps.verification.verifier import manifest_files, verify

if TYPE_CHECKING:
    from random import Random

    from airflow_sitemaps.shards.manifest import Manifest, PublicFile
    from airflow_sitemaps.sitemap import Sitemap

INDEX_NAMES: Final = (
    "sitemap.xml", "sitemap_index.xml", "sitemap-index.xml",
    "sitemap.xml.gz", "sitemap_index.xml.gz", "sitemap-index.xml.gz", "sitemap.txt",
)  # fmt: skip
"""Names of an index that are tried, in this order, in a folder or under a prefix."""

SHARDS_READ: Final = 3
URLS_READ: Final = 20
"""Numbers of shards, and of URLs of each, that the freshness task checks as served."""

_FORMS: Final = (
    "Give path/to/file.py:sitemap, a folder, a file, or an address that begins with https://, s3://, gs:// or az://"
)


@dataclass(frozen=True, slots=True)
class FolderFetcher:
    """Reads public addresses from a folder. It never reads outside the folder, not even through symbolic links.

    It tries every suffix of a path: ``/a/b/c.xml`` as ``a/b/c.xml``, ``b/c.xml`` and ``c.xml``.
    """

    folder: Path
    max_byte_size: int = 256 << 20

    def get(self, url: str) -> Fetched:
        """Return the file, or status 404; raise FetchError if it is unreadable, or larger than ``max_byte_size``."""
        root = self.folder.resolve()
        for key in _candidate_keys(url):
            try:
                path = (root / key).resolve()
                if not path.is_relative_to(root) or not path.is_file():
                    continue
                byte_size = path.stat().st_size
                if byte_size > self.max_byte_size:
                    raise FetchError(f"{path}: {byte_size:,} bytes (limit {self.max_byte_size:,})")
                return Fetched(status=200, body=path.read_bytes(), chain=(url,))
            except RuntimeError:  # a loop of symbolic links, before Python 3.13
                continue
            except OSError as error:
                if error.errno == errno.ENAMETOOLONG:
                    continue
                raise FetchError(f"{key[:200]!r} in {root}: {error.strerror or error}") from error
        return NOT_FOUND


@dataclass(frozen=True, slots=True)
class StoreFetcher:
    """Reads public addresses from an object store. ``base_url`` None tries every suffix of an address's path.

    ``names`` has the keys of files that are served at another address, by that address.
    """

    objects: ObjectStore
    base_url: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    def get(self, url: str) -> Fetched:
        """Return the object, or status 404. Raises StoreError."""
        keys = (self.names[url],) if url in self.names else filter(is_key, _candidate_keys(url, self.base_url))
        for key in keys:
            stored = self.objects.get(key)
            if stored is not None:
                headers = {name: value for name, value in stored.info.metadata.items() if name.startswith("content-")}
                return Fetched(status=200, body=stored.body, headers=headers, chain=(url,))
        return NOT_FOUND


def _candidate_keys(url: str, base_url: str | None = None) -> list[str]:
    """Return the keys under which an address may be stored. None of them leads out of the area."""
    if base_url is not None and "://" in url:
        if not url.startswith(base_url):
            return []
        candidates = [unquote(url[len(base_url) :].partition("?")[0])]
    elif "://" in url:
        try:
            parts = unquote(urlsplit(url).path, errors="surrogateescape").lstrip("/").split("/")
        except ValueError:
            return []
        candidates = ["/".join(parts[start:]) for start in range(len(parts))]
    else:
        candidates = [url]
    return [key for key in candidates if key and ".." not in key and "\x00" not in key and not key.startswith("/")]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSubject:
    """A published sitemap, its reader, and its manifest; None for a sitemap of another program.

    ``options`` follow from the sitemap. ``over_http``: whether ``fetcher`` requests the files from the website. ``again``
    returns the subject of what is published now.
    """

    fetcher: Fetcher
    addresses: tuple[str, ...]
    manifest: Manifest | None = None
    options: VerificationOptions = field(default_factory=VerificationOptions)
    over_http: bool = False
    again: Callable[[], VerificationSubject] | None = None

    def verify(
        self,
        options: VerificationOptions | None = None,
        progress: Progress = QUIET,
        *,
        web: Fetcher | None = None,
    ) -> Verification:
        """Check the sitemap against all rules, by default with the subject's own options.

        ``web`` requests pages and robots.txt; None: an ``HttpClient``. A sitemap that is not read over HTTP needs it
        only when pages are sampled. If a check fails and a run has published meanwhile, everything is read once more.
        """
        options = wanted = options or self.options
        fetcher, pages = self.fetcher, (web or HttpClient()) if options.sample else None
        if not self.over_http:
            if pages is None:
                options = replace(options, robots=False)
            else:
                fetcher = _RobotsFromWeb(fetcher, pages)
        done = verify(fetcher, self.addresses, manifest=self.manifest, options=options, pages=pages, progress=progress)
        if self.again is None or not done.failures or (now := self.again()).manifest == self.manifest:
            return done
        return replace(now, again=None).verify(wanted, progress, web=web)


def of_sitemap(sitemap: Sitemap) -> VerificationSubject:
    """Return the subject for a sitemap of this package, or raise ConfigurationError if it is not published yet."""
    store = sitemap.store.open()
    manifest = StateRepository(store.state).published()
    names = {
        layout.address(section, file.name): file.name
        for section in manifest.sections.values()
        for file in section.files()
    }
    names |= {manifest.base_url + file.name: file.name for file in manifest.extras}
    # A section with its own base_url is part of the sitemap, although its host differs.
    elsewhere = {section.base_url for section in manifest.sections.values()} - {manifest.base_url}
    limits = max((sitemap.limits_of(section) for section in sitemap.sections), key=lambda each: each.max_byte_size)
    return VerificationSubject(
        fetcher=StoreFetcher(store.public, store.base_url, names),
        addresses=tuple(store.base_url + index.name for index in manifest.indexes),
        manifest=manifest,
        options=VerificationOptions(limits=limits, cross_submit=(*sitemap.cross_submit, *sorted(elsewhere))),
        again=partial(of_sitemap, sitemap),
    )


def of_address(address: str, *, conn_id: str | None = "aws_default", web: Fetcher | None = None) -> VerificationSubject:
    """Return the subject for an address. Any program may have written the sitemap.

    ``address`` is an ``https://`` address, an object in a store (``s3://``), a folder or a file. A folder, or a prefix
    of a bucket, is searched for an index (``INDEX_NAMES``). ``conn_id`` is the Airflow connection that reads the store.

    Raises:
        ConfigurationError: There is no such file or folder, it holds no index, or the store denies access.
        StoreError: The store does not respond.
    """
    if address.lower().startswith(("https://", "http://")):
        return VerificationSubject(fetcher=web or HttpClient(), addresses=(address,), over_http=True)
    if "://" in address and not address.startswith("file://"):
        return _of_area(address, conn_id)
    path = Path(address.removeprefix("file://"))
    if path.is_dir():
        name = _index_in(address, lambda name: (path / name).is_file())
        return VerificationSubject(fetcher=FolderFetcher(path), addresses=(name,))
    if path.is_file():
        return VerificationSubject(fetcher=FolderFetcher(path.parent), addresses=(path.name,))
    raise ConfigurationError(f"{address!r}: no such folder or file in {Path.cwd()}. {_FORMS}")


def _of_area(address: str, conn_id: str | None) -> VerificationSubject:
    """Return the subject for an object, or for the index under a prefix. Its files are read from the same folder."""
    # Use GET, because the response to HEAD does not distinguish a missing bucket from a missing object.
    folder, _, name = address.rpartition("/")
    if folder.endswith((":", ":/")) or (folder[:5] == "az://" and "." in folder and "/" not in folder[5:]):
        folder, name = address, ""
    objects = open_area(folder, conn_id)
    try:
        is_file = bool(name) and objects.get(name) is not None
    except ConfigurationError:
        if "." in name:
            raise
        is_file = False  # a prefix, and a policy may allow only what is below it
    if not is_file:
        objects = open_area(address, conn_id)
        name = _index_in(address, lambda name: objects.get(name) is not None)
    where = objects.url(name)
    return VerificationSubject(fetcher=StoreFetcher(objects, names={where: name}), addresses=(where,))


def _index_in(where: str, is_there: Callable[[str], bool]) -> str:
    for name in INDEX_NAMES:
        if is_there(name):
            return name
    what = "no such object, and no index under this prefix" if "://" in where else "no index in this folder"
    raise ConfigurationError(f"{where!r}: {what} (tried {', '.join(INDEX_NAMES)}). Give the address of the file")


@dataclass(frozen=True, slots=True)
class _RobotsFromWeb:
    """Reads robots.txt from the website, and all other files from their folder or store."""

    files: Fetcher
    web: Fetcher

    def get(self, url: str) -> Fetched:
        """Return the response. Raises FetchError or StoreError."""
        return (self.web if url.endswith("/robots.txt") else self.files).get(url)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedIndex:
    """An index as served, with a description of its state. ``age_s`` is None if it could not be read or is unknown."""

    url: str
    age_s: float | None
    current: bool
    message: str


def served_indexes(store: StoreConfig, fetcher: Fetcher, now: datetime) -> list[ServedIndex]:
    """Read every index of a sitemap over HTTP, and determine its age.

    The index of the published generation is as old as the last run that published or found nothing to change. An index
    of an earlier generation, which a cache still serves, is as old as the commit that replaced it. Any other index that
    lists a file of a kept generation is as old as its newest ``lastmod`` that is not in the future.
    """
    state = StateRepository(store.open().state)
    manifest = state.published()
    checked = last_check(state)
    last_success = datetime.fromisoformat(checked) if checked else manifest.committed_at
    return [_served_index(manifest, state, index.name, fetcher, last_success, now) for index in manifest.indexes]


def _served_index(
    manifest: Manifest, state: StateRepository, name: str, fetcher: Fetcher, last_success: datetime, now: datetime
) -> ServedIndex:

    def seen(since: datetime | None, message: str, *, current: bool = False) -> ServedIndex:
        age_s = None if since is None else max(0.0, (now - since).total_seconds())
        return ServedIndex(url=url, age_s=age_s, current=current, message=message)

    url = manifest.base_url + name
    try:
        response = fetcher.get(url)
    except FetchError as error:
        return seen(None, f"not readable: {error}")
    if response.status != 200:
        return seen(None, f"the status is {response.status}, not 200")
    checksum = blake3(without_comment(unpack(response.body, Findings()))).hexdigest()
    if any(index.xml_hash == checksum for index in manifest.indexes if index.name == name):
        message = f"generation {manifest.generation}; the last successful run ended at {last_success.isoformat()}"
        return seen(last_success, message, current=True)
    replaced_at, ours = manifest.committed_at, set(manifest_files(manifest))
    for note in sorted(manifest.history, key=lambda note: note.generation, reverse=True):
        earlier = state.generation(note.generation) if note.generation < manifest.generation else None
        if earlier is None:
            continue
        if any(index.xml_hash == checksum for index in earlier.indexes if index.name == name):
            outdated = f"generation {earlier.generation}, replaced at {replaced_at.isoformat()}"
            return seen(replaced_at, f"outdated: {outdated}; purge the cache")
        replaced_at = earlier.committed_at
        ours |= manifest_files(earlier).keys()
    entries = read(response.body).entries
    if ours.isdisjoint(entry.loc for entry in entries):
        return seen(None, "not an index of this sitemap: it lists no file of the kept generations")
    latest = now + timedelta(minutes=5)  # a run may publish while this task reads
    newest = max((at for at in map(moment, entries) if at and at <= latest), default=None)
    return seen(newest, "not an index of this sitemap's kept generations")


def served_faults(
    store: StoreConfig, fetcher: Fetcher, now: datetime, *, settled: timedelta, draw: Random
) -> list[str]:
    """Return what differs of three random shards as served, and which of their URLs robots.txt disallows, with the line.

    A shard that changed within ``settled`` may still be served as it was before. The robots.txt of the indexes' host must
    name every index if it names sitemaps. One of status 5xx disallows everything.
    """

    def shards(of: Manifest) -> dict[str, PublicFile]:
        return {layout.address(s, f.name): f for s in of.sections.values() for f in s.files() if f.etag is not None}

    state = StateRepository(store.open().state)
    manifest = state.manifest()
    if manifest is None:
        return []
    files = shards(manifest)
    faults: list[str] = []
    urls: list[str] = []
    for url in draw.sample(sorted(files), min(SHARDS_READ, len(files))):
        fault, body = _served_body(fetcher, url, files[url].xml_hash)
        if fault and not (body and now - files[url].modified_at < settled):
            if shards(state.manifest() or manifest).get(url) == files[url]:  # no run has published another meanwhile
                faults.append(f"{url}: {fault}")
        elif body:
            entries = read(body).entries
            urls += [entry.loc for entry in draw.sample(entries, min(URLS_READ, len(entries)))]
    return faults + _robots_faults(fetcher, urls, manifest.index_urls)


def _served_body(fetcher: Fetcher, url: str, xml_hash: str) -> tuple[str, bytes]:
    """Return what is wrong with a shard as served, or "", and its content, or nothing if it is no sitemap at all."""
    try:
        response = fetcher.get(url)
    except FetchError as error:
        return f"not readable: {error}", b""
    if response.status != 200:
        return f"the status is {response.status}, not 200", b""
    if "html" in response.headers.get("content-type", ""):
        return f"the content type is {response.headers['content-type']}", b""
    body = unpack(response.body, Findings())
    if blake3(body).hexdigest() == xml_hash:
        return "", body
    fault = f"{len(response.body):,} bytes that were not published; purge the cache"
    return fault, b"" if read(body).kind == "unknown" else body


def _robots_faults(fetcher: Fetcher, urls: Sequence[str], indexes: Sequence[str]) -> list[str]:
    faults, listed = list[str](), [*indexes, *urls]
    for where in dict.fromkeys(urljoin(url, "/robots.txt") for url in listed):
        try:
            response = fetcher.get(where)
        except FetchError:
            continue
        if response.status >= 500:  # a crawler must assume that it disallows everything (RFC 9309, 2.3.1.4)
            faults.append(f"{where}: the status is {response.status}, so crawlers read nothing of its host")
            continue
        text = robots_text(response)
        named = robots.read(text).sitemaps
        here = [url for url in listed if urljoin(url, "/robots.txt") == where]
        unnamed = (url for url in indexes if named and url in here and url not in named)
        faults += (f"{where}: it names {len(named)} sitemaps, and not {url}" for url in unnamed)
        lines = ((url, robots.disallowing_line(text, url, "Googlebot")) for url in here)
        faults += islice((f"{where} disallows {url}: {line}" for url, line in lines if line), 1)
    return faults
