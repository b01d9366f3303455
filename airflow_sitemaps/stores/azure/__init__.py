"""A store in Azure Blob Storage. Its settings are cheap to import and do no I/O."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.ports.store import INDEX_CACHE_CONTROL, SHARD_CACHE_CONTROL, Store
from airflow_sitemaps.stores.bucket import BucketAddress, BucketStore

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore, Purge

SCHEME: Final = "az://"
ACCOUNT: Final = re.compile(r"(?:az|https)://([a-z0-9]{3,24}(?:\.[a-z0-9-]+)+)/(.*)", re.DOTALL)
CONTAINER: Final = re.compile(r"[a-z0-9](?:-?[a-z0-9]){2,62}|\$web|\$root")


def parsed(url: str, *, where: str) -> BucketAddress:
    """Parse the address of an area.

    The host of the account is kept if the address has it: ``az://account.blob.core.windows.net/container/prefix/``.

    Raises:
        ConfigurationError: It is not such an address.
    """
    account = ACCOUNT.fullmatch(url)
    start, rest = (f"{SCHEME}{account[1]}/", account[2]) if account else (SCHEME, url.removeprefix(SCHEME))
    if not account and not url.startswith(SCHEME):
        raise ConfigurationError(
            f"{where}: {url!r} must look like 'az://container/prefix', or "
            "'https://account.blob.core.windows.net/container/prefix' to name the account, with nothing after it"
        )
    container = rest.partition("/")[0]
    if not CONTAINER.fullmatch(container):
        raise ConfigurationError(f"{where}: {container!r} in {url!r} is not a valid name of a container")
    return BucketAddress.parse(start + rest, start=start, where=where, name=CONTAINER)


class AzureBlobStore(BucketStore):
    """A public prefix of a container that a CDN or web server serves, and a private one beside it.

    Promotions read each body and upload it to its public name: Azure's copies keep the headers of the source.

    Attributes:
        public: Address of the public area, from ``url``: ``az://container/prefix``, or
            ``https://account.blob.core.windows.net/container/prefix``. With an account, the connection must be to it.
        base_url: Address at which crawlers read the public area, ending in ``/``.
        conn_id: Airflow connection of type Azure Blob Storage, from ``wasb_conn_id``. None: the identity of the machine,
            for an address with an account.
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
        wasb_conn_id: str | None = "wasb_default",
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
            conn_id=wasb_conn_id,
            parse=parsed,
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
        from airflow_sitemaps.stores.azure.objects import AzureObjects, client_of  # noqa: PLC0415

        return self._opened(
            AzureObjects(
                service=client_of(self.conn_id, self.public),
                address=self.public,
                content_encoding=self.content_encoding,
            ),
            AzureObjects(service=client_of(self.conn_id, self.state), address=self.state),
            enforces_conditions=True if self.single_writer else None,
        )

    def console_url(self) -> str:
        """Return the Azure portal's page of the container; empty if the address does not name the account."""
        account = self.public.start.removeprefix(SCHEME).partition(".")[0]
        if not account:
            return ""
        return f"https://portal.azure.com/#blade/Microsoft_Azure_Storage/ContainerMenuBlade/overview/storageAccount/{account}/path/{quote(self.public.bucket)}"


def open_area(url: str, conn_id: str | None) -> ObjectStore:
    """Open an area for reading; see ``stores.schemes.open_area``."""
    from airflow_sitemaps.stores.azure.objects import AzureObjects, client_of  # noqa: PLC0415

    address = parsed(url, where="the address")
    return AzureObjects(service=client_of(conn_id, address), address=address)
