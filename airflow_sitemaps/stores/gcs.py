"""A store in Google Cloud Storage. The settings do no I/O, and the module loads Google's packages where it calls them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from airflow_sitemaps.errors import StoreError
from airflow_sitemaps.ports import Create, ObjectInfo, PutMode, PutOutcomeError, StoredObject, Update
from airflow_sitemaps.stores import bucket, checked_prefix, read_source
from airflow_sitemaps.waits import repeated

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from airflow_sitemaps.ports import Headers, ObjectStore, Store

log = logging.getLogger(__name__)

BOUND: Final = "The client repeats it for up to two minutes; then the task fails, and its retry continues"
TIMEOUT_S: Final = (10, 60)
"""Seconds to connect, and between two parts of an answer."""
READS: Final = 12
"""Number of attempts to read an object that other processes are replacing."""
READ_PAUSE_S: Final = 0.05
"""Upper bound of the first pause in seconds; it doubles with each attempt."""
LONGEST_READ_PAUSE_S: Final = 2.0
NO_GENERATION: Final = 1
"""A generation that no object has: generations are times in microseconds. 0 would mean "no object"."""
_ROLE: Final = "Give the connection's identity the role 'Storage Object User' on the bucket (storage.objects.create, get, list, delete)"
_KMS_KEY: Final = (
    "Encryption by KMS fails: enable the bucket's default key, or correct it, and give the project's Cloud Storage service agent the "
    "role 'Cloud KMS CryptoKey Encrypter/Decrypter' on it"
)
NEXT_STEPS: Final = {
    "authError": "Check the credentials of the Airflow connection",
    "retentionPolicyNotMet": "A retention policy or a hold of the bucket forbids changes: publish to a bucket without one",
    "objectUnderActiveHold": "A hold forbids changes of the object: release it, or publish to another bucket",
    "accountDisabled": "The project's billing account is disabled: enable it",
    "required": "The bucket is one where the requester pays, which is not supported: publish to another bucket",
    "invalid": "The store does not accept the request: check the URL and the connection",
}
"""Next step by the reason of an error that a retry cannot fix."""


@dataclass(kw_only=True, eq=False, repr=False)
class GCSStore(bucket.BucketStore):
    """A public prefix of a bucket that a CDN or web server serves, and a private one beside it for manifests and plans.

    The other settings are those of every store: ``BucketStore`` and ``StoreSettings``.

    Attributes:
        url: Address of the public area: ``gs://bucket/prefix``.
        gcp_conn_id: Airflow connection of type Google Cloud. None: the identity of the machine.

    Raises:
        ConfigurationError: An address or setting is invalid.
    """

    gcp_conn_id: str | None = "google_cloud_default"

    parsed = staticmethod(partial(bucket.BucketAddress.parse, start="gs://"))

    def __post_init__(self) -> None:
        self.conn_id = self.gcp_conn_id
        super().__post_init__()

    def open(self) -> Store:
        """Connect, with one client for each process and connection.

        Raises:
            ConfigurationError: The connection or an address is wrong.
        """
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
    """Open an area for reading; see ``stores.open_area``."""
    return GCSObjects(client=clients.of(conn_id), address=GCSStore.parsed(url, where="the address"))


def _connect(conn_id: str | None) -> Any:
    from airflow.providers.google.cloud.hooks.gcs import GCSHook
    from google.cloud import storage

    # For its traces the client reads the bucket in the background, which needs storage.buckets.get and costs a request.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    return storage.Client() if conn_id is None else GCSHook(gcp_conn_id=conn_id).get_conn()


def limits() -> dict[str, Any]:
    """Return the client's limits of a call: two minutes of attempts with growing pauses, also for an answer 429."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    return {"retry": DEFAULT_RETRY, "timeout": TIMEOUT_S}


def errors() -> tuple[type[Exception], ...]:
    """Return the errors that the client raises."""
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
    from requests import RequestException

    return GoogleAPIError, GoogleAuthError, InvalidResponse, DataCorruption, RequestException


clients: Final = bucket.Connections("Google Cloud Storage", "airflow-sitemaps[gcs]", _connect)


@dataclass(frozen=True, slots=True, kw_only=True)
class GCSObjects(bucket.BucketObjects):
    """One area of a store in Google Cloud Storage, an ``ObjectStore``. Thread-safe.

    The etag of the port is the object's generation, so equal bytes differ in it. ETag conditions hold for reads only.
    """

    client: Any

    @property
    def place(self) -> str:
        """Endpoint and bucket, which determine whether conditional writes are enforced."""
        return f"{self.client.api_endpoint}/{self.address.bucket}"

    def get(self, key: str) -> StoredObject | None:
        """Read an object, or return None. Info and bytes are two requests, the second for the first's generation."""
        read = repeated(_Replaced, attempts=READS, pause_s=READ_PAUSE_S, longest_pause_s=LONGEST_READ_PAUSE_S, log=log)
        try:
            return read(self._get, key)
        except _Replaced as e:
            raise StoreError(f"objects.get {self.url(key)}: other processes keep replacing it; run again") from e

    def _get(self, key: str) -> StoredObject | None:
        blob = self.blob(key)
        try:
            with self._calling("objects.get", key):
                blob.reload(**limits())
        except bucket.Missing:
            return None
        try:
            with self._calling("objects.get", key):
                body = blob.download_as_bytes(raw_download=True, if_generation_match=blob.generation, **limits())
        except bucket.Missing as e:
            raise _Replaced(self.url(key)) from e
        return StoredObject(info=_info(key, blob, metadata=blob.metadata), body=body)

    def head(self, key: str) -> ObjectInfo | None:
        blob = self.blob(key)
        with suppress(bucket.Missing), self._calling("objects.get", key):
            blob.reload(**limits())
            return _info(key, blob, metadata=blob.metadata)
        return None

    def put(self, key: str, body: bytes, *, mode: PutMode, **headers: Unpack[Headers]) -> str:
        """Write an object under a condition, and return its generation."""
        blob = self.blob(key, headers)
        with self._calling("objects.insert", key, mode):
            sent = {"content_type": blob.content_type, "checksum": "crc32c", **limits()}
            blob.upload_from_string(bytes(body), if_generation_match=_condition(mode), **sent)
        return str(blob.generation)

    def copy(
        self, source: ObjectStore, found: ObjectInfo, key: str, *, mode: PutMode, **headers: Unpack[Headers]
    ) -> str:
        """Copy an object. Google checks the generations of the destination and the source."""
        if not isinstance(source, GCSObjects) or source.client is not self.client:
            return self.put(key, read_source(source, found), mode=mode, **headers)
        blob, origin, token = self.blob(key, headers), source.blob(found.key), None
        conditions = {"if_generation_match": _condition(mode), "if_source_generation_match": _generation(found.etag)}
        with self._calling("objects.rewrite", key, mode):
            while True:  # large objects, and those of another location or storage class, take several requests
                token, _, _ = blob.rewrite(origin, token=token, **conditions, **limits())
                if token is None:
                    break
        if blob.generation is None:
            text = f"objects.rewrite {self.url(key)}: the answer names no generation, so it may or may not have been copied"
            raise PutOutcomeError(text, definite=False)
        return str(blob.generation)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """List objects. Folder markers, whose names end in ``/``, are omitted."""
        start = self.address.prefix + checked_prefix(prefix)
        wanted = "items(name,generation,size,updated),nextPageToken"
        blobs = iter(self.client.list_blobs(self.address.bucket, prefix=start, fields=wanted, **limits()))
        while True:
            with self._calling("objects.list", prefix):
                blob = next(blobs, None)
            if blob is None:
                return
            key = blob.name.removeprefix(self.address.prefix)
            if key and not key.endswith("/"):
                yield _info(key, blob)

    def delete(self, key: str, *, etag: str | None = None) -> None:
        """Delete an object, which need not exist. Google checks the generation."""
        blob = self.blob(key)
        condition = None if etag is None else _generation(etag)
        with suppress(bucket.Missing), self._calling("objects.delete", key):
            blob.delete(if_generation_match=condition, **limits())

    def blob(self, key: str, headers: Headers | None = None) -> Any:
        """Return the client's object of a key, with the headers that it is going to have."""
        blob = self.client.bucket(self.address.bucket).blob(self.address.key(key))
        for name, value in ({} if headers is None else self.sent(key, headers)).items():
            setattr(blob, name, value)
        return blob

    def _calling(self, operation: str, key: str, mode: PutMode | None = None) -> AbstractContextManager[None]:
        """Translate a call's errors; ``mode`` is the condition of a write. Missing: no object of the generation."""
        call, is_copy = f"{operation} {self.url(key)}", operation == "objects.rewrite"
        forget, missing = partial(clients.forget, self.client), () if operation == "objects.list" else (404, 412)
        return bucket.calling(
            call, BOUND, errors(), _failure, mode=mode, forget=forget, is_copy=is_copy, missing=missing
        )


class _Replaced(Exception):  # noqa: N818 - an answer, not an error
    """The object was replaced between two requests."""


def _failure(call: str, e: Exception) -> bucket.CloudFailure:
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import DefaultCredentialsError, RefreshError

    cause = getattr(e, "cause", None)
    if isinstance(cause, Exception) and not isinstance(e, GoogleAPICallError):  # retries came to their end
        e = cause
    if not isinstance(e, GoogleAPICallError):
        return bucket.CloudFailure(
            call=call,
            text=f"{type(e).__name__}: {e}",
            lacks_credentials=isinstance(e, DefaultCredentialsError),
            advice=NEXT_STEPS["authError"] if isinstance(e, RefreshError) and not e.retryable else "",
        )
    status, causes = int(e.code or 0), list(e.errors or _causes(e.response))
    said = causes[0] if causes and isinstance(causes[0], dict) else {}
    code, text = str(said.get("reason", "")), str(said.get("message", e.message))
    advice = NEXT_STEPS.get(code, "") if status < 500 and status not in (404, 408, 409, 412, 429) else ""
    if "Cloud KMS" in text and status in (400, 403, 404, 412):  # the reason is that of any other refusal
        advice = _KMS_KEY
    elif status == 404 and "bucket does not exist" in text:
        advice = "Create the bucket, or correct the URL or the connection"
    elif status == 401:
        advice = NEXT_STEPS["authError"]
    elif status == 403:
        advice = advice or _ROLE
    return bucket.CloudFailure(call=call, text=text, code=code, status=status, advice=advice)


def _causes(response: Any) -> list[Any]:
    """Return the errors in a response. The client does not read them from those of uploads."""
    try:
        return list(response.json()["error"]["errors"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return []


def _condition(mode: PutMode) -> int | None:
    if isinstance(mode, Create):
        return 0
    return _generation(mode.etag) if isinstance(mode, Update) else None


def _generation(etag: str) -> int:
    """Return the generation that an etag names. One of another store never matches."""
    return int(etag) if etag.isdecimal() and int(etag) > 0 else NO_GENERATION


def _info(key: str, blob: Any, *, metadata: Any = None) -> ObjectInfo:
    kept = {name.lower(): value for name, value in (metadata or {}).items()}
    etag, size = str(blob.generation), int(blob.size)
    return ObjectInfo(key=key, etag=etag, byte_size=size, metadata=kept, modified_at=blob.updated)
