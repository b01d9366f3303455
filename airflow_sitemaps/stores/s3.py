"""What a user writes to publish to S3, or to a store that speaks its protocol. Cheap to import; no I/O until opened."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.stores.address import DEFAULT_CACHE_CONTROL, checked_base_url, checked_index_name, checked_prefix
from airflow_sitemaps.stores.opened import OpenedStore

BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")
ACCOUNT: Final = re.compile(r"[0-9]{12}")


@dataclass(frozen=True, slots=True)
class S3Address:
    """A bucket and a prefix in it: empty, or ending in ``/``."""

    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str, *, where: str) -> S3Address:
        """Read ``s3://bucket/some/prefix/``. Raises ConfigurationError."""
        if "?" in url or "#" in url or not url.startswith("s3://"):
            raise ConfigurationError(f"{where}: {url!r} must look like 's3://bucket/prefix', with nothing after it")
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        if not BUCKET.fullmatch(bucket) or ".." in bucket:
            raise ConfigurationError(f"{where}: {bucket!r} in {url!r} cannot be the name of a bucket")
        if prefix and not prefix.endswith("/"):
            prefix += "/"
        try:
            return cls(bucket, checked_prefix(prefix))
        except ConfigurationError as e:
            raise ConfigurationError(f"{where}: in {url!r}, {e}") from e

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def covers(self, other: S3Address) -> bool:
        """Whether everything under ``other`` is also under this address."""
        return self.bucket == other.bucket and other.prefix.startswith(self.prefix)


class S3Store:
    """A bucket's prefix that a CDN or web server serves, and a private one beside it for manifests and plans.

    ``conn_id`` is an Airflow connection of type AWS (None: boto3's own chain of credentials). Its extra takes
    ``endpoint_url`` and ``region_name``, and in ``config_kwargs`` anything of botocore's ``Config``; stores other than
    AWS are addressed by path and asked for no checksums unless that says otherwise. ``state_url`` is the sibling
    ``<prefix>-state/`` unless given. ``content_encoding=True`` serves compressed files as XML with
    ``Content-Encoding: gzip`` instead of as ``application/gzip``. ``expected_bucket_owner`` is an AWS account of 12
    digits that must own the buckets. ``single_writer=True`` accepts a store that ignores conditional writes: a promise
    that no other process publishes here.

    Raises:
        ConfigurationError: an address or setting that cannot be.
    """

    def __init__(  # noqa: PLR0913 - settings of one thing, all but one by keyword
        self,
        url: str,
        *,
        base_url: str,
        conn_id: str | None = "aws_default",
        state_url: str | None = None,
        index_name: str = "sitemap.xml",
        cache_control: str = DEFAULT_CACHE_CONTROL,
        single_writer: bool = False,
        content_encoding: bool = False,
        expected_bucket_owner: str | None = None,
        sse_kms_key_id: str | None = None,
    ) -> None:
        where = f"S3Store({url!r})"
        self.public = S3Address.parse(url, where=where)
        self.state = _state_address(self.public, state_url, where)
        self.base_url = checked_base_url(base_url, where=where)
        self.index_name = checked_index_name(index_name, where=where)
        if expected_bucket_owner is not None and not ACCOUNT.fullmatch(expected_bucket_owner):
            raise ConfigurationError(f"{where}: expected_bucket_owner={expected_bucket_owner!r} must be 12 digits")
        self.conn_id = conn_id
        self.cache_control = cache_control
        self.single_writer = single_writer
        self.content_encoding = content_encoding
        self.expected_bucket_owner = expected_bucket_owner
        self.sse_kms_key_id = sse_kms_key_id

    def open(self) -> OpenedStore:
        """Connect, with one client per process and connection. Raises ConfigurationError."""
        from airflow_sitemaps.stores.s3_client import connection_of  # noqa: PLC0415
        from airflow_sitemaps.stores.s3_objects import S3Objects, S3Settings  # noqa: PLC0415

        connection = connection_of(self.conn_id)
        settings = S3Settings(
            expected_bucket_owner=self.expected_bucket_owner,
            sse_kms_key_id=self.sse_kms_key_id,
            look_first=self.single_writer,
        )
        encoded = S3Settings(
            expected_bucket_owner=self.expected_bucket_owner,
            sse_kms_key_id=self.sse_kms_key_id,
            look_first=self.single_writer,
            content_encoding=self.content_encoding,
        )
        return OpenedStore(
            public=S3Objects(connection=connection, address=self.public, settings=encoded),
            state=S3Objects(connection=connection, address=self.state, settings=settings),
            base_url=self.base_url,
            index_name=self.index_name,
            cache_control=self.cache_control,
            enforces_conditions=False if self.single_writer else None,
            copies=False if self.single_writer else None,
        )

    def describe(self) -> str:
        return f"{self.public.url} for {self.base_url}"

    def __repr__(self) -> str:
        return f"S3Store({self.public.url!r}, base_url={self.base_url!r}, conn_id={self.conn_id!r})"


def _state_address(public: S3Address, state_url: str | None, where: str) -> S3Address:
    """Where the private objects go: as told, else the sibling of the public prefix."""
    if state_url is None:
        if not public.prefix:
            raise ConfigurationError(
                f"{where}: the whole bucket is public, so the manifest needs a place elsewhere: give state_url= "
                "another bucket, or publish under a prefix of this one"
            )
        return S3Address(public.bucket, public.prefix.removesuffix("/") + "-state/")
    state = S3Address.parse(state_url, where=f"{where}, state_url")
    if public.covers(state):
        raise ConfigurationError(
            f"{where}: state_url={state.url!r} lies inside the public prefix, so manifests and plans would be served. "
            f"Leave it out (then it is the sibling '<prefix>-state/'), or name another prefix"
        )
    if state.covers(public):
        raise ConfigurationError(
            f"{where}: the public prefix lies inside state_url={state.url!r}. Leave state_url out, or name another prefix"
        )
    return state
