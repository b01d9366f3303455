"""Settings and helpers of stores in buckets: an address, and a private prefix beside the public one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.stores.settings import StoreSettings, checked_key, checked_prefix

BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
PLAIN_TYPES: Final = {
    ".xml.gz": "application/xml; charset=utf-8",
    ".txt.gz": "text/plain; charset=utf-8",
    ".rss.gz": "application/rss+xml; charset=utf-8",
    ".atom.gz": "application/atom+xml; charset=utf-8",
}
"""Content types of compressed files that are served with ``Content-Encoding: gzip``."""


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """A bucket, the ``start`` before it (``s3://``), and the prefix of all keys in it: empty, or ending in ``/``."""

    start: str
    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str, *, start: str, where: str, name: re.Pattern[str] = BUCKET) -> BucketAddress:
        """Parse an address such as ``s3://bucket/some/prefix/``."""
        if not isinstance(url, str) or "?" in url or "#" in url or not url.startswith(start):
            raise ConfigurationError(f"{where}: {url!r} must look like '{start}bucket/prefix', with nothing after it")
        bucket, _, prefix = url.removeprefix(start).partition("/")
        if not name.fullmatch(bucket) or ".." in bucket:
            raise ConfigurationError(f"{where}: {bucket!r} in {url!r} is not a valid bucket name")
        if prefix and not prefix.endswith("/"):
            prefix += "/"
        try:
            return cls(start, bucket, checked_prefix(prefix))
        except ConfigurationError as e:
            raise ConfigurationError(f"{where}: in {url!r}, {e}") from e

    @property
    def url(self) -> str:
        """The address, ending in ``/``."""
        return f"{self.start}{self.bucket}/{self.prefix}"

    def key(self, key: str) -> str:
        """Return the name in the bucket of a key below the prefix."""
        return self.prefix + checked_key(key, prefix=self.prefix)

    def covers(self, other: BucketAddress) -> bool:
        """Return whether everything under ``other`` is also under this address. A start may omit Azure's account."""
        is_same = self.start.startswith(other.start) or other.start.startswith(self.start)
        return is_same and self.bucket == other.bucket and other.prefix.startswith(self.prefix)


@dataclass(kw_only=True, eq=False, repr=False)
class BucketStore(StoreSettings):
    """The settings of every store in a bucket.

    Attributes:
        url: Address of the public area.
        state_url: Address of the state area. None: the sibling ``<prefix>-state/``.
        content_encoding: Whether compressed files are served as XML with ``Content-Encoding: gzip`` instead of as
            ``application/gzip``.
        conn_id: The store's Airflow connection.
        public: ``url``, parsed.
        state: The address of the state area, parsed.

    Raises:
        ConfigurationError: An address or setting is invalid.
    """

    url: str = field(kw_only=False)
    state_url: str | None = None
    content_encoding: bool = False
    conn_id: str | None = field(init=False)
    public: BucketAddress = field(init=False)
    state: BucketAddress = field(init=False)

    def __post_init__(self) -> None:
        where = self._named()
        self.public = self.parsed(self.url, where=where)
        if self.state_url is not None:
            self.state = self.parsed(self.state_url, where=f"{where}, state_url")
        elif self.public.prefix:
            self.state = replace(self.public, prefix=self.public.prefix.removesuffix("/") + "-state/")
        else:
            raise ConfigurationError(
                f"{where}: the whole bucket is public, so the manifest needs another place: give state_url= "
                "another bucket, or publish under a prefix of this one"
            )
        if self.public.covers(self.state):
            raise ConfigurationError(
                f"{where}: state_url={self.state.url!r} is inside the public prefix, so manifests and plans would be served. "
                f"Leave it out (then it is the sibling '<prefix>-state/'), or name another prefix. In Azure, name the account "
                "in both addresses"
            )
        if self.state.covers(self.public):
            raise ConfigurationError(
                f"{where}: the public prefix is inside state_url={self.state.url!r}. Leave state_url out, or name another prefix"
            )
        super().__post_init__()
        setting_checks.flag(where, "content_encoding", self.content_encoding)
        self._check_text("conn_id")

    @staticmethod
    def parsed(url: str, *, where: str) -> BucketAddress:
        """Parse an address of this kind of store."""
        raise NotImplementedError

    def _named(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _check_text(self, name: str) -> None:
        text = getattr(self, name)
        if text is not None and (not isinstance(text, str) or not text):
            raise ConfigurationError(f"{self._named()}: {name}={text!r}; give a text, or leave it out")

    @property
    def uri(self) -> str:
        """Address of the public area without a slash at its end."""
        return self.public.url.rstrip("/")

    @property
    def state_uri(self) -> str:
        """Address of the state area."""
        return self.state.url

    def describe(self) -> str:
        """Return both addresses for logs."""
        return f"{self.public.url} for {self.base_url}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.public.url!r}, base_url={self.base_url!r}, conn_id={self.conn_id!r})"


def plain_type(key: str) -> str | None:
    """Return the content type of a compressed file's content, by the key's suffix. None: it is another file."""
    return next((kind for suffix, kind in PLAIN_TYPES.items() if key.endswith(suffix)), None)


def bare_etag(etag: str) -> str:
    """Remove an etag's quotes and the prefix of weak etags."""
    return etag.removeprefix("W/").strip('"')


def redacted(text: str) -> str:
    """Remove user names, passwords and the queries of URLs (presigned URLs contain signatures) from a text."""
    text = re.sub(r"//[^/@\s\"']+@", "//…@", text)
    return re.sub(r"(https?://[^\s?\"']*)\?[^\s\"']*", r"\1?…", text)


def safe_cause(error: Exception) -> Exception | None:
    """Return an error as the cause of another one, or None if its text contains a secret: tracebacks print causes."""
    return error if redacted(str(error)) == str(error) else None
