"""A store in S3, or in a store that implements its protocol. Its settings are cheap to import and do no I/O."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.stores.cache_rules import (
    INDEX_CACHE_CONTROL,
    SHARD_CACHE_CONTROL,
    checked_shard_cache_control,
)
from airflow_sitemaps.stores.key_rules import check_settings, checked_base_url, checked_index_name
from airflow_sitemaps.stores.opened_store import OpenedStore
from airflow_sitemaps.stores.s3.address import S3Address

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore, Purge

ACCOUNT: Final = re.compile(r"[0-9]{12}")


class S3Store:
    """A public prefix of a bucket that a CDN or web server serves, and a private one beside it for manifests and plans.

    Stores other than AWS are addressed by path and receive no checksum trailers, unless the connection sets something else.

    Attributes:
        public: Address of the public area, from ``url``: ``s3://bucket/prefix``.
        base_url: Address at which crawlers read the public area, ending in ``/``.
        conn_id: Airflow connection of type AWS. None: boto3's own chain of credentials. Its extra takes
            ``endpoint_url``, ``region_name``, and in ``config_kwargs`` all parameters of botocore's ``Config``.
        state: Address of the private area, from ``state_url``. If that is not set, the sibling ``<prefix>-state/``.
        index_name: File name of the index.
        cache_control: Cache-Control header of indexes and feeds.
        shard_cache_control: Header of files that an index lists. A lifetime needs a ``purge`` hook.
        purge: Called with the changed addresses after the shards are public and before the index is.
        single_writer: Promise that no other process publishes here. A store that ignores conditional writes is then
            accepted.
        content_encoding: Whether compressed files are served as XML with ``Content-Encoding: gzip`` instead of as
            ``application/gzip``.
        expected_bucket_owner: AWS account of 12 digits that must own the buckets. None: any.
        sse_kms_key_id: KMS key that encrypts new objects. None: the setting of the bucket.

    Raises:
        ConfigurationError: An address or setting is invalid.
    """

    def __init__(  # noqa: PLR0913 - settings of one thing, all but one by keyword
        self,
        url: str,
        *,
        base_url: str,
        conn_id: str | None = "aws_default",
        state_url: str | None = None,
        index_name: str = "sitemap.xml",
        cache_control: str = INDEX_CACHE_CONTROL,
        shard_cache_control: str = SHARD_CACHE_CONTROL,
        purge: Purge | None = None,
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
        check_settings(
            where,
            flags={"single_writer": single_writer, "content_encoding": content_encoding},
            headers={"cache_control": cache_control, "shard_cache_control": shard_cache_control},
            names={"conn_id": conn_id, "sse_kms_key_id": sse_kms_key_id},
            purge=purge,
        )
        if expected_bucket_owner is not None and not ACCOUNT.fullmatch(expected_bucket_owner):
            raise ConfigurationError(f"{where}: expected_bucket_owner={expected_bucket_owner!r} must be 12 digits")
        self.conn_id = conn_id
        self.cache_control = cache_control
        self.shard_cache_control = checked_shard_cache_control(shard_cache_control, purge, where=where)
        self.purge = purge
        self.single_writer = single_writer
        self.content_encoding = content_encoding
        self.expected_bucket_owner = expected_bucket_owner
        self.sse_kms_key_id = sse_kms_key_id

    @property
    def uri(self) -> str:
        """Address of the public area without a slash at its end."""
        return self.public.url.rstrip("/")

    @property
    def state_uri(self) -> str:
        """Address of the private area."""
        return self.state.url

    def open(self) -> OpenedStore:
        """Connect, with one client for each process and connection.

        Raises:
            ConfigurationError: The connection or an address is wrong.
        """
        from airflow_sitemaps.stores.s3.client import connection_of  # noqa: PLC0415
        from airflow_sitemaps.stores.s3.objects import S3Objects, S3Settings  # noqa: PLC0415

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
            shard_cache_control=self.shard_cache_control,
            purge=self.purge,
            enforces_conditions=False if self.single_writer else None,
            copies=False if self.single_writer else None,
        )

    def console_url(self) -> str:
        """Return the AWS console's page of the public prefix; empty if the connection sets another endpoint."""
        from airflow_sitemaps.stores.s3.client import connection_of, is_aws  # noqa: PLC0415

        if not is_aws(connection_of(self.conn_id).endpoint):
            return ""
        where = f"{quote(self.public.bucket)}?prefix={quote(self.public.prefix, safe='')}"
        return f"https://console.aws.amazon.com/s3/buckets/{where}"

    def describe(self) -> str:
        """Return both addresses for logs."""
        return f"{self.public.url} for {self.base_url}"

    def __repr__(self) -> str:
        return f"S3Store({self.public.url!r}, base_url={self.base_url!r}, conn_id={self.conn_id!r})"


def open_area(url: str, conn_id: str | None) -> ObjectStore:
    """Open an area for reading; see ``stores.schemes.open_area``."""
    from airflow_sitemaps.stores.s3.client import connection_of  # noqa: PLC0415
    from airflow_sitemaps.stores.s3.objects import S3Objects, S3Settings  # noqa: PLC0415

    address = S3Address.parse(url, where="the address")
    return S3Objects(connection=connection_of(conn_id), address=address, settings=S3Settings())


def _state_address(public: S3Address, state_url: str | None, where: str) -> S3Address:
    """Return the address of the private area: ``state_url``, or by default the sibling of the public prefix."""
    if state_url is None:
        if not public.prefix:
            raise ConfigurationError(
                f"{where}: the whole bucket is public, so the manifest needs another place: give state_url= "
                "another bucket, or publish under a prefix of this one"
            )
        return S3Address(public.bucket, public.prefix.removesuffix("/") + "-state/")
    state = S3Address.parse(state_url, where=f"{where}, state_url")
    if public.covers(state):
        raise ConfigurationError(
            f"{where}: state_url={state.url!r} is inside the public prefix, so manifests and plans would be served. "
            f"Leave it out (then it is the sibling '<prefix>-state/'), or name another prefix"
        )
    if state.covers(public):
        raise ConfigurationError(
            f"{where}: the public prefix is inside state_url={state.url!r}. Leave state_url out, or name another prefix"
        )
    return state
