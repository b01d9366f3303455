"""Parts of stores in buckets: an address with a private prefix, one client for each connection, and what a failed call means."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError, CredentialsError, SitemapError, StoreError
from airflow_sitemaps.ports import Headers, PutMode, PutOutcomeError, Update
from airflow_sitemaps.stores import StoreSettings, checked_key, checked_metadata, checked_prefix
from airflow_sitemaps.waits import waiting

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketObjects:
    """One area of a store in a bucket: the part of an ``ObjectStore`` that is equal in all clouds."""

    address: BucketAddress
    content_encoding: bool = False

    def url(self, key: str) -> str:
        """Return the address of an object."""
        return self.address.url + key

    def sent(self, key: str, given: Headers) -> dict[str, Any]:
        """Return the checked metadata and the headers of an object: those of its content where it is served as such."""
        types = (kind for suffix, kind in PLAIN_TYPES.items() if self.content_encoding and key.endswith(suffix))
        plain = next(types, None)
        return {
            "metadata": checked_metadata(given["metadata"]),
            "content_type": plain or given["content_type"],
            "content_encoding": "gzip" if plain else None,
            "cache_control": given.get("cache_control"),
        }


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


# ------------------------------------------------------------ clients and their errors


T = TypeVar("T")

ARCHIVED: Final = (
    "A lifecycle rule archived the object: restore it, and exclude both prefixes of the store from the rule"
)

NO_CREDENTIALS: Final = frozenset(
    {
        "AirflowNotFoundException",
        "CredentialRetrievalError",
        "DefaultCredentialsError",
        "NoCredentialsError",
        "PartialCredentialsError",
    }
)
"""Errors that a metadata service or secrets backend without an answer can cause, so a retry may help."""


class Connections(Generic[T]):
    """One client for each process and Airflow connection. Thread-safe; made again after a fork."""

    def __init__(self, kind: str, distribution: str, connect: Callable[[str | None], T]) -> None:
        self._kind = kind
        self._distribution = distribution
        self._connect = connect
        self._lock = threading.Lock()
        self._clients: dict[tuple[int, str | None], T] = {}

    def of(self, conn_id: str | None) -> T:
        """Return the client of a connection, or raise ConfigurationError if it makes none."""
        with self._lock:
            name = (os.getpid(), conn_id)
            if name not in self._clients:
                self._clients[name] = self._connected(conn_id)
            return self._clients[name]

    def forget(self, client: T) -> None:
        """Read the connection of a client again when the next one is needed. Calls that use the client go on."""
        with self._lock:
            self._clients = {name: each for name, each in self._clients.items() if each is not client}

    def _connected(self, conn_id: str | None) -> T:
        try:
            return self._connect(conn_id)
        except ConfigurationError:
            raise
        except ImportError as e:
            raise ConfigurationError(
                f"{self._kind} needs packages that are not installed ({e}): pip install '{self._distribution}'"
            ) from e
        except Exception as e:
            # Airflow and the clients raise many unrelated types here, all for a connection that cannot be used.
            kind = CredentialsError if type(e).__name__ in NO_CREDENTIALS else ConfigurationError
            raise kind(
                f"no client of {self._kind} can be created from connection {conn_id!r} "
                f"({type(e).__name__}: {redacted(str(e))}). Check its credentials, and its host or endpoint"
            ) from e


class Missing(Exception):  # noqa: N818 - an answer, not an error
    """The object does not exist, or is another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFailure:
    """A call that failed.

    Attributes:
        call: Operation and address.
        text: What the store or its client said.
        code: The store's code of the error. Default: none.
        status: HTTP status. Default: 0, no answer.
        request_id: ID of the request, for the store's support. Default: none.
        advice: Next step, where a retry cannot help. Default: a retry may.
        again: Next step before a retry. Default: to check the network and the store.
        lacks_credentials: Whether the client found no credentials.
        exists: Whether the store said that the object exists already.
        is_unclear: Whether the store requested another attempt, with whatever status, so that a put may have taken effect.
    """

    call: str
    text: str
    code: str = ""
    status: int = 0
    request_id: str = ""
    advice: str = ""
    again: str = ""
    lacks_credentials: bool = False
    exists: bool = False
    is_unclear: bool = False

    def __str__(self) -> str:
        said = " ".join(redacted(self.text).split())[:300].rstrip(". ")
        if not self.status:
            return f"{self.call}: {said}"
        code = f"{self.code}: " if self.code and not said.startswith(self.code) else ""
        return f"{self.call}: {code}{said} (status {self.status}, request id {self.request_id or 'none'})"

    def error(self) -> SitemapError:
        """Return the error to raise: whether a retry helps, and the next step."""
        if self.lacks_credentials:
            return CredentialsError(f"{self}. Check the Airflow connection, or the identity of this machine")
        if self.advice:
            return ConfigurationError(f"{self}. {self.advice}")
        again = self.again or "Check the network and the store's health, then run again"
        return StoreError(f"{self}. {again}")

    def put_error(self, refusals: Mapping[int, str]) -> Exception:
        """Return the error of a failed put: a clear refusal (by status), a wrong setting, or an unclear outcome."""
        if self.advice or self.lacks_credentials:
            return self.error()
        if self.exists:
            return PutOutcomeError(f"{self}: an object exists already", definite=True)
        if self.status in refusals and not self.is_unclear:
            return PutOutcomeError(f"{self}: {refusals[self.status]}", definite=True)
        if self.is_unclear or self.status == 0 or self.status >= 500 or self.status in (408, 409, 429):
            return PutOutcomeError(f"{self}: it may or may not have been written", definite=False)
        return self.error()


@contextmanager
def calling(
    call: str,
    bound: str,
    errors: tuple[type[Exception], ...],
    failure_of: Callable[[str, Exception], CloudFailure],
    *,
    mode: PutMode | None,
    forget: Callable[[], None],
    is_copy: bool = False,
    missing: Collection[int] = (404,),
) -> Iterator[None]:
    """Name the wait for a call in the log, and translate its errors.

    ``mode`` is the condition of a put or copy; None: the call is neither. A status of ``missing`` raises ``Missing``,
    unless the failure has an advice, such as that the bucket does not exist. ``forget`` is called before any other error of
    a reading call, because the connection may be corrected meanwhile.
    """
    try:
        with waiting(call, bound):
            yield
    except errors as e:
        failure = failure_of(call, e)
        if mode is not None:
            refusals = dict.fromkeys((304, 412), f"the condition {mode} does not hold")
            if is_copy or isinstance(mode, Update):
                refusals[404] = "there is no object"
            raise failure.put_error(refusals) from safe_cause(e)
        if failure.status in missing and not failure.advice:
            raise Missing from None
        forget()
        raise failure.error() from safe_cause(e)
