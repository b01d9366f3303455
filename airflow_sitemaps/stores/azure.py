"""A store in Azure Blob Storage. The settings do no I/O, and the module loads Azure's packages where it calls them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from airflow_sitemaps.errors import ConfigurationError
from airflow_sitemaps.ports import Create, Headers, ObjectInfo, ObjectStore, PutMode, Store, StoredObject, Update
from airflow_sitemaps.stores import bucket, checked_prefix, read_source

if TYPE_CHECKING:
    from typing_extensions import Unpack


SCHEME: Final = "az://"
ACCOUNT: Final = re.compile(r"(?:az|https)://([a-z0-9]{3,24}(?:\.[a-z0-9-]+)+)/(.*)", re.DOTALL)
CONTAINER: Final = re.compile(r"(?=.{3,63}\Z)[a-z0-9](?:-?[a-z0-9])*|\$web|\$root")
BOUND: Final = "The client repeats it a few times, with a time limit for each attempt; then the task fails, and its retry continues"
_ROLE: Final = "Give the connection's identity the role 'Storage Blob Data Contributor' on the container"
_CREDENTIALS: Final = "Check the credentials of the Airflow connection, and this machine's clock"
NEXT_STEPS: Final = {
    "ContainerNotFound": "Create the container, or correct the URL or the connection",
    "AuthorizationPermissionMismatch": _ROLE,
    "InsufficientAccountPermissions": _ROLE,
    "AuthorizationServiceMismatch": "The shared access signature is not for blobs: make one with the service 'b'",
    "AuthorizationProtocolMismatch": "The account accepts https only: correct the connection's host",
    "AuthorizationSourceIPMismatch": "The shared access signature is not for this machine's address",
    "AuthorizationFailure": "The account's firewall refuses this machine, or the signature lacks a permission",
    "AuthenticationFailed": _CREDENTIALS,
    "InvalidAuthenticationInfo": _CREDENTIALS,
    "NoAuthenticationInformation": _CREDENTIALS,
    "KeyBasedAuthenticationNotPermitted": "The account accepts no keys: give the connection an identity of Entra ID",
    "AccountIsDisabled": "The account is disabled: enable it",
    "LeaseIdMissing": "Another program holds a lease on the blob: break the lease",
    "LeaseAlreadyPresent": "Another program holds a lease on the blob: break the lease",
    "BlobImmutableDueToPolicy": "A policy forbids changes of the blob: publish to a container without one",
    "BlobArchived": bucket.ARCHIVED,
    "SnapshotsPresent": "The blob has snapshots: delete them, or use the account's soft delete instead",
    "InvalidBlobType": "The blob is an append or page blob of another program: remove it",
    "FeatureVersionMismatch": "The client is older than the account's features: update azure-storage-blob",
}
"""Next step by error code, for errors that a retry cannot fix."""


@dataclass(kw_only=True, eq=False, repr=False)
class AzureBlobStore(bucket.BucketStore):
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

    def __post_init__(self) -> None:
        self.conn_id = self.wasb_conn_id
        super().__post_init__()
        for address in (self.public, self.state):
            if self.conn_id is None and address.start == SCHEME:
                client_of(None, address)  # raises: nothing names the account

    @staticmethod
    def parsed(url: str, *, where: str) -> bucket.BucketAddress:
        """Parse the address of an area.

        The host of the account is kept if the address has it: ``az://account.blob.core.windows.net/container/prefix/``.

        Raises:
            ConfigurationError: It is not such an address.
        """
        url = url if isinstance(url, str) else repr(url)
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
        return bucket.BucketAddress.parse(start + rest, start=start, where=where, name=CONTAINER)

    def open(self) -> Store:
        """Connect, with one client for each process and connection.

        Raises:
            ConfigurationError: The connection or an address is wrong.
        """
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
    """Open an area for reading; see ``stores.open_area``."""
    address = AzureBlobStore.parsed(url, where="the address")
    return AzureObjects(service=client_of(conn_id, address), address=address)


def client_of(conn_id: str | None, address: bucket.BucketAddress) -> Any:
    """Return this process's client of the address's account, by an Airflow connection or the machine's own identity."""
    host = address.start.removeprefix(SCHEME).rstrip("/")
    if conn_id is None:
        if not host:
            raise ConfigurationError(
                f"{address.url}: without a connection the address must name the account: "
                f"'https://account.blob.core.windows.net/{address.bucket}/…'"
            )
        return _of_machine.of(host)
    service = connections.of(conn_id)
    if host and urlsplit(service.url).hostname != host:
        raise ConfigurationError(
            f"{address.url}: the connection {conn_id!r} is to {urlsplit(service.url).hostname}, another account. "
            "Correct the URL or the connection"
        )
    return service


def _connect(conn_id: str | None) -> Any:
    from airflow.providers.microsoft.azure.hooks.wasb import WasbHook

    return WasbHook(wasb_conn_id=str(conn_id)).get_conn()


def _connect_as_machine(host: str | None) -> Any:
    from azure.identity import DefaultAzureCredential
    from azure.storage.blob import BlobServiceClient

    logging.getLogger("azure.core.pipeline.policies.http_logging_policy").setLevel(logging.WARNING)  # as WasbHook does
    return BlobServiceClient(f"https://{host}", credential=DefaultAzureCredential())


connections: Final = bucket.Connections("Azure Blob Storage", "airflow-sitemaps[azure]", _connect)
_of_machine: Final = bucket.Connections("Azure Blob Storage", "airflow-sitemaps[azure]", _connect_as_machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureObjects(bucket.BucketObjects):
    """One area of an Azure store, an ``ObjectStore``. Thread-safe. Each write of equal bytes has an etag of its own."""

    service: Any

    @property
    def place(self) -> str:
        """Account and container, which determine whether conditional writes are enforced."""
        return f"{self.service.url.partition('?')[0].rstrip('/')}/{self.address.bucket}"

    def get(self, key: str) -> StoredObject | None:
        blob = self._blob(key)
        with suppress(bucket.Missing), self._calling("GetBlob", key):
            stream = blob.download_blob(decompress=False)
            return StoredObject(body=stream.readall(), info=_info(key, stream.properties))
        return None

    def head(self, key: str) -> ObjectInfo | None:
        blob = self._blob(key)
        with suppress(bucket.Missing), self._calling("GetBlobProperties", key):
            return _info(key, blob.get_blob_properties())
        return None

    def put(self, key: str, body: bytes, *, mode: PutMode, **headers: Unpack[Headers]) -> str:
        from azure.storage.blob import ContentSettings

        sent = self.sent(key, headers)
        request: dict[str, Any] = {
            "overwrite": not isinstance(mode, Create),
            "metadata": _to_azure(sent.pop("metadata")),
        }
        if isinstance(mode, Update):
            request |= _only(mode.etag)
        blob = self._blob(key)
        with self._calling("PutBlob", key, mode):
            answer = blob.upload_blob(bytes(body), content_settings=ContentSettings(**sent), **request)
        return bucket.bare_etag(answer["etag"])

    def copy(
        self, source: ObjectStore, found: ObjectInfo, key: str, *, mode: PutMode, **headers: Unpack[Headers]
    ) -> str:
        """Copy an object through this process, because a copy by Azure keeps the headers of its source."""
        return self.put(key, read_source(source, found), mode=mode, **headers)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List objects in key order. Folder markers, whose names end in ``/``, are omitted."""
        container = self.service.get_container_client(self.address.bucket)
        with self._calling("ListBlobs", prefix):
            blobs = [*container.list_blobs(name_starts_with=self.address.prefix + checked_prefix(prefix))]
        for blob in sorted(blobs, key=lambda blob: blob.name.encode()):  # Azurite's order is that of UTF-16
            key = blob.name.removeprefix(self.address.prefix)
            if key and not key.endswith("/"):
                yield _info(key, blob, with_metadata=False)

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Delete an object, which need not exist. Azure checks the etag."""
        blob = self._blob(key)
        with suppress(bucket.Missing), self._calling("DeleteBlob", key):
            blob.delete_blob(**({} if etag is None else _only(etag)))

    def _blob(self, key: str) -> Any:
        return self.service.get_blob_client(self.address.bucket, self.address.key(key))

    def _calling(self, operation: str, key: str, mode: PutMode | None = None) -> AbstractContextManager[None]:
        """Translate a call's errors; ``mode`` is a put's condition. Missing: no object, or not the one to delete."""
        from azure.core.exceptions import AzureError

        call = f"{operation} {self.url(key)}"
        missing = {"DeleteBlob": (404, 412), "ListBlobs": ()}.get(operation, (404,))
        forget = partial(connections.forget, self.service)
        return bucket.calling(call, BOUND, (AzureError,), _failure, mode=mode, forget=forget, missing=missing)


def _failure(call: str, e: Exception) -> bucket.CloudFailure:
    from azure.core.exceptions import ClientAuthenticationError

    code = getattr(e, "error_code", None)
    code = str(getattr(code, "value", code) or "")
    status = int(getattr(e, "status_code", None) or 0)
    response = getattr(e, "response", None)
    advice = NEXT_STEPS.get(code, "")
    if not advice and status in (401, 403):
        advice = _ROLE
    return bucket.CloudFailure(
        call=call,
        text=str(getattr(e, "message", "") or e).partition("\n")[0],
        code=code,
        status=status,
        request_id=str(response.headers.get("x-ms-request-id", "")) if response is not None else "",
        advice=advice,
        lacks_credentials=isinstance(e, ClientAuthenticationError) and not status,
        exists=code in ("BlobAlreadyExists", "ResourceAlreadyExists"),
    )


def _only(etag: str) -> dict[str, Any]:
    """Return the condition that the object has an etag."""
    from azure.core import MatchConditions

    return {"etag": f'"{etag}"', "match_condition": MatchConditions.IfNotModified}


def _info(key: str, properties: Any, *, with_metadata: bool = True) -> ObjectInfo:
    given = (properties.metadata or {}) if with_metadata else {}
    return ObjectInfo(
        key=key,
        etag=bucket.bare_etag(properties.etag),
        byte_size=int(properties.size),
        metadata={name.lower().removeprefix("_").replace("_", "-"): value for name, value in given.items()},
        modified_at=properties.last_modified,
    )


def _to_azure(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return metadata under names that Azure takes, those of C#: ``write-id`` becomes ``write_id``, ``1a`` ``_1a``."""
    names = {name: ("_" if name[0].isdigit() else "") + name.replace("-", "_") for name in metadata}
    return {names[name]: value for name, value in metadata.items()}
