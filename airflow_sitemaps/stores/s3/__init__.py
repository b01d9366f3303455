"""A store in S3, or in a store that implements its protocol. Its settings are cheap to import and do no I/O."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.ports.store import INDEX_CACHE_CONTROL, SHARD_CACHE_CONTROL, Store
from airflow_sitemaps.stores.bucket import BucketAddress, BucketStore

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore, Purge

ACCOUNT: Final = re.compile(r"[0-9]{12}")
_parsed = partial(BucketAddress.parse, start="s3://")


class S3Store(BucketStore):
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
        super().__init__(
            url,
            state_url=state_url,
            conn_id=conn_id,
            parse=_parsed,
            base_url=base_url,
            index_name=index_name,
            cache_control=cache_control,
            shard_cache_control=shard_cache_control,
            purge=purge,
            single_writer=single_writer,
            flags={"content_encoding": content_encoding},
            names={"sse_kms_key_id": sse_kms_key_id},
        )
        if expected_bucket_owner is not None and not ACCOUNT.fullmatch(expected_bucket_owner):
            raise ConfigurationError(
                f"S3Store({url!r}): expected_bucket_owner={expected_bucket_owner!r} must be 12 digits"
            )
        self.content_encoding = content_encoding
        self.expected_bucket_owner = expected_bucket_owner
        self.sse_kms_key_id = sse_kms_key_id

    def open(self) -> Store:
        """Connect, with one client for each process and connection.

        Raises:
            ConfigurationError: The connection or an address is wrong.
        """
        from airflow_sitemaps.stores.s3.client import connection_of  # noqa: PLC0415
        from airflow_sitemaps.stores.s3.objects import S3Objects  # noqa: PLC0415

        area = partial(
            S3Objects,
            connection=connection_of(self.conn_id),
            expected_bucket_owner=self.expected_bucket_owner,
            sse_kms_key_id=self.sse_kms_key_id,
            look_first=self.single_writer,
        )
        probed = False if self.single_writer else None
        return self._opened(
            area(address=self.public, content_encoding=self.content_encoding),
            area(address=self.state),
            enforces_conditions=probed,
            copies=probed,
        )

    def console_url(self) -> str:
        """Return the AWS console's page of the public prefix; empty if the connection sets another endpoint."""
        from airflow_sitemaps.stores.s3.client import connection_of, is_aws  # noqa: PLC0415

        if not is_aws(connection_of(self.conn_id).endpoint):
            return ""
        where = f"{quote(self.public.bucket)}?prefix={quote(self.public.prefix, safe='')}"
        return f"https://console.aws.amazon.com/s3/buckets/{where}"


def open_area(url: str, conn_id: str | None) -> ObjectStore:
    """Open an area for reading; see ``stores.schemes.open_area``."""
    from airflow_sitemaps.stores.s3.client import connection_of  # noqa: PLC0415
    from airflow_sitemaps.stores.s3.objects import S3Objects  # noqa: PLC0415

    return S3Objects(connection=connection_of(conn_id), address=_parsed(url, where="the address"))
