"""From what is to be verified (a sitemap, a folder, a file, an address) to who reads it and what should be there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.pipeline.fetching import FolderFetcher, StoreFetcher
from airflow_sitemaps.pipeline.verification import Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_sitemaps.pipeline.fetching import Fetched, Fetcher
    from airflow_sitemaps.pipeline.verification import Verification
    from airflow_sitemaps.ports import Progress
    from airflow_sitemaps.shards.manifest import Manifest
    from airflow_sitemaps.sitemap import Sitemap

INDEX_NAMES: Final = (
    "sitemap.xml", "sitemap_index.xml", "sitemap-index.xml",
    "sitemap.xml.gz", "sitemap_index.xml.gz", "sitemap-index.xml.gz", "sitemap.txt",
)  # fmt: skip
"""What is looked for where only a folder or a prefix is named, in this order."""

_FORMS: Final = (
    "Give path/to/file.py:sitemap, a folder, a file, or an address that begins with https:// or s3://bucket/"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What to read, by whom, and the manifest that says what should be there (None: it is not ours).

    ``options`` are what is known of the rules to judge by; ``over_http`` says that ``fetch`` asks the website itself.
    """

    fetch: Fetcher
    addresses: tuple[str, ...]
    manifest: Manifest | None = None
    options: Options = field(default_factory=Options)
    over_http: bool = False

    def verify(
        self, options: Options | None = None, progress: Progress | None = None, *, web: Fetcher | None = None
    ) -> Verification:
        """Judge it by all rules.

        ``options`` is the inspection's own where None. The website is asked for pages and robots.txt by ``web``, an
        ``HttpClient`` where None; where the files do not come from there, only if pages are to be sampled.
        """
        from airflow_sitemaps.notify.http import HttpClient  # noqa: PLC0415
        from airflow_sitemaps.pipeline.verify import verify  # noqa: PLC0415

        options = options or self.options
        fetch, pages = self.fetch, (web or HttpClient()) if options.sample else None
        if not self.over_http:
            if pages is None:
                options = replace(options, robots=False)
            else:
                fetch = _WithRobots(fetch, pages)
        return verify(fetch, self.addresses, manifest=self.manifest, options=options, pages=pages, progress=progress)


def of_sitemap(sitemap: Sitemap) -> Inspection:
    """What a sitemap published, read from its store, wherever its sections are served.

    Raises:
        ConfigurationError: nothing was ever published.
        StoreError: the manifest cannot be read.
    """
    from airflow_sitemaps.pipeline.state import State  # noqa: PLC0415
    from airflow_sitemaps.shards.index import address  # noqa: PLC0415

    store = sitemap.store.open()
    root = State(store.state).root()
    if root is None:
        raise ConfigurationError(f"nothing was published at {sitemap.store.describe()} yet: build the sitemap first")
    manifest = root.manifest
    names = {
        address(section, file.name): file.name for section in manifest.sections.values() for file in section.files()
    }
    # Who serves a section elsewhere has said that its files belong to the sitemap.
    elsewhere = {section.base_url for section in manifest.sections.values()} - {manifest.base_url}
    limits = max((sitemap.limits_of(section) for section in sitemap.sections), key=lambda each: each.max_byte_size)
    return Inspection(
        fetch=StoreFetcher(store.public, store.base_url, names),
        addresses=tuple(store.base_url + index.name for index in manifest.indexes),
        manifest=manifest,
        options=Options(limits=limits, cross_submit=(*sitemap.cross_submit, *sorted(elsewhere))),
    )


def of_address(address: str, *, conn_id: str | None = "aws_default", web: Fetcher | None = None) -> Inspection:
    """What lies at an address, by whomever it was made: ``https://…``, ``s3://…``, a folder or a file.

    A folder, or a prefix of a bucket, is searched for an index (``INDEX_NAMES``). ``conn_id`` is the Airflow
    connection that reads ``s3://``; ``web`` asks https, an ``HttpClient`` where None.

    Raises:
        ConfigurationError: nothing lies there, no index is in the folder, or S3 refuses to tell.
        StoreError: S3 does not answer.
    """
    if address.lower().startswith(("https://", "http://")):
        from airflow_sitemaps.notify.http import HttpClient  # noqa: PLC0415

        return Inspection(fetch=web or HttpClient(), addresses=(address,), over_http=True)
    if address.startswith("s3://"):
        return _of_s3(address, conn_id)
    path = Path(address)
    if path.is_dir():
        name = _index_in(address, lambda name: (path / name).is_file())
        return Inspection(fetch=FolderFetcher(path), addresses=(name,))
    if path.is_file():
        return Inspection(fetch=FolderFetcher(path.parent), addresses=(path.name,))
    raise ConfigurationError(f"{address!r}: there is no such folder or file here ({Path.cwd()}). {_FORMS}")


def _of_s3(address: str, conn_id: str | None) -> Inspection:
    """An object, or the index under a prefix; what an index lists is looked for beside it."""
    from airflow_sitemaps.stores.s3 import S3Address  # noqa: PLC0415
    from airflow_sitemaps.stores.s3_client import connection_of  # noqa: PLC0415
    from airflow_sitemaps.stores.s3_objects import S3Objects, S3Settings  # noqa: PLC0415

    def area(url: str) -> S3Objects:
        return S3Objects(
            connection=connection_of(conn_id), address=S3Address.parse(url, where="verify"), settings=S3Settings()
        )

    # Asked with GET throughout: the answer to a HEAD does not tell a bucket that is not there from an object.
    folder, _, name = address.rpartition("/")
    if folder in ("s3:", "s3:/"):
        folder, name = address, ""
    objects = area(folder)
    if not name or objects.get(name) is None:
        objects = area(address)
        name = _index_in(address, lambda name: objects.get(name) is not None)
    where = objects.url(name)
    return Inspection(fetch=StoreFetcher(objects, names={where: name}), addresses=(where,))


def _index_in(where: str, is_there: Callable[[str], bool]) -> str:
    for name in INDEX_NAMES:
        if is_there(name):
            return name
    what = "there is no such object, and no index under it" if where.startswith("s3://") else "no index in this folder"
    raise ConfigurationError(f"{where!r}: {what} (looked for {', '.join(INDEX_NAMES)}). Name the file itself")


@dataclass(frozen=True, slots=True)
class _WithRobots:
    """Reads files from where they lie, and robots.txt, which does not lie there, from the web."""

    files: Fetcher
    web: Fetcher

    def get(self, url: str) -> Fetched:
        """The answer of whoever has the address. Raises FetchError, StoreError."""
        return (self.web if url.endswith("/robots.txt") else self.files).get(url)
