"""An ``s3://`` URL: a bucket and a prefix in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.stores.key_rules import checked_prefix

BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class S3Address:
    """A bucket and a prefix in it.

    Attributes:
        bucket: Name of the bucket.
        prefix: Prefix of all keys: empty, or ending in ``/``.
    """

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str, *, where: str) -> S3Address:
        """Parse ``s3://bucket/some/prefix/``.

        Raises:
            ConfigurationError: It is not such an address.
        """
        if "?" in url or "#" in url or not url.startswith("s3://"):
            raise ConfigurationError(f"{where}: {url!r} must look like 's3://bucket/prefix', with nothing after it")
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        if not BUCKET.fullmatch(bucket) or ".." in bucket:
            raise ConfigurationError(f"{where}: {bucket!r} in {url!r} is not a valid bucket name")
        if prefix and not prefix.endswith("/"):
            prefix += "/"
        try:
            return cls(bucket, checked_prefix(prefix))
        except ConfigurationError as e:
            raise ConfigurationError(f"{where}: in {url!r}, {e}") from e

    @property
    def url(self) -> str:
        """The address, ending in ``/``."""
        return f"s3://{self.bucket}/{self.prefix}"

    def covers(self, other: S3Address) -> bool:
        """Return whether everything under ``other`` is also under this address."""
        return self.bucket == other.bucket and other.prefix.startswith(self.prefix)
