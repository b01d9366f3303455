"""Stores of files, by the scheme of their addresses: a local folder, S3, Google Cloud Storage, Azure Blob Storage; and memory.

Another distribution registers a store by an entry point in the group ``airflow_sitemaps.stores``. Its name is the scheme, such
as ``oss``. Its value is a function with the arguments of ``open_area``. Here too are the settings that every store has, and the
rules for keys, metadata, addresses and headers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from airflow_sitemaps import ports, setting_checks
from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.shards.layout import checked_base_url

GROUP: Final = "airflow_sitemaps.stores"
FOLDER: Final = "file"
"""Scheme of an address without one: a path."""

_OWN: Final = {
    FOLDER: "airflow_sitemaps.stores.local:open_area",
    "az": "airflow_sitemaps.stores.azure:open_area",
    "gs": "airflow_sitemaps.stores.gcs:open_area",
    "https": "airflow_sitemaps.stores.azure:open_area",  # an account's address
    "s3": "airflow_sitemaps.stores.s3:open_area",
}

_CONNECTIONS: Final = {"az": "wasb_default", "https": "wasb_default", "gs": "google_cloud_default", "s3": "aws_default"}
"""Airflow's default connection of each scheme."""


def default_connection(url: str) -> str | None:
    """Return Airflow's default connection for an address. None: its store needs none, or is not one of this package."""
    return _CONNECTIONS.get(scheme_of(url))


def scheme_of(url: str) -> str:
    """Return the scheme of an address in lower case; ``file`` for a path."""
    scheme, separator, _ = url.partition("://")
    return scheme.lower() if separator else FOLDER


def registered(scheme: str) -> EntryPoint | None:
    """Return the entry point of a scheme. Those of this package cannot be replaced."""
    if scheme in _OWN:
        return EntryPoint(name=scheme, value=_OWN[scheme], group=GROUP)
    return next((each for each in entry_points(group=GROUP) if each.name.lower() == scheme), None)


def open_area(url: str, conn_id: str | None) -> ports.ObjectStore:
    """Open an area of a store for reading. Nothing is created. ``conn_id`` None: the credentials of the machine."""
    if (entry := registered(scheme_of(url))) is None:
        schemes = sorted({*_OWN} - {"https"} | {*(each.name.lower() for each in entry_points(group=GROUP))})
        raise ConfigurationError(
            f"{url!r}: no store has the scheme {scheme_of(url)!r}. The schemes are {', '.join(schemes)}; install "
            f"the distribution that registers it in the entry points {GROUP!r}"
        )
    opened: ports.ObjectStore = setting_checks.loaded(entry)(url, conn_id)
    return opened


# ------------------------------------------------------------ settings, keys and headers

MAX_KEY_BYTES: Final = 1024
"""Longest key of S3, Google Cloud Storage and Azure in UTF-8 bytes, including its prefix."""
MAX_METADATA_BYTES: Final = 2048
"""Largest size of the user metadata of an S3 object, in bytes: names and values together."""

INDEX_NAME: Final = re.compile(r"(?:[A-Za-z0-9_~-]+\.)+xml(?:\.gz)?")
METADATA_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
METADATA_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(kw_only=True, eq=False, repr=False)
class StoreSettings:
    """The settings that every store has. Each store adds its address and its way to open it.

    Attributes:
        base_url: Address at which crawlers read the public area, ending in ``/``.
        index_name: File name of the index.
        cache_control: Cache-Control header of indexes and feeds.
        shard_cache_control: Header of files that an index lists. A lifetime needs a ``purge`` hook.
        purge: Called with the changed addresses after the shards are public and before the index is.
        single_writer: Promise that no other process publishes here. A store that cannot keep rivals apart is accepted then.

    Raises:
        ConfigurationError: An address or setting is invalid.
    """

    base_url: str
    index_name: str = "sitemap.xml"
    cache_control: str = ports.INDEX_CACHE_CONTROL
    shard_cache_control: str = ports.SHARD_CACHE_CONTROL
    purge: ports.Purge | None = None
    single_writer: bool = False

    def __post_init__(self) -> None:
        where = self._named()
        for name, value in vars(self).items():
            if isinstance(value, str | os.PathLike) and re.search("{[{%]", str(value)):
                raise ConfigurationError(
                    f"{where}: {name}={str(value)!r} holds '{{{{' or '{{%', and only the settings of a source are rendered. "
                    "Take the value from the environment (see docs/environments.md)"
                )
        self.base_url = checked_base_url(self.base_url, where=where)
        valid = "a plain file name that ends in '.xml' or '.xml.gz', like 'sitemap.xml'"
        setting_checks.text(where, "index_name", self.index_name, INDEX_NAME, valid)
        setting_checks.flag(where, "single_writer", self.single_writer)
        for name in ("cache_control", "shard_cache_control"):
            valid = "one line of printable ASCII, which can be sent as an HTTP header"
            setting_checks.text(where, name, getattr(self, name), METADATA_VALUE, valid)
        if self.purge is not None and (isinstance(self.purge, type) or not callable(self.purge)):
            raise ConfigurationError(f"{where}: purge={self.purge!r}; give a function that takes a list of addresses")
        if self.purge is None and not ports.is_revalidated(self.shard_cache_control):
            raise ConfigurationError(
                f"{where}: with shard_cache_control={self.shard_cache_control!r} a cache may answer with an old shard after "
                "the index has changed, and crawlers may never see its new URLs. Leave the default "
                f"{ports.SHARD_CACHE_CONTROL!r}, or give a purge= hook that removes changed shards from the cache before the "
                "index is uploaded"
            )

    def _named(self) -> str:
        """Return the store's name in messages."""
        return type(self).__name__

    def console_url(self) -> str:
        """Return an empty text: this store has no web console."""
        return ""

    def _opened(
        self,
        public: ports.ObjectStore,
        state: ports.ObjectStore,
        *,
        enforces_conditions: bool | None = None,
        copies: bool | None = False,
        records_etags: bool = False,
        dataset_url: str = "",
    ) -> ports.Store:
        encoding = "; gzip" if getattr(self, "content_encoding", False) else ""
        return ports.Store(
            public=public,
            state=state,
            base_url=self.base_url,
            index_name=self.index_name,
            cache_control=self.cache_control,
            shard_cache_control=self.shard_cache_control,
            purge=self.purge,
            enforces_conditions=enforces_conditions,
            copies=copies,
            records_etags=records_etags,
            dataset_url=dataset_url,
            # A folder keeps no headers.
            headers="" if records_etags else f"{self.cache_control}; {self.shard_cache_control}{encoding}",
        )


def refusal(mode: ports.PutMode, there: ports.ObjectInfo | None) -> str:
    """Return why the condition of a put does not hold; empty if it holds."""
    if isinstance(mode, ports.Create) and there is not None:
        return f"an object is already there (etag {there.etag})"
    if isinstance(mode, ports.Update) and (there is None or there.etag != mode.etag):
        state = "there is no object" if there is None else f"the object has etag {there.etag}"
        return f"{state}; expected was etag {mode.etag}"
    return ""


def read_source(source: ports.ObjectStore, info: ports.ObjectInfo) -> bytes:
    """Read an object that must not have changed, for a copy through this process.

    Raises:
        PutOutcomeError: The object does not exist any longer, or has another etag (definite).
    """
    there = source.get(info.key)
    refused = refusal(ports.Update(info.etag), None if there is None else there.info)
    if there is None or refused:
        raise ports.PutOutcomeError(f"copy of {source.url(info.key)}: {refused}", definite=True)
    return there.body


def checked_key(key: str, *, prefix: str = "") -> str:
    """Return a key, relative to a prefix, if it is valid.

    Raises:
        ConfigurationError: The key is empty, absolute, too long, or could leave the prefix.
    """
    if not key or key.endswith("/"):
        raise ConfigurationError(f"the key {key!r} names no object: give a relative name like 'products-00001.xml.gz'")
    _check_path(key)
    size = len((prefix + key).encode("utf-8", "surrogatepass"))
    if size > MAX_KEY_BYTES:
        raise ConfigurationError(
            f"the key {key[:80]!r}… takes {size:,} bytes with its prefix (limit {MAX_KEY_BYTES:,}, S3): shorten the path"
        )
    return key


def is_key(key: str) -> bool:
    """Return whether a text is a valid key."""
    try:
        checked_key(key)
    except ConfigurationError:
        return False
    return True


def checked_prefix(prefix: str) -> str:
    """Return a prefix of keys, which may be empty, if it cannot leave the area."""
    if prefix:
        _check_path(prefix.removesuffix("/") or "/")
    return prefix


def checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return user metadata as every store keeps it: lower-case names, printable ASCII values without outer spaces.

    Empty values are omitted, because some proxies drop headers without a value.

    Raises:
        ConfigurationError: HTTP headers cannot carry the metadata, or it is larger than 2,048 bytes.
    """
    lower = {name.lower(): value for name, value in metadata.items() if value}
    for name, value in lower.items():
        if not METADATA_NAME.fullmatch(name) or not METADATA_VALUE.fullmatch(value):
            raise ConfigurationError(
                f"metadata {name!r}: {value[:80]!r} cannot be kept in an HTTP header: names of a-z, 0-9 and '-' (Ceph "
                "turns '_' into '-'), values of printable ASCII without spaces around them"
            )
    size = sum(len(name) + len(value) for name, value in lower.items())
    if size > MAX_METADATA_BYTES:
        raise ConfigurationError(f"metadata of {size:,} bytes (limit {MAX_METADATA_BYTES:,}, S3): store less metadata")
    return lower


def _check_path(path: str) -> None:
    """Refuse a path that could leave its folder or has another meaning on another system."""
    if ".." in path:
        raise ConfigurationError(
            f"the file name {path!r} contains '..', so it could point outside its folder; rename the file"
        )
    if path.startswith("/") or "\\" in path or CONTROL.search(path):
        raise ConfigurationError(
            f"the file name {path!r} is absolute, or has a backslash or a control character; rename it"
        )
    if any(part in ("", ".") for part in path.split("/")):
        raise ConfigurationError(f"the file name {path!r} has an empty or '.' part between its slashes; rename it")
    try:
        path.encode()
    except UnicodeEncodeError as e:
        raise ConfigurationError(f"the key {path!r} is not valid Unicode (a lone surrogate); rename it") from e
