"""A store in Google Cloud Storage. Its settings are cheap to import and do no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow_sitemaps.stores.bucket import BucketAddress, BucketStore

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore, Store


@dataclass(kw_only=True, eq=False, repr=False)
class GCSStore(BucketStore):
    """A public prefix of a bucket that a CDN or web server serves, and a private one beside it for manifests and plans.

    The other settings are those of every store: ``BucketStore`` and ``StoreSettings``.

    Attributes:
        url: Address of the public area: ``gs://bucket/prefix``.
        gcp_conn_id: Airflow connection of type Google Cloud. None: the identity of the machine.

    Raises:
        ConfigurationError: An address or setting is invalid.
    """

    gcp_conn_id: str | None = "google_cloud_default"

    parsed = staticmethod(partial(BucketAddress.parse, start="gs://"))

    def __post_init__(self) -> None:
        self.conn_id = self.gcp_conn_id
        super().__post_init__()

    def open(self) -> Store:
        """Connect, with one client for each process and connection.

        Raises:
            ConfigurationError: The connection or an address is wrong.
        """
        from airflow_sitemaps.stores.gcs.objects import GCSObjects, clients  # noqa: PLC0415

        client = clients.of(self.conn_id)
        return self._opened(
            GCSObjects(client=client, address=self.public, content_encoding=self.content_encoding),
            GCSObjects(client=client, address=self.state),
            enforces_conditions=True if self.single_writer else None,
            copies=None,
        )

    def console_url(self) -> str:
        """Return the Google Cloud console's page of the public prefix."""
        where = quote(f"{self.public.bucket}/{self.public.prefix}".rstrip("/"))
        return f"https://console.cloud.google.com/storage/browser/{where}"


def open_area(url: str, conn_id: str | None) -> ObjectStore:
    """Open an area for reading; see ``stores.schemes.open_area``."""
    from airflow_sitemaps.stores.gcs.objects import GCSObjects, clients  # noqa: PLC0415

    return GCSObjects(client=clients.of(conn_id), address=GCSStore.parsed(url, where="the address"))
