"""A store in Google Cloud Storage. Its settings are cheap to import and do no I/O."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow_sitemaps.ports.store import INDEX_CACHE_CONTROL, SHARD_CACHE_CONTROL, Store
from airflow_sitemaps.stores.bucket import BucketAddress, BucketStore

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore, Purge

_parsed = partial(BucketAddress.parse, start="gs://")


class GCSStore(BucketStore):
    """A public prefix of a bucket that a CDN or web server serves, and a private one beside it for manifests and plans.

    Attributes:
        public: Address of the public area, from ``url``: ``gs://bucket/prefix``.
        base_url: Address at which crawlers read the public area, ending in ``/``.
        conn_id: Airflow connection of type Google Cloud, from ``gcp_conn_id``. None: the identity of the machine.
        state: Address of the private area, from ``state_url``. If that is not set, the sibling ``<prefix>-state/``.
        index_name: File name of the index.
        cache_control: Cache-Control header of indexes and feeds.
        shard_cache_control: Header of files that an index lists. A lifetime needs a ``purge`` hook.
        purge: Called with the changed addresses after the shards are public and before the index is.
        single_writer: Promise that no other process publishes here. The store is not probed then.
        content_encoding: Whether compressed files are served as XML with ``Content-Encoding: gzip`` instead of as
            ``application/gzip``.

    Raises:
        ConfigurationError: An address or setting is invalid.
    """

    def __init__(  # noqa: PLR0913 - settings of one thing, all but one by keyword
        self,
        url: str,
        *,
        base_url: str,
        gcp_conn_id: str | None = "google_cloud_default",
        state_url: str | None = None,
        index_name: str = "sitemap.xml",
        cache_control: str = INDEX_CACHE_CONTROL,
        shard_cache_control: str = SHARD_CACHE_CONTROL,
        purge: Purge | None = None,
        single_writer: bool = False,
        content_encoding: bool = False,
    ) -> None:
        super().__init__(
            url,
            state_url=state_url,
            conn_id=gcp_conn_id,
            parse=_parsed,
            base_url=base_url,
            index_name=index_name,
            cache_control=cache_control,
            shard_cache_control=shard_cache_control,
            purge=purge,
            single_writer=single_writer,
            flags={"content_encoding": content_encoding},
        )
        self.content_encoding = content_encoding

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

    return GCSObjects(client=clients.of(conn_id), address=_parsed(url, where="the address"))
