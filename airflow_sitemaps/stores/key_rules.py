"""Rules for keys, base URLs, index names, metadata and settings that are the same for every store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from airflow_sitemaps import setting_checks
from airflow_sitemaps.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_KEY_BYTES: Final = 1024
"""Longest key of S3 in UTF-8 bytes, including its prefix."""
MAX_METADATA_BYTES: Final = 2048
"""Largest size of the user metadata of an S3 object, in bytes: names and values together."""

INDEX_NAME: Final = re.compile(r"(?:[A-Za-z0-9_~-]+\.)+xml(?:\.gz)?")
METADATA_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]*")
METADATA_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def checked_key(key: str, *, prefix: str = "") -> str:
    """Return a key if it is valid below a prefix.

    Args:
        key: The key, relative to the prefix.

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


def checked_prefix(prefix: str) -> str:
    """Return a prefix of keys, which may be empty.

    Raises:
        ConfigurationError: The prefix could leave the area.
    """
    if prefix:
        _check_path(prefix.removesuffix("/") or "/")
    return prefix


def checked_base_url(base_url: str, *, where: str) -> str:
    """Return the address of the public folder, ending in ``/``.

    Raises:
        ConfigurationError: The address is not an absolute http or https URL, or has a query, a fragment or a password.
    """
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError as e:
        raise ConfigurationError(f"{where}: base_url={base_url!r} is not a URL ({e})") from e
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"{where}: base_url={base_url!r} must be absolute, like 'https://www.example.com/sitemaps/': "
            "it is the address at which crawlers read the public folder"
        )
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(
            f"{where}: base_url contains a user name or password, which every crawler would see; remove both"
        )
    if parts.query or parts.fragment or "?" in base_url or "#" in base_url:
        raise ConfigurationError(f"{where}: base_url={base_url!r} must have no query and no fragment")
    if CONTROL.search(base_url) or " " in base_url:
        raise ConfigurationError(
            f"{where}: base_url={base_url!r} holds a space or control character: percent-encode it"
        )
    return base_url if base_url.endswith("/") else base_url + "/"


def checked_index_name(index_name: str, *, where: str) -> str:
    """Return a valid file name of an index.

    Raises:
        ConfigurationError: The name is not a plain file name that ends in ``.xml`` or ``.xml.gz``.
    """
    if not INDEX_NAME.fullmatch(index_name):
        raise ConfigurationError(
            f"{where}: index_name={index_name!r} must be a plain file name ending in '.xml' or '.xml.gz', "
            "like 'sitemap.xml'"
        )
    return index_name


def checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return user metadata in the form that every store keeps: lower-case names, and printable ASCII values without outer spaces.

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


def check_settings(
    where: str,
    *,
    flags: Mapping[str, object],
    headers: Mapping[str, object],
    names: Mapping[str, object],
    purge: object,
) -> None:
    """Check the settings of a store.

    Args:
        flags: Settings that must be True or False.
        names: Settings that must be None or a non-empty string.
        purge: The purge hook: None or callable.

    Raises:
        ConfigurationError: A setting has another value.
    """
    for name, value in flags.items():
        setting_checks.flag(where, name, value)
    for name, value in headers.items():
        if not isinstance(value, str) or not METADATA_VALUE.fullmatch(value):
            raise ConfigurationError(
                f"{where}: {name}={value!r} cannot be sent as an HTTP header; give one line of printable ASCII"
            )
    for name, value in names.items():
        if value is not None and (not isinstance(value, str) or not value):
            raise ConfigurationError(f"{where}: {name}={value!r}; give a text, or leave it out")
    if purge is not None and not callable(purge):
        raise ConfigurationError(f"{where}: purge={purge!r}; give a function that takes a list of addresses")


def _check_path(path: str) -> None:
    """Refuse a path that could leave its folder or has another meaning on another system."""
    if ".." in path:
        raise ConfigurationError(
            f"the key {path!r} contains '..', so it could point outside its folder; rename the file"
        )
    if path.startswith("/") or "\\" in path or CONTROL.search(path):
        raise ConfigurationError(f"the key {path!r} is absolute or holds a backslash or control character; rename it")
    if any(part in ("", ".") for part in path.split("/")):
        raise ConfigurationError(f"the key {path!r} has an empty or '.' part between its slashes; rename it")
    try:
        path.encode()
    except UnicodeEncodeError as e:
        raise ConfigurationError(f"the key {path!r} is not valid Unicode (a lone surrogate); rename it") from e
