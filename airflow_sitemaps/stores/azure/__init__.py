"""A store in Azure Blob Storage. Its settings are cheap to import and do no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.stores.bucket import BucketAddress, BucketStore

if TYPE_CHECKING:
    from airflow_sitemaps.ports import ObjectStore, Store

SCHEME: Final = "az://"
ACCOUNT: Final = re.compile(r"(?:az|https)://([a-z0-9]{3,24}(?:\.[a-z0-9-]+)+)/(.*)", re.DOTALL)
CONTAINER: Final = re.compile(r"(?=.{3,63}\Z)[a-z0-9](?:-?[a-z0-9])*|\$web|\$root")


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


@dataclass(kw_only=True, eq=False, repr=False)
class AzureBlobStore(BucketStore):
    """A public prefix of a container that a CDN or web server serves, and a private one beside it.

    Promotions read each body and upload it to its public name: Azure's copies keep the headers of the source.
    The other settings are those of every store: ``BucketStore`` and ``StoreSettings``.

    Attributes:
        url: Address of the public area: ``az://container/prefix``, or
            ``https://account.blob.core.windows.net/container/prefix``. With an account, the connection must be to it.
        wasb_conn_id: Airflow connection of type Azure Blob Storage. None: the identity of the machine, for an address
            with an account.

    Raises:
        ConfigurationError: An address or setting is invalid.
    """

    wasb_conn_id: str | None = "wasb_default"

    parsed = staticmethod(parsed)

    def __post_init__(self) -> None:
        self.conn_id = self.wasb_conn_id
        super().__post_init__()

    def open(self) -> Store:
        """Connect, with one client for each process and connection.

        Raises:
            ConfigurationError: The connection or an address is wrong.
        """
        from airflow_sitemaps.stores.azure.objects import AzureObjects, client_of  # noqa: PLC0415

        service = client_of(self.conn_id, self.public)
        return self._opened(
            AzureObjects(service=service, address=self.public, content_encoding=self.content_encoding),
            AzureObjects(service=client_of(self.conn_id, self.state), address=self.state),
            enforces_conditions=True if self.single_writer else None,
            dataset_url=f"wasbs://{self.public.bucket}@{service.account_name}.dfs.core.windows.net/{self.public.prefix}",
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
