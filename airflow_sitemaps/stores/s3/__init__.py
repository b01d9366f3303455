"""A store in S3, or in a store that implements its protocol. Its settings are cheap to import and do no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import quote

from airflow_sitemaps import setting_checks
from airflow_sitemaps.ports import ObjectStore, Store
from airflow_sitemaps.stores.bucket import BucketAddress, BucketStore

ACCOUNT: Final = re.compile(r"[0-9]{12}")


@dataclass(kw_only=True, eq=False, repr=False)
class S3Store(BucketStore):
    """A public prefix of a bucket that a CDN or web server serves, and a private one beside it for manifests and plans.

    Stores other than AWS are addressed by path and receive no checksum trailers, unless the connection sets something else.
    The other settings are those of every store: ``BucketStore`` and ``StoreSettings``.

    Attributes:
        url: Address of the public area: ``s3://bucket/prefix``.
        conn_id: Airflow connection of type AWS. None: boto3's own chain of credentials. Its extra takes
            ``endpoint_url``, ``region_name``, and in ``config_kwargs`` all parameters of botocore's ``Config``.
        expected_bucket_owner: AWS account of 12 digits that must own the buckets. None: any.
        sse_kms_key_id: KMS key that encrypts new objects. None: the setting of the bucket.

    Raises:
        ConfigurationError: An address or setting is invalid.
    """

    conn_id: str | None = "aws_default"
    expected_bucket_owner: str | None = None
    sse_kms_key_id: str | None = None

    parsed = staticmethod(partial(BucketAddress.parse, start="s3://"))

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_text("sse_kms_key_id")
        owner = self.expected_bucket_owner
        if owner is not None:
            setting_checks.text(self._named(), "expected_bucket_owner", owner, ACCOUNT, "12 digits")

    def open(self) -> Store:
        """Connect, with one client for each process and connection.

        Raises:
            ConfigurationError: The connection or an address is wrong.
        """
        from airflow_sitemaps.stores.s3.client import connections  # noqa: PLC0415
        from airflow_sitemaps.stores.s3.objects import S3Objects  # noqa: PLC0415

        area = partial(
            S3Objects,
            connection=connections.of(self.conn_id),
            expected_bucket_owner=self.expected_bucket_owner,
            sse_kms_key_id=self.sse_kms_key_id,
            look_first=self.single_writer,
        )
        public = area(address=self.public, content_encoding=self.content_encoding)
        probed = False if self.single_writer else None
        return self._opened(public, area(address=self.state), enforces_conditions=probed, copies=probed)

    def console_url(self) -> str:
        """Return the AWS console's page of the public prefix; empty if the connection sets another endpoint."""
        from airflow_sitemaps.stores.s3.client import connections, is_aws  # noqa: PLC0415

        endpoint = connections.of(self.conn_id).endpoint
        if not is_aws(endpoint):
            return ""
        host = "amazonaws-us-gov.com" if ".us-gov-" in endpoint else "aws.amazon.com"
        host = "amazonaws.cn" if endpoint.endswith(".cn") else host
        where = f"{quote(self.public.bucket)}?prefix={quote(self.public.prefix, safe='')}"
        return f"https://console.{host}/s3/buckets/{where}"


def open_area(url: str, conn_id: str | None) -> ObjectStore:
    """Open an area for reading; see ``stores.open_area``."""
    from airflow_sitemaps.stores.s3.client import connections  # noqa: PLC0415
    from airflow_sitemaps.stores.s3.objects import S3Objects  # noqa: PLC0415

    return S3Objects(connection=connections.of(conn_id), address=S3Store.parsed(url, where="the address"))
